//! The exit codes of `orchestrate`, in one place.

use std::process::ExitCode;

/// How `orchestrate` ends, for scripts to tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything asked for is done.
    Done = 0,
    /// Something that should not happen did; also how `doctor` ends on a host on which no run can work.
    Unexpected = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// The matrix has mistakes.
    MatrixInvalid = 3,
    /// The selection leaves no job.
    NothingSelected = 4,
    /// Some jobs failed; the others are done.
    SomeFailed = 10,
    /// Stopped before the end; `orchestrate resume` goes on.
    Interrupted = 11,
    /// The store is in use by another `orchestrate` that must not be waited for, or cannot be read.
    StoreUnusable = 12,
    /// There are no records to aggregate.
    NothingToAggregate = 13,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// The exit codes, for the end of `--help`.
pub(super) const HELP: &str = "\
Exit codes:
   0  all done
   1  unexpected error
   2  usage
   3  matrix invalid
   4  nothing selected
  10  some jobs failed
  11  interrupted; `orchestrate resume` goes on
  12  store busy or unreadable
  13  nothing to aggregate";
