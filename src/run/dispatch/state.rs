//! The state of a run, [`Run`], with the methods that all steps use to wait, stop and report.

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
    /// The decision about each selected job, in order.
    pub decided: &'a [Decided],
    /// The inventory of the store at that time.
    pub inventory: Inventory,
    /// Judges done jobs, if results determine the number of repeats of a config.
    pub judge: &'a dyn Judge,
    /// The host of the run.
    pub host: &'a HostFacts,
    /// The cloud machine, if the host is one and its service answers.
    pub cloud: Option<InCloud>,
    /// The programs and directories that the run uses.
    pub site: Site,
    /// Go on even if several configs in a row fail in the same way.
    pub keep_going: bool,
    /// Fail immediately if a lock is busy before the first job starts. Later jobs wait.
    pub no_wait: bool,
    /// Share the store with owners that locks do not show.
    pub join: bool,
}

/// The reason why a run ends early.
#[derive(Debug)]
pub(super) enum Halt {
    /// It was stopped by a signal or another reason, which is named here.
    Stopped(String),
    /// The last jobs failed in the same way, so the remaining ones are not tried.
    AllAlike,
    /// Another `orchestrate` has claimed the attempt of this job.
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
    /// The needed jobs, if results determine them.
    pub(super) wants: Wants,
    pub(super) profilers: Profilers,
    /// Done jobs to run again, each with the attempt whose record is to be replaced.
    pub(super) reruns: BTreeMap<JobId, u32>,
    /// The state in which this run left each job.
    pub(super) states: BTreeMap<JobId, State>,
    /// The jobs that another `orchestrate` finished meanwhile.
    pub(super) done_by_others: BTreeSet<JobId>,
    /// The last failures, if they have the same message.
    pub(super) alike: Alike,
    /// How long to idle before the next start.
    pub(super) cool_down: Duration,
    pub(super) sensors: Sensors,
    pub(super) glance: Glance,
    /// Shows other processes that the owner of this run's attempts is alive.
    pub(super) owner: OwnerLock,
    /// The other owners, to notice when one has ended.
    pub(super) others: Others,
    /// The jobs whose worker was stopped on request. They are left for the next run.
    pub(super) set_aside: BTreeSet<JobId>,
    /// The last wait for others that was reported.
    pub(super) awaited: Option<Waiting>,
    /// The workers of this run when they were first started.
    pub(super) workers: BTreeMap<Named, WorkerFacts>,
    pub(super) durable: Durable,
    /// The store's directory at the beginning of the run.
    pub(super) place: Option<Place>,
    /// Warnings already given: each is given once per run.
    pub(super) warned: BTreeSet<String>,
}

impl Run<'_> {
    /// The physical device of `job`.
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

    /// Stops if the store was moved or deleted. Continuing would create a second store without the earlier results.
    pub(super) fn check_store_place(&self) -> Result<(), Halt> {
        match self.place.as_ref().is_none_or(Place::is_ours) {
            true => Ok(()),
            false => Err(Halt::Failed(DispatchError::StoreGone(self.order.store.root().to_owned()))),
        }
    }

    /// Stops if a signal has arrived.
    pub(super) async fn stop_on_signal(&mut self) -> Result<(), Halt> {
        if let Some(by) = self.signals.stopping() {
            return Err(Halt::Stopped(by.to_owned()));
        }
        tokio::select! {
            biased;
            _ = self.signals.next() => Err(self.stopped(WorkerFate::None)),
            // The runtime checks for signals when it is idle, as after this.
            () = tokio::task::yield_now() => Ok(()),
        }
    }

    /// Idles for `span`, or until a signal arrives.
    pub(super) async fn idle(&mut self, span: Duration) -> Result<(), Halt> {
        if let Some(by) = self.signals.stopping() {
            return Err(Halt::Stopped(by.to_owned()));
        }
        tokio::select! {
            () = tokio::time::sleep(span) => Ok(()),
            _ = self.signals.next() => Err(self.stopped(WorkerFate::None)),
        }
    }

    /// Reports that the run was just stopped, and the fate of the current worker.
    pub(super) fn stopped(&mut self, fate: WorkerFate<'_>) -> Halt {
        let by = self.signals.by();
        self.observer.event(&Event::Stopping { by, fate });
        Halt::Stopped(by.to_owned())
    }

    pub(super) fn patience(&mut self) -> Patience<'_> {
        Patience { no_wait: self.order.no_wait, signals: Some(&mut self.signals), observer: self.observer }
    }

    /// Takes the lock of `job`. `fate`: the fate of the worker that holds it, if the run is stopped meanwhile.
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
        // An outcome without a verdict does not change a job that is done or too large for the memory.
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
        self.report_missed_variables(job, record);
    }

    /// Updates the inventory: the store now has `standing` for `job`.
    pub(super) fn note(&mut self, job: &Job, standing: Standing) {
        let after = standing.record().cloned();
        let before = self.order.inventory.jobs.insert(job.id(), standing);
        if let Some(after) = &after {
            self.ceilings.replace(before.as_ref().and_then(Standing::record).map(|before| &**before), after);
        }
        self.wants.note(self.order.plan, job, after.as_deref());
    }

    /// Reports, once per env, which variables of the environment the worker of a failed attempt did not get.
    fn report_missed_variables(&mut self, job: &Job, record: &Record) {
        let key = job.key();
        let dropped = self.order.site.dropped(&record.provenance.environment);
        let text = missed(&key.env, &record.outcome, &dropped).filter(|_| !key.worker.is_shipped());
        let Some(text) = text else { return };
        if self.warned.insert(text.clone()) {
            self.observer.event(&Event::Note(&text));
        }
    }

    /// Warns, once per run, about announcements of the cloud provider.
    pub(super) fn report_notices(&mut self, notices: &[CloudNotice]) {
        for notice in notices {
            let text = format!("the provider of this machine announced that it {}", notice.kind);
            if self.warned.insert(text.clone()) {
                self.observer.event(&Event::Warning(&text));
            }
        }
    }

    /// Whether the worker of the attempt of this record was stopped on request. The run then continues without `job`.
    pub(super) fn is_set_aside(&self, job: &Job, record: &Record) -> bool {
        let is_interrupted = record.outcome.policy().leaves == State::Waiting;
        is_interrupted && self.order.store.job_dir(job).attempt(record.attempt).stop().exists()
    }

    /// Notes the `state` of `job`, which this run has not run, and reports `decision` the first time.
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
