//! The purpose of a profiler, [`Purpose`], and the result of preparing it, [`Ready`].

use std::time::Duration;

use crate::host::find::{FindError, Tool};
use crate::job::{Device, Kind};
use crate::plan::Profiler;
use crate::record::NotProfiled;

/// Timeout of a query. `ncu` takes less to list the metrics of a device, on the slowest machine seen.
pub(super) const PATIENCE: Duration = Duration::from_secs(90);

/// A profiler that works, and sentences about it to report before its first job.
#[derive(Clone, Debug)]
pub(super) struct Ready {
    pub(super) profiler: Profiler,
    pub(super) sentences: Vec<String>,
}

/// The purpose of a profiler. Jobs with the same purpose share one query.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Purpose {
    pub(super) kind: Kind,
    pub(super) device: Device,
    pub(super) counters: Vec<String>,
    /// The worker's `PATH`, in which the profiler is searched.
    pub(super) path: String,
}

/// The error of a profiler that is not found; `install` is the remedy if it is not installed.
pub(super) fn not_found(tool: &Tool, error: &FindError, install: &str) -> NotProfiled {
    let remedy = match error {
        FindError::Nowhere(_) => install.to_owned(),
        FindError::Named { .. } => {
            format!("set {} to the program's path, or unset it to search PATH", tool.variable)
        }
    };
    NotProfiled { cause: "not_found".to_owned(), message: error.to_string(), remedy }
}
