//! The columns of the table behind each figure that shows single runs: throughput, scatter, and the order of time.

use super::shared::{OfRow, config_columns, host_column, part_column, unit_column};
use crate::analysis::Run;
use crate::analysis::column::{Column, Columns, Sourced, list, of};
use crate::analysis::group::{Row, Statistics};
use crate::analysis::marks::Mark;
use crate::analysis::own::Own;
use crate::analysis::role::Role;
use crate::analysis::sequence::Placed;
use crate::analysis::source::Source;

const NO_STATISTICS: &str = "no run of the row counts";
const TOO_FEW: &str = "fewer than three runs of the row count";

/// A run with a result, and its row.
pub(in crate::analysis) struct RunLine<'a> {
    /// The row.
    pub(in crate::analysis) row: &'a Row<'a>,
    /// The run.
    pub(in crate::analysis) run: &'a Run<'a>,
    /// Its place in the order of time; `None` if it has no throughput.
    pub(in crate::analysis) placed: Option<Placed>,
}

type Of<'a> = Column<RunLine<'a>>;

impl OfRow for RunLine<'_> {
    fn row(&self) -> &Row<'_> {
        self.row
    }
}

impl<'a> RunLine<'a> {
    fn statistics(&self) -> Option<&'a Statistics> {
        self.row.statistics.as_ref().ok()
    }
}

/// Every column of a run.
pub(in crate::analysis) fn run_columns<'a>(own: &Own) -> Columns<RunLine<'a>> {
    let mut columns: Vec<Sourced<RunLine<'a>>> = config_columns(own);
    let repeat =
        Of::known("repeat", "The number of the repeat, from 1.", |line| line.run.cell.job.key().repeat);
    columns.extend([part_column(), unit_column(), repeat.from(Source::Matrix)]);
    columns.extend(of(Source::Computed, throughput()));
    columns.push(host_column());
    columns.extend(of(Source::Orchestrate, [started()]));
    columns.extend(of(Source::Computed, order()));
    Columns::plain(columns)
}

fn started<'a>() -> Of<'a> {
    Of::maybe("started_at", "When the run started.", "it has no record", |line| {
        Some(line.run.cell.record()?.started_at)
    })
}

fn order<'a>() -> [Of<'a>; 4] {
    const NO_THROUGHPUT: &str = "its window was not synchronised";
    [
        Of::maybe(
            "place",
            "Its place among the runs of its machine, by time, from 1.",
            NO_THROUGHPUT,
            |line| Some(line.placed?.place),
        ),
        Of::maybe("block", "The number of its block on that machine, from 1.", NO_THROUGHPUT, |line| {
            Some(line.placed?.block)
        }),
        Of::maybe(
            "change_percent",
            "How far its throughput is from that of its row.",
            "it has no throughput, or fewer than two runs of the row count",
            |line| Some(100.0 * line.placed?.change?),
        ),
        Of::known("marks", "The marks of the run.", |line| list(line.run.marks.iter().map(Mark::name))),
    ]
}

fn throughput<'a>() -> [Of<'a>; 6] {
    [
        Of::maybe("samples_per_s", "The throughput of the run.", "its window was not synchronised", |line| {
            line.run.samples_per_s()
        })
        .with_role(Role::Throughput),
        Of::known("in_statistics", "`true` if its throughput counts.", |line| line.run.counts())
            .with_role(Role::Counts),
        Of::maybe("geometric_mean_samples_per_s", "The throughput of the row.", NO_STATISTICS, |line| {
            Some(line.statistics()?.geometric_mean)
        }),
        Of::known("n", "Runs of the row that count.", |line| line.statistics().map_or(0, |it| it.n)),
        Of::maybe(
            "geometric_mean_ci_low_samples_per_s",
            "The lower end of the bar: of the 95 % interval of the row's geometric mean.",
            TOO_FEW,
            |line| Some(line.statistics()?.interval.ok()?.low),
        ),
        Of::maybe("geometric_mean_ci_high_samples_per_s", "Its upper end.", TOO_FEW, |line| {
            Some(line.statistics()?.interval.ok()?.high)
        }),
    ]
}
