//! The spread of the runs of a row: larger than usual, zero, or stated for a single run.

use super::words::{percent, printed};
use crate::ledger::number::Number;
use crate::ledger::objection::Objection;
use crate::ledger::row::Row;
use crate::ledger::rule::{LEAST_SPREAD, Rule};
use crate::ledger::sheet::Sheet;
use crate::stats::variation_bounds;
use crate::threshold::Threshold;

/// The confidence of the two-sided interval, so that of its lower bound is 95 %.
const BOTH_BOUNDS: f64 = 0.90;

/// The rows whose spread is too large or zero.
pub(super) fn objections(sheet: &Sheet<'_>) -> Vec<Objection> {
    sheet.rows.iter().filter_map(|row| row.sd.and_then(|sd| objection(row, sd))).collect()
}

fn objection(row: &Row<'_>, sd: Number) -> Option<Objection> {
    match row.runs {
        Some(1) => Some(of_one(row, sd)),
        _ if sd.value == 0.0 => none(row, sd),
        Some(runs) => large(row, sd, runs),
        None => None,
    }
}

/// A spread of one run.
fn of_one(row: &Row<'_>, sd: Number) -> Objection {
    let sentence = format!(
        "n = 1, and yet {} ± {} samples/s: the deviation of one run is unknown, not {}",
        printed(row.throughput, 1.0),
        printed(sd, 1.0),
        printed(sd, 1.0)
    );
    let cause = "a program divided by n, and not by n - 1, or the number of runs is wrong";
    Objection::new(Rule::SpreadOfOne, row.lines.iter().copied(), sentence, cause)
}

/// A spread of 0, although the printed digits would show one.
fn none(row: &Row<'_>, sd: Number) -> Option<Objection> {
    let resolution = sd.half_digit / row.throughput.value;
    (resolution <= LEAST_SPREAD).then(|| {
        let runs =
            row.runs.map_or_else(|| "an unstated number of runs".to_owned(), |runs| format!("n = {runs}"));
        let sentence = format!(
            "{} ± {} samples/s, and {runs}: runs differ, and these digits would show {}",
            printed(row.throughput, 1.0),
            printed(sd, 1.0),
            percent(resolution.max(f64::EPSILON)),
        );
        let cause = "one run, or copies of one, were reported as several";
        Objection::new(Rule::NoSpread, row.lines.iter().copied(), sentence, cause)
    })
}

/// A spread that is significantly too large.
fn large(row: &Row<'_>, sd: Number, runs: u64) -> Option<Objection> {
    let n = usize::try_from(runs).ok()?;
    let limit = Threshold::HighVariation.facts().value;
    // The rounding error does not count.
    let observed = (sd.value - sd.half_digit).max(0.0) / (row.throughput.value + row.throughput.half_digit);
    let least = variation_bounds(observed, n, BOTH_BOUNDS).ok()?.low;
    (least > limit).then(|| {
        let sentence = format!(
            "{} ÷ {} is a variation of {}, at least {} with n = {runs}; {} is usual at most",
            printed(sd, 1.0),
            printed(row.throughput, 1.0),
            percent(sd.value / row.throughput.value),
            percent(least),
            percent(limit),
        );
        let cause = "another process ran on the machine, or the runs are not of one config";
        Objection::new(Rule::Spread, row.lines.iter().copied(), sentence, cause)
    })
}
