//! Saves a record and keeps the record that it replaces: [`save_record`].
#![expect(clippy::disallowed_methods, reason = "a record is a file")]

use std::fs;

use super::announce::announce;
use crate::files::{FILE_LIMIT, JobDir, WriteError, read_regular, to_sealed_json, write_atomic, write_whole};
use crate::lock::JobLock;
use crate::record::Record;

/// Saves the record of an attempt, which finishes the job. The caller has it synced by [`super::Durable`].
///
/// A failure is also kept in the attempt's directory. It replaces a success only if its attempt is later, and only an
/// explicit re-run starts such an attempt. Outcomes without a verdict about the job never replace one with a verdict:
/// an interruption, a worker or profiler that could not be started, a missing device. A replaced success is first kept
/// in its own attempt's directory, and both records are synced immediately. An unreadable record is moved aside, not
/// overwritten. A record of a newer `orchestrate` stays in place.
///
/// # Errors
/// A file cannot be written. All inputs of the record still exist, so a later `orchestrate` can write it again.
pub fn save_record(lock: &JobLock, record: &Record) -> Result<(), WriteError> {
    let saved = save(lock.dir(), record);
    announce(lock.dir());
    saved
}

fn save(dir: &JobDir, record: &Record) -> Result<(), WriteError> {
    let json = to_sealed_json(record);
    if !record.outcome.is_success() {
        write_whole(&dir.attempt(record.attempt).record(), &json)?;
    }
    match dir.load_record() {
        Err(error) if error.is_newer() => return write_whole(&dir.attempt(record.attempt).record(), &json),
        Err(_) => move_aside(dir),
        Ok(Some(earlier)) if is_inconclusive_after(record, &earlier) => return Ok(()),
        Ok(Some(earlier)) if earlier.outcome.is_success() => {
            if !supersedes(record, &earlier) {
                return Ok(());
            }
            keep(dir, &earlier)?;
            return write_atomic(&dir.record(), &json);
        }
        Ok(_) => {}
    }
    write_whole(&dir.record(), &json)
}

/// Whether `earlier` has a verdict about its job and `record` has none. For example, the job ran out of memory, which
/// prunes other jobs, and was interrupted when it was repeated.
fn is_inconclusive_after(record: &Record, earlier: &Record) -> bool {
    earlier.outcome.policy().verdict && !record.outcome.policy().verdict
}

/// Whether `record`, which has a verdict, replaces `success`, a record of the same job.
fn supersedes(record: &Record, success: &Record) -> bool {
    record.outcome.is_success() || record.attempt > success.attempt
}

/// Keeps `earlier` in its own attempt's directory before another record replaces it.
fn keep(dir: &JobDir, earlier: &Record) -> Result<(), WriteError> {
    let attempt = dir.attempt(earlier.attempt);
    let wrong = |source| WriteError { path: attempt.record(), source };
    // The user may have deleted the directory to save space.
    fs::create_dir_all(attempt.path()).map_err(wrong)?;
    // The bytes are copied, since the record has a seal and may be of an older version.
    let bytes = read_regular(&dir.record(), FILE_LIMIT).map_err(wrong)?;
    write_atomic(&attempt.record(), &bytes)
}

/// Moves an unreadable record to a free name: `record.unreadable.json`, `record.unreadable-2.json` …
fn move_aside(dir: &JobDir) {
    let names = (1..).map(|number: u32| match number {
        1 => "record.unreadable.json".to_owned(),
        _ => format!("record.unreadable-{number}.json"),
    });
    // The job's lock prevents others from taking the name meanwhile.
    let free = names.map(|name| dir.path().join(name)).find(|path| fs::symlink_metadata(path).is_err());
    if let Some(free) = free {
        let _ = fs::rename(dir.record(), free);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Job, Key};
    use crate::record::Outcome;
    use crate::record::testing::record;
    use crate::store::Store;

    fn job() -> Job {
        Job::new(Key::example())
    }

    /// The attempt of the job's record after these were saved, and the attempts that have their own record.
    fn after(outcomes: &[(u32, Outcome)]) -> (u32, Vec<u32>) {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::at(directory.path()).unwrap();
        let lock = JobLock::try_lock(&job(), store.job_dir(&job())).unwrap();
        for (attempt, outcome) in outcomes {
            fs::create_dir_all(lock.dir().attempt(*attempt).path()).unwrap();
            save_record(&lock, &record(*attempt, outcome.clone())).unwrap();
        }
        let kept = lock.dir().attempts().unwrap().into_iter().filter(|attempt| {
            let own = attempt.load_record().unwrap();
            assert!(own.as_ref().is_none_or(|own| own.attempt == attempt.number()));
            own.is_some()
        });
        (lock.dir().load_record().unwrap().unwrap().attempt, kept.map(|attempt| attempt.number()).collect())
    }

    #[test]
    fn replaced_records_are_kept() {
        let ok = || Outcome::Succeeded;
        let failed = || Outcome::Signalled { signal: 11 };
        let stopped = || Outcome::Interrupted { message: "Ctrl-C".into() };
        assert_eq!(after(&[(1, ok())]), (1, vec![]));
        assert_eq!(after(&[(1, failed()), (2, ok())]), (2, vec![1]));
        assert_eq!(after(&[(1, ok()), (2, ok())]), (2, vec![1]), "a re-run");
        assert_eq!(after(&[(1, ok()), (2, failed())]), (2, vec![1, 2]), "a re-run that failed");
        assert_eq!(after(&[(1, ok()), (2, failed()), (3, ok())]), (3, vec![1, 2]));
        assert_eq!(after(&[(1, ok()), (2, stopped())]), (1, vec![2]), "an interruption is not a failure");
        let not_here = || Outcome::Unsupported { message: "no such device".into() };
        let not_started = || Outcome::FailedToSpawn { message: "no such file".into() };
        assert_eq!(after(&[(1, ok()), (2, not_here())]), (1, vec![2]), "the worker did not start");
        assert_eq!(after(&[(1, ok()), (2, not_started())]), (1, vec![2]), "the worker did not start");
        let too_large =
            || Outcome::OutOfMemory { message: "20 GiB".into(), needed_bytes: None, free_bytes: None };
        assert_eq!(after(&[(1, too_large()), (2, stopped())]), (1, vec![1, 2]), "it still prunes");
        assert_eq!(after(&[(1, stopped()), (2, too_large())]), (2, vec![1, 2]));
        assert_eq!(after(&[(1, too_large()), (2, failed())]), (2, vec![1, 2]), "one verdict after another");
        assert_eq!(after(&[(1, ok()), (1, failed())]), (1, vec![1]), "the same attempt, concluded twice");
    }

    #[test]
    fn recreates_a_deleted_attempt_directory_to_keep_its_record() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::at(directory.path()).unwrap();
        let lock = JobLock::try_lock(&job(), store.job_dir(&job())).unwrap();
        save_record(&lock, &record(1, Outcome::Succeeded)).unwrap();
        save_record(&lock, &record(2, Outcome::Succeeded)).unwrap();
        let kept = lock.dir().attempt(1).load_record().unwrap().unwrap();
        assert_eq!(kept, record(1, Outcome::Succeeded));
    }
}
