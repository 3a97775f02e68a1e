//! A span in microseconds of one clock.

use crate::analysis::Span;
use crate::job::JobId;

/// Start and end of a job by one clock, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed<'a> {
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) span: &'a Span,
}

impl<'a> Placed<'a> {
    /// Whether it lasts longer than `least` microseconds.
    pub(super) fn lasts(&self, least: i64) -> bool {
        self.to.saturating_sub(self.from) > least
    }

    /// The microseconds of their overlap; negative or 0 if there is none.
    pub(super) fn overlap(&self, other: &Placed<'_>) -> i64 {
        self.to.min(other.to).saturating_sub(self.from.max(other.from))
    }

    /// The order in which overlapping spans are named.
    pub(super) fn rank(&self) -> (&'a str, JobId) {
        (&self.span.label, self.span.job)
    }
}
