//! Runs the jobs of a run, one after another: [`dispatch`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::adopt::{Seen, Settled, is_orphan};
use super::alike::Alike;
use super::state::{Halt, Run, RunOrder};
use super::wants::Wants;
use crate::event::{Event, Observer, Summary, Waiting, WorkerFate};
use crate::job::{Job, JobId, State};
use crate::lock::{DeviceLock, LockDir, Others, OwnerLock, Owners, sign};
use crate::plan::{Ceilings, Decided, Decision, Inventory, Standing};
use crate::record::Record;
use crate::run::error::DispatchError;
use crate::run::glance::Glance;
use crate::run::profiler::Profilers;
use crate::run::telemetry::Sensors;
use crate::stop::StopSignals;
use crate::store::{Durable, Store};
use crate::text::{count_text, jobs_text};

/// Runs the jobs in `order` until all are done or a signal stops the run.
///
/// # Errors
/// [`DispatchError`]: the run ended early. All of its workers have ended.
pub async fn dispatch(order: RunOrder<'_>, observer: &mut dyn Observer) -> Result<Summary, DispatchError> {
    let mut run = Run::prepare(order, observer)?;
    let ended = run.run_all().await;
    // Results are synced even if the run was stopped.
    let synced = run.durable.sync();
    let stopped = match ended {
        Ok(()) => None,
        Err(Halt::Stopped(by)) => Some(by),
        Err(Halt::AllAlike | Halt::Taken) => None,
        Err(Halt::Failed(error)) => return Err(error),
    };
    synced?;
    let summary = run.summary(stopped);
    run.observer.event(&Event::Finished(&summary));
    Ok(summary)
}

/// The interval at which jobs of other owners are checked.
const LOOK: Duration = Duration::from_secs(1);

/// The result of a job's turn.
enum Turn {
    /// This run has nothing more to do with it.
    Over,
    /// It is not run for now: a smaller batch ran out of memory, or its config has enough repeats.
    Skipped,
    /// Another `orchestrate` is running it, out of the reach of locks.
    Elsewhere,
}

/// Whether a job with this decision runs in its turn, or may do so. Replaced jobs run after all others.
fn may_run(decision: &Decision) -> bool {
    match decision {
        Decision::Run(_)
        | Decision::Rerun { .. }
        | Decision::IfNeeded { .. }
        | Decision::NotNeeded { .. }
        | Decision::Pruned { .. } => true,
        Decision::Replace { .. }
        | Decision::Skip
        | Decision::Stale { .. }
        | Decision::Blocked { .. }
        | Decision::NotHere { .. } => false,
    }
}

/// Returns an error if another `orchestrate` runs on the store out of the reach of locks. Of two that start
/// simultaneously, at least one sees the other, because each signs before it checks.
fn refuse_beyond_locks(owners: &Owners) -> Result<(), DispatchError> {
    let other = owners.others().into_iter().find(|owner| !owner.has_reliable_lock);
    other.map_or(Ok(()), |owner| Err(DispatchError::BeyondLocks(Box::new(owner))))
}

/// Sentences about the places where locks do not work and their replacement there.
fn useless_lock_warnings(order: &RunOrder<'_>, locks: &LockDir, owners: &Owners) -> Vec<String> {
    let mut found = Vec::new();
    if !owners.locks_work() {
        let store = order.store.root().display();
        found.push(format!(
            "locks do not work on the file system of {store}: attempts are claimed by their directories instead, and \
             others can only share this store with `--join`"
        ));
    }
    if !locks.locks_work() {
        let path = locks.path().display();
        found.push(format!(
            "locks do not work in {path}: tickets there keep jobs apart instead, one at a time on this host"
        ));
    }
    found
}

/// The done jobs of `decided` that this run repeats, each with the attempt of its record. These are stale jobs that the
/// user wants to repeat, and unfinished re-runs of an `orchestrate` that died.
///
/// A re-run by another live `orchestrate` is not included; if it fails, the job stays done. If the record has another
/// attempt number by its turn, another process has already repeated the job.
fn attempts_to_replace(
    decided: &[Decided],
    inventory: &Inventory,
    store: &Store,
    owners: &Owners,
) -> BTreeMap<JobId, u32> {
    let is_ours = |decided: &&Decided| {
        matches!(decided.decision, Decision::Rerun { .. }) || is_orphan(decided, store, owners)
    };
    let attempt = |decided: &Decided| match inventory.jobs.get(&decided.job.id()) {
        Some(Standing::Done(record)) => Some((decided.job.id(), record.attempt)),
        _ => None,
    };
    decided.iter().filter(is_ours).filter_map(attempt).collect()
}

impl<'a> Run<'a> {
    /// Takes the owner's lock of the store, and begins the run.
    fn prepare(order: RunOrder<'a>, observer: &'a mut dyn Observer) -> Result<Run<'a>, DispatchError> {
        let mut signals = StopSignals::listen().map_err(DispatchError::Signals)?;
        let locks = LockDir::create(&order.site.lock_dir).map_err(DispatchError::Lock)?;
        let running = order.store.running();
        let mut owner = OwnerLock::take(&running, &order.plan.matrix.name).map_err(DispatchError::Lock)?;
        let owners = owner.owners();
        if !order.join {
            refuse_beyond_locks(&owners)?;
        }
        owner.keep_alive(signals.accept_requests()).map_err(DispatchError::Signals)?;
        observer.event(&Event::Began { jobs: order.decided });
        for text in useless_lock_warnings(&order, &locks, &owners) {
            observer.event(&Event::Warning(&text));
        }
        let mut others = Others::default();
        others.look(&owners);
        let is_ours = |record: &&Record| record.provenance.host.is_machine_of(order.host);
        let alike = Alike::after(&order.inventory.records().filter(is_ours).collect::<Vec<_>>());
        Ok(Run {
            locks,
            signals,
            observer,
            ceilings: Ceilings::of(&order.inventory, order.host),
            wants: Wants::of(order.plan, &order.inventory, order.judge),
            profilers: Profilers::default(),
            reruns: attempts_to_replace(order.decided, &order.inventory, order.store, &owners),
            states: BTreeMap::new(),
            done_by_others: BTreeSet::new(),
            alike,
            cool_down: Duration::ZERO,
            sensors: Sensors::open(order.host.clone()),
            glance: Glance::default(),
            owner,
            others,
            set_aside: BTreeSet::new(),
            awaited: None,
            workers: BTreeMap::new(),
            durable: Durable::of(order.store),
            place: order.store.place(),
            warned: BTreeSet::new(),
            order,
        })
    }

    async fn run_all(&mut self) -> Result<(), Halt> {
        self.adopt_orphans().await?;
        self.wait_for_other_survivors().await?;
        // Repeated jobs can change which other jobs are needed.
        loop {
            self.run_waiting_jobs().await?;
            if !self.replace_marked().await? {
                return Ok(());
            }
        }
    }

    /// Runs the jobs that are not done, in their order.
    async fn run_waiting_jobs(&mut self) -> Result<(), Halt> {
        let decided = self.order.decided;
        let mut waiting: Vec<&Job> =
            decided.iter().filter(|decided| may_run(&decided.decision)).map(|decided| &decided.job).collect();
        // Skipped jobs are checked again at the end: a smaller batch might have succeeded this time, or other runs been
        // marked. Jobs of other owners are also checked again, since their attempts can fail.
        loop {
            let (mut left, mut elsewhere, mut is_stuck) = (Vec::new(), 0, true);
            for job in std::mem::take(&mut waiting) {
                if !self.is_open(job) {
                    continue;
                }
                match self.run_or_skip(job).await? {
                    Turn::Over => is_stuck = false,
                    Turn::Skipped => left.push(job),
                    Turn::Elsewhere => {
                        elsewhere += 1;
                        left.push(job);
                    }
                }
            }
            waiting = left;
            self.update_wants();
            if elsewhere == 0 && waiting.iter().all(|job| self.skips(job).is_some()) {
                return Ok(());
            }
            if is_stuck && elsewhere > 0 {
                self.wait_for_others(elsewhere).await?;
            }
        }
    }

    /// Repeats the done jobs that marks exclude, each once. Returns whether there were any.
    pub(super) async fn replace_marked(&mut self) -> Result<bool, Halt> {
        self.update_wants();
        let marked = self.to_replace();
        if marked.is_empty() {
            return Ok(false);
        }
        let runs = count_text(marked.len(), "run");
        let are = if marked.len() == 1 { "is" } else { "are" };
        self.observer
            .event(&Event::Note(&format!("marks leave {runs} out of the statistics, which {are} repeated")));
        for (job, attempt) in &marked {
            self.wants.replaced.insert(job.id(), *attempt);
            self.reruns.insert(job.id(), *attempt);
            self.states.insert(job.id(), State::Waiting);
            self.observer.event(&Event::Needed { job });
        }
        for (job, _) in &marked {
            self.stop_on_signal().await?;
            let ran = match self.run_job(job).await {
                Err(Halt::Taken) => {
                    self.states.remove(&job.id());
                    self.leave(job, State::Done, &Decision::Skip);
                    Ok(())
                }
                ran => self.spare_others(job, ran),
            };
            ran?;
        }
        Ok(true)
    }

    /// The reason for not running `job` for now, if any.
    fn skips(&mut self, job: &Job) -> Option<Decision> {
        if let Some(why) = self.not_needed(job) {
            return Some(Decision::NotNeeded { why });
        }
        self.ceilings.prunes(job.key()).map(|why| Decision::Pruned { why })
    }

    /// Runs `job` unless it is pruned or not needed, or another `orchestrate` has it.
    async fn run_or_skip(&mut self, job: &Job) -> Result<Turn, Halt> {
        self.stop_on_signal().await?;
        if let Some(decision) = self.skips(job) {
            self.leave(job, decision.state(), &decision);
            return Ok(Turn::Skipped);
        }
        self.observer.event(&Event::Needed { job });
        // Do not hold the host for a job that another process runs.
        if self.order.join && self.is_elsewhere(job) {
            return Ok(Turn::Elsewhere);
        }
        match self.run_job(job).await {
            Err(Halt::Taken) => Ok(Turn::Elsewhere),
            ran => self.spare_others(job, ran).map(|()| Turn::Over),
        }
    }

    /// Whether this run might still run `job`.
    fn is_open(&self, job: &Job) -> bool {
        let id = job.id();
        let is_open =
            matches!(self.states.get(&id), None | Some(State::Pruned | State::NotNeeded | State::Waiting));
        is_open && !self.set_aside.contains(&id)
    }

    /// Waits a moment for other owners that run the last jobs.
    async fn wait_for_others(&mut self, jobs: usize) -> Result<(), Halt> {
        let what = format!("another orchestrate, which runs {}", jobs_text(jobs));
        let waiting = Waiting { what, holder: None };
        if self.awaited.as_ref() != Some(&waiting) {
            self.observer.event(&Event::Waiting(&waiting));
            self.awaited = Some(waiting);
        }
        self.idle(LOOK).await
    }

    /// Runs `job` until it succeeds or its attempts are used up.
    async fn run_job(&mut self, job: &Job) -> Result<(), Halt> {
        for made in 0.. {
            let Some((record, retry)) = self.run_once(job, made).await? else { break };
            if let Some(by) = self.signals.stopping() {
                return Err(Halt::Stopped(by.to_owned()));
            }
            if !retry {
                return self.stop_if_all_fail_alike(job, &record);
            }
        }
        Ok(())
    }

    /// Makes one attempt of `job` under its locks, after `made` attempts in this run. Returns its record, and whether
    /// another attempt follows. `None` if another process finished the job while this one waited for the locks.
    async fn run_once(&mut self, job: &Job, made: u32) -> Result<Option<(Record, bool)>, Halt> {
        let device_lock = self.lock_device(job).await?;
        if !self.is_open(job) {
            // It was adopted during the wait.
            return Ok(None);
        }
        self.check_store_place()?;
        self.order.site.check_data(job)?;
        let mut job_lock = self.lock_job(job, WorkerFate::None).await?;
        // The run has begun: from now on it waits if another run takes the locks between two of its jobs.
        self.order.no_wait = false;
        let retries_left = match self.settle(job, &job_lock, Seen::Gone)? {
            Settled::Open => self.order.plan.env(job.key()).limits.retries.saturating_sub(made),
            Settled::Failed => match self.retries_left(job, made) {
                Some(left) => left,
                None => return Ok(None),
            },
            Settled::Closed => return Ok(None),
            Settled::Elsewhere => return Err(Halt::Taken),
        };
        self.owner.sign(&job.dir_name());
        sign(job, self.order.store.root(), &job_lock, Some(&device_lock));
        let record = self.attempt(job, &mut job_lock, &device_lock).await?;
        let stopping = self.signals.stopping().is_some();
        let retry = retries_left > 0 && record.outcome.policy().retry && !stopping;
        self.conclude(job, &record, retry);
        Ok(Some((record, retry)))
    }

    /// Takes the locks of the host and the device of `job`. If another `orchestrate` dies during the wait, its attempts
    /// are adopted, because no other process stops its worker at its limit.
    async fn lock_device(&mut self, job: &Job) -> Result<DeviceLock, Halt> {
        let share = self.order.plan.env(job.key()).share;
        let device = self.physical(job);
        let locks = self.locks.clone();
        loop {
            let owners = self.owner.owners();
            let mut others = std::mem::take(&mut self.others);
            let mut patience = self.patience();
            let locked = tokio::select! {
                biased;
                locked = locks.lock(job, &device, share, &mut patience) => Some(locked),
                () = others.lost(&owners) => None,
            };
            self.others = others;
            let Some(locked) = locked else {
                self.adopt_new_orphans().await?;
                continue;
            };
            let lock = self.unless_stopped(locked, WorkerFate::None)?;
            // The lock may be free because its owner has just died and left a worker that does not hold it.
            if self.others.look(&owners) {
                self.adopt_new_orphans().await?;
            }
            return Ok(lock);
        }
    }

    /// Stops the run if the last jobs failed in the same way, since the next ones would too.
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
