//! Adoption: finishing the attempts of an `orchestrate` that is gone.
//!
//! Its worker, if it still runs, holds the job's lock; once that is ours, the worker and all of its children are gone
//! and what they left tells how it ended. Nothing is started meanwhile, and nothing is killed but a worker past its
//! time limit, which nobody else is there to stop.
#![expect(clippy::disallowed_methods, reason = "a run happens in time")]

use chrono::{DateTime, Utc};

use super::state::{Halt, Run};
use crate::event::WorkerFate;
use crate::files::AttemptDir;
use crate::host::probe_counters;
use crate::job::{Job, State};
use crate::lock::{JobLock, is_owner_alive};
use crate::matrix::Limits;
use crate::plan::{Decided, Decision, NotDone, Standing};
use crate::record::{Ending, Record};
use crate::run::clock::probe_since_boot;
use crate::run::process::{Group, kill_escaped};
use crate::run::supervise::NEVER;
use crate::store::{Attempt, End, Store, save_record};

/// Whether the job of `decided` has an attempt without a record whose `orchestrate` is gone.
pub(super) fn is_orphan(decided: &Decided, store: &Store) -> bool {
    match decided.decision {
        Decision::Run(NotDone::Unfinished { .. }) => true,
        Decision::Run(NotDone::Running) => !is_owner_alive(&store.job_dir(&decided.job)),
        _ => false,
    }
}

impl Run<'_> {
    /// Finishes every attempt whose `orchestrate` is gone, before anything is started. Where its worker still runs,
    /// that means waiting for it: it needs the device that we would need.
    pub(super) async fn adopt_orphans(&mut self) -> Result<(), Halt> {
        for decided in self.order.decided {
            let Decided { job, decision } = decided;
            if is_orphan(decided, self.order.store) {
                let adopted = self.adopt_orphan(job, *decision == Decision::Run(NotDone::Running)).await;
                self.spare_others(job, adopted)?;
            }
        }
        Ok(())
    }

    async fn adopt_orphan(&mut self, job: &Job, running: bool) -> Result<(), Halt> {
        self.heed_signals().await?;
        let attempt = last_attempt(self.order.store, job);
        let Some((dir, limited)) = attempt.as_ref().filter(|_| running) else {
            let lock = self.lock_job(job, WorkerFate::GoesOn(job)).await?;
            return self.settle(job, &lock, running).map(|_| ());
        };
        // Its own orchestrate can no longer stop it at its limit.
        let left = limited.time_left(self.order.host.boot_id.as_deref(), probe_since_boot()).min(NEVER);
        match tokio::time::timeout(left, self.lock_job(job, WorkerFate::GoesOn(job))).await {
            Ok(lock) => self.settle(job, &lock?, running).map(|_| ()),
            Err(_) => self.stop_orphan(job, dir, &limited.limits).await,
        }
    }

    /// Stops an adopted worker that ran past its limit.
    async fn stop_orphan(&mut self, job: &Job, dir: &AttemptDir, limits: &Limits) -> Result<(), Halt> {
        let ending = match Group::of_worker(&dir.measurement()) {
            // It ended this very moment, or this system does not tell where it is.
            None => Ending::UNSEEN,
            Some(group) => {
                group.interrupt();
                group.is_gone_within(limits.grace).await;
                group.kill();
                kill_escaped(&dir.measurement());
                Ending::TimedOut { after_s: limits.timeout.as_secs_f64() }
            }
        };
        let lock = self.lock_job(job, WorkerFate::None).await?;
        if self.order.store.load_job(job).is_settled(job) {
            return self.settle(job, &lock, true).map(|_| ());
        }
        self.adopt(job, &lock, ending, true).map(|_| ())
    }

    /// Reads again how `job` stands, now that its lock is ours: finishes an attempt that was left without a record, and
    /// says whether the job is done, or not for us to do.
    pub(super) fn settle(&mut self, job: &Job, lock: &JobLock, waited: bool) -> Result<bool, Halt> {
        let held = self.order.store.load_job(job);
        if let Some(why) = held.blocks(job) {
            self.leave(job, State::Blocked, &Decision::Blocked { why });
            return Ok(true);
        }
        match held.standing(job) {
            Standing::Done(_) if !held.is_settled(job) => self.finish(job, lock, waited),
            Standing::Done(record) if self.reruns.get(&job.id()) == Some(&record.attempt) => Ok(false),
            Standing::Done(_) => {
                self.done_by_others.insert(job.id());
                self.leave(job, State::Done, &Decision::Skip);
                Ok(true)
            }
            // With the lock in our hand nobody else is running it, whatever the lock looks like from outside.
            Standing::NotDone(NotDone::Unfinished { .. } | NotDone::Running) => {
                self.finish(job, lock, waited)
            }
            Standing::NotDone(_) => Ok(false),
        }
    }

    /// Finishes the attempt of `job` that was left without a record; says whether it succeeded.
    fn finish(&mut self, job: &Job, lock: &JobLock, waited: bool) -> Result<bool, Halt> {
        let record = self.adopt(job, lock, Ending::UNSEEN, waited)?;
        Ok(record.is_some_and(|record| record.outcome.is_success()))
    }

    /// Writes the record of the last attempt of `job`, which has none. `waited`: its end was seen as it came.
    /// `None` if the attempt cannot be understood; it is then left as it is.
    pub(super) fn adopt(
        &mut self,
        job: &Job,
        lock: &JobLock,
        ending: Ending,
        waited: bool,
    ) -> Result<Option<Record>, Halt> {
        let Some((dir, attempt)) = last_attempt(self.order.store, job) else { return Ok(None) };
        let same_boot = attempt.provenance.host.boot_id == self.order.host.boot_id;
        let counters = (waited && same_boot).then(probe_counters);
        let at = if waited { Utc::now() } else { end_by_files(&dir).unwrap_or(attempt.started_at) };
        let end = End { ending, at, counters, adopted: true, left_processes: false };
        let record = attempt.conclude(job, &dir, end);
        save_record(lock, &record)?;
        self.conclude_adopted(job, &record);
        Ok(Some(record))
    }

    /// An adopted success is one; an adopted failure is tried again in its turn.
    fn conclude_adopted(&mut self, job: &Job, record: &Record) {
        let done = record.outcome.is_success();
        self.conclude(job, record, !done);
    }
}

/// The last attempt of `job` that was begun.
fn last_attempt(store: &Store, job: &Job) -> Option<(AttemptDir, Attempt)> {
    let attempts = store.job_dir(job).attempts().ok()?;
    let dir = attempts.into_iter().rev().find(|dir| dir.attempt().exists())?;
    let attempt = Attempt::load(&dir).ok()?;
    Some((dir, attempt))
}

/// When an attempt ended whose end nobody saw: when the last of its files was written.
fn end_by_files(dir: &AttemptDir) -> Option<DateTime<Utc>> {
    let files = [dir.time(), dir.measurement(), dir.stdout(), dir.stderr()];
    let modified = files.iter().filter_map(|path| path.metadata().ok()?.modified().ok());
    modified.max().map(DateTime::<Utc>::from)
}
