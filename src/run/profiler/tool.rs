//! Other programs, asked something before they are used: bounded in time, and never in the way of a signal.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

/// Longer than `ncu` takes to list what a device can count, on the slowest machine seen.
const BOUND: Duration = Duration::from_secs(90);

/// What a program said, and whether it was content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    /// It exited with 0.
    pub(super) is_success: bool,
    /// Standard output, then standard error.
    pub(super) text: String,
}

/// Why a program said nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    /// It cannot be started, or its output not be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It did not end; it is stopped.
    #[error("it did not answer within {} s", BOUND.as_secs())]
    Silent,
}

/// Runs `program` to its end.
///
/// # Errors
/// [`AskError`].
pub(super) async fn ask(program: &Path, arguments: &[&str]) -> Result<Said, AskError> {
    let output = tokio::process::Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(BOUND, output).await.map_err(|_| AskError::Silent)??;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    Ok(Said { is_success: output.status.success(), text })
}

/// The program called `name`: where `variable` says, if it says anything; else the first in the directories of `path`,
/// which is a list as `PATH` has it; else the first of `elsewhere` that is there.
pub(super) fn find(name: &str, variable: &str, path: &str, elsewhere: &[&str]) -> Option<PathBuf> {
    if let Some(said) = std::env::var_os(variable).filter(|said| !said.is_empty()) {
        return Some(PathBuf::from(said)).filter(|said| said.is_file());
    }
    let listed = std::env::split_paths(OsStr::new(path)).filter(|directory| directory.is_absolute());
    let places = listed.chain(elsewhere.iter().map(PathBuf::from));
    places.map(|directory| directory.join(name)).find(|program| program.is_file())
}
