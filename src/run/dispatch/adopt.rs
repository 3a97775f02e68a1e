//! Adoption: concludes the attempts of an `orchestrate` that died.
//!
//! Its worker, if it still runs, holds the job's lock, except for processes that have closed it. Once this run holds
//! the lock and those processes have ended, the worker and all of its children have ended. Their files show how the
//! attempt ended. No job is started meanwhile. Only a worker that exceeds its time limit and processes that outlived a
//! worker are killed, since no other process would end them.
#![expect(clippy::disallowed_methods, reason = "adoption needs deadlines")]

use std::time::Duration;

use chrono::{DateTime, Utc};
use humantime::format_duration;

use super::outlast::outlives_time;
use super::state::{Halt, Run};
use crate::event::{Event, WorkerFate};
use crate::files::AttemptDir;
use crate::host::{probe_counters, probe_since_boot};
use crate::job::{Job, State};
use crate::lock::{JobLock, Owners, is_owner_alive, orphaned_keepers};
use crate::matrix::Limits;
use crate::plan::{Decided, Decision, NotDone, Standing};
use crate::record::{Ending, Record};
use crate::run::process::kill_process;
use crate::run::supervise::{NEVER, bound_output, stopped_on_request, stopping_event};
use crate::run::survivors::{Groups, kill_survivors};
use crate::stop::Stop;
use crate::store::{Attempt, End, Store, Survivors, save_record, tidy};

/// Whether the job of `decided` has an attempt without a record whose `orchestrate` died.
pub(super) fn is_orphan(decided: &Decided, store: &Store, owners: &Owners) -> bool {
    match decided.decision {
        Decision::Run(NotDone::Unfinished { .. }) => !is_beyond_locks(&decided.job, store, owners),
        Decision::Run(NotDone::Running) => !has_live_owner(&decided.job, store, owners),
        _ => false,
    }
}

/// Whether the `orchestrate` that started the last attempt of `job` is still running.
fn has_live_owner(job: &Job, store: &Store, owners: &Owners) -> bool {
    match last_attempt(store, job).as_ref().and_then(|(_, attempt)| attempt.owner()) {
        Some(owner) => owners.is_at_work(owner),
        // An older version wrote it.
        None => is_owner_alive(&store.job_dir(job)),
    }
}

/// Whether another `orchestrate` has the last attempt of `job` where locks do not show it: on another host, or where
/// locks do not work.
fn is_beyond_locks(job: &Job, store: &Store, owners: &Owners) -> bool {
    let attempt = last_attempt(store, job);
    attempt.as_ref().and_then(|(_, attempt)| attempt.owner()).is_some_and(|name| owners.is_beyond_locks(name))
}

impl Run<'_> {
    /// Concludes every attempt whose `orchestrate` died, before a job is started. If a worker still runs, waits for it,
    /// because it occupies the device that the run needs.
    pub(super) async fn adopt_orphans(&mut self) -> Result<(), Halt> {
        for decided in self.order.decided {
            let Decided { job, decision } = decided;
            if is_orphan(decided, self.order.store, &self.owner.owners()) {
                let adopted = self.adopt_orphan(job, *decision == Decision::Run(NotDone::Running)).await;
                self.spare_others(job, adopted)?;
            }
        }
        Ok(())
    }

    /// Concludes the attempts of every `orchestrate` that died since the last check.
    pub(super) async fn adopt_new_orphans(&mut self) -> Result<(), Halt> {
        let owners = self.owner.owners();
        for Decided { job, .. } in self.order.decided {
            let is_open = !self.states.contains_key(&job.id());
            let is_running = || match self.order.store.load_standing(job) {
                Standing::NotDone(NotDone::Running) => true,
                // Where locks do not work, a running worker holds none.
                Standing::NotDone(NotDone::Unfinished { .. }) => !owners.locks_work(),
                _ => false,
            };
            if is_open && is_running() && !has_live_owner(job, self.order.store, &owners) {
                let adopted = self.adopt_orphan(job, true).await;
                self.spare_others(job, adopted)?;
            }
        }
        Ok(())
    }

    async fn adopt_orphan(&mut self, job: &Job, running: bool) -> Result<(), Halt> {
        self.stop_on_signal().await?;
        let attempt = last_attempt(self.order.store, job);
        let has_worker = |(dir, attempt): &(AttemptDir, Attempt)| {
            !self.owner.owners().locks_work() && Groups::of_worker(dir, attempt).is_some()
        };
        let Some((dir, attempt)) = attempt.as_ref().filter(|found| running || has_worker(found)) else {
            let lock = self.lock_job(job, WorkerFate::GoesOn(job)).await?;
            return self.settle(job, &lock, Seen::Gone).map(|_| ());
        };
        // Its `orchestrate` can no longer stop it at its time limit or end its leftover processes.
        let left = attempt.time_left(self.order.host.boot_id.as_deref(), probe_since_boot()).min(NEVER);
        let watched = tokio::select! {
            locked = self.lock_after_worker(job, dir, attempt) => {
                let (lock, seen) = locked?;
                Watched::Locked(lock, seen)
            }
            watched = watch(attempt, dir, left) => watched,
        };
        match watched {
            Watched::Locked(lock, seen) => self.settle(job, &lock, seen).map(|_| ()),
            Watched::Ended => self.end_leftovers(job, dir, attempt).await,
            Watched::TooLong => {
                let too_long = Ending::TimedOut { after_s: attempt.limits.timeout.as_secs_f64() };
                self.stop_orphan(job, dir, attempt, too_long).await
            }
            Watched::Asked => self.stop_orphan(job, dir, attempt, stopped_on_request()).await,
        }
    }

    /// Takes the lock of `job`, which its worker in `dir` holds until it has ended. Then waits for the processes of the
    /// worker that do not hold the lock.
    async fn lock_after_worker(
        &mut self,
        job: &Job,
        dir: &AttemptDir,
        attempt: &Attempt,
    ) -> Result<(JobLock, Seen), Halt> {
        // While the lock is held, `time` may have ended before the worker.
        let lived_on = outlives_time(&Survivors::of_system().of(dir, attempt), attempt);
        let lock = self.lock_job(job, WorkerFate::GoesOn(job)).await?;
        let outlived = self.wait_for_survivors(job, &lock, dir, attempt).await?;
        Ok((lock, if lived_on || outlived { Seen::Outlived } else { Seen::Ended }))
    }

    /// Ends the processes that an adopted worker left and that keep its lock, and concludes its attempt.
    async fn end_leftovers(&mut self, job: &Job, dir: &AttemptDir, attempt: &Attempt) -> Result<(), Halt> {
        let path = self.order.store.job_dir(job).lock();
        kill_survivors(dir, attempt);
        orphaned_keepers(&path).into_iter().for_each(kill_process);
        let lock = self.lock_job(job, WorkerFate::None).await?;
        self.settle(job, &lock, Seen::EndedWithLeftovers).map(|_| ())
    }

    /// Stops an adopted worker for the reason `why`.
    async fn stop_orphan(
        &mut self,
        job: &Job,
        dir: &AttemptDir,
        attempt: &Attempt,
        why: Ending,
    ) -> Result<(), Halt> {
        let limits = &attempt.limits;
        let ending = match Groups::of_worker(dir, attempt) {
            // It has just ended, or this system cannot find it.
            None => Ending::UNOBSERVED,
            Some(groups) => {
                if matches!(why, Ending::TimedOut { .. }) {
                    self.report_timeout(job, limits);
                }
                groups.interrupt();
                self.wait_at_most(&groups, limits.grace).await;
                groups.kill();
                kill_survivors(dir, attempt);
                why
            }
        };
        let lock = self.lock_job(job, WorkerFate::None).await?;
        // Another process may have recorded it meanwhile, and even repeated the job.
        let open = self.order.store.open_attempt(lock.dir());
        if open.is_none_or(|open| open.dir != *dir) {
            return self.settle(job, &lock, Seen::Ended).map(|_| ());
        }
        self.adopt(job, &lock, ending, Seen::Ended).map(|_| ())
    }

    fn report_timeout(&mut self, job: &Job, limits: &Limits) {
        let text = format!(
            "the worker of {} exceeds its time limit of {}: it was asked to end, and is killed after {}",
            job.label(),
            format_duration(limits.timeout),
            format_duration(limits.grace)
        );
        self.observer.event(&Event::Note(&text));
    }

    /// Waits until `groups` have ended, but at most for `grace`, or until a signal asks to kill them immediately.
    async fn wait_at_most(&mut self, groups: &Groups, grace: Duration) {
        let gone = groups.are_gone_within(grace);
        tokio::pin!(gone);
        loop {
            tokio::select! {
                _ = &mut gone => return,
                stop = self.signals.next() => {
                    self.observer.event(&stopping_event(stop));
                    if matches!(stop, Stop::Now(_)) {
                        return;
                    }
                }
            }
        }
    }

    /// Reads the state of `job` again under its lock, and concludes an attempt that was left without a record.
    pub(super) fn settle(&mut self, job: &Job, lock: &JobLock, seen: Seen) -> Result<Settled, Halt> {
        let held = self.order.store.load_job(job);
        if let Some(why) = held.blocks(job) {
            self.leave(job, State::Blocked, &Decision::Blocked { why });
            return Ok(Settled::Closed);
        }
        match held.standing(job) {
            Standing::Done(_) if !held.is_settled(job) => self.finish(job, lock, seen),
            Standing::Done(record) if self.reruns.get(&job.id()) == Some(&record.attempt) => {
                Ok(Settled::Open)
            }
            Standing::Done(record) => {
                self.note(job, Standing::Done(record));
                self.done_by_others.insert(job.id());
                self.leave(job, State::Done, &Decision::Skip);
                Ok(Settled::Closed)
            }
            // This run holds the lock, so no other process within its reach is running the job.
            Standing::NotDone(NotDone::Unfinished { .. } | NotDone::Running) => self.finish(job, lock, seen),
            Standing::NotDone(NotDone::Failed(record)) if self.was_newly_set_aside(job, &record) => {
                self.set_aside.insert(job.id());
                Ok(Settled::Closed)
            }
            Standing::NotDone(NotDone::Failed(_)) => Ok(Settled::Failed),
            Standing::NotDone(_) => Ok(Settled::Open),
        }
    }

    /// Whether the user has stopped `job` alone since this run began, in this or another `orchestrate`.
    fn was_newly_set_aside(&self, job: &Job, record: &Record) -> bool {
        let known = self.order.inventory.jobs.get(&job.id()).and_then(Standing::record);
        known.is_none_or(|known| known.attempt < record.attempt) && self.is_set_aside(job, record)
    }

    /// Concludes the attempt of `job` that was left without a record, unless another `orchestrate` is running it.
    fn finish(&mut self, job: &Job, lock: &JobLock, seen: Seen) -> Result<Settled, Halt> {
        if is_beyond_locks(job, self.order.store, &self.owner.owners()) {
            return Ok(Settled::Elsewhere);
        }
        let ending = if seen == Seen::Outlived { Ending::Outlived } else { Ending::UNOBSERVED };
        let record = self.adopt(job, lock, ending, seen)?;
        let is_success = record.is_some_and(|record| record.outcome.is_success());
        Ok(if is_success { Settled::Closed } else { Settled::Open })
    }

    /// Whether another `orchestrate` is running `job`, out of the reach of locks.
    pub(super) fn is_elsewhere(&self, job: &Job) -> bool {
        let standing = self.order.store.load_job(job);
        let is_unfinished = standing.reruns.contains_key(&job.id())
            || matches!(
                standing.standing(job),
                Standing::NotDone(NotDone::Unfinished { .. } | NotDone::Running)
            );
        is_unfinished && is_beyond_locks(job, self.order.store, &self.owner.owners())
    }

    /// Writes the missing record of the last attempt of `job`. Returns `None` if the attempt cannot be read; its files
    /// are then unchanged.
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
        // The process that requested the stop may have ended the worker itself, in unknown order.
        let ending = if dir.stop().exists() { stopped_on_request() } else { ending };
        let end = End { ending, at, clock_was_set: false, counters, adopted: true, left_processes };
        let boot_id = self.order.host.boot_id.as_deref();
        let end = attempt.with_corrected_end(end, Utc::now(), boot_id, probe_since_boot());
        let record = attempt.conclude(job, &dir, end);
        tidy(lock, &dir);
        save_record(lock, &record)?;
        self.keep(dir, &record)?;
        self.conclude_adopted(job, &record);
        Ok(Some(record))
    }

    /// An adopted success counts as a success. After an adopted failure, the job is tried again in its turn.
    fn conclude_adopted(&mut self, job: &Job, record: &Record) {
        let is_over = record.outcome.is_success() || self.is_set_aside(job, record);
        self.conclude(job, record, !is_over);
    }
}

/// The state of a job under its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// It is done, or must not be run.
    Closed,
    /// It can be run.
    Open,
    /// It can be run again, if attempts are left: the last one failed.
    Failed,
    /// Another `orchestrate` is running it, out of the reach of locks.
    Elsewhere,
}

/// What was observed of the end of an attempt that another `orchestrate` started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// It had ended before the first check.
    Gone,
    /// It ended during the wait.
    Ended,
    /// Its `time` had ended, and the rest of it ended during the wait.
    Outlived,
    /// It ended during the wait, and its leftover processes had to be ended.
    EndedWithLeftovers,
}

/// Why the wait for an adopted worker is over.
enum Watched {
    /// All of its processes have ended, and its lock was taken.
    Locked(JobLock, Seen),
    /// It has ended, but a leftover process keeps its lock.
    Ended,
    /// It exceeded its time limit.
    TooLong,
    /// A stop was requested.
    Asked,
}

/// The interval at which a worker is checked.
const LOOK: Duration = Duration::from_secs(1);

/// Waits until the worker of `attempt` has ended but its lock is still held a moment later, or until `left` is over.
/// Keeps the worker's output within its limit meanwhile.
async fn watch(attempt: &Attempt, dir: &AttemptDir, left: Duration) -> Watched {
    let mut waited = Duration::ZERO;
    let mut ended = false;
    loop {
        let step = LOOK.min(left.saturating_sub(waited));
        tokio::time::sleep(step).await;
        waited += step;
        bound_output(dir, &attempt.limits);
        if dir.stop().exists() {
            return Watched::Asked;
        }
        let ended_before = std::mem::replace(&mut ended, attempt.has_ended(dir));
        if ended_before {
            return Watched::Ended;
        }
        if waited >= left {
            // A worker that has just ended may take a moment to be noticed.
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

/// The end of an attempt that was not observed: the latest modification of its files.
fn end_by_files(dir: &AttemptDir) -> Option<DateTime<Utc>> {
    let files = [dir.time(), dir.measurement(), dir.stdout(), dir.stderr()];
    let modified = files.iter().filter_map(|path| path.metadata().ok()?.modified().ok());
    modified.max().map(DateTime::<Utc>::from)
}
