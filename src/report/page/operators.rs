//! The breakdown of the time of each row: a sentence, and its slowest operators.

use serde::Serialize;

use crate::analysis::Analysis;
use crate::analysis::bound::Class;
use crate::analysis::group::Row;
use crate::analysis::operators::{Breakdown, PlacedOperator};
use crate::analysis::table::NOT_KNOWN;
use crate::report::hover::row_anchor;
use crate::text::significant;

/// The most operators that a page lists per row; `operators.csv` has all.
const OPERATORS: usize = 10;

/// A row with a profile.
#[derive(Debug, Serialize)]
pub(super) struct TimeView {
    label: String,
    /// Links to the row in the table of results.
    anchor: String,
    bound: String,
    /// The largest parts of its time, and the headroom.
    text: String,
    operators: Vec<OperatorView>,
}

/// One of the operators that took longest.
#[derive(Debug, Serialize)]
struct OperatorView {
    name: String,
    phase: &'static str,
    shapes: String,
    share: String,
    gflop_per_s: String,
    gb_per_s: String,
    of_peak: String,
    of_bandwidth: String,
    bound: String,
}

/// The rows with a profile.
pub(super) fn times(analysis: &Analysis<'_>) -> Vec<TimeView> {
    let rows = analysis.rows.iter().zip(&analysis.breakdowns).zip(&analysis.classes);
    rows.filter_map(|((row, breakdown), class)| Some(time_view(row, breakdown.as_ref()?, class))).collect()
}

fn time_view(row: &Row<'_>, breakdown: &Breakdown<'_>, class: &Class) -> TimeView {
    TimeView {
        label: row.label(),
        anchor: row_anchor(row),
        bound: class.bound.to_string(),
        text: class.time.clone().unwrap_or_else(|| breakdown.text()),
        operators: breakdown.operators.iter().take(OPERATORS).map(operator_view).collect(),
    }
}

fn operator_view(operator: &PlacedOperator<'_>) -> OperatorView {
    let PlacedOperator { sample, rates, limit, .. } = operator;
    let per_second = |amount: Option<f64>| {
        let amount = amount.filter(|amount| *amount > 0.0 && rates.seconds > 0.0);
        amount.map_or_else(|| NOT_KNOWN.to_owned(), |amount| significant(amount / rates.seconds / 1e9, 3))
    };
    let percent = |share: Option<f64>| {
        share.map_or_else(|| NOT_KNOWN.to_owned(), |share| format!("{:.0} %", 100.0 * share))
    };
    let streams = rates.of_memory.as_ref().and_then(|it| it.streams.as_ref());
    OperatorView {
        name: sample.name.clone(),
        phase: sample.phase.map_or(NOT_KNOWN, |phase| phase.as_str()),
        shapes: shapes(operator),
        share: format!("{:.1} %", 100.0 * rates.time_share),
        gflop_per_s: per_second(rates.flops),
        gb_per_s: per_second(rates.bytes),
        of_peak: percent(rates.of_compute.map(|share| share.low)),
        of_bandwidth: percent(streams.map(|(_, share)| share.low)),
        bound: limit.bound().to_string(),
    }
}

/// The shapes of its first inputs: `16x64x56x56 64x64x3x3`
fn shapes(operator: &PlacedOperator<'_>) -> String {
    let shapes = operator.sample.shapes.iter().flatten().filter(|shape| !shape.is_empty()).take(2);
    let text = |shape: &Vec<u64>| shape.iter().map(u64::to_string).collect::<Vec<_>>().join("x");
    shapes.map(text).collect::<Vec<_>>().join(" ")
}
