//! Runs the jobs of a run, one after another.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::adopt::{Seen, is_orphan};
use super::alike::Alike;
use super::state::{Halt, Run, RunOrder};
use crate::event::{Event, Observer, Summary, WorkerFate};
use crate::job::{Job, JobId, State};
use crate::lock::{DeviceLock, LockDir, Others, OwnerLock, sign};
use crate::plan::{Ceilings, Decided, Decision, Inventory, Standing};
use crate::record::Record;
use crate::run::error::DispatchError;
use crate::run::glance::Glance;
use crate::run::profiler::Profilers;
use crate::run::telemetry::Sensors;
use crate::stop::StopSignals;
use crate::store::{Durable, Store};

/// Runs the jobs in `order` until all are done or a signal stops the run.
///
/// # Errors
/// [`DispatchError`]: the run ended early. None of its workers is left.
pub async fn dispatch(order: RunOrder<'_>, observer: &mut dyn Observer) -> Result<Summary, DispatchError> {
    let signals = StopSignals::listen().map_err(DispatchError::Signals)?;
    let locks = LockDir::create(&order.site.lock_dir).map_err(DispatchError::Lock)?;
    let ceilings = Ceilings::of(&order.inventory, order.host);
    observer.event(&Event::Began { jobs: order.decided });
    let reruns = attempts_to_replace(order.decided, &order.inventory, order.store);
    let durable = Durable::of(order.store);
    let running = order.store.running();
    let owner = OwnerLock::take(&running).map_err(DispatchError::Lock)?;
    let mut run = Run {
        order,
        locks,
        signals,
        observer,
        ceilings,
        profilers: Profilers::default(),
        reruns,
        states: BTreeMap::new(),
        done_by_others: BTreeSet::new(),
        alike: Alike::default(),
        cool_down: Duration::ZERO,
        sensors: Sensors::open(),
        glance: Glance::default(),
        owner,
        others: Others::in_directory(running),
        workers: BTreeMap::new(),
        durable,
        warned: BTreeSet::new(),
    };
    let ended = run.everything().await;
    // Whatever stopped the run, its results are kept.
    let synced = run.durable.sync();
    let stopped = match ended {
        Ok(()) => None,
        Err(Halt::Stopped(by)) => Some(by),
        Err(Halt::AllAlike) => None,
        Err(Halt::Failed(error)) => return Err(error),
    };
    synced?;
    let summary = run.summary(stopped);
    run.observer.event(&Event::Finished(&summary));
    Ok(summary)
}

/// The done jobs of `decided` that this run repeats, each with the attempt of its record. These are stale jobs that the
/// user wants again, and re-runs left behind by an `orchestrate` that died.
///
/// A re-run that another `orchestrate` is working on is left to it; if it fails, the job stays done. If the record has
/// another attempt number by then, somebody has already repeated the job.
fn attempts_to_replace(decided: &[Decided], inventory: &Inventory, store: &Store) -> BTreeMap<JobId, u32> {
    let is_ours =
        |decided: &&Decided| matches!(decided.decision, Decision::Rerun { .. }) || is_orphan(decided, store);
    let attempt = |decided: &Decided| match inventory.jobs.get(&decided.job.id()) {
        Some(Standing::Done(record)) => Some((decided.job.id(), record.attempt)),
        _ => None,
    };
    decided.iter().filter(is_ours).filter_map(attempt).collect()
}

impl Run<'_> {
    async fn everything(&mut self) -> Result<(), Halt> {
        let decided = self.order.decided;
        self.adopt_orphans().await?;
        let mut waiting: Vec<&Job> = decided
            .iter()
            .filter(|Decided { decision, .. }| decision.runs() || matches!(decision, Decision::Pruned { .. }))
            .map(|decided| &decided.job)
            .collect();
        // Pruned jobs are looked at again at the end: the smaller batch might have succeeded this time.
        loop {
            let mut pruned = Vec::new();
            for job in std::mem::take(&mut waiting) {
                if matches!(self.states.get(&job.id()), None | Some(State::Pruned))
                    && !self.run_or_prune(job).await?
                {
                    pruned.push(job);
                }
            }
            waiting = pruned;
            if waiting.iter().all(|job| self.ceilings.prunes(job.key()).is_some()) {
                return Ok(());
            }
        }
    }

    /// Runs `job` unless it is pruned. Returns `false` if it is.
    async fn run_or_prune(&mut self, job: &Job) -> Result<bool, Halt> {
        self.heed_signals().await?;
        if let Some(why) = self.ceilings.prunes(job.key()) {
            self.leave(job, State::Pruned, &Decision::Pruned { why });
            return Ok(false);
        }
        let ran = self.run_job(job).await;
        self.spare_others(job, ran)?;
        Ok(true)
    }

    /// Runs `job` until it succeeds or its attempts are used up.
    async fn run_job(&mut self, job: &Job) -> Result<(), Halt> {
        let limits = self.order.plan.env(job.key()).limits;
        for retries_left in (0..=limits.retries).rev() {
            let Some(record) = self.run_once(job, retries_left).await? else { return Ok(()) };
            if let Some(by) = self.signals.stopping() {
                return Err(Halt::Stopped(by.to_owned()));
            }
            if retries_left == 0 || !record.outcome.policy().retry {
                return self.stop_if_all_fail_alike(job, &record);
            }
        }
        Ok(())
    }

    /// Makes one attempt of `job` under its locks. `None` if somebody else finished the job while we waited for them.
    async fn run_once(&mut self, job: &Job, retries_left: u32) -> Result<Option<Record>, Halt> {
        let device_lock = self.lock_device(job).await?;
        if !matches!(self.states.get(&job.id()), None | Some(State::Pruned)) {
            // While we waited, we adopted it.
            return Ok(None);
        }
        let mut job_lock = self.lock_job(job, WorkerFate::None).await?;
        // The run has begun: from now on it waits if another run takes the locks between two of its jobs.
        self.order.no_wait = false;
        if self.settle(job, &job_lock, Seen::Gone)? {
            return Ok(None);
        }
        sign(job, self.order.store.root(), &job_lock, Some(&device_lock));
        let record = self.attempt(job, &mut job_lock, &device_lock).await?;
        let stopping = self.signals.stopping().is_some();
        let retry = retries_left > 0 && record.outcome.policy().retry && !stopping;
        self.conclude(job, &record, retry);
        Ok(Some(record))
    }

    /// Takes the locks of the host and the device of `job`. If another `orchestrate` dies while we wait, its attempts
    /// are adopted, because nobody else stops its worker at its limit.
    async fn lock_device(&mut self, job: &Job) -> Result<DeviceLock, Halt> {
        let share = self.order.plan.env(job.key()).share;
        let locks = self.locks.clone();
        loop {
            let mut others = std::mem::take(&mut self.others);
            let mut patience = self.patience();
            let locked = tokio::select! {
                biased;
                locked = locks.lock(job, share, &mut patience) => Some(locked),
                () = others.lost() => None,
            };
            self.others = others;
            match locked {
                Some(locked) => return self.unless_stopped(locked, WorkerFate::None),
                None => self.adopt_orphans_of_the_dead().await?,
            }
        }
    }

    /// If the last jobs up to this one failed in the same way, the next ones would too.
    fn stop_if_all_fail_alike(&mut self, job: &Job, record: &Record) -> Result<(), Halt> {
        match self.alike.note(job.key(), &record.outcome) {
            Some(why) if !self.order.keep_going => {
                let text = format!("{why}; the remaining jobs are not tried, unless with `--keep-going`");
                self.observer.event(&Event::Warning(&text));
                Err(Halt::AllAlike)
            }
            _ => Ok(()),
        }
    }
}
