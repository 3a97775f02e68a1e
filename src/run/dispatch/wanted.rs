//! Determines the needed jobs during a run, with new records. Methods of [`Run`]; the state is in `wants.rs`.

use super::state::Run;
use crate::job::Job;
use crate::plan::{Decided, Decision, Standing, Wanted};

impl Run<'_> {
    /// Computes the needed jobs again, if there are newer records.
    pub(super) fn update_wants(&mut self) {
        if !self.wants.is_up_to_date() {
            self.wants.look(self.order.plan, &self.order.inventory, self.order.judge);
        }
    }

    /// The reason why `job`, which is not done, is not needed; `None` if it is. In an interleaved order, needs are
    /// computed once per block: before the first job whose config has a newer record.
    pub(super) fn not_needed(&mut self, job: &Job) -> Option<String> {
        if !self.order.plan.depends_on_results() {
            return None;
        }
        if self.wants.is_outdated(job) {
            self.update_wants();
        }
        let standing = self.order.inventory.standing(job);
        let Standing::NotDone(not_done) = standing else { return None };
        match self.wants.needs.wants(job, &not_done) {
            Wanted::No(why) => Some(why),
            // It is its turn, and the repeats before it were not enough.
            Wanted::Yes | Wanted::IfNeeded(_) => None,
        }
    }

    /// The selected jobs that are to be repeated now, each with the attempt whose record is replaced.
    pub(super) fn to_replace(&self) -> Vec<(Job, u32)> {
        let to_replace = |Decided { job, decision }: &Decided| {
            let Some(Standing::Done(record)) = self.order.inventory.jobs.get(&job.id()) else { return None };
            let tried = self.wants.replaced.get(&job.id());
            let is_wanted = match decision {
                // The plan requires this, even if new records would not.
                Decision::Replace { .. } if tried.is_none() => true,
                Decision::Stale { .. } => false,
                _ => self.wants.needs.replaces(job).is_some(),
            };
            // A run on another machine cannot be repeated here.
            let is_here = record.provenance.host.is_machine_of(self.order.host);
            (is_wanted && is_here && tried != Some(&record.attempt)).then(|| (job.clone(), record.attempt))
        };
        self.order.decided.iter().filter_map(to_replace).collect()
    }
}
