//! What the configs still need: `until` and `replace_marked` of the matrix.

use std::collections::{BTreeMap, BTreeSet};

use crate::job::{Job, JobId};
use crate::plan::{Inventory, Judge, Needs, Plan};

/// What is needed by the records that were there when it was last asked.
#[derive(Debug, Default)]
pub(super) struct Wants {
    pub(super) needs: Needs,
    /// The configs with newer records.
    outdated: BTreeSet<JobId>,
    /// The attempts that this run has tried to replace, by job.
    pub(super) replaced: BTreeMap<JobId, u32>,
}

impl Wants {
    /// What is needed by the records of `inventory`.
    pub(super) fn of(plan: &Plan, inventory: &Inventory, judge: &dyn Judge) -> Self {
        let mut wants = Wants::default();
        wants.look(plan, inventory, judge);
        wants
    }

    /// Notes a new record of `job`.
    pub(super) fn note(&mut self, plan: &Plan, job: &Job) {
        if !plan.rules.is_empty() {
            self.outdated.insert(job.key().config_id());
        }
    }

    pub(super) fn look(&mut self, plan: &Plan, inventory: &Inventory, judge: &dyn Judge) {
        if !plan.rules.is_empty() {
            self.needs = Needs::of(plan, inventory, &judge.judge(plan, inventory));
        }
        self.outdated.clear();
    }

    /// Whether there is no newer record than when it was last asked.
    pub(super) fn is_up_to_date(&self) -> bool {
        self.outdated.is_empty()
    }

    /// Whether the config of `job` has a newer record.
    pub(super) fn is_outdated(&self, job: &Job) -> bool {
        !self.outdated.is_empty() && self.outdated.contains(&job.key().config_id())
    }
}
