//! The purpose that a profiler is prepared for, and the result.

use std::time::Duration;

use crate::host::find::{FindError, Tool};
use crate::job::{Device, Kind};
use crate::plan::Profiler;
use crate::record::NotProfiled;

/// Longer than `ncu` takes to list what a device can count, on the slowest machine seen.
pub(super) const PATIENCE: Duration = Duration::from_secs(90);

/// A profiler that works, and what the user is told about it before its first job.
#[derive(Clone, Debug)]
pub(super) struct Ready {
    pub(super) profiler: Profiler,
    pub(super) sentences: Vec<String>,
}

/// The purpose that a profiler is prepared for. Jobs with the same purpose share one answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Purpose {
    pub(super) kind: Kind,
    pub(super) device: Device,
    pub(super) counters: Vec<String>,
    /// The worker's `PATH`, where its profiler is searched too.
    pub(super) path: String,
}

/// The refusal of a profiler that is not found; `install` tells how to get it.
pub(super) fn not_found(tool: &Tool, error: &FindError, install: &str) -> NotProfiled {
    let remedy = match error {
        FindError::Nowhere(_) => install.to_owned(),
        FindError::Named { .. } => {
            format!("set {} to the program's path, or unset it to search PATH", tool.variable)
        }
    };
    NotProfiled { cause: "not_found".to_owned(), message: error.to_string(), remedy }
}
