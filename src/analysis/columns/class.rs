//! The columns of `summary.csv` that say what limits a row.

use crate::analysis::bound::Class;
use crate::analysis::column::{Column, Columns, of};
use crate::analysis::source::Source;

/// The meaning of the column `bound`.
pub(super) const BOUND: &str = "What limits it: `host-bound`, `spilled`, `compute-bound`, `memory-bound`, \
                                `latency-bound` or `unknown`. See \
                                [Rooflines](../method.md#peaks-and-rooflines).";

/// Every column of a class.
pub(in crate::analysis) fn class_columns<'a>() -> Columns<&'a Class> {
    type Of<'a> = Column<&'a Class>;
    let columns = [
        Of::known("bound", BOUND, |class: &&'a Class| class.bound().to_string()),
        Of::known("bound_why", "What shows that, or why nothing does.", |class: &&'a Class| class.why().text),
    ];
    Columns::plain(of(Source::Computed, columns))
}
