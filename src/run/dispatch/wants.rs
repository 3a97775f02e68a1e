//! The needed jobs, where results determine them: [`Wants`].

use std::collections::{BTreeMap, BTreeSet};

use crate::job::{Job, JobId};
use crate::plan::{Inventory, Judge, Needs, Plan};
use crate::record::Record;

/// The needs according to the records at the last computation.
#[derive(Debug, Default)]
pub(super) struct Wants {
    pub(super) needs: Needs,
    /// The configs with newer records.
    outdated: BTreeSet<JobId>,
    /// The attempts that this run has tried to replace, by job.
    pub(super) replaced: BTreeMap<JobId, u32>,
}

impl Wants {
    /// The needs according to the records of `inventory`.
    pub(super) fn of(plan: &Plan, inventory: &Inventory, judge: &dyn Judge) -> Self {
        Wants { needs: Needs::judged(plan, inventory, judge), ..Wants::default() }
    }

    /// Notes a new record of `job`; `None` if it has none any more.
    pub(super) fn note(&mut self, plan: &Plan, job: &Job, record: Option<&Record>) {
        if let Some(record) = record {
            self.needs.learn(record);
        }
        if !plan.rules.is_empty() {
            self.outdated.insert(job.key().config_id());
        }
    }

    pub(super) fn look(&mut self, plan: &Plan, inventory: &Inventory, judge: &dyn Judge) {
        if !plan.rules.is_empty() {
            self.needs = Needs::judged(plan, inventory, judge);
        }
        self.outdated.clear();
    }

    /// Whether the last computation included all records.
    pub(super) fn is_up_to_date(&self) -> bool {
        self.outdated.is_empty()
    }

    /// Whether the config of `job` has a newer record.
    pub(super) fn is_outdated(&self, job: &Job) -> bool {
        !self.outdated.is_empty() && self.outdated.contains(&job.key().config_id())
    }
}
