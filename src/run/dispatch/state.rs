//! The state of a run, and what all of its parts use to wait, to stop and to report.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::alike::Alike;
use super::missed::missed;
use super::wants::Wants;
use crate::event::{Event, Observer, Summary, Waiting, WorkerFate};
use crate::host::{InCloud, Named};
use crate::job::{Device, Job, JobId, State};
use crate::lock::{JobLock, LockDir, LockError, Others, OwnerLock, Patience, PhysicalDevice};
use crate::plan::{Ceilings, Decided, Decision, Inventory, Judge, NotDone, Plan, Standing, is_listed};
use crate::record::{CloudNotice, HostFacts, Record, WorkerFacts};
use crate::run::concern::concerns_one_job;
use crate::run::error::DispatchError;
use crate::run::glance::Glance;
use crate::run::profiler::Profilers;
use crate::run::site::Site;
use crate::run::telemetry::Sensors;
use crate::stop::StopSignals;
use crate::store::{Durable, Place, Store};
use crate::text::with_causes;

/// The input of a run.
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
    /// Tells what done jobs are worth, if the results decide how often a config runs.
    pub judge: &'a dyn Judge,
    /// The host it was decided for.
    pub host: &'a HostFacts,
    /// The machine in the cloud, if it is in one and tells where.
    pub cloud: Option<InCloud>,
    /// The programs and directories that the run uses.
    pub site: Site,
    /// Go on even if several configs in a row fail in the same way.
    pub keep_going: bool,
    /// Give up at once if a lock is busy before the first job starts. Later jobs wait.
    pub no_wait: bool,
    /// Share the store with others that no lock of ours keeps out.
    pub join: bool,
}

/// Why a run ends early.
#[derive(Debug)]
pub(super) enum Halt {
    /// A signal, or whatever is named here, stopped it.
    Stopped(String),
    /// The last jobs failed in the same way, so the remaining ones are not tried.
    AllAlike,
    /// Another `orchestrate` began the attempt of this job before us.
    Taken,
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
    /// What the configs still need, as far as results decide that.
    pub(super) wants: Wants,
    pub(super) profilers: Profilers,
    /// Done jobs to run again, each with the attempt whose record is to be replaced.
    pub(super) reruns: BTreeMap<JobId, u32>,
    /// The state in which this run left each job.
    pub(super) states: BTreeMap<JobId, State>,
    /// The jobs that another `orchestrate` finished meanwhile.
    pub(super) done_by_others: BTreeSet<JobId>,
    /// The last failures, if they say the same.
    pub(super) alike: Alike,
    /// How long to idle before the next start.
    pub(super) cool_down: Duration,
    pub(super) sensors: Sensors,
    pub(super) glance: Glance,
    /// Tells others that our attempts are looked after.
    pub(super) owner: OwnerLock,
    /// Tells us when those of others are no longer.
    pub(super) others: Others,
    /// The jobs whose worker somebody asked to end. They are left for the next run.
    pub(super) set_aside: BTreeSet<JobId>,
    /// The last wait for others that was reported.
    pub(super) awaited: Option<Waiting>,
    /// The workers of this run when they were first started.
    pub(super) workers: BTreeMap<Named, WorkerFacts>,
    pub(super) durable: Durable,
    /// Where the store was when the run began.
    pub(super) place: Option<Place>,
    /// Warnings already given: each is given once per run.
    pub(super) warned: BTreeSet<String>,
}

impl Run<'_> {
    /// What the device of `job` is for everybody on this host.
    pub(super) fn physical(&self, job: &Job) -> PhysicalDevice {
        let device = job.key().device;
        let Some(address) = self.order.host.gpu_address(device) else { return PhysicalDevice::of(device) };
        match (address.index, address.name()) {
            (Some(index), _) => PhysicalDevice::of(Device::Cuda(index)),
            (None, Some(name)) => PhysicalDevice::unnumbered(name),
            (None, None) => PhysicalDevice::of(device),
        }
    }

    /// Passes on an error that concerns every job. An error that concerns only the directory of `job` fails that job
    /// alone.
    pub(super) fn spare_others(&mut self, job: &Job, result: Result<(), Halt>) -> Result<(), Halt> {
        let dir = self.order.store.job_dir(job);
        match result {
            Err(Halt::Failed(error)) if concerns_one_job(&error, self.order.store, &dir) => {
                self.states.insert(job.id(), State::Failed);
                let why = with_causes(&error);
                let directory = dir.path().display();
                let remedy = format!("repair {directory} or move it away, and the next run will try again");
                self.observer.event(&Event::GivenUp { job, why: &why, remedy: &remedy });
                Ok(())
            }
            other => other,
        }
    }

    /// Stops if the store was moved or deleted. To go on would make a second one in its place, which lacks what the
    /// first one holds.
    pub(super) fn heed_store(&self) -> Result<(), Halt> {
        match self.place.as_ref().is_none_or(Place::is_ours) {
            true => Ok(()),
            false => Err(Halt::Failed(DispatchError::StoreGone(self.order.store.root().to_owned()))),
        }
    }

    /// Stops if a signal has arrived.
    pub(super) async fn heed_signals(&mut self) -> Result<(), Halt> {
        if let Some(by) = self.signals.stopping() {
            return Err(Halt::Stopped(by.to_owned()));
        }
        tokio::select! {
            biased;
            _ = self.signals.next() => Err(self.stopped(WorkerFate::None)),
            // The runtime looks for signals when it has nothing else to do, as it has now.
            () = tokio::task::yield_now() => Ok(()),
        }
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

    /// Reports that the run was just told to stop, and what becomes of the current worker.
    pub(super) fn stopped(&mut self, fate: WorkerFate<'_>) -> Halt {
        let by = self.signals.by();
        self.observer.event(&Event::Stopping { by, fate });
        Halt::Stopped(by.to_owned())
    }

    pub(super) fn patience(&mut self) -> Patience<'_> {
        Patience { no_wait: self.order.no_wait, signals: Some(&mut self.signals), observer: self.observer }
    }

    /// Takes the lock of `job`. `fate`: what becomes of the worker that holds it, if we are told to stop meanwhile.
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

    /// Notes the record of an attempt and reports it.
    pub(super) fn conclude(&mut self, job: &Job, record: &Record, retry: bool) {
        let policy = record.outcome.policy();
        let standing = if record.outcome.is_success() {
            Standing::Done(Arc::new(record.clone()))
        } else {
            Standing::NotDone(NotDone::Failed(Arc::new(record.clone())))
        };
        // What tells nothing about the job leaves it as it was: done, or too large for the memory.
        let earlier = self.order.inventory.jobs.get(&job.id()).and_then(Standing::record);
        let keeps_its_verdict =
            !policy.verdict && earlier.is_some_and(|earlier| earlier.outcome.policy().verdict);
        if !keeps_its_verdict {
            self.note(job, standing);
        }
        if self.is_set_aside(job, record) {
            self.set_aside.insert(job.id());
        }
        if !retry {
            // An interrupted job is still waiting.
            if policy.leaves != State::Waiting {
                self.states.insert(job.id(), policy.leaves);
            }
        }
        self.observer.event(&Event::Ended { job, record, retry });
        self.tell_missed(job, record);
    }

    /// Follows the store, which now holds `standing` for `job`.
    pub(super) fn note(&mut self, job: &Job, standing: Standing) {
        let after = standing.record().cloned();
        let before = self.order.inventory.jobs.insert(job.id(), standing);
        if let Some(after) = &after {
            self.ceilings.replace(before.as_ref().and_then(Standing::record).map(|before| &**before), after);
        }
        self.wants.note(self.order.plan, job, after.as_deref());
    }

    /// Says, once per env, which variables of our environment the worker of a failed attempt did not get.
    fn tell_missed(&mut self, job: &Job, record: &Record) {
        let key = job.key();
        let dropped = self.order.site.dropped(&record.provenance.environment);
        let text = missed(&key.env, &record.outcome, &dropped).filter(|_| !key.worker.is_shipped());
        let Some(text) = text else { return };
        if self.warned.insert(text.clone()) {
            self.observer.event(&Event::Note(&text));
        }
    }

    /// Warns, once per run, of what the provider of the machine has announced.
    pub(super) fn tell_notices(&mut self, notices: &[CloudNotice]) {
        for notice in notices {
            let text = format!("the provider of this machine announced that it {}", notice.kind);
            if self.warned.insert(text.clone()) {
                self.observer.event(&Event::Warning(&text));
            }
        }
    }

    /// Whether somebody asked to end the worker of the attempt of this record, and the run shall go on without `job`.
    pub(super) fn is_set_aside(&self, job: &Job, record: &Record) -> bool {
        let is_interrupted = record.outcome.policy().leaves == State::Waiting;
        is_interrupted && self.order.store.job_dir(job).attempt(record.attempt).stop().exists()
    }

    /// Notes that `job` is in `state` although this run has not run it, and reports why the first time.
    pub(super) fn leave(&mut self, job: &Job, state: State, decision: &Decision) {
        if self.states.insert(job.id(), state).is_none_or(|before| before == State::Waiting) {
            self.observer.event(&Event::Left { job, decision });
        }
    }

    pub(super) fn summary(&self, stopped_by: Option<String>) -> Summary {
        let stopped_alone = self.set_aside.len();
        let mut summary = Summary { stopped_by, stopped_alone, ..Summary::default() };
        for Decided { job, decision } in self.order.decided {
            let state = self.states.get(&job.id()).copied().unwrap_or_else(|| decision.state());
            if !is_listed(job, state) {
                continue;
            }
            let done_before = *decision == Decision::Skip || self.done_by_others.contains(&job.id());
            summary.add(state, done_before);
        }
        summary
    }
}
