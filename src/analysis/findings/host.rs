//! Findings about scatter, and about what else the host did.

use std::cell::LazyCell;
use std::collections::BTreeMap;

use super::finding::{Finding, Topic, finding};
use crate::analysis::group::Row;
use crate::analysis::marks::{Mark, Threshold, Thresholds, foreign_cores, is_too_short_for_load};
use crate::analysis::{Run, pipeline};
use crate::job::{distinction, varying_parameters};
use crate::record::Record;
use crate::text::count_text;

pub(super) fn spread(rows: &[Row<'_>]) -> Vec<Finding> {
    let doubts = rows.iter().flat_map(|row| row.doubts.iter().map(move |doubt| (row, doubt)));
    doubts
        .filter(|(_, doubt)| matches!(doubt, Mark::HighVariation { .. }))
        .map(|(row, doubt)| finding(Topic::Spread, format!("{}: {doubt}.", row.label())))
        .collect()
}

pub(super) fn host(runs: &[Run<'_>], rows: &[Row<'_>], thresholds: &Thresholds) -> Vec<Finding> {
    let mut found = marked_but_counted(runs);
    found.extend(load_unknown(runs));
    found.extend(waiting_for_data(rows, thresholds));
    found.extend(data_gaps(rows, thresholds));
    found.extend(unreadable_images(runs));
    found
}

/// Marks that leave no run out, by name. If all runs have the same text, it is given once; otherwise the first few are
/// listed with their runs.
fn marked_but_counted(runs: &[Run<'_>]) -> Vec<Finding> {
    let varying = LazyCell::new(|| varying_parameters(runs.iter().map(|run| run.cell.job.key())));
    let label =
        |run: &Run<'_>| format!("{}{}", run.cell.job.label(), distinction(run.cell.job.key(), &varying));
    let mut by_name: BTreeMap<&'static str, Vec<(String, String)>> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.counts()) {
        for mark in run.marks.iter().filter(|mark| !mark.disqualifies()) {
            by_name.entry(mark.name()).or_default().push((label(run), mark.to_string()));
        }
    }
    let sentence = |(name, marks): (&'static str, Vec<(String, String)>)| {
        let n = count_text(marks.len(), "run");
        let says = |text: &str| marks.iter().all(|(_, other)| other == text);
        if let Some((_, text)) = marks.first().filter(|(_, text)| says(text)) {
            return finding(Topic::Host, format!("{n} marked but counted: {text}."));
        }
        let details: Vec<String> = marks
            .iter()
            .map(|(label, text)| {
                format!("{label}, {}", text.trim_start_matches(name).trim_start_matches(": "))
            })
            .collect();
        finding(Topic::Host, format!("{n} marked {name} but counted: {}.", details_list(&details)))
    };
    by_name.into_iter().map(sentence).collect()
}

/// The first few of `details`, and the number of the others. They are texts that contain commas.
fn details_list(details: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown = details.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("; ");
    match details.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

/// The runs whose load could not be judged, apart by the reason: they were too short, or nobody counted.
fn load_unknown(runs: &[Run<'_>]) -> Vec<Finding> {
    let (short, uncounted): (Vec<&Record>, Vec<&Record>) = runs
        .iter()
        .filter(|run| run.cell.is_timing())
        .filter_map(|run| run.cell.success())
        .map(|(record, _)| record)
        .filter(|record| foreign_cores(record).is_none())
        .partition(|record| is_too_short_for_load(record));
    let sentence =
        |what: String| format!("{what}, so only overlap with other runs of the store could be checked.");
    let short = (!short.is_empty()).then(|| {
        sentence(format!(
            "{} took less than one second, too short to judge the host's load",
            count_text(short.len(), "run")
        ))
    });
    let uncounted = (!uncounted.is_empty()).then(|| {
        sentence(format!("The host's load during {} is not known", count_text(uncounted.len(), "run")))
    });
    short.into_iter().chain(uncounted).map(|text| finding(Topic::Host, text)).collect()
}

fn waiting_for_data(rows: &[Row<'_>], thresholds: &Thresholds) -> Vec<Finding> {
    rows.iter()
        .filter_map(|row| {
            let shares = pipeline::data_wait_shares(row);
            let share = crate::stats::median(&shares).ok()?;
            (share > thresholds.of(Threshold::DataWaitShare)).then(|| {
                let text = format!(
                    "{} waited for data during {:.0} % of its window, median of n = {} (threshold {}).",
                    row.label(),
                    100.0 * share,
                    shares.len(),
                    thresholds.text(Threshold::DataWaitShare)
                );
                finding(Topic::Host, text)
            })
        })
        .collect()
}

fn data_gaps(rows: &[Row<'_>], thresholds: &Thresholds) -> Vec<Finding> {
    let gaps = pipeline::gaps(rows);
    gaps.iter().map(|gap| finding(Topic::Host, gap.sentence(thresholds))).collect()
}

fn unreadable_images(runs: &[Run<'_>]) -> Option<Finding> {
    let most = runs
        .iter()
        .filter_map(|run| run.cell.success())
        .filter_map(|(record, measured)| Some((measured.details.unreadable_images?, &record.label)))
        .filter(|(images, _)| *images > 0)
        .max()?;
    let text = format!(
        "Up to {} images could not be decoded and were left out (in {}; threshold 0).",
        most.0, most.1
    );
    Some(finding(Topic::Host, text))
}
