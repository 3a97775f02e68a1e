//! One attempt under its locks: the steps before its worker starts, the worker, and the record.
#![expect(clippy::disallowed_methods, reason = "an attempt records its start")]

use std::collections::{BTreeMap, BTreeSet};

use chrono::Utc;

use super::RunOrder;
use super::state::{Halt, Run};
use crate::event::{Event, WorkerFate};
use crate::files::{AttemptDir, Fault, write_plain};
use crate::host::{Named, probe_counters, probe_since_boot};
use crate::job::Job;
use crate::lock::{DeviceLock, JobLock};
use crate::matrix::{Secret, Share};
use crate::plan::{Profiler, changes_text, worker_changes};
use crate::record::{
    CloudFacts, Ending, Gate, NotProfiled, Provenance, Record, WorkerFacts, without_secrets,
};
use crate::run::notices::Notices;
use crate::run::process::{Chain, ChainCall, worker_variable};
use crate::run::supervise::{ended_now, supervise, warn_unrecorded};
use crate::run::telemetry::Recorder;
use crate::store::{Attempt, End, WORTH_A_SYNC, claim, next_attempt, restore, save_record};

/// An attempt with its `attempt.json` on disk.
struct Begun {
    dir: AttemptDir,
    attempt: Attempt,
    secrets: BTreeMap<String, Option<Secret>>,
}

/// The facts about an attempt before its worker starts.
struct Known {
    /// The names of its programs.
    named: Named,
    provenance: Provenance,
    /// The secrets that its worker gets.
    secrets: BTreeMap<String, Option<Secret>>,
}

impl Run<'_> {
    /// Makes one attempt of `job` under its locks, and saves its record.
    pub(super) async fn attempt(
        &mut self,
        job: &Job,
        job_lock: &mut JobLock,
        device_lock: &DeviceLock,
    ) -> Result<Record, Halt> {
        // The profiler comes first, because querying it makes load. A job that it rejects is recorded without waiting.
        let profiler = match self.profiler(job).await? {
            Some(Err(why)) => return self.refuse(job, job_lock, why),
            Some(Ok(profiler)) => Some(profiler),
            None => None,
        };
        self.cool_down().await?;
        let gate = self.pass_gate(job).await?;
        self.sensors.prepare(job.key().device);
        let mut begun = self.begin(job, job_lock, profiler, gate)?;
        let end = self.work(job, job_lock, device_lock, &mut begun).await;
        self.end(job, job_lock, begun, end)
    }

    /// The profiler of a profiled job, or the reason why it does not work here. Reports its notes the first time.
    async fn profiler(&mut self, job: &Job) -> Result<Option<Result<Profiler, NotProfiled>>, Halt> {
        let path = self.order.site.path(job, self.order.plan);
        let answer = tokio::select! {
            answer = self.profilers.ready(job.key(), &path, self.order.host) => answer,
            _ = self.signals.next() => return Err(self.stopped(WorkerFate::None)),
        };
        let Some(answer) = answer else { return Ok(None) };
        for sentence in &answer.sentences {
            self.observer.event(&Event::Note(sentence));
        }
        Ok(Some(answer.profiler))
    }

    /// Records an attempt whose profiler does not work here.
    fn refuse(&mut self, job: &Job, job_lock: &mut JobLock, why: NotProfiled) -> Result<Record, Halt> {
        let begun = self.begin(job, job_lock, None, None)?;
        self.end(job, job_lock, begun, ended_now(Ending::Refused(why), false))
    }

    /// Idles for the cool-down of the last job's limits, holding the locks, so that other jobs do not heat the machine
    /// meanwhile.
    async fn cool_down(&mut self) -> Result<(), Halt> {
        let span = std::mem::take(&mut self.cool_down);
        if span.is_zero() {
            return Ok(());
        }
        self.observer.event(&Event::CoolingDown(span));
        self.idle(span).await
    }

    /// The labels of the jobs that currently run on other devices, if the env of `job` permits that.
    pub(super) fn beside(&self, job: &Job) -> Vec<String> {
        match self.order.plan.env(job.key()).share {
            Share::Device => self.locks.others(&self.physical(job)),
            Share::Nothing => Vec::new(),
        }
    }

    /// Writes `attempt.json`: the facts about an attempt before its worker starts.
    fn begin(
        &mut self,
        job: &Job,
        job_lock: &JobLock,
        profiler: Option<Profiler>,
        gate: Option<Gate>,
    ) -> Result<Begun, Halt> {
        let dir = next_attempt(job, job_lock, &self.owner.owners())?;
        let Known { named, provenance, secrets } = self.known(job, job_lock, &dir, profiler.as_ref())?;
        self.stop_if_worker_changed(job, named, &provenance.worker)?;
        let limits = self.order.plan.env(job.key()).limits;
        let time = self.order.site.time.flavour;
        // The jobs on other devices might have changed during the wait.
        let beside = self.beside(job);
        let attempt = Attempt::new(Utc::now(), limits, time, probe_counters(), beside, provenance)
            .started_since_boot(probe_since_boot())
            .owned_by(self.owner.name())
            .behind_gate(gate)
            .under(profiler);
        if claim(&dir, &attempt)? { Ok(Begun { dir, attempt, secrets }) } else { Err(Halt::Taken) }
    }

    /// Stops the run if a program of the same name has changed since its first use in this run, for example because the
    /// user built it again. Results of one run must not mix two versions.
    fn stop_if_worker_changed(&mut self, job: &Job, named: Named, worker: &WorkerFacts) -> Result<(), Halt> {
        let first = self.workers.entry(named).or_insert_with(|| worker.clone());
        let changes = worker_changes(first, worker);
        if changes.is_empty() {
            return Ok(());
        }
        let text = format!(
            "{} is not started: its worker {} was replaced while the run went on: {}",
            job.label(),
            worker.path,
            changes_text(&changes)
        );
        self.observer.event(&Event::Warning(&text));
        Err(Halt::Stopped("a change of the worker".to_owned()))
    }

    /// Collects the facts about an attempt before it starts, and writes `command.sh`.
    fn known(
        &mut self,
        job: &Job,
        lock: &JobLock,
        dir: &AttemptDir,
        profiler: Option<&Profiler>,
    ) -> Result<Known, Halt> {
        let useless_locks = self.useless_locks();
        let RunOrder { site, plan, cloud, .. } = &mut self.order;
        let invocation = site.invocation(job, plan, dir, profiler)?;
        let directory = site.directory.display().to_string();
        let script = invocation.script(&job.label(), &directory, &dir.path().display().to_string());
        write_plain(&lock.dir().command(), &script)?;
        let named = site.named(job, &invocation);
        let env = plan.env(job.key());
        let place = CloudFacts::place(env.cloud.as_ref(), cloud.as_ref().map(|cloud| &cloud.place));
        let (cloud, cloud_source) = place.unzip();
        let provenance = Provenance {
            orchestrate: env!("CARGO_PKG_VERSION").to_owned(),
            host: self.glance.host().into(),
            worker: site.worker(job, &invocation).into(),
            matrix: plan.matrix.clone().into(),
            git: site.git.clone().map(Into::into),
            cloud: cloud.map(Into::into),
            cloud_source,
            slurm: site.slurm(),
            command: site.chain(&invocation, dir)?,
            environment: invocation.environment.into(),
            variables: Some(env.variable_names().into()),
            useless_locks,
            secret: Some(invocation.secrets.keys().cloned().collect()),
            locks: Some(site.lock_reach),
        };
        Ok(Known { named, provenance, secrets: invocation.secrets })
    }

    /// The names of the places where locks do not work.
    fn useless_locks(&self) -> BTreeSet<String> {
        let places = [("store", self.owner.owners().locks_work()), ("host", self.locks.locks_work())];
        places.into_iter().filter(|(_, works)| !works).map(|(name, _)| name.to_owned()).collect()
    }

    /// Starts the worker of `job` and supervises it until it ends.
    async fn work(
        &mut self,
        job: &Job,
        job_lock: &JobLock,
        device_lock: &DeviceLock,
        begun: &mut Begun,
    ) -> End {
        let Begun { dir, attempt, secrets } = &*begun;
        let limits = &attempt.limits;
        let device = job.key().device;
        let (mut recorder, recorded) = Recorder::start(&mut self.sensors, device, &dir.telemetry());
        warn_unrecorded(recorded, self.observer);
        let call = ChainCall {
            argv: &attempt.provenance.command,
            environment: &with_secrets(&attempt.provenance.environment, secrets),
            directory: &self.order.site.directory,
        };
        let noted = device_lock.note_worker(&worker_variable(&dir.measurement()));
        let mut chain = match noted.and_then(|()| Chain::spawn(call, dir, job_lock, device_lock)) {
            Ok(chain) => chain,
            Err(error) => return ended_now(Ending::NotStarted { message: error.to_string() }, false),
        };
        if let Some(group) = chain.group().to_note() {
            // Without it, the attempt is like one of an older version.
            let _ = attempt.note_group(dir, group);
        }
        if Fault::RecordBeforeMeasurement.is_on() {
            let early = ended_now(Ending::Ended { code: Some(0), signal: None }, false);
            let _ = save_record(job_lock, &attempt.clone().conclude(job, dir, early));
        }
        self.cool_down = limits.cool_down;
        self.observer.event(&Event::Started { job, attempt: dir.number() });
        let mut notices = Notices::on(self.order.cloud.as_ref());
        let supervised =
            supervise(job, &mut chain, limits, dir, &mut recorder, &mut self.signals, self.observer);
        let end = tokio::select! {
            end = supervised => end,
            // They are saved for the `orchestrate` that adopts the attempt if the machine disappears.
            never = notices.watch(|seen| drop(Attempt::note_notices(dir, seen))) => match never {},
        };
        if !end.ending.is_clean() {
            // Some providers announce the end of a machine only when it begins.
            notices.ask().await;
        }
        begun.attempt.notices = notices.into_seen();
        self.report_notices(&begun.attempt.notices);
        end
    }

    /// Saves the record of an attempt that has `ended`.
    fn end(
        &mut self,
        job: &Job,
        job_lock: &mut JobLock,
        Begun { dir, attempt, secrets }: Begun,
        end: End,
    ) -> Result<Record, Halt> {
        self.check_store_place()?;
        if restore(job, job_lock, &dir, &attempt)? {
            let what = "files were removed from its directory while it ran; those that the record needs were restored";
            self.observer.event(&Event::Warning(&format!("{}: {what}", job.label())));
        }
        let now = end.at;
        let boot_id = self.order.host.boot_id.as_deref();
        let end = attempt.with_corrected_end(end, now, boot_id, probe_since_boot());
        let mut record = attempt.conclude(job, &dir, end);
        let values = secrets.values().flatten().map(Secret::reveal);
        record.outcome = without_secrets(&record.outcome, values);
        save_record(job_lock, &record)?;
        self.keep(dir, &record)?;
        Ok(record)
    }

    /// Syncs the attempt in `dir` with this record soon; immediately if it took long.
    pub(super) fn keep(&self, dir: AttemptDir, record: &Record) -> Result<(), Halt> {
        self.durable.sync_soon(dir);
        if record.wall_s() >= WORTH_A_SYNC.as_secs_f64() {
            self.durable.sync()?;
        }
        Ok(())
    }
}

/// The worker's environment: `recorded` with the values of `secrets`.
fn with_secrets(
    recorded: &BTreeMap<String, String>,
    secrets: &BTreeMap<String, Option<Secret>>,
) -> BTreeMap<String, String> {
    let mut environment = recorded.clone();
    for (name, secret) in secrets {
        // A worker must not get the placeholder of a secret as its value.
        match secret {
            Some(secret) => environment.insert(name.clone(), secret.reveal().to_owned()),
            None => environment.remove(name),
        };
    }
    environment
}
