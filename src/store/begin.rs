//! The directory of an attempt: created before it starts, and again if it was deleted while its worker ran.
#![expect(clippy::disallowed_methods, reason = "an attempt is files")]

use std::fs;

use super::attempt::Attempt;
use crate::files::{AttemptDir, FILE_LIMIT, JobDir, WriteError, read_regular, to_json, write_whole};
use crate::job::{Job, Key};
use crate::lock::{JobLock, LockError};

/// A deleted part of an attempt that cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The job's lock.
    #[error(transparent)]
    Lock(LockError),
    /// A file or directory.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Writes `key.json` and creates the directory of the next attempt.
///
/// # Errors
/// Something cannot be written.
pub fn begin(job: &Job, lock: &JobLock) -> Result<AttemptDir, WriteError> {
    let dir = lock.dir();
    remove_tmp(dir);
    write_key(job, dir)?;
    let wrong = |source| WriteError { path: dir.path().join("attempts"), source };
    let last = dir.attempts().map_err(wrong)?.last().map_or(0, AttemptDir::number);
    let attempt = dir.attempt(last + 1);
    fs::create_dir_all(attempt.path()).map_err(wrong)?;
    Ok(attempt)
}

/// Writes `key.json` unless a valid one exists. A torn or foreign one would hide the job's attempts.
fn write_key(job: &Job, dir: &JobDir) -> Result<(), WriteError> {
    let json = to_json(job.key());
    let is_sound = || {
        let found: Key = serde_json::from_slice(&read_regular(&dir.key(), FILE_LIMIT).ok()?).ok()?;
        Some(Job::new(found).id() == job.id())
    };
    if is_sound() == Some(true) { Ok(()) } else { write_whole(&dir.key(), &json) }
}

/// Restores what the record of `attempt` needs, if it was deleted while its worker ran. A worker is a foreign program,
/// and its failure must still be recorded. Returns whether anything was restored.
///
/// # Errors
/// It cannot be restored.
pub fn restore(
    job: &Job,
    lock: &mut JobLock,
    dir: &AttemptDir,
    attempt: &Attempt,
) -> Result<bool, RestoreError> {
    let lock_was_gone = lock.restore().map_err(RestoreError::Lock)?;
    if dir.attempt().exists() {
        return Ok(lock_was_gone);
    }
    write_key(job, lock.dir())?;
    let wrong = |source| WriteError { path: dir.path().to_owned(), source };
    fs::create_dir_all(dir.path()).map_err(wrong)?;
    attempt.save(dir)?;
    Ok(true)
}

/// Removes partly written files that a crash left behind. The job's lock keeps other writers away.
fn remove_tmp(dir: &JobDir) {
    for entry in fs::read_dir(dir.path()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with('.') && name.ends_with(".tmp") {
            let _ = fs::remove_file(entry.path());
        }
    }
}
