//! A span by one clock.

use crate::analysis::Span;
use crate::job::JobId;

/// When a job ran by one clock, in microseconds.
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

    /// For how many microseconds both are at the same time; negative or 0 if they are not.
    pub(super) fn overlap(&self, other: &Placed<'_>) -> i64 {
        self.to.min(other.to).saturating_sub(self.from.max(other.from))
    }

    /// The order in which those beside another one are named.
    pub(super) fn rank(&self) -> (&'a str, JobId) {
        (&self.span.label, self.span.job)
    }
}
