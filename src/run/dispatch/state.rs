//! A run while it goes on: what it goes by, what it has come to, and what every part of it does to wait, stop and tell.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::event::{Event, Observer, Summary, WorkerFate};
use crate::job::{Job, JobId, State};
use crate::lock::{JobLock, LockDir, LockError, Patience};
use crate::plan::{Ceilings, Decided, Decision, Inventory, NotDone, Plan, Standing};
use crate::record::{HostFacts, Record};
use crate::run::concern::concerns_one_job;
use crate::run::error::DispatchError;
use crate::run::profiler::Profilers;
use crate::run::site::Site;
use crate::run::telemetry::Sensors;
use crate::stop::StopSignals;
use crate::store::Store;
use crate::text::with_sources;

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

/// Why a run goes no further.
#[derive(Debug)]
pub(super) enum Halt {
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

pub(super) struct Run<'a> {
    pub(super) order: RunOrder<'a>,
    pub(super) locks: LockDir,
    pub(super) signals: StopSignals,
    pub(super) observer: &'a mut dyn Observer,
    pub(super) ceilings: Ceilings,
    pub(super) profilers: Profilers,
    /// Done jobs that are to be run again, and the attempt whose record is to be replaced.
    pub(super) reruns: BTreeMap<JobId, u32>,
    /// Where jobs ended up in this run.
    pub(super) states: BTreeMap<JobId, State>,
    /// Those of them that another `orchestrate` finished meanwhile.
    pub(super) done_by_others: BTreeSet<JobId>,
    /// Jobs tried, and those of them that could not even be started.
    pub(super) tried: usize,
    pub(super) unspawned: usize,
    /// How long to idle before the next start.
    pub(super) cool_down: Duration,
    pub(super) sensors: Sensors,
    /// Warnings that are given once a run.
    pub(super) told: BTreeSet<String>,
}

impl Run<'_> {
    /// Halts the run for what concerns all of its jobs. What is wrong with the directory of `job` alone fails that job
    /// and no other.
    pub(super) fn spare_others(&mut self, job: &Job, result: Result<(), Halt>) -> Result<(), Halt> {
        let dir = self.order.store.job_dir(job);
        match result {
            Err(Halt::Failed(error)) if concerns_one_job(&error, self.order.store, &dir) => {
                self.states.insert(job.id(), State::Failed);
                let why = with_sources(&error);
                self.observer.event(&Event::GivenUp { job, why: &why, directory: dir.path() });
                Ok(())
            }
            other => other,
        }
    }

    /// Stops here if a signal has come meanwhile.
    pub(super) async fn heed_signals(&mut self) -> Result<(), Halt> {
        // Signals are seen only while the run waits for something, so it waits for a moment.
        self.idle(Duration::from_millis(1)).await
    }

    /// Idles for `span`, or until told to stop.
    pub(super) async fn idle(&mut self, span: Duration) -> Result<(), Halt> {
        if let Some(by) = self.signals.stopping() {
            return Err(Halt::Stopped(by.to_owned()));
        }
        tokio::select! {
            () = tokio::time::sleep(span) => Ok(()),
            _ = self.signals.next() => Err(self.stopped(WorkerFate::None)),
        }
    }

    /// Tells that the run was told to stop just now, and what that means for the worker there is.
    pub(super) fn stopped(&mut self, fate: WorkerFate<'_>) -> Halt {
        let by = self.signals.by();
        self.observer.event(&Event::Stopping { by, fate });
        Halt::Stopped(by.to_owned())
    }

    pub(super) fn patience(&mut self) -> Patience<'_> {
        Patience { no_wait: self.order.no_wait, signals: Some(&mut self.signals), observer: self.observer }
    }

    /// Takes the lock of `job`. `fate`: of the worker that may hold it, if we are told to stop meanwhile.
    pub(super) async fn lock_job(&mut self, job: &Job, fate: WorkerFate<'_>) -> Result<JobLock, Halt> {
        let dir = self.order.store.job_dir(job);
        let locked = JobLock::lock(job, dir, &mut self.patience()).await;
        self.unless_stopped(locked, fate)
    }

    pub(super) fn unless_stopped<T>(
        &mut self,
        locked: Result<T, LockError>,
        fate: WorkerFate<'_>,
    ) -> Result<T, Halt> {
        match locked {
            Ok(lock) => Ok(lock),
            Err(LockError::Stopped(_)) => Err(self.stopped(fate)),
            Err(error) => Err(Halt::Failed(DispatchError::Lock(error))),
        }
    }

    /// Takes note of an attempt's record and tells of it.
    pub(super) fn conclude(&mut self, job: &Job, record: &Record, retry: bool) {
        let policy = record.outcome.policy();
        let standing = if record.outcome.is_success() {
            Standing::Done(Box::new(record.clone()))
        } else {
            Standing::NotDone(NotDone::Failed(Box::new(record.clone())))
        };
        // A re-run that came to nothing leaves the job as done as it was.
        let keeps_its_success =
            !policy.verdict && matches!(self.order.inventory.jobs.get(&job.id()), Some(Standing::Done(_)));
        if !keeps_its_success {
            self.order.inventory.jobs.insert(job.id(), standing);
        }
        self.ceilings = Ceilings::of(&self.order.inventory, self.order.host);
        if !retry {
            self.tried += 1;
            self.unspawned += usize::from(!policy.started);
            // What was interrupted is still to be run.
            if policy.leaves != State::Waiting {
                self.states.insert(job.id(), policy.leaves);
            }
        }
        self.observer.event(&Event::Ended { job, record, retry });
    }

    /// Takes note that `job` stands in `state` although this run has not run it; tells why, the first time.
    pub(super) fn leave(&mut self, job: &Job, state: State, decision: &Decision) {
        if self.states.insert(job.id(), state).is_none() {
            self.observer.event(&Event::Left { job, decision });
        }
    }

    pub(super) fn summary(&self, stopped_by: Option<String>) -> Summary {
        let mut summary = Summary { stopped_by, ..Summary::default() };
        for Decided { job, decision } in self.order.decided {
            let state = self.states.get(&job.id()).copied().unwrap_or_else(|| decision.state());
            let done_before = *decision == Decision::Skip || self.done_by_others.contains(&job.id());
            summary.add(state, done_before);
        }
        summary
    }
}
