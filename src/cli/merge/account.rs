//! What a merge did with all stores.

use std::path::PathBuf;

use crate::cli::Exit;
use crate::plan::Undeclared;
use crate::store::{Merged, PlanFate, What};

/// What a merge did.
#[derive(Debug)]
pub(super) struct Account {
    /// Whether nothing was changed.
    pub(super) is_rehearsal: bool,
    /// Each other store, as it was named, and what was done with it.
    pub(super) stores: Vec<(PathBuf, Merged)>,
    /// Results of these stores that no plan of this one declares.
    pub(super) undeclared: Vec<Undeclared>,
}

impl Account {
    /// Whether everything was merged that can be.
    pub(super) fn exit(&self) -> Exit {
        let mut plans = self.stores.iter().flat_map(|(_, merged)| &merged.plans);
        let is_plan_damaged = plans.any(|plan| matches!(plan.fate, PlanFate::Damaged(_)));
        if is_plan_damaged || self.has(What::is_left_out) { Exit::LeftOut } else { Exit::Done }
    }

    /// Whether this became of some job.
    pub(super) fn has(&self, is_it: impl Fn(&What) -> bool) -> bool {
        self.stores.iter().flat_map(|(_, merged)| &merged.jobs).any(|job| is_it(&job.what))
    }
}
