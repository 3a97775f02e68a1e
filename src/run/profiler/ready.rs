//! What a profiler is made ready for, and what comes of it.

use std::time::Duration;

use crate::host::find::{FindError, Tool};
use crate::job::{Device, Kind};
use crate::plan::Profiler;
use crate::record::NotProfiled;

/// Longer than `ncu` takes to list what a device can count, on the slowest machine seen.
pub(super) const PATIENCE: Duration = Duration::from_secs(90);

/// A profiler that can be called, and what is to be said of it before its first job.
#[derive(Clone, Debug)]
pub(super) struct Ready {
    pub(super) profiler: Profiler,
    pub(super) sentences: Vec<String>,
}

/// What a profiler is made ready for: jobs that are alike in this need not ask again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Purpose {
    pub(super) kind: Kind,
    pub(super) device: Device,
    pub(super) counters: Vec<String>,
    /// Where the worker's programs are looked for, and so its profiler.
    pub(super) path: String,
}

/// The refusal of a profiler that is not found; `install` says where to have it from.
pub(super) fn not_found(tool: &Tool, error: &FindError, install: &str) -> NotProfiled {
    let remedy = match error {
        FindError::Nowhere(_) => install.to_owned(),
        FindError::Named { .. } => {
            format!("let {} name the program, or unset it to have it looked for", tool.variable)
        }
    };
    NotProfiled { cause: "not_found".to_owned(), message: error.to_string(), remedy }
}
