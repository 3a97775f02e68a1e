//! The columns of the table behind each throughput figure.

use super::shared::{OfRow, config_columns, part_column, unit_column};
use crate::analysis::Run;
use crate::analysis::column::{Column, Columns, Sourced, of};
use crate::analysis::group::{Row, Statistics};
use crate::analysis::own::Own;
use crate::analysis::source::Source;

const NO_STATISTICS: &str = "no run of the row counts";
const TOO_FEW: &str = "fewer than three runs of the row count";

/// A run with a result, and its row.
pub(in crate::analysis) struct RunLine<'a> {
    /// The row.
    pub(in crate::analysis) row: &'a Row<'a>,
    /// The run.
    pub(in crate::analysis) run: &'a Run<'a>,
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
    Columns::plain(columns)
}

fn throughput<'a>() -> [Of<'a>; 6] {
    [
        Of::maybe("samples_per_s", "The throughput of the run.", "its window was not synchronised", |line| {
            line.run.samples_per_s()
        }),
        Of::known("in_statistics", "`true` if its throughput counts.", |line| line.run.counts()),
        Of::maybe("median_samples_per_s", "The median of the row.", NO_STATISTICS, |line| {
            Some(line.statistics()?.median)
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
