//! The columns of `summary.csv` that say what limits a row.

use crate::analysis::bound::Class;
use crate::analysis::column::{Column, Columns, of};
use crate::analysis::source::Source;

/// The meaning of the column `bound`.
pub(super) const BOUND: &str = "What limits it: `host-bound`, `spilled`, `compute-bound`, `memory-bound`, \
                                `kernel-bound`, `latency-bound`, `mixed` or `unknown`. See \
                                [Limit of a row](../method.md#limit-of-a-row).";

/// Every column of a class.
pub(in crate::analysis) fn class_columns<'a>() -> Columns<&'a Class> {
    type Of<'a> = Column<&'a Class>;
    let columns = [
        Of::known("bound", BOUND, |class: &&'a Class| class.bound().to_string()),
        Of::known("bound_why", "What shows that, or why nothing does.", |class: &&'a Class| class.why().text),
        Of::known(
            "bound_evidence",
            "The kind of evidence: `process`, `counters`, `throughput`, `operators`, `activity` or `none`.",
            |class: &&'a Class| class.evidence.as_str(),
        ),
        Of::maybe(
            "bound_experiment",
            "The cheapest experiment that would show what limits it.",
            "`bound` is not `unknown`, or the row has no result",
            |class: &&'a Class| class.experiment.clone(),
        ),
    ];
    Columns::plain(of(Source::Computed, columns))
}
