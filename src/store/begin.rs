//! Creates the directory of an attempt before it starts, and again if it was deleted while its worker ran.
//!
//! The directory is created completely under a hidden name such as `.01.<owner>.tmp`, then renamed to its number, which
//! fails if another attempt has that number. So each attempt has exactly one owner, even where locks do not work, and
//! no process ever sees an attempt without an owner.
#![expect(clippy::disallowed_methods, reason = "an attempt is files")]

use std::fs;
use std::io;
use std::path::Path;

use super::announce::announce;
use super::attempt::Attempt;
use crate::files::{
    AttemptDir, FILE_LIMIT, JobDir, WriteError, overwrite, read_regular, to_json, to_sealed_json, write_whole,
};
use crate::job::{Job, Key};
use crate::lock::{JobLock, LockError, Owners};

/// A deleted part of an attempt that cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The job's lock cannot be restored.
    #[error(transparent)]
    Lock(LockError),
    /// A file or directory cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Writes `key.json`, removes partly written files of a crash, and returns the next attempt, which is not claimed yet.
///
/// # Errors
/// A file cannot be written.
pub fn next_attempt(job: &Job, lock: &JobLock, owners: &Owners) -> Result<AttemptDir, WriteError> {
    let dir = lock.dir();
    remove_tmp(dir.path(), "");
    write_key(job, dir)?;
    let path = dir.path().join("attempts");
    let wrong = |source| WriteError { path: path.clone(), source };
    let attempts = dir.attempts().map_err(wrong)?;
    attempts.iter().for_each(|attempt| remove_tmp(attempt.path(), ""));
    fs::create_dir_all(&path).map_err(wrong)?;
    remove_unclaimed(&path, owners);
    Ok(dir.attempt(attempts.last().map_or(0, AttemptDir::number) + 1))
}

/// Claims the attempt in `dir` by creating its directory. Returns `false` if another process has claimed it.
///
/// # Errors
/// It cannot be written.
pub fn claim(dir: &AttemptDir, attempt: &Attempt) -> Result<bool, WriteError> {
    let wrong = |source| WriteError { path: dir.path().to_owned(), source };
    let name = hidden_name(dir.number(), attempt.owner().unwrap_or_default());
    let hidden = dir.path().with_file_name(name);
    let json = to_sealed_json(attempt);
    let made = fs::create_dir(&hidden)
        .and_then(|()| overwrite(&hidden.join(ATTEMPT_FILE), &json))
        .and_then(|_| fs::rename(&hidden, dir.path()));
    let Err(error) = made else {
        if let Some(job) = dir.path().ancestors().nth(2) {
            announce(&JobDir::at(job.to_owned()));
        }
        return Ok(true);
    };
    let _ = fs::remove_dir_all(&hidden);
    match error.kind() {
        // The name of a directory that is not empty.
        io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists => Ok(false),
        _ => Err(wrong(error)),
    }
}

const ATTEMPT_FILE: &str = "attempt.json";

fn hidden_name(number: u32, owner: &str) -> String {
    format!(".{number:02}.{owner}.tmp")
}

/// Removes the hidden directories in `attempts` of processes that died before they claimed an attempt.
fn remove_unclaimed(attempts: &Path, owners: &Owners) {
    for entry in fs::read_dir(attempts).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let inner = name.strip_prefix('.').and_then(|name| name.strip_suffix(".tmp"));
        if let Some((_, owner)) = inner.and_then(|inner| inner.split_once('.'))
            && !owners.is_at_work(owner)
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Removes partly written files that a crash left in the directory of the job of `lock` and of its attempt in `dir`.
pub fn tidy(lock: &JobLock, dir: &AttemptDir) {
    remove_tmp(lock.dir().path(), "");
    remove_tmp(dir.path(), ATTEMPT_FILE);
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

/// Restores files that the record of `attempt` needs, if they were deleted while its worker ran. A worker is a foreign
/// program, and its failure must still be recorded. Returns whether anything was restored.
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

/// Removes partly written files that a crash left in `directory`, of files whose names begin with `name`. The caller
/// must hold a lock that excludes other writers.
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
    use std::sync::Barrier;

    use super::*;
    use crate::lock::OwnerLock;
    use crate::store::tests::attempt;

    #[test]
    fn an_attempt_has_one_owner_even_without_locks() {
        let directory = tempfile::tempdir().unwrap();
        let job_dir = JobDir::at(directory.path().join("job"));
        fs::create_dir_all(job_dir.attempt(1).path().parent().unwrap()).unwrap();
        let together = Barrier::new(8);
        for number in 1..20 {
            let dir = job_dir.attempt(number);
            let winners: Vec<String> = std::thread::scope(|scope| {
                let claim_as = |owner: usize| {
                    let attempt = attempt().owned_by(format!("{owner}-1.lock"));
                    together.wait();
                    claim(&dir, &attempt).unwrap().then(|| attempt.owner().unwrap().to_owned())
                };
                let threads: Vec<_> = (0..8).map(|owner| scope.spawn(move || claim_as(owner))).collect();
                threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
            });
            let [winner] = &winners[..] else { panic!("{winners:?}") };
            assert_eq!(Attempt::load(&dir).unwrap().owner(), Some(winner.as_str()));
        }
        assert_eq!(
            fs::read_dir(directory.path().join("job/attempts")).unwrap().count(),
            19,
            "nothing is left"
        );
    }

    #[test]
    fn hidden_directories_of_dead_owners_are_removed_and_those_of_live_owners_stay() {
        let directory = tempfile::tempdir().unwrap();
        let owner = OwnerLock::take(&directory.path().join("running"), "t").unwrap();
        let attempts = directory.path().join("attempts");
        let (living, dead) = (hidden_name(1, &owner.name()), hidden_name(1, "1-1.lock"));
        for name in [&living, &dead] {
            fs::create_dir_all(attempts.join(name)).unwrap();
        }
        remove_unclaimed(&attempts, &owner.owners());
        assert!(attempts.join(living).exists() && !attempts.join(dead).exists());
    }

    #[test]
    fn a_job_without_its_directory_has_no_attempt_to_claim() {
        let directory = tempfile::tempdir().unwrap();
        let dir = JobDir::at(directory.path().join("job")).attempt(1);
        let error = claim(&dir, &attempt().owned_by("1-1.lock".into())).unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::NotFound);
    }
}
