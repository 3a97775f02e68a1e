//! Findings about scatter, about the load of the host, and about waiting for data.

use std::cell::LazyCell;
use std::collections::BTreeMap;

use super::finding::{Finding, finding};
use super::kind::FindingKind;
use crate::analysis::claim::{Claim, Compared, Limit, Relation, Sentence};
use crate::analysis::foreign::{foreign_cores, is_too_short_for_load};
use crate::analysis::group::Row;
use crate::analysis::marks::{Mark, Threshold, Thresholds};
use crate::analysis::{Run, pipeline};
use crate::job::{distinction, varying_parameters};
use crate::record::Record;
use crate::text::count_text;

pub(super) fn spread(rows: &[Row<'_>]) -> Vec<Finding> {
    let doubts = rows.iter().flat_map(|row| row.doubts.iter().map(move |doubt| (row, doubt)));
    doubts
        .filter(|(_, doubt)| matches!(doubt, Mark::HighVariation { .. }))
        .map(|(row, doubt)| {
            let label = row.label();
            let sentence = doubt.sentence().reworded(|doubt| format!("{label}: {doubt}."));
            finding(FindingKind::Scatter, sentence).about(label)
        })
        .collect()
}

pub(super) fn host(runs: &[Run<'_>], rows: &[Row<'_>], thresholds: &Thresholds) -> Vec<Finding> {
    let mut found = marked_but_counted(runs);
    found.extend(load_unknown(runs));
    found.extend(waiting_for_data(rows, thresholds));
    found.extend(data_gaps(rows, thresholds));
    found.extend(evaluations(rows));
    found.extend(unreadable_images(runs));
    found
}

/// Marks whose runs count, by name. If the text is the same for all runs, it appears once; otherwise the first few runs
/// are listed with their texts.
fn marked_but_counted(runs: &[Run<'_>]) -> Vec<Finding> {
    let varying = LazyCell::new(|| varying_parameters(runs.iter().map(|run| run.cell.job.key())));
    let label =
        |run: &Run<'_>| format!("{}{}", run.cell.job.label(), distinction(run.cell.job.key(), &varying));
    let mut by_name: BTreeMap<&'static str, Vec<(String, Sentence)>> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.counts()) {
        for mark in run.marks.iter().filter(|mark| !mark.disqualifies()) {
            by_name.entry(mark.name()).or_default().push((label(run), mark.sentence()));
        }
    }
    let sentence = |(name, marks): (&'static str, Vec<(String, Sentence)>)| {
        let number = Claim::some(marks.len());
        let n = count_text(marks.len(), "run");
        let is_common = |text: &str| marks.iter().all(|(_, other)| other.text == text);
        let sentence = match marks.first() {
            Some((_, first)) if is_common(&first.text) => {
                first.clone().reworded(|text| format!("{n} marked but counted: {text}."))
            }
            _ => {
                details(name, marks).reworded(|details| format!("{n} marked {name} but counted: {details}."))
            }
        };
        finding(FindingKind::MarkedButCounted, sentence.claiming([number]))
    };
    by_name.into_iter().map(sentence).collect()
}

/// The texts of the first few of `marks` called `name`, each with its run, and the number of the others. They are
/// joined by semicolons, because the texts contain commas.
fn details(name: &str, marks: Vec<(String, Sentence)>) -> Sentence {
    const SHOWN: usize = 3;
    let more = marks.len().saturating_sub(SHOWN);
    let detail = |(label, mark): (String, Sentence)| {
        mark.reworded(|mark| format!("{label}, {}", mark.trim_start_matches(name).trim_start_matches(": ")))
    };
    let shown = Sentence::joined(marks.into_iter().take(SHOWN).map(detail), "; ");
    if more == 0 { shown } else { shown.reworded(|shown| format!("{shown}; and {more} more")) }
}

/// Runs whose load could not be judged, by reason: they were too short, or the host's load was not recorded.
fn load_unknown(runs: &[Run<'_>]) -> Vec<Finding> {
    let (short, uncounted): (Vec<&Record>, Vec<&Record>) = runs
        .iter()
        .filter(|run| run.cell.is_timing())
        .filter_map(|run| run.cell.success())
        .map(|(record, _)| record)
        .filter(|record| foreign_cores(record).is_none())
        .partition(|record| is_too_short_for_load(record));
    let sentence = |what: String, n: usize| {
        let text = format!("{what}, so only overlap with other runs of the store could be checked.");
        finding(FindingKind::LoadUnknown, Sentence::new(text, [Claim::some(n)]))
    };
    let short = (!short.is_empty()).then(|| {
        let runs = count_text(short.len(), "run");
        sentence(format!("{runs} took less than one second, too short to judge the host's load"), short.len())
    });
    let uncounted = (!uncounted.is_empty()).then(|| {
        let runs = count_text(uncounted.len(), "run");
        sentence(format!("The host's load during {runs} is not known"), uncounted.len())
    });
    short.into_iter().chain(uncounted).collect()
}

fn waiting_for_data(rows: &[Row<'_>], thresholds: &Thresholds) -> Vec<Finding> {
    let threshold = thresholds.of(Threshold::DataWaitShare);
    let of_row = |row: &Row<'_>| {
        let shares = pipeline::data_wait_shares(row);
        let share = crate::stats::median(&shares).ok().filter(|share| *share > threshold)?;
        let share = Compared::passed(Threshold::DataWaitShare, share, threshold, 0);
        let text = format!(
            "{} waited for data during {} % of its window, median of n = {} (threshold {}).",
            row.label(),
            share.number(),
            shares.len(),
            share.limit()
        );
        Some(finding(FindingKind::DataWait, Sentence::new(text, [share])).about(row.label()))
    };
    rows.iter().filter_map(of_row).collect()
}

fn data_gaps(rows: &[Row<'_>], thresholds: &Thresholds) -> Vec<Finding> {
    let gaps = pipeline::gaps(rows);
    gaps.iter().map(|gap| finding(FindingKind::DataGap, gap.sentence(thresholds))).collect()
}

/// Rows whose windows contain evaluation.
fn evaluations(rows: &[Row<'_>]) -> Vec<Finding> {
    let of_row = |row: &Row<'_>| {
        let shares = row.measurements().map(|measured| measured.details.evaluation_share.unwrap_or(0.0));
        let shares: Vec<f64> = shares.collect();
        let share = crate::stats::median(&shares).ok().filter(|share| *share > 0.0)?;
        let share = Compared::new(100.0 * share, Relation::Above, Limit::understood(0.0), 1);
        let text = format!(
            "{} called its network without gradients during {} % of its window, as in evaluation (median of n = {}): \
             its throughput is that of training and evaluation together.",
            row.label(),
            share.number(),
            shares.len(),
        );
        Some(finding(FindingKind::Evaluation, Sentence::new(text, [share])).about(row.label()))
    };
    rows.iter().filter_map(of_row).collect()
}

fn unreadable_images(runs: &[Run<'_>]) -> Option<Finding> {
    let most = runs
        .iter()
        .filter_map(|run| run.cell.success())
        .filter_map(|(record, measured)| Some((measured.details.unreadable_images?, &record.label)))
        .filter(|(images, _)| *images > 0)
        .max()?;
    let images = Compared::new(most.0 as f64, Relation::Above, Limit::printed(0.0, 0), 0);
    let text = format!(
        "Up to {} images could not be decoded and were left out (in {}; threshold {}).",
        images.number(),
        most.1,
        images.limit()
    );
    Some(finding(FindingKind::UnreadableImages, Sentence::new(text, [images])))
}
