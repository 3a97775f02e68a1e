//! One attempt under its locks: the steps before its worker starts, the worker, and the record.
#![expect(clippy::disallowed_methods, reason = "a run happens in time")]

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
use crate::run::supervise::{seen, supervise, tell_unrecorded};
use crate::run::telemetry::Recorder;
use crate::store::{Attempt, End, WORTH_A_SYNC, claim, next_attempt, restore, save_record};

/// An attempt with its `attempt.json` on disk.
struct Begun {
    dir: AttemptDir,
    attempt: Attempt,
    secrets: BTreeMap<String, Option<Secret>>,
}

/// What is known of an attempt before its worker starts.
struct Known {
    /// How its worker is named.
    named: Named,
    provenance: Provenance,
    /// Those that its worker gets.
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
        // The profiler comes first, because asking it makes load. A job that it refuses starts nothing and waits for
        // nothing.
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

    /// The profiler of a profiled job, or why it does not work here. Reports the profiler's notes the first time.
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
        self.end(job, job_lock, begun, seen(Ending::Refused(why), false))
    }

    /// Idles for the cool-down of the last job's limits. We hold the locks, so that nobody else warms up the machine
    /// meanwhile.
    async fn cool_down(&mut self) -> Result<(), Halt> {
        let span = std::mem::take(&mut self.cool_down);
        if span.is_zero() {
            return Ok(());
        }
        self.observer.event(&Event::CoolingDown(span));
        self.idle(span).await
    }

    /// The labels of the jobs that run on other devices right now, if the env of `job` permits that.
    pub(super) fn beside(&self, job: &Job) -> Vec<String> {
        match self.order.plan.env(job.key()).share {
            Share::Device => self.locks.others(&self.physical(job)),
            Share::Nothing => Vec::new(),
        }
    }

    /// Writes `attempt.json`: everything about an attempt that is known before its worker starts.
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
        // The jobs beside ours might have changed during the wait.
        let beside = self.beside(job);
        let attempt = Attempt::new(Utc::now(), limits, time, probe_counters(), beside, provenance)
            .started_since_boot(probe_since_boot())
            .owned_by(self.owner.name())
            .behind_gate(gate)
            .under(profiler);
        if claim(&dir, &attempt)? { Ok(Begun { dir, attempt, secrets }) } else { Err(Halt::Taken) }
    }

    /// What is named alike stays the same during a run: whoever builds a new worker meanwhile did not ask for a
    /// mixture.
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

    /// What is known of an attempt before it starts.
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

    /// Where locks keep nobody out, by name.
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
        tell_unrecorded(recorded, self.observer);
        let call = ChainCall {
            argv: &attempt.provenance.command,
            environment: &with_secrets(&attempt.provenance.environment, secrets),
            directory: &self.order.site.directory,
        };
        let noted = device_lock.note_worker(&worker_variable(&dir.measurement()));
        let mut chain = match noted.and_then(|()| Chain::spawn(call, dir, job_lock, device_lock)) {
            Ok(chain) => chain,
            Err(error) => return seen(Ending::NotStarted { message: error.to_string() }, false),
        };
        if let Some(group) = chain.group().to_note() {
            // Without it, the attempt is as one of an older version, which is sound too.
            let _ = attempt.note_group(dir, group);
        }
        if Fault::RecordBeforeMeasurement.is_on() {
            let early = seen(Ending::Ended { code: Some(0), signal: None }, false);
            let _ = save_record(job_lock, &attempt.clone().conclude(job, dir, early));
        }
        self.cool_down = limits.cool_down;
        self.observer.event(&Event::Started { job, attempt: dir.number() });
        let mut notices = Notices::on(self.order.cloud.as_ref());
        let supervised =
            supervise(job, &mut chain, limits, dir, &mut recorder, &mut self.signals, self.observer);
        let end = tokio::select! {
            end = supervised => end,
            // Whoever finishes the attempt after the machine is gone finds them. Without them, it has less to say.
            never = notices.watch(|seen| drop(Attempt::note_notices(dir, seen))) => match never {},
        };
        if !end.ending.is_clean() {
            // Some providers announce the end only when they begin with it.
            notices.ask().await;
        }
        begun.attempt.notices = notices.into_seen();
        self.tell_notices(&begun.attempt.notices);
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
        self.heed_store()?;
        if restore(job, job_lock, &dir, &attempt)? {
            let what = "files were removed from its directory while it ran; those that the record needs were restored";
            self.observer.event(&Event::Warning(&format!("{}: {what}", job.label())));
        }
        let now = end.at;
        let end = attempt.by_its_clock(end, now, self.order.host.boot_id.as_deref(), probe_since_boot());
        let mut record = attempt.conclude(job, &dir, end);
        let values = secrets.values().flatten().map(Secret::reveal);
        record.outcome = without_secrets(&record.outcome, values);
        save_record(job_lock, &record)?;
        self.keep(dir, &record)?;
        Ok(record)
    }

    /// Has the attempt in `dir` with this record synced, before the next job starts if it is worth that.
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
        // Without its value, a worker would believe the word that stands for it.
        match secret {
            Some(secret) => environment.insert(name.clone(), secret.reveal().to_owned()),
            None => environment.remove(name),
        };
    }
    environment
}
