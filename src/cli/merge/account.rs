//! The results of a merge of several stores.

use std::path::PathBuf;

use crate::cli::Exit;
use crate::plan::Undeclared;
use crate::store::{JobFate, Merged, PlanFate};

/// The results of a merge.
#[derive(Debug)]
pub(super) struct Account {
    /// Whether it was a dry run.
    pub(super) is_rehearsal: bool,
    /// Each other store, as the user named it, and the result for it.
    pub(super) stores: Vec<(PathBuf, Merged)>,
    /// Results of these stores that are in no plan of this one.
    pub(super) undeclared: Vec<Undeclared>,
}

impl Account {
    /// The exit code: whether everything was merged.
    pub(super) fn exit(&self) -> Exit {
        let mut plans = self.stores.iter().flat_map(|(_, merged)| &merged.plans);
        let is_plan_damaged = plans.any(|plan| matches!(plan.fate, PlanFate::Damaged(_)));
        if is_plan_damaged || self.has(JobFate::is_left_out) { Exit::LeftOut } else { Exit::Done }
    }

    /// Whether some job has the result `is_it`.
    pub(super) fn has(&self, is_it: impl Fn(&JobFate) -> bool) -> bool {
        self.stores.iter().flat_map(|(_, merged)| &merged.jobs).any(|job| is_it(&job.what))
    }
}
