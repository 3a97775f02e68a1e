//! What became of a profiled job: how its worker ended and what its profiler left, judged together.

use super::ncu::{NcuCounters, NcuFailure, NcuOutput, Selection, parse_ncu};
use super::perf::{PerfFailure, parse_perf};
use super::{Counters, NotProfiled, Outcome, ReportedExit};
use crate::job::Kind;

/// What the profiler of an attempt left behind, and what it had been asked for.
#[derive(Clone, Debug)]
pub struct ProfilerOutput<'a> {
    /// Its file: the table, and most of what it says.
    pub table: &'a str,
    /// The end of the chain's standard output and error, into which the program writes too.
    pub said: &'a str,
    /// The end of the program's standard error.
    pub program_stderr: &'a str,
    /// How it ended, as far as anybody saw.
    pub exit: Option<ReportedExit>,
    /// Its version, where it is known.
    pub version: Option<&'a str>,
    /// The metrics or events that it was asked for, and those that it was not.
    pub selection: Selection,
}

/// The outcome of a job of `kind` whose worker came to `outcome`, and what was counted.
///
/// A worker that failed is told by its own words, unless the profiler was the reason: it may refuse before the worker
/// is started, or end it. A worker that succeeded under a profiler that counted nothing is a failure.
pub fn decide_profiled(
    kind: Kind,
    outcome: Outcome,
    output: &ProfilerOutput<'_>,
) -> (Outcome, Option<Counters>) {
    let counted = match kind {
        Kind::Timing => return (outcome, None),
        Kind::Ncu => count_ncu(output),
        Kind::Perf => count_perf(output),
    };
    match counted {
        Ok(counters) => (outcome, Some(counters)),
        Err(failure) if outcome.is_success() || (failure.is_cause && outcome.policy().by_profiler) => {
            (Outcome::NotProfiled(failure.why), None)
        }
        Err(_) => (outcome, None),
    }
}

struct Failure {
    why: NotProfiled,
    /// The profiler says of itself that it cannot work: that is no consequence of how the worker ended.
    is_cause: bool,
}

fn count_ncu(output: &ProfilerOutput<'_>) -> Result<Counters, Failure> {
    let ProfilerOutput { table, said, program_stderr, exit, version, ref selection } = *output;
    let left = NcuOutput { csv: table, log: said, exit, program_stderr };
    match parse_ncu(&left, selection) {
        Ok(counters) => Ok(Counters::Ncu(NcuCounters { version: version.map(str::to_owned), ..counters })),
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

fn count_perf(output: &ProfilerOutput<'_>) -> Result<Counters, Failure> {
    let events: Vec<&str> = output.selection.metrics.iter().map(String::as_str).collect();
    let found = parse_perf(output.table, output.said, &events).map(Counters::Perf);
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
            NcuFailure::KernelsMissing { .. } | NcuFailure::Table(_) => "torn_table",
        };
        NotProfiled { cause: cause.to_owned(), message: failure.to_string(), remedy: failure.remedy() }
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
            PerfFailure::Torn(_) | PerfFailure::Missing(_) | PerfFailure::Malformed(_) => "torn_report",
            PerfFailure::DecimalComma(_) | PerfFailure::TableForPeople => "wrong_format",
        };
        NotProfiled { cause: cause.to_owned(), message: failure.to_string(), remedy: failure.remedy() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERMISSION: &str = "==PROF== Connected to process 1 (/opt/worker)\n\
        ==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n==PROF== Disconnected from process 1\n\
        ==WARNING== No kernels were profiled.\n";
    const NO_KERNELS: &str = "==PROF== Connected to process 1 (/opt/worker)\n\
        ==PROF== Disconnected from process 1\n==WARNING== No kernels were profiled.\n";

    fn judged(kind: Kind, outcome: Outcome, table: &str) -> Outcome {
        let selection = Selection { metrics: vec!["page-faults".to_owned()], ..Selection::default() };
        let output = ProfilerOutput {
            table,
            said: "",
            program_stderr: "",
            exit: Some(ReportedExit::Code(0)),
            version: None,
            selection,
        };
        let (outcome, counters) = decide_profiled(kind, outcome, &output);
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
    fn a_worker_that_succeeds_under_a_profiler_that_counts_nothing_is_a_failure() {
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
    fn a_worker_that_fails_is_told_by_its_own_words_unless_the_profiler_refused() {
        let exited = Outcome::Exited { code: 1, message: None };
        assert_eq!(cause(&judged(Kind::Ncu, exited.clone(), PERMISSION)), Some("no_permission"));
        assert_eq!(judged(Kind::Ncu, exited.clone(), NO_KERNELS), exited);
        let late = Outcome::TimedOut { after_s: 5.0 };
        assert_eq!(judged(Kind::Ncu, late.clone(), PERMISSION), late);
    }
}
