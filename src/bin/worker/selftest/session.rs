//! Runs checks one after the other within a time limit. Whatever a check does, the others run, and one report is
//! printed.

#![expect(clippy::disallowed_methods, reason = "a self-test has a time limit")]

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tch::TchError;

use super::comparison::Comparison;
use super::report::{Check, Machine, Outcome, SelfTest, Verdict};
use crate::failure::{self, WorkerError};

/// How long a check may go on after the limit before it counts as hanging. Within a check, the limit is looked at after
/// each iteration, which takes a second at most.
const GRACE: Duration = Duration::from_secs(15);

/// The reason of checks that did not begin within the time limit.
const NO_TIME: &str = "the time limit was reached: raise --seconds";

/// Why a check ended before it could compare anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// The device does not have what the check tests.
    Unsupported(String),
    /// The time limit was reached, or it could not have shown anything.
    NotRun(String),
    /// Something went wrong.
    Failed(String),
}

impl From<WorkerError> for Halt {
    fn from(error: WorkerError) -> Self {
        match error {
            WorkerError::Unsupported(reason) => Halt::Unsupported(reason),
            other => Halt::Failed(failure::one_line(&other)),
        }
    }
}

impl From<TchError> for Halt {
    fn from(error: TchError) -> Self {
        WorkerError::from(error).into()
    }
}

/// The comparisons of a check, or why there are none.
pub(super) type Found = Result<Vec<Comparison>, Halt>;

/// The time that is left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    started: Instant,
    limit: Duration,
}

impl Clock {
    /// A clock that started at `started` and allows `limit_s` seconds.
    pub(super) fn new(started: Instant, limit_s: u32) -> Self {
        Clock { started, limit: Duration::from_secs(limit_s.into()) }
    }

    /// Seconds until the limit.
    pub(super) fn left_s(&self) -> f64 {
        self.limit.saturating_sub(self.started.elapsed()).as_secs_f64()
    }

    /// Whether there is time to go on.
    ///
    /// # Errors
    /// [`Halt::NotRun`] if the time limit is reached.
    pub(super) fn go_on(&self) -> Result<(), Halt> {
        if self.left_s() > 0.0 { Ok(()) } else { Err(Halt::NotRun(NO_TIME.to_owned())) }
    }
}

/// A check that is going to run in a `C`.
pub(super) struct Planned<C> {
    /// Its name.
    pub(super) name: String,
    /// What it shows if it passes.
    pub(super) shows: &'static str,
    /// What it does.
    pub(super) body: Box<dyn FnOnce(&mut C) -> Found>,
}

/// Runs all checks of `plan` until `clock` says stop, prints the report, and returns the verdict.
///
/// # Errors
/// [`WorkerError::Write`] if the report cannot be printed.
pub(super) fn run<C>(
    machine: Machine,
    clock: Clock,
    plan: Vec<Planned<C>>,
    context: &mut C,
) -> Result<Verdict, WorkerError> {
    let state = Shared::new(State::new(machine, clock, &plan));
    let watched = state.clone();
    let limit = clock.limit.saturating_sub(clock.started.elapsed()) + GRACE;
    let alive = watch(limit, move || {
        let report = watched.take().overdue();
        // The process ends here, so a failure to print cannot be reported.
        let _ = print(&report);
        end_process(report.verdict);
    });
    for (index, planned) in plan.into_iter().enumerate() {
        state.with(|state| state.begin(index));
        let found = clock.go_on().and_then(|()| caught(|| (planned.body)(context)));
        state.with(|state| state.end(found));
    }
    let report = state.take().report();
    drop(alive);
    print(&report)?;
    Ok(report.verdict)
}

/// Runs `body` and turns a panic into an error.
fn caught(body: impl FnOnce() -> Found) -> Found {
    failure::caught(|| Ok(body())).unwrap_or_else(|error| Err(error.into()))
}

/// Calls `overdue` after `limit`, unless the result is dropped before.
fn watch(limit: Duration, overdue: impl FnOnce() + Send + 'static) -> Sender<()> {
    let (alive, ended) = mpsc::channel();
    thread::spawn(move || {
        if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            overdue();
        }
    });
    alive
}

/// Ends the process immediately. A device that hangs would block the ordinary exit.
fn end_process(verdict: Verdict) -> ! {
    // SAFETY: it takes a number and does not return.
    unsafe { nix::libc::_exit(verdict.exit_code().into()) }
}

/// Prints the report.
fn print(report: &SelfTest) -> Result<(), WorkerError> {
    let text =
        serde_json::to_string_pretty(report).expect("a report has string keys and no failing serializer");
    let mut out = io::stdout().lock();
    let printed = writeln!(out, "{text}").and_then(|()| out.flush());
    printed.map_err(|source| WorkerError::Write { path: PathBuf::from("standard output"), source })
}

/// The state, for the thread that prints it: the one that runs the checks, or the one that watches the time.
struct Shared(Arc<Mutex<Option<State>>>);

impl Shared {
    fn new(state: State) -> Self {
        Shared(Arc::new(Mutex::new(Some(state))))
    }

    fn clone(&self) -> Self {
        Shared(Arc::clone(&self.0))
    }

    /// Takes the state to print it. The thread that comes second waits until the first one ends the process.
    fn take(&self) -> State {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        state.unwrap_or_else(|| {
            loop {
                thread::park();
            }
        })
    }

    /// Changes the state, unless it is being printed.
    fn with(&self, change: impl FnOnce(&mut State)) {
        if let Some(state) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            change(state);
        }
    }
}

/// All checks, including those that did not run yet.
struct State {
    machine: Machine,
    clock: Clock,
    checks: Vec<Check>,
    /// The check that runs, and since when.
    running: Option<(usize, Instant)>,
}

impl State {
    fn new<C>(machine: Machine, clock: Clock, plan: &[Planned<C>]) -> Self {
        let waiting = |planned: &Planned<C>| Check {
            name: planned.name.clone(),
            shows: planned.shows,
            outcome: Outcome::NotRun,
            reason: Some(NO_TIME.to_owned()),
            compared: Vec::new(),
            elapsed_s: 0.0,
        };
        State { machine, clock, checks: plan.iter().map(waiting).collect(), running: None }
    }

    /// The check at `index` begins.
    fn begin(&mut self, index: usize) {
        eprintln!("{}/{} {}", index + 1, self.checks.len(), self.checks[index].name);
        self.running = Some((index, Instant::now()));
    }

    /// The check that runs has ended.
    fn end(&mut self, found: Found) {
        let Some((index, since)) = self.running.take() else { return };
        let check = &mut self.checks[index];
        check.elapsed_s = since.elapsed().as_secs_f64();
        (check.outcome, check.reason, check.compared) = judged(found);
        let wrong = check.compared.iter().filter(|comparison| !comparison.holds).map(Comparison::text);
        let reasons: Vec<String> = check.reason.iter().cloned().chain(wrong).collect();
        let why = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; ")) };
        eprintln!("    {} after {:.1} s{why}", check.outcome.as_str(), check.elapsed_s);
    }

    /// The report if the check that runs does not end.
    fn overdue(mut self) -> SelfTest {
        let first_waiting = self.running.map_or(self.checks.len(), |(index, _)| index + 1);
        for check in &mut self.checks[first_waiting..] {
            check.reason = Some("an earlier check did not end".to_owned());
        }
        self.end(Err(Halt::Failed("it does not end: the device hangs, or is far too slow".to_owned())));
        self.report()
    }

    fn report(self) -> SelfTest {
        let State { machine, clock, checks, .. } = self;
        let limit_s = u32::try_from(clock.limit.as_secs()).unwrap_or(u32::MAX);
        SelfTest::of(machine, limit_s, clock.started.elapsed().as_secs_f64(), checks)
    }
}

/// The outcome of a check with this result. A check without comparisons counts as not run.
fn judged(found: Found) -> (Outcome, Option<String>, Vec<Comparison>) {
    match found {
        Ok(compared) if compared.is_empty() => {
            (Outcome::NotRun, Some("it compared nothing".to_owned()), compared)
        }
        Ok(compared) if compared.iter().all(|comparison| comparison.holds) => {
            (Outcome::Passed, None, compared)
        }
        Ok(compared) => (Outcome::Failed, None, compared),
        Err(Halt::Unsupported(reason)) => (Outcome::Unsupported, Some(reason), Vec::new()),
        Err(Halt::NotRun(reason)) => (Outcome::NotRun, Some(reason), Vec::new()),
        Err(Halt::Failed(reason)) => (Outcome::Failed, Some(reason), Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use orchestrate::job::Device;

    use super::*;

    fn machine() -> Machine {
        Machine {
            worker: "0".into(),
            system: "linux x86_64".into(),
            macos: None,
            device: Device::Cpu,
            device_name: "a processor".into(),
            device_uuid: None,
            compute_capability: None,
            free_memory_bytes: None,
            threads: 1,
            versions: BTreeMap::new(),
        }
    }

    fn planned(name: &str, body: impl FnOnce(&mut Vec<String>) -> Found + 'static) -> Planned<Vec<String>> {
        Planned { name: name.to_owned(), shows: "it works", body: Box::new(body) }
    }

    fn passing() -> Vec<Comparison> {
        vec![Comparison::equal("a", 1.0, 1.0)]
    }

    fn outcomes(state: State) -> Vec<(Outcome, Option<String>)> {
        state.report().checks.into_iter().map(|check| (check.outcome, check.reason)).collect()
    }

    #[test]
    fn outcomes_follow_from_comparisons_and_halts() {
        let wrong = [passing(), vec![Comparison::equal("b", 1.0, 2.0)]].concat();
        for (found, outcome, reason) in [
            (Ok(passing()), Outcome::Passed, None),
            (Ok(wrong), Outcome::Failed, None),
            (Ok(Vec::new()), Outcome::NotRun, Some("it compared nothing")),
            (Err(Halt::Failed("a".into())), Outcome::Failed, Some("a")),
            (Err(Halt::NotRun("b".into())), Outcome::NotRun, Some("b")),
            (Err(Halt::Unsupported("c".into())), Outcome::Unsupported, Some("c")),
        ] {
            let (as_found, why, _) = judged(found);
            assert_eq!((as_found, why.as_deref()), (outcome, reason));
        }
    }

    #[test]
    fn errors_determine_how_a_check_ended() {
        let halt = |error: WorkerError| Halt::from(error);
        assert_eq!(halt(WorkerError::Unsupported("no tf32".into())), Halt::Unsupported("no tf32".into()));
        assert_eq!(halt(WorkerError::Torch("bad".into())), Halt::Failed("libtorch: bad".into()));
        assert_eq!(
            caught(|| panic!("a bug")),
            Err(Halt::Failed("the worker panicked: a bug".into())),
            "a panic is a failure of its check"
        );
    }

    /// As `run` does it, without the printing.
    #[test]
    fn checks_run_whatever_the_others_do() {
        let clock = Clock::new(Instant::now(), 1000);
        let plan = vec![
            planned("first", |_| panic!("a bug")),
            planned("second", |_| Err(Halt::Failed("no".into()))),
            planned("third", |seen| {
                seen.push("third".to_owned());
                Ok(passing())
            }),
        ];
        let mut state = State::new(machine(), clock, &plan);
        let mut seen = Vec::new();
        for (index, planned) in plan.into_iter().enumerate() {
            state.begin(index);
            state.end(caught(|| (planned.body)(&mut seen)));
        }
        assert_eq!(seen, ["third"]);
        let found: Vec<Outcome> = outcomes(state).into_iter().map(|(outcome, _)| outcome).collect();
        assert_eq!(found, [Outcome::Failed, Outcome::Failed, Outcome::Passed]);
    }

    #[test]
    fn checks_without_time_are_listed() {
        let clock = Clock::new(Instant::now(), 0);
        assert_eq!(clock.go_on(), Err(Halt::NotRun(NO_TIME.into())));
        assert!(Clock::new(Instant::now(), 1000).go_on().is_ok());
        let plan = ["first", "second", "third"].map(|name| planned(name, |_| Ok(passing())));
        let mut state = State::new(machine(), clock, &plan);
        state.begin(0);
        state.end(Ok(passing()));
        state.begin(1);
        let report = state.overdue();
        let found: Vec<Outcome> = report.checks.iter().map(|check| check.outcome).collect();
        assert_eq!(found, [Outcome::Passed, Outcome::Failed, Outcome::NotRun]);
        assert!(report.checks[1].reason.as_ref().unwrap().starts_with("it does not end"));
        // More time would not help.
        assert_eq!(report.checks[2].reason.as_deref(), Some("an earlier check did not end"));
        assert_eq!((report.verdict, report.limit_s), (Verdict::Failed, 0));
    }

    #[test]
    fn only_overdue_checks_are_ended() {
        let (sender, receiver) = mpsc::channel();
        let alive = watch(Duration::ZERO, move || sender.send(()).unwrap());
        assert_eq!(receiver.recv(), Ok(()));
        drop(alive);
        let (sender, receiver) = mpsc::channel::<()>();
        drop(watch(Duration::from_secs(3600), move || drop(sender)));
        assert!(receiver.recv().is_err(), "the thread ends when it is no longer needed");
    }
}
