//! Runs that overlapped on one machine.

use std::collections::BTreeMap;

use super::words::computed;
use crate::ledger::entry::Entry;
use crate::ledger::field::Field;
use crate::ledger::objection::Objection;
use crate::ledger::row::is_run;
use crate::ledger::rule::Rule;
use crate::ledger::sheet::Sheet;
use crate::threshold::Threshold;

/// A run with the beginning and the end of its window, in seconds.
struct Run<'a> {
    entry: &'a Entry,
    start: f64,
    end: f64,
    /// The rounding error of both.
    doubt: f64,
}

/// The runs that overlapped, grouped by chains of overlaps.
pub(super) fn objections(sheet: &Sheet<'_>) -> Vec<Objection> {
    let mut hosts: BTreeMap<&str, Vec<Run<'_>>> = BTreeMap::new();
    for entry in sheet.entries.iter().filter(|entry| is_run(entry)) {
        // Without a host, a file counts as the ledger of one machine.
        let host = entry.text(Field::Host).unwrap_or(&entry.file);
        if let Some((start, end, doubt)) = entry.window() {
            hosts.entry(host).or_default().push(Run { entry, start, end, doubt });
        }
    }
    hosts.into_iter().flat_map(|(host, runs)| of_host(host, runs)).collect()
}

fn of_host(host: &str, mut runs: Vec<Run<'_>>) -> Vec<Objection> {
    runs.sort_by(|left, right| left.start.total_cmp(&right.start));
    let mut found = Vec::new();
    let mut together: Vec<Run<'_>> = Vec::new();
    for run in runs {
        if !together.iter().any(|other| overlap(other, &run) > 0.0) {
            found.extend(objection(host, &together));
            together.clear();
        }
        together.push(run);
    }
    found.extend(objection(host, &together));
    found
}

/// The seconds for which both ran, beyond the threshold and rounding.
fn overlap(left: &Run<'_>, right: &Run<'_>) -> f64 {
    let seconds = left.end.min(right.end) - left.start.max(right.start);
    seconds - left.doubt - right.doubt - Threshold::OverlapS.facts().value
}

fn objection(host: &str, together: &[Run<'_>]) -> Option<Objection> {
    let pairs = together
        .iter()
        .enumerate()
        .flat_map(|(at, left)| together[..at].iter().map(move |right| (right, left)));
    let (left, right) = pairs.max_by(|a, b| overlap(a.0, a.1).total_cmp(&overlap(b.0, b.1)))?;
    let shared = left.end.min(right.end) - left.start.max(right.start);
    let sentence = format!(
        "{} runs overlapped on {host}: one from {} to {} s, another from {} to {} s, {} s together",
        together.len(),
        seconds(left.start),
        seconds(left.end),
        seconds(right.start),
        seconds(right.end),
        computed(shared),
    );
    let cause = "two matrices ran on one machine at the same time, so their runs slowed each other down";
    Some(Objection::new(Rule::Overlap, together.iter().map(|run| run.entry), sentence, cause))
}

/// Seconds since 1970, so that readers can compute differences.
fn seconds(at: f64) -> String {
    format!("{at:.2}")
}
