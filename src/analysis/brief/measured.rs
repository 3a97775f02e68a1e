//! The measured configs and machines.

use std::collections::BTreeSet;

use super::known::Known;
use crate::analysis::group::Row;
use crate::record::Record;
use crate::text::{count_text, first_few};

/// `7 configs of resnet18 and mobilenet_v2 (fp32; batch 4, 8, 16) on cpu: AMD EPYC of bench-1.`, and when.
pub(super) fn sentences(known: Known<'_, '_>) -> Vec<String> {
    let Known { runs, rows, .. } = known;
    let configs = rows.iter().filter(|row| row.part.0 == 1).count();
    let models = distinct(rows.iter().map(|row| row.config.model.to_string()));
    let precisions = distinct(rows.iter().map(|row| row.config.precision.to_string()));
    let batches: BTreeSet<u32> = rows.iter().map(|row| row.config.batch).collect();
    let batches: Vec<String> = batches.iter().map(u32::to_string).collect();
    let what = format!(
        "{} of {} ({}; batch {}), {}.",
        count_text(configs, "config"),
        first_few(&models),
        first_few(&precisions),
        first_few(&batches),
        places(rows)
    );
    let records =
        runs.iter().filter(|run| run.cell.is_timing()).filter_map(|run| Some(run.cell.success()?.0));
    vec![what, when(&records.collect::<Vec<_>>())]
}

/// `on cpu: Test CPU of bench-1; gpu: NVIDIA L4 of node-2`
fn places(rows: &[Row<'_>]) -> String {
    let envs = distinct(rows.iter().map(|row| row.config.env.to_string()));
    let of_env = |env: &String| {
        let rows_of_env = rows.iter().filter(|row| *row.config.env == **env);
        let places = distinct(rows_of_env.filter_map(place));
        if places.is_empty() { env.clone() } else { format!("{env}: {}", first_few(&places)) }
    };
    let places: Vec<String> = envs.iter().map(of_env).collect();
    format!("on {}", first_few(&places))
}

/// The device and the host of `row`; `None` if no run has a result.
fn place(row: &Row<'_>) -> Option<String> {
    let found = row.circumstances.as_ref()?;
    let host = found.host();
    Some(found.device_name.as_ref().map_or(host.to_owned(), |device| format!("{device} of {host}")))
}

/// How many timing jobs have a result, and from when to when they ran.
fn when(records: &[&Record]) -> String {
    let started = records.iter().map(|record| record.started_at).min();
    let ended = records.iter().map(|record| record.ended_at).max();
    let (Some(from), Some(to)) = (started, ended) else { return "No timing job has a result.".to_owned() };
    let is_one_day = from.date_naive() == to.date_naive();
    let until = to.format(if is_one_day { "%H:%M" } else { "%Y-%m-%d %H:%M" });
    format!("{} from {} to {until} UTC.", count_text(records.len(), "run"), from.format("%Y-%m-%d %H:%M"))
}

/// Each of `words` once, in their order.
pub(super) fn distinct(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for word in words {
        if !seen.contains(&word) {
            seen.push(word);
        }
    }
    seen
}
