//! The columns of `summary.csv` that say where the time of a row goes, by its profile.

use super::shared::{OfRow, config_columns, host_column, part_column};
use crate::analysis::column::{Column, Columns, Sourced, of};
use crate::analysis::group::Row;
use crate::analysis::operators::{Breakdown, Part, TimeByLimit};
use crate::analysis::own::Own;
use crate::analysis::source::Source;

const NO_PROFILE: &str = "no `ops` job of the config has a profile";

type Line<'a> = &'a Option<Breakdown<'a>>;

/// A row whose time a figure shows.
pub(in crate::analysis) struct TimeLine<'a> {
    pub(in crate::analysis) row: &'a Row<'a>,
}

impl OfRow for TimeLine<'_> {
    fn row(&self) -> &Row<'_> {
        self.row
    }
}

/// The columns that name the row, beside [`breakdown_columns`].
pub(in crate::analysis) fn time_columns<'a>(own: &Own) -> Columns<TimeLine<'a>> {
    let mut columns: Vec<Sourced<TimeLine<'a>>> = config_columns(own);
    columns.extend([host_column(), part_column()]);
    Columns::plain(columns)
}

/// Every column of a breakdown.
pub(in crate::analysis) fn breakdown_columns<'a>() -> Columns<Line<'a>> {
    let columns = parts().into_iter().chain(limits()).chain(headroom());
    Columns::plain(of(Source::Computed, columns))
}

fn number<'a>(
    name: &'static str,
    meaning: &'static str,
    value: impl Fn(&Breakdown<'_>) -> Option<f64> + 'static,
) -> Column<Line<'a>> {
    Column::maybe(name, meaning, NO_PROFILE, move |line: &Line<'a>| value(line.as_ref()?))
}

/// The share of each part of an iteration.
fn parts<'a>() -> Vec<Column<Line<'a>>> {
    let part = |name, meaning, part: Part| {
        number(name, meaning, move |breakdown| Some(100.0 * breakdown.share(part)))
    };
    vec![
        number("profiled_iteration_s", "Seconds of a profiled iteration.", |it| Some(it.iteration_s)),
        part("products_time_percent", "Time in matrix products, convolutions and attention.", Part::Products),
        part(
            "elementwise_time_percent",
            "Time in normalisation, arithmetic on elements, pooling, losses and lookups.",
            Part::Elementwise,
        ),
        part("optimizer_time_percent", "Time in the optimizer's step.", Part::Optimizer),
        part(
            "copies_time_percent",
            "Time in copies, conversions and exchange between devices.",
            Part::Copies,
        ),
        part("data_wait_time_percent", "Time in which training waits for data.", Part::DataWait),
        part("other_time_percent", "Time in operators that are not known, or not listed.", Part::Other),
        part(
            "idle_time_percent",
            "Time outside of all operators. On an accelerator: the time in which it is idle.",
            Part::Idle,
        ),
    ]
}

/// The share of an iteration by what limits it.
fn limits<'a>() -> Vec<Column<Line<'a>>> {
    let limit = |name, meaning, share: fn(&TimeByLimit) -> f64| {
        number(name, meaning, move |breakdown| Some(100.0 * share(&breakdown.limits)))
    };
    vec![
        limit("operators_at_compute_percent", "Time in operators at the compute roof.", |it| it.compute),
        limit("operators_at_memory_percent", "Time in operators at a bandwidth roof.", |it| it.memory),
        limit("operators_far_percent", "Time in operators far from both roofs, or between kernels.", |it| {
            it.latency
        }),
        limit("operators_below_percent", "Time in operators at neither roof and not far from both.", |it| {
            it.kernel
        }),
        limit("operators_open_percent", "Time in operators of which nothing shows what limits them.", |it| {
            it.open
        }),
    ]
}

/// What is to be gained at most.
fn headroom<'a>() -> Vec<Column<Line<'a>>> {
    vec![
        Column::maybe(
            "slowest_class",
            "The class of operators that takes longest.",
            NO_PROFILE,
            |line: &Line<'a>| Some(line.as_ref()?.headroom()?.class.as_str()),
        ),
        Column::maybe(
            "speedup_at_roof_ratio",
            "By [Amdahl's law](../method.md#operators): how many times as fast an iteration would be with that class \
             at its roof.",
            "no `ops` job has a profile, or the share of the roof is unknown",
            |line: &Line<'a>| line.as_ref()?.headroom()?.at_roof,
        ),
        number("speedup_alone_ratio", "The same if all other time were 0.", |it| Some(it.headroom()?.alone)),
    ]
}
