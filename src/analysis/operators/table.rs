//! `operators.csv`: the operators of each row, the slowest first.

use super::breakdown::{Breakdown, PlacedOperator, Rates};
use crate::analysis::Analysis;
use crate::analysis::column::{Column, Columns, Sourced, list, of};
use crate::analysis::columns::{OfRow, config_columns, host_column, part_column};
use crate::analysis::group::Row;
use crate::analysis::own::Own;
use crate::analysis::source::Source;

/// A line of `operators.csv`.
pub(in crate::analysis) struct OperatorLine<'a> {
    row: &'a Row<'a>,
    breakdown: &'a Breakdown<'a>,
    operator: &'a PlacedOperator<'a>,
}

impl OfRow for OperatorLine<'_> {
    fn row(&self) -> &Row<'_> {
        self.row
    }
}

impl OperatorLine<'_> {
    fn rates(&self) -> &Rates {
        &self.operator.rates
    }

    /// `value` of an iteration ÷ the seconds of an iteration.
    fn per_second(&self, value: Option<f64>) -> Option<f64> {
        Some(value? / Some(self.rates().seconds).filter(|seconds| *seconds > 0.0)?)
    }
}

/// The operators of the row with the number `row`.
pub(in crate::analysis) fn operator_lines<'a>(
    analysis: &'a Analysis<'_>,
    row: usize,
) -> impl Iterator<Item = OperatorLine<'a>> {
    let breakdowns = analysis.breakdowns[row].iter();
    breakdowns.flat_map(move |breakdown| {
        let line = move |operator| OperatorLine { row: &analysis.rows[row], breakdown, operator };
        breakdown.operators.iter().map(line)
    })
}

/// Every column of `operators.csv`.
pub(in crate::analysis) fn operator_columns<'a>(own: &Own) -> Columns<OperatorLine<'a>> {
    let mut columns: Vec<Sourced<OperatorLine<'a>>> = config_columns(own);
    columns.extend([host_column(), part_column()]);
    columns.extend(of(Source::Worker, reported()));
    columns.extend(of(Source::Computed, computed()));
    Columns::plain(columns)
}

/// The columns that the worker reports for an operator.
fn reported<'a>() -> Vec<Column<OperatorLine<'a>>> {
    type Of<'a> = Column<OperatorLine<'a>>;
    const NO_PHASE: &str = "the worker does not report it";
    vec![
        Of::known("rank", "From 1, the slowest.", |line| line.operator.rank),
        Of::known("operator", "The framework's name of the operator.", |line| {
            line.operator.sample.name.clone()
        }),
        Of::maybe(
            "phase",
            "The part of an iteration: `forward`, `backward`, `optimizer` or `data`.",
            NO_PHASE,
            |line| Some(line.operator.sample.phase?.as_str()),
        ),
        Of::known("shapes", "The shapes of its inputs.", |line| {
            list(
                line.operator
                    .sample
                    .shapes
                    .iter()
                    .flatten()
                    .map(|shape| shape.iter().map(u64::to_string).collect::<Vec<_>>().join("x")),
            )
        }),
        Of::known("types", "The types of its inputs.", |line| {
            list(line.operator.sample.types.iter().flatten())
        }),
        Of::known("calls", "Calls per iteration.", |line| {
            line.operator.sample.calls as f64 / f64::from(line.breakdown.profile.iterations)
        }),
    ]
}

/// The computed columns.
fn computed<'a>() -> Vec<Column<OperatorLine<'a>>> {
    type Of<'a> = Column<OperatorLine<'a>>;
    const NO_WORK: &str = "the work of the operator is unknown";
    const NO_RATE: &str = "the work of the operator is unknown, or it took no time";
    const NO_ROOF: &str = "the work of the operator or the ceiling is unknown, or it has no such work";
    vec![
        Of::known("class", "The kind of its work.", |line| line.operator.class.as_str()),
        Of::known(
            "iteration_s",
            "Its time per iteration, without that of operators that it calls.",
            |line| line.rates().seconds,
        ),
        Of::known("time_percent", "Its share of an iteration.", |line| 100.0 * line.rates().time_share),
        Of::maybe("gflop", "FLOPs per iteration.", NO_WORK, |line| Some(line.rates().flops? / 1e9)),
        Of::maybe(
            "compulsory_bytes",
            "The least bytes that it reads and writes per iteration.",
            NO_WORK,
            |line| line.rates().bytes,
        ),
        Of::maybe("gflop_per_s", "`gflop` ÷ `iteration_s`.", NO_RATE, |line| {
            Some(line.per_second(line.rates().flops)? / 1e9)
        }),
        Of::maybe("gb_per_s", "`compulsory_bytes` ÷ `iteration_s`.", NO_RATE, |line| {
            Some(line.per_second(line.rates().bytes)? / 1e9)
        }),
        Of::maybe("percent_of_peak", "FLOP/s ÷ the compute ceiling at its type.", NO_ROOF, |line| {
            Some(100.0 * line.rates().of_compute?.low)
        }),
        Of::maybe(
            "percent_of_bandwidth",
            "Compulsory bytes per second ÷ the bandwidth of the level that they provably come from.",
            "it provably streams from no level, or the bandwidth is unknown",
            |line| Some(100.0 * line.rates().of_memory.as_ref()?.streams.as_ref()?.1.low),
        ),
        Of::maybe(
            "bandwidth_level",
            "That level: `memory` or a cache.",
            "`percent_of_bandwidth` is `NA`",
            |line| Some(line.rates().of_memory.as_ref()?.streams.as_ref()?.0.clone()),
        ),
        Of::known(
            "bound",
            "What limits it: `compute-bound`, `memory-bound`, `latency-bound`, `kernel-bound`, `host-bound` or `unknown`. See \
             [Operators](../method.md#operators).",
            |line| line.operator.limit.bound().to_string(),
        ),
    ]
}
