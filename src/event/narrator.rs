//! What is to be said of a run, decided without a terminal: events in, [`Saying`]s out.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::{Event, Summary, Waiting, WorkerFate};
use crate::job::{Job, JobId, Key, Kind, State, varying_parameters};
use crate::plan::{Decided, Decision, Estimator, TimeLeft, wall_seconds};
use crate::protocol::Progress;
use crate::record::Record;
use crate::text::{duration_text, jobs_text, rate_text};

/// One line about a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saying {
    /// The line, without its end.
    pub text: String,
    /// Who wants to read it.
    pub weight: Weight,
}

/// Who wants to read a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Whoever has no bars, which show it as well.
    Step,
    /// Whoever did not ask for silence.
    News,
    /// Everybody.
    Error,
}

/// Follows a run and knows how far it is.
#[derive(Debug)]
pub struct Narrator {
    estimator: Estimator,
    /// Jobs that are in the queue or running.
    open: BTreeMap<JobId, Key>,
    /// Jobs that were to be run when the run began.
    to_run: usize,
    /// Parameters that labels do not name and that differ between jobs.
    varying: Vec<String>,
    failed: usize,
    current: Option<Current>,
}

/// The job that runs, or what is waited for.
#[derive(Clone, Debug, PartialEq)]
pub struct Current {
    /// What it is.
    pub title: String,
    /// How far it is.
    pub phase: String,
    /// Iterations done and in all, where the worker counts them.
    pub iterations: Option<(u32, u32)>,
}

impl Narrator {
    /// One that has heard of nothing yet; its times left rest on what `estimator` has learnt.
    pub fn new(estimator: Estimator) -> Narrator {
        Narrator {
            estimator,
            open: BTreeMap::new(),
            to_run: 0,
            varying: Vec::new(),
            failed: 0,
            current: None,
        }
    }

    /// Jobs that left the queue, and jobs that were in it at first.
    pub fn position(&self) -> (usize, usize) {
        (self.to_run - self.open.len().min(self.to_run), self.to_run)
    }

    /// What the overall bar says behind its numbers.
    pub fn tally(&self) -> String {
        if self.failed == 0 { String::new() } else { format!(" · {} failed", self.failed) }
    }

    /// What runs now.
    pub fn current(&self) -> Option<&Current> {
        self.current.as_ref()
    }

    /// How long the rest will take, the whole of the running job included.
    pub fn time_left(&self) -> TimeLeft {
        self.estimator.time_left(self.open.values())
    }

    /// Takes in what happened; what is to be said of it.
    pub fn tell(&mut self, event: &Event<'_>) -> Option<Saying> {
        let step = |text| Some(Saying { text, weight: Weight::Step });
        let news = |text| Some(Saying { text, weight: Weight::News });
        match event {
            Event::Began { jobs } => news(self.began(jobs)),
            Event::Waiting(waiting) => step(self.waiting(waiting)),
            Event::Resumed => {
                self.current = None;
                None
            }
            Event::Started { job, attempt } => step(self.started(job, *attempt)),
            Event::Progress { progress, .. } => {
                self.progressed(*progress);
                None
            }
            Event::Ended { job, record, retry } => Some(self.ended(job, record, *retry)),
            Event::Left { job, decision } => news(self.left(job, decision)),
            Event::GivenUp { job, why, directory } => Some(self.given_up(job, why, directory)),
            Event::Gated { job, why, first } => {
                let text = self.gated(job, why);
                if *first { step(text) } else { None }
            }
            Event::CoolingDown(pause) => {
                self.cooling_down(*pause);
                None
            }
            Event::Stopping { by, fate } => news(stopping(by, *fate)),
            Event::Note(text) => news(format!("note: {text}")),
            Event::Warning(text) => news(format!("warning: {text}")),
            // How the run ended is a result: the verb says it on standard output.
            Event::Finished(_) => {
                self.current = None;
                None
            }
        }
    }

    fn began(&mut self, jobs: &[Decided]) -> String {
        let to_run = jobs.iter().filter(|decided| decided.decision.runs());
        self.open = to_run.map(|decided| (decided.job.id(), decided.job.key().clone())).collect();
        self.to_run = self.open.len();
        self.varying = varying_parameters(jobs.iter().map(|decided| decided.job.key()));
        let mut text = format!("{}: {} to run", jobs_text(jobs.len()), self.to_run);
        let found = Summary::of(jobs);
        let others = Summary { tally: found.tally.without(State::Waiting), ..found };
        if others.jobs() > 0 {
            text += &format!(", {others}");
        }
        if self.to_run > 0 {
            text += &format!("; time left: {}", self.time_left());
        }
        text
    }

    fn waiting(&mut self, waiting: &Waiting) -> String {
        let held = waiting.holder.as_ref().map(|holder| format!(", held by {holder}")).unwrap_or_default();
        let text = format!("waiting for {}{held}", waiting.what);
        self.current = Some(Current { title: text.clone(), phase: String::new(), iterations: None });
        text
    }

    fn started(&mut self, job: &Job, attempt: u32) -> String {
        let mut title = self.title(job);
        if attempt > 1 {
            title += &format!(" (attempt {attempt})");
        }
        let text = format!("{} start  {title}", self.counter());
        self.current = Some(Current { title, phase: "starting".to_owned(), iterations: None });
        text
    }

    fn progressed(&mut self, progress: Progress) {
        let Some(current) = &mut self.current else { return };
        let (phase, iterations) = match progress {
            Progress::Preparing => ("preparing", None),
            Progress::Warmup { done, of } => ("warm-up", Some((done, of))),
            Progress::Measure { done, of } => ("measuring", Some((done, of))),
        };
        current.phase = phase.to_owned();
        current.iterations = iterations;
    }

    fn gated(&mut self, job: &Job, why: &str) -> String {
        let text = format!("waiting to start {}: {why}", self.title(job));
        self.current = Some(Current { title: text.clone(), phase: String::new(), iterations: None });
        text
    }

    fn cooling_down(&mut self, pause: Duration) {
        let title = format!("cooling down for {}", duration_text(pause.as_secs_f64()));
        self.current = Some(Current { title, phase: String::new(), iterations: None });
    }

    fn ended(&mut self, job: &Job, record: &Record, retry: bool) -> Saying {
        let counter = self.counter();
        self.current = None;
        self.estimator.learn(record);
        if !retry {
            self.open.remove(&job.id());
        }
        let took = duration_text(wall_seconds(record));
        if record.outcome.is_success() {
            let text = format!("{counter} done   {}{} in {took}", self.title(job), result(record));
            return Saying { text, weight: Weight::News };
        }
        if record.outcome.policy().leaves == State::Waiting {
            let text = format!("{counter} stopped {} {} after {took}", self.title(job), record.outcome);
            return Saying { text, weight: Weight::News };
        }
        let then = if retry {
            "; it will be tried again"
        } else {
            self.failed += 1;
            ""
        };
        let text = format!("{counter} FAILED {} {} after {took}{then}", self.title(job), record.outcome);
        Saying { text, weight: if retry { Weight::News } else { Weight::Error } }
    }

    fn left(&mut self, job: &Job, decision: &Decision) -> String {
        let counter = self.counter();
        self.open.remove(&job.id());
        let why = match decision {
            Decision::Skip | Decision::Stale { .. } => {
                "it is done; somebody else was at it meanwhile".to_owned()
            }
            Decision::Pruned { why } | Decision::Blocked { why } | Decision::NotHere { why } => why.clone(),
            Decision::Run(_) | Decision::Rerun { .. } => "it is left for the next run".to_owned(),
        };
        format!("{counter} left   {}: {why}", self.title(job))
    }

    fn given_up(&mut self, job: &Job, why: &str, directory: &Path) -> Saying {
        let counter = self.counter();
        self.current = None;
        self.open.remove(&job.id());
        self.failed += 1;
        let text = format!(
            "{counter} FAILED {}: {why}; put {} right or move it away, and the next run tries it again",
            self.title(job),
            directory.display()
        );
        Saying { text, weight: Weight::Error }
    }

    /// The job's label, with the parameters that differ between jobs.
    fn title(&self, job: &Job) -> String {
        let mut title = job.label();
        for name in &self.varying {
            if let Some(value) = job.key().param(name) {
                title += &format!(" {name}={value}");
            }
        }
        title
    }

    /// `[ 8/45]`: the job that is next to leave the queue.
    fn counter(&self) -> String {
        let (past, all) = self.position();
        let width = all.to_string().len();
        format!("[{:>width$}/{all}]", (past + 1).min(all))
    }
}

/// What a success says of itself. Only a synchronised window without a profiler has a throughput.
fn result(record: &Record) -> String {
    match &record.measurement {
        Some(measurement) if record.key.kind == Kind::Timing && measurement.synchronized => {
            format!("  {} images/s", rate_text(measurement.samples_per_s()))
        }
        _ => String::new(),
    }
}

fn stopping(by: &str, fate: WorkerFate<'_>) -> String {
    match fate {
        WorkerFate::None => format!("stopping ({by}): nothing more is started"),
        WorkerFate::Asked => format!(
            "stopping ({by}): nothing more is started, and the worker is asked to end; again kills it at once"
        ),
        WorkerFate::Killed => format!("stopping at once ({by}): the worker is killed"),
        WorkerFate::GoesOn(job) => format!(
            "stopping ({by}): nothing more is started; the worker of {} goes on, and `orchestrate resume` waits for \
             it again",
            job.label()
        ),
    }
}
