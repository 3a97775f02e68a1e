//! The directory of an attempt: created before it starts, and again if it was deleted while its worker ran.
#![expect(clippy::disallowed_methods, reason = "an attempt is files")]

use std::fs;
use std::io;
use std::path::Path;

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
    remove_tmp(dir.path(), "");
    write_key(job, dir)?;
    let path = dir.path().join("attempts");
    let wrong = |source| WriteError { path: path.clone(), source };
    let attempts = dir.attempts().map_err(wrong)?;
    attempts.iter().for_each(|attempt| remove_tmp(attempt.path(), ""));
    fs::create_dir_all(&path).map_err(wrong)?;
    take(dir.attempt(attempts.last().map_or(0, AttemptDir::number) + 1))
}

/// Creates the directory of `attempt`. Where locks work, nobody else can have created it. Where they do not, whoever
/// creates it has the attempt.
fn take(attempt: AttemptDir) -> Result<AttemptDir, WriteError> {
    let busy =
        "another orchestrate began it at the same moment: the locks of this file system keep nobody out";
    match fs::create_dir(attempt.path()) {
        Ok(()) => Ok(attempt),
        Err(error) => {
            let is_taken = error.kind() == io::ErrorKind::AlreadyExists;
            let source = if is_taken { io::Error::new(io::ErrorKind::ResourceBusy, busy) } else { error };
            Err(WriteError { path: attempt.path().to_owned(), source })
        }
    }
}

/// Removes what a crash left half written beside the record of the job of `lock`.
pub fn tidy(lock: &JobLock) {
    remove_tmp(lock.dir().path(), "");
}

/// Removes the directory of an attempt that will not start, if nothing is in it.
pub fn abandon(dir: &AttemptDir) {
    let _ = fs::remove_dir(dir.path());
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

/// Removes partly written files whose names begin with `name`, which a crash left behind in `directory`. A lock must
/// keep other writers away.
pub(super) fn remove_tmp(directory: &Path, name: &str) {
    let start = format!(".{name}");
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(&start) && name.ends_with(".tmp") {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_belongs_to_whoever_creates_its_directory() {
        let directory = tempfile::tempdir().unwrap();
        let attempt = JobDir::at(directory.path().join("job")).attempt(1);
        assert_eq!(take(attempt.clone()).unwrap_err().source.kind(), io::ErrorKind::NotFound);
        fs::create_dir_all(attempt.path().parent().unwrap()).unwrap();
        take(attempt.clone()).unwrap();
        let error = take(attempt).unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::ResourceBusy);
        assert!(error.source.to_string().contains("the locks of this file system keep nobody out"));
    }
}
