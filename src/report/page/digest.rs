//! A summary line for each section of the page, visible while the section is closed.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::analysis::axes::Effect;
use crate::analysis::brief::limits_text;
use crate::analysis::cost::Cost;
use crate::analysis::group::Row;
use crate::analysis::peaks::Range;
use crate::analysis::tally::Tally;
use crate::analysis::versus::ratio_texts;
use crate::analysis::{Analysis, Study};
use crate::record::Record;
use crate::text::{count_text, duration_in_units, significant};

/// The most effects that are named.
const EFFECTS: usize = 3;

/// A line for each section.
#[derive(Debug, Serialize)]
pub(super) struct Digest {
    measurement: String,
    time: String,
    axes: String,
    roofline: String,
    analysis: String,
    design: String,
    complexity: String,
    reproducibility: String,
    limitations: String,
}

/// The lines of `analysis` with `found` observations and `limits` limitations.
pub(super) fn digest(study: &Study, analysis: &Analysis<'_>, [found, limits]: [usize; 2]) -> Digest {
    Digest {
        measurement: measurement(analysis),
        time: limits_text(&analysis.rows, &analysis.classes),
        axes: axes(analysis),
        roofline: shares(analysis),
        analysis: if found == 0 { "cost and energy".to_owned() } else { count_text(found, "finding") },
        design: design(analysis),
        complexity: complexity(analysis),
        reproducibility: reproducibility(study, analysis),
        limitations: if limits == 0 { "in general".to_owned() } else { count_text(limits, "finding") },
    }
}

/// `7 rows of 21 runs; 1 left out; 1 failed`
fn measurement(analysis: &Analysis<'_>) -> String {
    let runs: usize = analysis.rows.iter().map(|row| row.runs.len()).sum();
    let left_out: usize = analysis.rows.iter().map(Row::left_out).sum();
    let rows = format!("{} of {}", count_text(analysis.rows.len(), "row"), count_text(runs, "run"));
    let left_out = (left_out > 0).then(|| format!("{left_out} left out"));
    let parts = [rows].into_iter().chain(left_out).chain(Tally::of(&analysis.runs).undone());
    parts.collect::<Vec<_>>().join("; ")
}

/// `compile=true: 1.31 × [1.27, 1.35]; 2 more`
fn axes(analysis: &Analysis<'_>) -> String {
    let text = |effect: &Effect| {
        let ratio = match (&effect.disagreement, effect.range(), effect.ratio()) {
            (Some(disagreement), Some([least, most]), _) => {
                let by = disagreement.by.as_ref().map(|(name, _)| format!(" by {name}")).unwrap_or_default();
                format!("{} to {} ×{by}", significant(least, 3), significant(most, 3))
            }
            (_, _, Some((ratio, interval))) => {
                let [ratio, low, high] = ratio_texts(ratio, interval);
                format!("{ratio} × [{low}, {high}]")
            }
            _ => "unknown".to_owned(),
        };
        format!("{}={}: {ratio}", effect.axis, effect.value)
    };
    let mut parts: Vec<String> = analysis.axes.iter().take(EFFECTS).map(text).collect();
    if analysis.axes.len() > EFFECTS {
        parts.push(format!("{} more", analysis.axes.len() - EFFECTS));
    }
    parts.join("; ")
}

/// `18 to 56 % of the peak`
fn shares(analysis: &Analysis<'_>) -> String {
    let shares = analysis.rows.iter().filter_map(Row::share_of_peak);
    let all =
        shares.reduce(|one, other| Range { low: one.low.min(other.low), high: one.high.max(other.high) });
    all.map_or_else(String::new, |all| format!("{} % of the peak", all.times(100.0).text(2)))
}

/// `7 configs of 2 networks in 1 env`
fn design(analysis: &Analysis<'_>) -> String {
    let configs = analysis.rows.iter().filter(|row| row.part.0 == 1).count();
    format!(
        "{} of {} in {}",
        count_text(configs, "config"),
        count_text(distinct(analysis, |row| row.config.model.to_string()), "network"),
        count_text(distinct(analysis, |row| row.config.env.to_string()), "env")
    )
}

/// `2 networks, 1.9 to 10.6 GFLOP per sample`
fn complexity(analysis: &Analysis<'_>) -> String {
    let flops = analysis.rows.iter().filter_map(|row| row.cost.as_ref().ok().map(Cost::training_flops));
    let ends = flops.fold(None, |ends: Option<Range>, flops| {
        let Range { low, high } = ends.unwrap_or(Range { low: flops, high: flops });
        Some(Range { low: low.min(flops), high: high.max(flops) })
    });
    let Some(ends) = ends else { return "the FLOPs are unknown".to_owned() };
    let known = analysis.rows.iter().filter(|row| row.cost.is_ok());
    let networks: BTreeSet<_> = known.map(|row| &row.config.model).collect();
    let text = ends.times(1e-9).text(3);
    format!("{}, {text} GFLOP per sample", count_text(networks.len(), "network"))
}

fn distinct(analysis: &Analysis<'_>, word: impl Fn(&Row<'_>) -> String) -> usize {
    analysis.rows.iter().map(word).collect::<BTreeSet<_>>().len()
}

/// `2 hosts, 1 h 30 min in jobs, matrices/mac.yaml`
fn reproducibility(study: &Study, analysis: &Analysis<'_>) -> String {
    let records = || analysis.runs.iter().filter_map(|run| run.cell.record());
    let hosts: BTreeSet<_> = records().map(|record| &record.provenance.host.hostname).collect();
    let time = duration_in_units(records().map(Record::wall_s).sum());
    format!("{}, {time} in jobs, {}", count_text(hosts.len(), "host"), study.matrix.path)
}
