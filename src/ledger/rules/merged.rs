//! Means over the lines of several machines.

use super::words::{computed, percent, printed};
use crate::ledger::entry::Entry;
use crate::ledger::field::Field;
use crate::ledger::number::Number;
use crate::ledger::objection::Objection;
use crate::ledger::rule::{REPRODUCED, Rule, SAME};
use crate::ledger::sheet::Sheet;

/// A line that may be a part of a mean.
pub(super) struct Part<'a> {
    pub(super) entry: &'a Entry,
    throughput: Number,
    /// Its runs; 1 if they are not stated.
    runs: f64,
}

impl<'a> Part<'a> {
    pub(super) fn of(entry: &'a Entry) -> Option<Part<'a>> {
        let runs = entry.count(Field::Runs).map_or(1.0, |runs| runs as f64);
        Some(Part { entry, throughput: entry.positive(Field::Throughput)?, runs })
    }
}

/// The mean throughput of `parts`, weighted by their runs. `None` unless at least two differ, because otherwise a mean
/// cannot be recognised.
pub(super) fn mean_of_parts(parts: &[Part<'_>]) -> Option<Number> {
    let values = || parts.iter().map(|part| part.throughput.value);
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    if parts.len() < 2 || most / least - 1.0 <= 2.0 * SAME {
        return None;
    }
    let runs: f64 = parts.iter().map(|part| part.runs).sum();
    let mean = |of: fn(&Part<'_>) -> f64| parts.iter().map(|part| part.runs * of(part)).sum::<f64>() / runs;
    Some(Number {
        value: mean(|part| part.throughput.value),
        half_digit: mean(|part| part.throughput.half_digit),
    })
}

/// `(4 × 359.50 + 3 × 861.78) ÷ 7`.
pub(super) fn mean_text(parts: &[Part<'_>]) -> String {
    let product = |part: &Part<'_>| format!("{} × {}", part.runs, printed(part.throughput, 1.0));
    let products: Vec<String> = parts.iter().map(product).collect();
    format!("({}) ÷ {}", products.join(" + "), parts.iter().map(|part| part.runs).sum::<f64>())
}

/// The rows whose throughput is the mean over the rows of other machines, and whose number of runs is their sum.
pub(super) fn objections(sheet: &Sheet<'_>) -> Vec<Objection> {
    let lines = sheet.rows.iter().map(super::super::row::Row::line);
    let parts: Vec<Part<'_>> =
        lines.filter(|line| line.count(Field::Runs).is_some()).filter_map(Part::of).collect();
    parts.iter().filter_map(|part| objection(part, &parts)).collect()
}

fn objection(part: &Part<'_>, all: &[Part<'_>]) -> Option<Objection> {
    let is_twin = |other: &&Part<'_>| {
        other.entry.work() == part.entry.work()
            && other.entry.config().batch == part.entry.config().batch
            && other.entry.machine() != part.entry.machine()
            && other.entry.file == part.entry.file
    };
    let twins: Vec<Part<'_>> = all.iter().filter(is_twin).filter_map(|twin| Part::of(twin.entry)).collect();
    let mean = mean_of_parts(&twins)?;
    let runs: f64 = twins.iter().map(|twin| twin.runs).sum();
    let off = (part.throughput.value / mean.value - 1.0).abs();
    let rounding = part.throughput.rounding() + mean.rounding();
    (part.runs == runs && off <= REPRODUCED + rounding).then(|| {
        let sentence = format!(
            "{} samples/s of {} runs are the mean of other machines: {} is {}, {} from it",
            printed(part.throughput, 1.0),
            part.runs,
            mean_text(&twins),
            computed(mean.value),
            percent(off),
        );
        let lines = std::iter::once(part.entry).chain(twins.iter().map(|twin| twin.entry));
        Objection::new(
            Rule::Merged,
            lines,
            sentence,
            "lines of several machines were averaged as if they were one",
        )
    })
}
