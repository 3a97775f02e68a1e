//! Limits the attempts of a failing job if several `orchestrate`s share a plan: `1 + retries` in total, by all of them.

use super::state::Run;
use crate::job::{Job, State};
use crate::plan::Decision;
use crate::store::Attempt;

impl Run<'_> {
    /// How many attempts of `job` are allowed after the next one. Its last attempt failed, and this run has made `made`
    /// attempts. `None` if the next one is not allowed either; this is reported.
    pub(super) fn retries_left(&mut self, job: &Job, made: u32) -> Option<u32> {
        let tried = made + self.tried_by_others(job);
        let left = self.order.plan.env(job.key()).limits.retries.checked_sub(tried);
        if left.is_none() {
            let why = "it failed, and another `orchestrate` made the last attempt".to_owned();
            self.leave(job, State::Failed, &Decision::Blocked { why });
        }
        left
    }

    /// The number of attempts of `job` by other owners that this run has seen running on the store.
    fn tried_by_others(&mut self, job: &Job) -> u32 {
        self.others.note_present(&self.owner.owners());
        let dirs = self.order.store.job_dir(job).attempts().unwrap_or_default();
        // An attempt whose `orchestrate` died does not count.
        let standing = self.order.store.load_standing(job);
        let orphan = standing.record().filter(|record| record.observed.adopted).map(|record| record.attempt);
        let is_of_others = |attempt: &Attempt| attempt.owner().is_some_and(|name| self.others.has_seen(name));
        let attempts = dirs.iter().filter(|dir| Some(dir.number()) != orphan);
        let tried = attempts.filter_map(|dir| Attempt::load(dir).ok()).filter(is_of_others).count();
        u32::try_from(tried).unwrap_or(u32::MAX)
    }
}
