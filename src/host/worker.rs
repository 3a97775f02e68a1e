//! Finds the shipped worker.
#![expect(
    clippy::disallowed_methods,
    reason = "the environment names the worker, otherwise it is next to our own program"
)]

use std::path::{Path, PathBuf};

/// The variable that names the shipped worker.
pub const WORKER_VARIABLE: &str = "ORCHESTRATE_WORKER";

/// The path of the shipped worker: the user's variable, otherwise next to our own program.
pub fn shipped_worker() -> PathBuf {
    if let Some(path) = std::env::var_os(WORKER_VARIABLE).filter(|path| !path.is_empty()) {
        return std::path::absolute(&path).unwrap_or_else(|_| path.into());
    }
    let own = std::env::current_exe().unwrap_or_default();
    own.parent().unwrap_or(Path::new("/")).join("worker")
}
