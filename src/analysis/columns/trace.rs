//! The columns of the table behind each figure of iterations.

use super::shared::{OfRow, config_columns, part_column};
use crate::analysis::Run;
use crate::analysis::column::{Column, Columns, Sourced, list, of};
use crate::analysis::group::Row;
use crate::analysis::marks::Mark;
use crate::analysis::own::Own;
use crate::analysis::source::Source;
use crate::analysis::trace::Part;

/// Some iterations of a run.
pub(in crate::analysis) struct TraceLine<'a> {
    /// The row of the run.
    pub(in crate::analysis) row: &'a Row<'a>,
    /// The run.
    pub(in crate::analysis) run: &'a Run<'a>,
    /// The iterations.
    pub(in crate::analysis) iterations: Part,
}

type Of<'a> = Column<TraceLine<'a>>;

impl OfRow for TraceLine<'_> {
    fn row(&self) -> &Row<'_> {
        self.row
    }
}

/// Every column of some iterations.
pub(in crate::analysis) fn trace_columns<'a>(own: &Own) -> Columns<TraceLine<'a>> {
    let mut columns: Vec<Sourced<TraceLine<'a>>> = config_columns(own);
    let repeat =
        Of::known("repeat", "The number of the repeat, from 1.", |line| line.run.cell.job.key().repeat);
    columns.extend([part_column(), repeat.from(Source::Matrix)]);
    columns.extend(of(Source::Computed, iterations()));
    Columns::plain(columns)
}

fn iterations<'a>() -> [Of<'a>; 7] {
    [
        Of::known("in_statistics", "`true` if the throughput of the run counts.", |line| line.run.counts()),
        Of::known("marks", "The marks of the run.", |line| list(line.run.marks.iter().map(Mark::name))),
        Of::known("first_iteration", "The first iteration of this part of the window, from 1.", |line| {
            line.iterations.first as u64
        }),
        Of::known("last_iteration", "Its last one.", |line| line.iterations.last as u64),
        Of::known("least_s", "The seconds of its fastest iteration.", |line| line.iterations.least_s),
        Of::known("median_s", "The median of its iterations.", |line| line.iterations.median_s),
        Of::known("greatest_s", "The seconds of its slowest iteration.", |line| line.iterations.greatest_s),
    ]
}
