//! The input of the five lines.

use crate::analysis::Run;
use crate::analysis::bound::Class;
use crate::analysis::findings::Finding;
use crate::analysis::group::Row;

/// The parts of an analysis that the lines summarise.
#[derive(Clone, Copy, Debug)]
pub(in crate::analysis) struct Known<'k, 'a> {
    /// Every job.
    pub(in crate::analysis) runs: &'k [Run<'a>],
    /// The rows.
    pub(in crate::analysis) rows: &'k [Row<'a>],
    /// The limit of each row, in their order.
    pub(in crate::analysis) classes: &'k [Class],
    /// The findings.
    pub(in crate::analysis) findings: &'k [Finding],
}

impl<'k, 'a> Known<'k, 'a> {
    /// The rows with a throughput, each with its limit.
    pub(super) fn results(self) -> impl Iterator<Item = (&'k Row<'a>, &'k Class)> {
        self.rows.iter().zip(self.classes).filter(|(row, _)| row.statistics.is_ok())
    }
}

/// `2 of 3 rows`, `all 3 rows` or `the only row`.
pub(super) fn some_of(number: usize, all: usize, noun: &str) -> String {
    if number != all {
        return format!("{number} of {all} {noun}s");
    }
    if all == 1 { format!("the only {noun}") } else { format!("all {all} {noun}s") }
}
