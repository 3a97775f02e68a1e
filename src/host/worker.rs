//! Where the shipped worker is.
#![expect(
    clippy::disallowed_methods,
    reason = "the user names it in the environment, else it is beside our own program"
)]

use std::path::{Path, PathBuf};

/// Names the shipped worker.
pub const WORKER_VARIABLE: &str = "ORCHESTRATE_WORKER";

/// Where the shipped worker is: where the user says, else beside our own program.
pub fn shipped_worker() -> PathBuf {
    if let Some(path) = std::env::var_os(WORKER_VARIABLE).filter(|path| !path.is_empty()) {
        return std::path::absolute(&path).unwrap_or_else(|_| path.into());
    }
    let own = std::env::current_exe().unwrap_or_default();
    own.parent().unwrap_or(Path::new("/")).join("worker")
}
