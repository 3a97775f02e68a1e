//! Adoption: finishes the attempts left behind by an `orchestrate` that died.
//!
//! Its worker, if it still runs, holds the job's lock. Once we hold that lock, the worker and all of its children are
//! gone, and the files they left tell how the attempt ended. Nothing is started meanwhile. Nothing is killed except a
//! worker that exceeds its time limit, and what a worker left behind, since nobody else is there to end them.
#![expect(clippy::disallowed_methods, reason = "a run happens in time")]

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::state::{Halt, Run};
use crate::event::WorkerFate;
use crate::files::AttemptDir;
use crate::host::probe_counters;
use crate::job::{Job, State};
use crate::lock::{JobLock, is_at_work, is_owner_alive, orphaned_keepers};
use crate::matrix::Limits;
use crate::plan::{Decided, Decision, NotDone, Standing};
use crate::record::{Ending, Record};
use crate::run::clock::probe_since_boot;
use crate::run::process::{Group, kill_escaped, kill_process};
use crate::run::supervise::{NEVER, bound_output};
use crate::store::{Attempt, End, Store, save_record, tidy};

/// Whether the job of `decided` has an attempt without a record whose `orchestrate` died.
pub(super) fn is_orphan(decided: &Decided, store: &Store) -> bool {
    match decided.decision {
        Decision::Run(NotDone::Unfinished { .. }) => true,
        Decision::Run(NotDone::Running) => !is_looked_after(&decided.job, store),
        _ => false,
    }
}

/// Whether the `orchestrate` that started the last attempt of `job` is still running.
fn is_looked_after(job: &Job, store: &Store) -> bool {
    match last_attempt(store, job).as_ref().and_then(|(_, attempt)| attempt.owner()) {
        Some(owner) => is_at_work(&store.running(), owner),
        // An older version wrote it.
        None => is_owner_alive(&store.job_dir(job)),
    }
}

impl Run<'_> {
    /// Finishes every attempt whose `orchestrate` died, before anything is started. If a worker still runs, this waits
    /// for it, because it occupies the device that the run needs.
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

    /// Finishes the attempts of those who died since we have looked.
    pub(super) async fn adopt_orphans_of_the_dead(&mut self) -> Result<(), Halt> {
        for Decided { job, .. } in self.order.decided {
            let is_open = !self.states.contains_key(&job.id());
            let is_running = || {
                let standing = self.order.store.load_standing(job);
                matches!(standing, Standing::NotDone(NotDone::Running))
            };
            if is_open && is_running() && !is_looked_after(job, self.order.store) {
                let adopted = self.adopt_orphan(job, true).await;
                self.spare_others(job, adopted)?;
            }
        }
        Ok(())
    }

    async fn adopt_orphan(&mut self, job: &Job, running: bool) -> Result<(), Halt> {
        self.heed_signals().await?;
        let attempt = last_attempt(self.order.store, job);
        let Some((dir, attempt)) = attempt.as_ref().filter(|_| running) else {
            let lock = self.lock_job(job, WorkerFate::GoesOn(job)).await?;
            return self.settle(job, &lock, Seen::Gone).map(|_| ());
        };
        // Its own `orchestrate` can no longer stop it at its time limit, nor end what it leaves behind.
        let left = attempt.time_left(self.order.host.boot_id.as_deref(), probe_since_boot()).min(NEVER);
        let watched = tokio::select! {
            lock = self.lock_job(job, WorkerFate::GoesOn(job)) => Watched::Locked(lock?),
            watched = watch(attempt, dir, left) => watched,
        };
        match watched {
            Watched::Locked(lock) => self.settle(job, &lock, Seen::Ended).map(|_| ()),
            Watched::Ended => self.end_leftovers(job, dir).await,
            Watched::TooLong => self.stop_orphan(job, dir, &attempt.limits).await,
        }
    }

    /// Ends what an adopted worker left behind, which keeps its lock, and finishes its attempt.
    async fn end_leftovers(&mut self, job: &Job, dir: &AttemptDir) -> Result<(), Halt> {
        let path = self.order.store.job_dir(job).lock();
        kill_escaped(&dir.measurement());
        orphaned_keepers(&path).into_iter().for_each(kill_process);
        let lock = self.lock_job(job, WorkerFate::None).await?;
        self.settle(job, &lock, Seen::EndedWithLeftovers).map(|_| ())
    }

    /// Stops an adopted worker that exceeded its time limit.
    async fn stop_orphan(&mut self, job: &Job, dir: &AttemptDir, limits: &Limits) -> Result<(), Halt> {
        let ending = match Group::of_worker(&dir.measurement()) {
            // It has just ended, or this system cannot find it.
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
            return self.settle(job, &lock, Seen::Ended).map(|_| ());
        }
        self.adopt(job, &lock, ending, Seen::Ended).map(|_| ())
    }

    /// Reads the state of `job` again, now that we hold its lock, and finishes an attempt that was left without a
    /// record. Returns whether nothing is left to do: the job is done, or must not be run.
    pub(super) fn settle(&mut self, job: &Job, lock: &JobLock, seen: Seen) -> Result<bool, Halt> {
        let held = self.order.store.load_job(job);
        if let Some(why) = held.blocks(job) {
            self.leave(job, State::Blocked, &Decision::Blocked { why });
            return Ok(true);
        }
        match held.standing(job) {
            Standing::Done(_) if !held.is_settled(job) => self.finish(job, lock, seen),
            Standing::Done(record) if self.reruns.get(&job.id()) == Some(&record.attempt) => Ok(false),
            Standing::Done(_) => {
                self.done_by_others.insert(job.id());
                self.leave(job, State::Done, &Decision::Skip);
                Ok(true)
            }
            // We hold the lock, so nobody else is running it, even if the lock looks held.
            Standing::NotDone(NotDone::Unfinished { .. } | NotDone::Running) => self.finish(job, lock, seen),
            Standing::NotDone(_) => Ok(false),
        }
    }

    /// Finishes the attempt of `job` that was left without a record. Returns whether it succeeded.
    fn finish(&mut self, job: &Job, lock: &JobLock, seen: Seen) -> Result<bool, Halt> {
        let record = self.adopt(job, lock, Ending::UNSEEN, seen)?;
        Ok(record.is_some_and(|record| record.outcome.is_success()))
    }

    /// Writes the missing record of the last attempt of `job`. Returns `None` if the attempt cannot be read; its files
    /// are then left untouched.
    pub(super) fn adopt(
        &mut self,
        job: &Job,
        lock: &JobLock,
        ending: Ending,
        seen: Seen,
    ) -> Result<Option<Record>, Halt> {
        let Some((dir, attempt)) = last_attempt(self.order.store, job) else { return Ok(None) };
        let same_boot = attempt.provenance.host.boot_id == self.order.host.boot_id;
        let is_now = seen != Seen::Gone;
        let counters = (is_now && same_boot).then(probe_counters);
        let at = if is_now { Utc::now() } else { end_by_files(&dir).unwrap_or(attempt.started_at) };
        let left_processes = seen == Seen::EndedWithLeftovers;
        let end = End { ending, at, counters, adopted: true, left_processes };
        let record = attempt.conclude(job, &dir, end);
        tidy(lock);
        save_record(lock, &record)?;
        self.keep(dir, &record)?;
        self.conclude_adopted(job, &record);
        Ok(Some(record))
    }

    /// An adopted success counts as a success. After an adopted failure, the job is tried again in its turn.
    fn conclude_adopted(&mut self, job: &Job, record: &Record) {
        let done = record.outcome.is_success();
        self.conclude(job, record, !done);
    }
}

/// What we saw of the end of an attempt that another `orchestrate` started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// It was over before we looked.
    Gone,
    /// It ended while we waited.
    Ended,
    /// It ended while we waited, and what it left behind had to be ended.
    EndedWithLeftovers,
}

/// Why the wait for an adopted worker is over.
enum Watched {
    /// All of its processes have ended, so its lock is ours.
    Locked(JobLock),
    /// It has ended, but something that it left behind keeps its lock.
    Ended,
    /// It exceeded its time limit.
    TooLong,
}

/// Waits until the worker of `attempt` has ended but its lock is still held a moment later, or until `left` is over.
/// Keeps the worker's output within its limit meanwhile.
async fn watch(attempt: &Attempt, dir: &AttemptDir, left: Duration) -> Watched {
    let look = Duration::from_secs(1);
    let mut waited = Duration::ZERO;
    let mut ended = false;
    loop {
        let step = look.min(left.saturating_sub(waited));
        tokio::time::sleep(step).await;
        waited += step;
        bound_output(dir, &attempt.limits);
        let ended_before = std::mem::replace(&mut ended, attempt.has_ended(dir));
        if ended_before {
            return Watched::Ended;
        }
        if waited >= left {
            // It may take a moment longer to see that it has just ended.
            return if ended { Watched::Ended } else { Watched::TooLong };
        }
    }
}

/// The last attempt of `job` that has an `attempt.json`.
fn last_attempt(store: &Store, job: &Job) -> Option<(AttemptDir, Attempt)> {
    let attempts = store.job_dir(job).attempts().ok()?;
    let dir = attempts.into_iter().rev().find(|dir| dir.attempt().exists())?;
    let attempt = Attempt::load(&dir).ok()?;
    Some((dir, attempt))
}

/// When an attempt ended that nobody saw end: the time at which the last of its files was written.
fn end_by_files(dir: &AttemptDir) -> Option<DateTime<Utc>> {
    let files = [dir.time(), dir.measurement(), dir.stdout(), dir.stderr()];
    let modified = files.iter().filter_map(|path| path.metadata().ok()?.modified().ok());
    modified.max().map(DateTime::<Utc>::from)
}
