//! Decides the outcome of a profiled job from the end of the worker and the output of the profiler.

use std::io::{BufRead, Read};

use super::ncu::{NcuCounters, NcuFailure, NcuOutput, Selection, TableError, parse_ncu};
use super::perf::{PerfFailure, parse_perf};
use super::said::plain;
use super::{Counters, NotProfiled, Outcome, ReportedExit};
use crate::job::{Key, Kind};
use crate::protocol::Measurement;

/// The request to a profiler, and its output besides its file.
#[derive(Clone, Debug)]
pub struct ProfilerOutput<'a> {
    /// The end of the chain's stdout and stderr, which the program shares.
    pub log: &'a str,
    /// The end of the program's stderr.
    pub program_stderr: &'a str,
    /// How the profiler ended; `None` if that was not observed.
    pub exit: Option<ReportedExit>,
    /// Its version, if known.
    pub version: Option<&'a str>,
    /// The requested metrics or events, and those left out.
    pub selection: Selection,
}

/// Decides the outcome of a job of `kind` whose worker ended with `outcome`, and returns the counts. `table` is the
/// profiler's file: the table and most of its messages.
///
/// If the worker failed, its own error is reported, unless the profiler caused it: a profiler may refuse to start the
/// worker, or stop it. If the worker succeeded but the profiler counted nothing, the job fails.
pub fn decide_profiled(
    kind: Kind,
    outcome: Outcome,
    table: &mut dyn BufRead,
    output: &ProfilerOutput<'_>,
) -> (Outcome, Option<Counters>) {
    let counted = match kind {
        Kind::Timing | Kind::Ops => return (outcome, None),
        Kind::Ncu => count_ncu(table, output),
        Kind::Perf => count_perf(table, output),
    };
    match counted {
        Ok(counters) => (outcome, Some(counters)),
        Err(failure) if outcome.is_success() || (failure.is_cause && outcome.policy().by_profiler) => {
            (Outcome::NotProfiled(failure.why), None)
        }
        // A profiler replays every kernel, so its job can need many times as long as a timing job.
        Err(failure)
            if kind == Kind::Ncu && !failure.is_cause && matches!(outcome, Outcome::TimedOut { .. }) =>
        {
            (Outcome::NotProfiled(out_of_time(&outcome)), None)
        }
        Err(_) => (outcome, None),
    }
}

/// Decides the outcome of a job of `key` whose worker ended with `outcome` and reported `measurement`. If the job
/// profiles operators and the worker succeeded without reporting any, the job fails.
pub fn decide_operators(key: &Key, outcome: Outcome, measurement: Option<&Measurement>) -> Outcome {
    let is_missing = measurement.is_none_or(|measurement| measurement.ops.is_none());
    if key.kind == Kind::Ops && outcome.is_success() && is_missing {
        return Outcome::NotProfiled(no_operators(key));
    }
    outcome
}

/// The worker of `key` did not do what `ORCHESTRATE_OPERATORS` asks for.
fn no_operators(key: &Key) -> NotProfiled {
    let how = if key.worker.is_shipped() {
        "build the worker of this version with `./bootstrap.sh build`"
    } else {
        "a Python script that uses `window()` of orchestrate_worker profiles without further lines; any other worker \
         writes `ops`, as docs/protocol.md shows"
    };
    let remedy = format!("{how}; or turn it off with `profile: {{ ops: false }}`");
    not_profiled("no_operators", "the worker reported no operators", &remedy)
}

/// Why there are no counts, if the job was stopped at its time limit.
fn out_of_time(outcome: &Outcome) -> NotProfiled {
    let message = format!("it {outcome}, before Nsight Compute could finish");
    not_profiled("timed_out", &message, &NcuFailure::Killed { signal: None }.remedy())
}

struct Failure {
    why: NotProfiled,
    /// The profiler itself cannot work, regardless of the worker.
    is_cause: bool,
}

fn count_ncu(table: &mut dyn BufRead, output: &ProfilerOutput<'_>) -> Result<Counters, Failure> {
    let ProfilerOutput { log, program_stderr, exit, version, ref selection } = *output;
    let left = NcuOutput { log, exit, program_stderr };
    match parse_ncu(table, &left, selection) {
        Ok(counters) => {
            Ok(Counters::Ncu(Box::new(NcuCounters { version: version.map(str::to_owned), ..counters })))
        }
        Err(failure) => {
            let is_cause = !matches!(
                failure,
                NcuFailure::Application { .. }
                    | NcuFailure::Killed { .. }
                    | NcuFailure::Exited(_)
                    | NcuFailure::NoKernels
                    | NcuFailure::NoTable
                    | NcuFailure::KernelsMissing { .. }
                    | NcuFailure::Table(_)
            );
            Err(Failure { why: failure.into(), is_cause })
        }
    }
}

/// The longest report of `perf` that is read. It has a line per event, perhaps one per thread.
const LONGEST_REPORT: u64 = 64 << 20;

fn count_perf(table: &mut dyn BufRead, output: &ProfilerOutput<'_>) -> Result<Counters, Failure> {
    let mut report = Vec::new();
    // After a read error, the report is incomplete, and the parser notices that.
    let _ = table.take(LONGEST_REPORT).read_to_end(&mut report);
    let report = String::from_utf8_lossy(&report);
    let events: Vec<&str> = output.selection.metrics.iter().map(String::as_str).collect();
    let found = parse_perf(&report, output.log, &events).map(Counters::Perf);
    found.map_err(|failure| {
        let is_cause = matches!(
            failure,
            PerfFailure::Permission { .. }
                | PerfFailure::NotForThisKernel { .. }
                | PerfFailure::NoCounters
                | PerfFailure::UnknownEvent(_)
        );
        Failure { why: failure.into(), is_cause }
    })
}

impl From<NcuFailure> for NotProfiled {
    fn from(failure: NcuFailure) -> Self {
        let cause = match &failure {
            NcuFailure::Permission => "no_permission",
            NcuFailure::LibraryNotLoaded => "library_not_loaded",
            NcuFailure::CountersInUse => "counters_in_use",
            NcuFailure::UnsupportedDevice(_) => "unsupported_device",
            NcuFailure::IncompatibleDriver(_) => "incompatible_driver",
            NcuFailure::UnknownMetrics(_) => "unknown_metric",
            NcuFailure::Application { .. } => "program_failed",
            NcuFailure::Other(_) => "error",
            NcuFailure::Killed { .. } => "killed",
            NcuFailure::NoKernels => "no_kernels",
            NcuFailure::Exited(_) => "exited",
            NcuFailure::NoTable => "no_table",
            NcuFailure::KernelsMissing { .. } | NcuFailure::Table(TableError::Torn { .. }) => "torn_table",
            NcuFailure::Table(_) => "unreadable_table",
        };
        not_profiled(cause, &failure.to_string(), &failure.remedy())
    }
}

impl From<PerfFailure> for NotProfiled {
    fn from(failure: PerfFailure) -> Self {
        let cause = match &failure {
            PerfFailure::Permission { .. } => "no_permission",
            PerfFailure::NotForThisKernel { .. } => "not_for_this_kernel",
            PerfFailure::NoCounters => "no_counters",
            PerfFailure::UnknownEvent(_) => "unknown_event",
            PerfFailure::NothingCounted => "nothing_counted",
            PerfFailure::Empty(_) => "no_report",
            PerfFailure::Torn(_) | PerfFailure::Missing(_) => "torn_report",
            PerfFailure::Malformed(_) => "unreadable_report",
            PerfFailure::Impossible(_) => "impossible_count",
            PerfFailure::DecimalComma(_) | PerfFailure::TableForPeople => "wrong_format",
        };
        not_profiled(cause, &failure.to_string(), &failure.remedy())
    }
}

/// Both texts may quote the profiler, so they are sanitised.
fn not_profiled(cause: &str, message: &str, remedy: &str) -> NotProfiled {
    NotProfiled { cause: cause.to_owned(), message: plain(message), remedy: plain(remedy) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::WorkerTemplate;

    const PERMISSION: &str = "==PROF== Connected to process 1 (/opt/worker)\n\
        ==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n==PROF== Disconnected from process 1\n\
        ==WARNING== No kernels were profiled.\n";
    const NO_KERNELS: &str = "==PROF== Connected to process 1 (/opt/worker)\n\
        ==PROF== Disconnected from process 1\n==WARNING== No kernels were profiled.\n";

    fn judged(kind: Kind, outcome: Outcome, table: &str) -> Outcome {
        let selection = Selection { metrics: vec!["page-faults".to_owned()], ..Selection::default() };
        let output = ProfilerOutput {
            log: "",
            program_stderr: "",
            exit: Some(ReportedExit::Code(0)),
            version: None,
            selection,
        };
        let (outcome, counters) = decide_profiled(kind, outcome, &mut table.as_bytes(), &output);
        assert_eq!(counters.is_some(), outcome.is_success() && kind != Kind::Timing);
        outcome
    }

    fn cause(outcome: &Outcome) -> Option<&str> {
        match outcome {
            Outcome::NotProfiled(why) => Some(&why.cause),
            _ => None,
        }
    }

    #[test]
    fn a_job_whose_profiler_counted_nothing_fails() {
        for (table, word) in [(PERMISSION, "no_permission"), (NO_KERNELS, "no_kernels"), ("", "no_table")] {
            assert_eq!(cause(&judged(Kind::Ncu, Outcome::Succeeded, table)), Some(word));
        }
        assert_eq!(cause(&judged(Kind::Perf, Outcome::Succeeded, "")), Some("no_report"));
        assert_eq!(
            judged(Kind::Perf, Outcome::Succeeded, "7,,page-faults,1000,100.00,,\n"),
            Outcome::Succeeded
        );
        assert_eq!(judged(Kind::Timing, Outcome::Succeeded, ""), Outcome::Succeeded);
    }

    #[test]
    fn the_counters_of_ncu_name_its_version() {
        let output = ProfilerOutput {
            log: "",
            program_stderr: "",
            exit: Some(ReportedExit::Code(0)),
            version: Some("2026.1"),
            selection: Selection::default(),
        };
        let mut table = &include_bytes!("../../tests/records/ncu_wide_nvtx.csv")[..];
        let (outcome, counters) = decide_profiled(Kind::Ncu, Outcome::Succeeded, &mut table, &output);
        let Some(Counters::Ncu(counters)) = counters else { panic!("{outcome}") };
        assert_eq!((outcome, counters.version.as_deref()), (Outcome::Succeeded, Some("2026.1")));
    }

    #[test]
    fn a_worker_without_the_requested_operators_has_a_remedy() {
        let shipped = Key { kind: Kind::Ops, ..Key::example() };
        let own = Key { worker: WorkerTemplate::Command(["train".into()].into()), ..shipped.clone() };
        for (key, part) in [(&shipped, "./bootstrap.sh build"), (&own, "window()")] {
            let Outcome::NotProfiled(why) = decide_operators(key, Outcome::Succeeded, None) else { panic!() };
            assert_eq!(
                (why.cause.as_str(), why.message.as_str()),
                ("no_operators", "the worker reported no operators")
            );
            assert!(
                why.remedy.contains(part) && why.remedy.ends_with("`profile: { ops: false }`"),
                "{}",
                why.remedy
            );
        }
        let exited = Outcome::Exited { code: 1, message: None };
        assert_eq!(decide_operators(&own, exited.clone(), None), exited, "its own failure is reported");
        assert_eq!(decide_operators(&Key::example(), Outcome::Succeeded, None), Outcome::Succeeded);
    }

    #[test]
    fn a_replay_that_hangs_has_a_remedy() {
        let hung = "==PROF== Connected to process 1 (/opt/worker)\n==PROF== Profiling \"f\" - 0: 0%....50%";
        let late = Outcome::TimedOut { after_s: 60.0 };
        let Outcome::NotProfiled(why) = judged(Kind::Ncu, late, hung) else { panic!("it has a remedy") };
        assert_eq!(why.cause, "timed_out");
        assert_eq!(
            why.message,
            "it was stopped at its time limit of 60 s, before Nsight Compute could finish"
        );
        assert!(why.remedy.contains("limits.timeout"), "{}", why.remedy);
    }

    #[test]
    fn the_workers_own_failure_is_reported_unless_the_profiler_caused_it() {
        let exited = Outcome::Exited { code: 1, message: None };
        assert_eq!(cause(&judged(Kind::Ncu, exited.clone(), PERMISSION)), Some("no_permission"));
        assert_eq!(judged(Kind::Ncu, exited.clone(), NO_KERNELS), exited);
        let late = Outcome::TimedOut { after_s: 5.0 };
        assert_eq!(judged(Kind::Ncu, late.clone(), PERMISSION), late);
        assert_eq!(judged(Kind::Perf, late.clone(), ""), late, "perf takes no time");
    }
}
