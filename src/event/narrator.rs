//! Turns the events of a run into lines of text, without a terminal: [`Event`]s in, [`NarratedLine`]s out.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Event, Summary, Waiting, WorkerFate};
use crate::job::{Job, JobId, Kind, State, varying_parameters};
use crate::plan::{Decided, Decision, Estimator, Forecast, TimeLeft, is_listed};
use crate::protocol::Progress;
use crate::record::Record;
use crate::text::{duration_text, jobs_text, rate_text};

/// One line about a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NarratedLine {
    /// The line, without a line break.
    pub text: String,
    /// Its importance.
    pub weight: Weight,
}

/// The importance of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Shown only without progress bars, because the bars show it too.
    Step,
    /// Shown unless `--quiet` is given.
    News,
    /// Shown even with `--quiet`.
    Error,
}

/// Follows a run and tracks its progress.
#[derive(Debug)]
pub struct Narrator {
    /// Of the open jobs.
    forecast: Forecast,
    /// The jobs in the queue, and the one that is running.
    open: BTreeSet<JobId>,
    /// The number of jobs that have been in the queue so far.
    to_run: usize,
    /// Parameters that differ between jobs but are not part of their labels.
    varying: Vec<String>,
    failed: usize,
    /// The configs that were reported to have enough repeats.
    satisfied: BTreeSet<JobId>,
    current: Option<Current>,
}

/// The current activity of a run: running a job, or waiting.
#[derive(Clone, Debug, PartialEq)]
pub struct Current {
    /// The job, or the subject of the wait.
    pub title: String,
    /// The job's phase, such as `warm-up`; empty while the run waits.
    pub phase: String,
    /// Iterations done and in total, if the worker counts them.
    pub iterations: Option<(u32, u32)>,
}

impl Narrator {
    /// A narrator that has not seen any event. `estimator` predicts the time left.
    pub fn new(estimator: Estimator) -> Narrator {
        Narrator {
            forecast: Forecast::new(estimator),
            open: BTreeSet::new(),
            to_run: 0,
            varying: Vec::new(),
            failed: 0,
            satisfied: BTreeSet::new(),
            current: None,
        }
    }

    /// The numbers of jobs that have left the queue, and that have been in it.
    pub fn position(&self) -> (usize, usize) {
        (self.to_run - self.open.len().min(self.to_run), self.to_run)
    }

    /// The text behind the numbers of the overall bar.
    pub fn tally(&self) -> String {
        if self.failed == 0 { String::new() } else { format!(" · {} failed", self.failed) }
    }

    /// The current activity.
    pub fn current(&self) -> Option<&Current> {
        self.current.as_ref()
    }

    /// The estimated time of the remaining jobs, counting the running one in full. In O(1).
    pub fn time_left(&self) -> TimeLeft {
        self.forecast.time_left()
    }

    /// Processes an event. Returns the line that reports it, if there is one.
    pub fn narrate(&mut self, event: &Event<'_>) -> Option<NarratedLine> {
        let step = |text| Some(NarratedLine { text, weight: Weight::Step });
        let news = |text| Some(NarratedLine { text, weight: Weight::News });
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
            Event::Needed { job } => {
                self.open(job);
                None
            }
            Event::Left { job, decision } if !is_listed(job, decision.state()) => {
                self.close(job);
                None
            }
            Event::Left { job, decision: Decision::NotNeeded { why } } => news(self.not_needed(job, why)?),
            Event::Left { job, decision } => news(self.left(job, decision)),
            Event::GivenUp { job, why, remedy } => Some(self.given_up(job, why, remedy)),
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
            // The end of a run is a result, so the verb prints it on standard output.
            Event::Finished(_) => {
                self.current = None;
                None
            }
        }
    }

    fn began(&mut self, jobs: &[Decided]) -> String {
        for Decided { job, .. } in jobs.iter().filter(|decided| decided.decision.runs()) {
            self.open(job);
        }
        self.varying = varying_parameters(jobs.iter().map(|decided| decided.job.key()));
        let found = Summary::of(jobs);
        let mut text = format!("{}: {} to run", jobs_text(found.jobs()), self.to_run);
        let if_needed = found.tally.of(State::IfNeeded);
        if if_needed > 0 {
            text += &format!(", up to {if_needed} more if needed");
        }
        let others = found.tally.without(State::Waiting).without(State::IfNeeded);
        let others = Summary { tally: others, ..found };
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

    fn ended(&mut self, job: &Job, record: &Record, retry: bool) -> NarratedLine {
        let counter = self.counter();
        self.current = None;
        self.forecast.learn(record);
        if !retry {
            self.close(job);
        }
        let took = duration_text(record.wall_s());
        if record.outcome.is_success() {
            let text = format!("{counter} done   {}{} in {took}", self.title(job), result(record));
            return NarratedLine { text, weight: Weight::News };
        }
        if record.outcome.policy().leaves == State::Waiting {
            let text = format!("{counter} stopped {} {} after {took}", self.title(job), record.outcome);
            return NarratedLine { text, weight: Weight::News };
        }
        let then = if retry {
            "; it will be tried again"
        } else {
            self.failed += 1;
            ""
        };
        let text = format!("{counter} FAILED {} {} after {took}{then}", self.title(job), record.outcome);
        NarratedLine { text, weight: if retry { Weight::News } else { Weight::Error } }
    }

    fn left(&mut self, job: &Job, decision: &Decision) -> String {
        let counter = self.counter();
        self.close(job);
        let why = match decision {
            Decision::Skip | Decision::Stale { .. } => {
                "it is done: another `orchestrate` ran it meanwhile".to_owned()
            }
            Decision::NotNeeded { why }
            | Decision::IfNeeded { why }
            | Decision::Pruned { why }
            | Decision::Blocked { why }
            | Decision::NotHere { why } => why.clone(),
            Decision::Run(_) | Decision::Rerun { .. } | Decision::Replace { .. } => {
                "it is left for the next run".to_owned()
            }
        };
        format!("{counter} left   {}: {why}", self.title(job))
    }

    /// A line for the first job of a config that has enough repeats.
    fn not_needed(&mut self, job: &Job, why: &str) -> Option<String> {
        self.close(job);
        let label = job.label();
        let config = label.strip_suffix(&format!("_run{}", job.key().repeat)).unwrap_or(&label).to_owned();
        let text = format!("no more repeats of {}: {why}", self.with_varying(config, job));
        self.satisfied.insert(job.key().config_id()).then_some(text)
    }

    fn given_up(&mut self, job: &Job, why: &str, remedy: &str) -> NarratedLine {
        let counter = self.counter();
        self.current = None;
        self.close(job);
        self.failed += 1;
        let text = format!("{counter} FAILED {}: {why}; {remedy}", self.title(job));
        NarratedLine { text, weight: Weight::Error }
    }

    /// Puts `job` into the queue, unless it is in it.
    fn open(&mut self, job: &Job) {
        if self.open.insert(job.id()) {
            self.forecast.open(job.key());
            self.to_run += 1;
        }
    }

    /// Takes `job` out of the queue, if it is in it.
    fn close(&mut self, job: &Job) {
        if self.open.remove(&job.id()) {
            self.forecast.close(job.key());
        }
    }

    /// The job's label and the parameters that differ between jobs.
    fn title(&self, job: &Job) -> String {
        self.with_varying(job.label(), job)
    }

    /// `title` with the parameters of `job` that differ between jobs.
    fn with_varying(&self, mut title: String, job: &Job) -> String {
        for name in &self.varying {
            if let Some(value) = job.key().param(name) {
                title += &format!(" {name}={value}");
            }
        }
        title
    }

    /// `[ 8/45]`: the number of the job that is next to leave the queue.
    fn counter(&self) -> String {
        let (past, all) = self.position();
        let width = all.to_string().len();
        format!("[{:>width$}/{all}]", (past + 1).min(all))
    }
}

/// The throughput of a success. Only a synchronised window without a profiler has one.
fn result(record: &Record) -> String {
    match &record.measurement {
        Some(measurement) if record.key.kind == Kind::Timing && measurement.synchronized => {
            let unit = measurement.unit(&record.key);
            format!("  {} {unit}/s", rate_text(measurement.samples_per_s()))
        }
        _ => String::new(),
    }
}

fn stopping(by: &str, fate: WorkerFate<'_>) -> String {
    match fate {
        WorkerFate::None => format!("stopping ({by}): no more jobs will start"),
        WorkerFate::Asked => {
            // If another signal stopped it, the user has not pressed Ctrl-C yet.
            let key = if by == "SIGINT" { "another Ctrl-C" } else { "Ctrl-C" };
            format!(
                "stopping ({by}): no more jobs will start, and the worker was asked to end; {key} kills it immediately"
            )
        }
        WorkerFate::Killed => format!("stopping immediately ({by}): killing the worker"),
        WorkerFate::GoesOn(job) => format!(
            "stopping ({by}): no more jobs will start; the worker of {} keeps running, and `orchestrate resume` will \
             wait for it",
            job.label()
        ),
    }
}
