//! The exit codes of `orchestrate`. `main`, the end of `--help` and the manual's table take them from here.

use std::process::ExitCode;

use crate::store::INTERRUPTED;

/// How `orchestrate` ends, so that scripts can react.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything requested is done.
    Done = 0,
    /// An unexpected error. `doctor` also ends with it on a host where no run can work, and `verify` if a file was
    /// altered.
    Unexpected = 1,
    /// The command line is invalid.
    Usage = 2,
    /// The matrix has mistakes.
    MatrixInvalid = 3,
    /// There is no such plan or job, or the selection leaves no job.
    NothingSelected = 4,
    /// Jobs of this host have no result: they failed, were pruned or are blocked.
    SomeFailed = 10,
    /// Stopped before the end; `orchestrate resume` continues.
    Interrupted = INTERRUPTED as isize,
    /// The store cannot be read, or another `orchestrate` uses it and `--no-wait` was given.
    StoreUnusable = 12,
    /// The plan has no records to aggregate.
    NothingToAggregate = 13,
    /// `compare --fail-slower`: a config is slower by more than the limit.
    Slower = 14,
    /// `compare --fail-slower`: no config is shown to be slower by more than the limit, but one might be.
    CannotTell = 15,
    /// `merge` did not take everything: results are in conflict or damaged, or jobs run here now. `import` found
    /// another ledger of the same name.
    LeftOut = 16,
    /// `audit` found numbers of a ledger that contradict each other.
    FalseLedger = 17,
}

/// Leaks `value`, which is needed until the program ends anyway. Freeing the records of a hundred thousand jobs one by
/// one can take a tenth of the time of a verb.
pub(super) fn leave<T>(value: T) {
    std::mem::forget(value);
}

/// Lists every exit code with its meaning. A code that is missing here does not compile.
macro_rules! meanings {
    ($($exit:ident => $meaning:literal,)+) => {
        impl Exit {
            /// Every exit code, in ascending order.
            pub const ALL: &[Exit] = &[$(Exit::$exit),+];

            /// The meaning in a few words.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Exit::$exit => $meaning,)+
                }
            }
        }
    };
}

meanings! {
    Done => "all done",
    Unexpected => "unexpected error",
    Usage => "usage",
    MatrixInvalid => "matrix invalid",
    NothingSelected => "nothing selected: no such plan or job, or none that the options leave",
    SomeFailed => "some jobs failed",
    Interrupted => "interrupted; continue with `orchestrate resume`",
    StoreUnusable => "store busy or unreadable",
    NothingToAggregate => "nothing to aggregate",
    Slower => "slower than `--fail-slower` allows",
    CannotTell => "cannot tell whether something is slower than `--fail-slower` allows",
    LeftOut => "left out of a merge or an import: conflicts, damaged results, or jobs that run here now",
    FalseLedger => "errors in an audited ledger",
}

impl Exit {
    /// The exit code of the process.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The manual's table: one row per exit code.
    pub fn markdown() -> String {
        let row = |exit: &Exit| format!("| {} | {} |\n", exit.code(), exit.meaning());
        format!("| exit code | meaning |\n|--:|---|\n{}", Exit::ALL.iter().map(row).collect::<String>())
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

/// The exit codes, for the end of `--help`: one line per code.
pub(super) fn help() -> String {
    let line = |exit: &Exit| format!("\n  {:>2}  {}", exit.code(), exit.meaning());
    format!("Exit codes:{}", Exit::ALL.iter().map(line).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scripts rely on these. Codes can be added, but never changed.
    const PROMISED: &[(u8, &str)] = &[
        (0, "all done"),
        (1, "unexpected"),
        (2, "usage"),
        (3, "matrix invalid"),
        (4, "nothing selected"),
        (10, "some jobs failed"),
        (11, "interrupted"),
        (12, "store busy or unreadable"),
        (13, "nothing to aggregate"),
        (14, "slower"),
        (15, "cannot tell"),
        (16, "left out of a merge"),
        (17, "errors in an audited ledger"),
    ];

    #[test]
    fn exit_codes_are_stable() {
        let codes: Vec<u8> = Exit::ALL.iter().map(|exit| exit.code()).collect();
        assert_eq!(codes, PROMISED.iter().map(|(code, _)| *code).collect::<Vec<_>>());
        for (exit, (code, meaning)) in Exit::ALL.iter().zip(PROMISED) {
            assert!(exit.meaning().starts_with(meaning), "{code}: {}", exit.meaning());
        }
    }

    #[test]
    fn help_and_manual_list_all_exit_codes() {
        let (help, manual) = (help(), Exit::markdown());
        for exit in Exit::ALL {
            let (code, meaning) = (exit.code(), exit.meaning());
            assert!(help.lines().any(|line| line == format!("  {code:>2}  {meaning}")), "{help}");
            assert!(manual.lines().any(|line| line == format!("| {code} | {meaning} |")), "{manual}");
        }
    }
}
