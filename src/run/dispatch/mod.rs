//! Runs what is to be run: first the attempts that an `orchestrate` left which is gone, then job after job.
//!
//! The plan and its decisions leave no choice but one, which nobody can make beforehand: when a batch has run out of
//! memory, larger ones of the same config are not tried.
//!
//! Locks are always taken in this order: host, device, job. Who waits for a job's lock alone (to adopt its attempt)
//! holds nothing else. What makes load or waits for a machine without it comes after the locks, in this order: the
//! profiler's questions, the cool-down, the gate.

mod adopt;
mod pass_gate;
mod start;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::job::{Job, JobId};
use crate::plan::{Ceilings, Decided, Decision, Inventory, NotDone, Plan, Standing, may_retry};
use crate::record::{HostFacts, Outcome, Record};
use crate::run::atomic::WriteError;
use crate::run::attempt::HowEnded;
use crate::run::concern::concerns_one_job;
use crate::run::event::{Event, Observer, Summary, WorkerFate};
use crate::run::inventory::with_sources;
use crate::run::lock::{JobLock, LockDir, LockError, Patience, sign};
use crate::run::profiler::Profilers;
use crate::run::site::{Site, SiteError};
use crate::run::stop::StopSignals;
use crate::run::store::Store;
use crate::run::telemetry::Sensors;
use adopt::is_orphan;

/// A run that could not go on. Everything that was recorded stays recorded.
#[derive(Debug, thiserror::Error)]
pub enum DispatchError {
    /// A lock cannot be taken.
    #[error(transparent)]
    Lock(LockError),
    /// The store cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Something the run needs is gone.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// The system refuses a signal handler.
    #[error("cannot listen to signals")]
    Signals(#[source] std::io::Error),
}

/// What a run goes by.
#[derive(Debug)]
pub struct RunOrder<'a> {
    /// The store.
    pub store: &'a Store,
    /// The plan.
    pub plan: &'a Plan,
    /// What to do with each selected job, in order.
    pub decided: &'a [Decided],
    /// What the store held when that was decided.
    pub inventory: Inventory,
    /// The host it was decided for.
    pub host: &'a HostFacts,
    /// Where the run takes place.
    pub site: Site,
    /// Give up at once when something is busy before the first job starts. Later jobs wait.
    pub no_wait: bool,
}

/// Runs everything in `order` that is to be run, until all is done or a signal says stop.
///
/// # Errors
/// [`DispatchError`]: the run ended early, and no worker of it is left.
pub async fn dispatch(order: RunOrder<'_>, observer: &mut dyn Observer) -> Result<Summary, DispatchError> {
    let signals = StopSignals::listen().map_err(DispatchError::Signals)?;
    let locks = LockDir::create(&order.site.lock_dir).map_err(DispatchError::Lock)?;
    let ceilings = Ceilings::of(&order.inventory, order.host);
    observer.event(&Event::Began { jobs: order.decided });
    let reruns = attempts_to_replace(order.decided, &order.inventory, order.store);
    let fates = BTreeMap::new();
    let mut run = Run {
        order,
        locks,
        signals,
        observer,
        ceilings,
        profilers: Profilers::default(),
        reruns,
        fates,
        tried: 0,
        unspawned: 0,
        cool_down: Duration::ZERO,
        sensors: Sensors::open(),
        told: BTreeSet::new(),
    };
    let stopped = match run.everything().await {
        Ok(()) => None,
        Err(Halt::Stopped(by)) => Some(by),
        Err(Halt::NothingStarts) => None,
        Err(Halt::Failed(error)) => return Err(error),
    };
    let summary = run.summary(stopped);
    run.observer.event(&Event::Finished(&summary));
    Ok(summary)
}

/// The jobs of `decided` that are ours to run although they are done, each with the attempt of its record: stale ones
/// that the user wants again, and re-runs that an `orchestrate` left which is gone. A re-run that somebody is at is
/// theirs: if it comes to nothing, the job is as done as it was. Once another record stands there, somebody has repeated
/// the job.
fn attempts_to_replace(decided: &[Decided], inventory: &Inventory, store: &Store) -> BTreeMap<JobId, u32> {
    let is_ours =
        |decided: &&Decided| matches!(decided.decision, Decision::Rerun { .. }) || is_orphan(decided, store);
    let attempt = |decided: &Decided| match inventory.jobs.get(&decided.job.id()) {
        Some(Standing::Done(record)) => Some((decided.job.id(), record.attempt)),
        _ => None,
    };
    decided.iter().filter(is_ours).filter_map(attempt).collect()
}

/// Why a run goes no further.
#[derive(Debug)]
enum Halt {
    /// It was told to stop, by this.
    Stopped(String),
    /// Not one of the jobs tried could be started, so the rest is left.
    NothingStarts,
    Failed(DispatchError),
}

impl<E: Into<DispatchError>> From<E> for Halt {
    fn from(error: E) -> Self {
        Halt::Failed(error.into())
    }
}

/// Where a job ended up in this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Done,
    Failed,
    DoneByOthers,
    Unsupported,
    Pruned,
    Blocked,
}

struct Run<'a> {
    order: RunOrder<'a>,
    locks: LockDir,
    signals: StopSignals,
    observer: &'a mut dyn Observer,
    ceilings: Ceilings,
    profilers: Profilers,
    /// Done jobs that are to be run again, and the attempt whose record is to be replaced.
    reruns: BTreeMap<JobId, u32>,
    fates: BTreeMap<JobId, Fate>,
    /// Jobs tried, and those of them that could not even be started.
    tried: usize,
    unspawned: usize,
    /// How long to idle before the next start.
    cool_down: Duration,
    sensors: Sensors,
    /// Warnings that are given once a run.
    told: BTreeSet<String>,
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
        // What is pruned is looked at again in the end: the smaller batch may have succeeded this time.
        loop {
            let mut pruned = Vec::new();
            for job in std::mem::take(&mut waiting) {
                if matches!(self.fates.get(&job.id()), None | Some(Fate::Pruned))
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

    /// Runs `job`, unless it is pruned: then says `false`.
    async fn run_or_prune(&mut self, job: &Job) -> Result<bool, Halt> {
        self.heed_signals().await?;
        if let Some(why) = self.ceilings.prunes(job.key()) {
            if self.fates.insert(job.id(), Fate::Pruned).is_none() {
                self.observer.event(&Event::Left { job, decision: &Decision::Pruned { why } });
            }
            return Ok(false);
        }
        let ran = self.run_job(job).await;
        self.spare_others(job, ran)?;
        Ok(true)
    }

    /// Halts the run for what concerns all of its jobs. What is wrong with the directory of `job` alone fails that job
    /// and no other.
    fn spare_others(&mut self, job: &Job, result: Result<(), Halt>) -> Result<(), Halt> {
        let dir = self.order.store.job_dir(job);
        match result {
            Err(Halt::Failed(error)) if concerns_one_job(&error, self.order.store, &dir) => {
                self.fates.insert(job.id(), Fate::Failed);
                let why = with_sources(&error);
                self.observer.event(&Event::GivenUp { job, why: &why, directory: dir.path() });
                Ok(())
            }
            other => other,
        }
    }

    /// Stops here if a signal has come meanwhile.
    async fn heed_signals(&mut self) -> Result<(), Halt> {
        // Signals are seen only while the run waits for something, so it waits for a moment.
        self.idle(Duration::from_millis(1)).await
    }

    /// Idles for `span`, or until told to stop.
    async fn idle(&mut self, span: Duration) -> Result<(), Halt> {
        if let Some(by) = self.signals.stopping() {
            return Err(Halt::Stopped(by.to_owned()));
        }
        tokio::select! {
            () = tokio::time::sleep(span) => Ok(()),
            _ = self.signals.next() => Err(self.stopped(WorkerFate::None)),
        }
    }

    /// Tells that the run was told to stop just now, and what that means for the worker there is.
    fn stopped(&mut self, fate: WorkerFate<'_>) -> Halt {
        let by = self.signals.by();
        self.observer.event(&Event::Stopping { by, fate });
        Halt::Stopped(by.to_owned())
    }

    /// Runs `job` until it succeeds or its attempts are used up.
    async fn run_job(&mut self, job: &Job) -> Result<(), Halt> {
        let limits = self.order.plan.env(job.key()).limits;
        for retries_left in (0..=limits.retries).rev() {
            let Some(record) = self.run_once(job, retries_left).await? else { return Ok(()) };
            if let Some(by) = self.signals.stopping() {
                return Err(Halt::Stopped(by.to_owned()));
            }
            if !may_retry(&record.outcome) {
                break;
            }
        }
        self.stop_if_nothing_starts()
    }

    /// One attempt of `job` under its locks; `None` if somebody else finished it while we waited for them.
    async fn run_once(&mut self, job: &Job, retries_left: u32) -> Result<Option<Record>, Halt> {
        let share = self.order.plan.env(job.key()).share;
        let locks = self.locks.clone();
        let locked = locks.lock(job, share, &mut self.patience()).await;
        let device_lock = self.unless_stopped(locked, WorkerFate::None)?;
        let mut job_lock = self.lock_job(job, WorkerFate::None).await?;
        // Whoever comes in between two of our jobs is waited for: the run has begun.
        self.order.no_wait = false;
        if self.settle(job, &job_lock, false)? {
            return Ok(None);
        }
        sign(job, self.order.store.root(), &job_lock, Some(&device_lock));
        let record = self.attempt(job, &mut job_lock, &device_lock).await?;
        let stopping = self.signals.stopping().is_some();
        let retry = retries_left > 0 && may_retry(&record.outcome) && !stopping;
        self.conclude(job, &record, retry);
        Ok(Some(record))
    }

    fn patience(&mut self) -> Patience<'_> {
        Patience { no_wait: self.order.no_wait, signals: Some(&mut self.signals), observer: self.observer }
    }

    /// Takes the lock of `job`. `fate`: of the worker that may hold it, if we are told to stop meanwhile.
    async fn lock_job(&mut self, job: &Job, fate: WorkerFate<'_>) -> Result<JobLock, Halt> {
        let dir = self.order.store.job_dir(job);
        let locked = JobLock::lock(job, dir, &mut self.patience()).await;
        self.unless_stopped(locked, fate)
    }

    fn unless_stopped<T>(&mut self, locked: Result<T, LockError>, fate: WorkerFate<'_>) -> Result<T, Halt> {
        match locked {
            Ok(lock) => Ok(lock),
            Err(LockError::Stopped(_)) => Err(self.stopped(fate)),
            Err(error) => Err(Halt::Failed(DispatchError::Lock(error))),
        }
    }

    /// Reads again how `job` stands, now that its lock is ours: finishes an attempt that was left without a record, and
    /// says whether the job is done, or not for us to do.
    fn settle(&mut self, job: &Job, lock: &JobLock, waited: bool) -> Result<bool, Halt> {
        let held = self.order.store.load_job(job);
        if let Some(why) = held.blocks(job) {
            if self.fates.insert(job.id(), Fate::Blocked).is_none() {
                self.observer.event(&Event::Left { job, decision: &Decision::Blocked { why } });
            }
            return Ok(true);
        }
        match held.standing(job) {
            Standing::Done(_) if !held.is_settled(job) => self.finish(job, lock, waited),
            Standing::Done(record) if self.reruns.get(&job.id()) == Some(&record.attempt) => Ok(false),
            Standing::Done(_) => {
                if self.fates.insert(job.id(), Fate::DoneByOthers).is_none() {
                    self.observer.event(&Event::Left { job, decision: &Decision::Skip });
                }
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
        let record = self.adopt(job, lock, HowEnded::Unseen, waited)?;
        Ok(record.is_some_and(|record| record.outcome == Outcome::Succeeded))
    }

    /// Takes note of an attempt's record and tells of it.
    fn conclude(&mut self, job: &Job, record: &Record, retry: bool) {
        let fate = match record.outcome {
            Outcome::Succeeded => Fate::Done,
            Outcome::Unsupported { .. } => Fate::Unsupported,
            _ => Fate::Failed,
        };
        let standing = match fate {
            Fate::Done => Standing::Done(Box::new(record.clone())),
            _ => Standing::NotDone(NotDone::Failed(Box::new(record.clone()))),
        };
        // A re-run that came to nothing leaves the job as done as it was.
        let keeps_its_success = !record.outcome.is_verdict()
            && matches!(self.order.inventory.jobs.get(&job.id()), Some(Standing::Done(_)));
        if !keeps_its_success {
            self.order.inventory.jobs.insert(job.id(), standing);
        }
        self.ceilings = Ceilings::of(&self.order.inventory, self.order.host);
        if !retry {
            self.tried += 1;
            self.unspawned += usize::from(matches!(record.outcome, Outcome::FailedToSpawn { .. }));
            // What was interrupted is still to be run.
            if !matches!(record.outcome, Outcome::Interrupted { .. }) {
                self.fates.insert(job.id(), fate);
            }
        }
        self.observer.event(&Event::Ended { job, record, retry });
    }

    /// When not one job could be started, the next ones will not be either.
    fn stop_if_nothing_starts(&mut self) -> Result<(), Halt> {
        if self.tried >= 2 && self.unspawned == self.tried {
            self.observer.event(&Event::Warning("no job could be started; the rest is not tried"));
            return Err(Halt::NothingStarts);
        }
        Ok(())
    }

    fn summary(&self, stopped_by: Option<String>) -> Summary {
        let mut summary = Summary { stopped_by, ..Summary::default() };
        for Decided { job, decision } in self.order.decided {
            let fate = self.fates.get(&job.id());
            let count = match (decision, fate) {
                (Decision::Skip | Decision::Stale { .. }, _) | (_, Some(Fate::DoneByOthers)) => {
                    &mut summary.skipped
                }
                (Decision::Blocked { .. }, _) | (_, Some(Fate::Blocked)) => &mut summary.blocked,
                (Decision::NotHere { .. }, _) | (_, Some(Fate::Unsupported)) => &mut summary.not_here,
                (_, Some(Fate::Done)) => &mut summary.done,
                (_, Some(Fate::Failed)) => &mut summary.failed,
                (Decision::Pruned { .. }, None) | (_, Some(Fate::Pruned)) => &mut summary.pruned,
                (Decision::Run(_) | Decision::Rerun { .. }, None) => &mut summary.left,
            };
            *count += 1;
        }
        summary
    }
}
