//! A run of a submission on a host reached by `ssh`, which outlives the connection that started it.
//!
//! ```text
//! runs/.hosted/<name>.run     its lock, held as long as it runs
//! runs/.hosted/<name>.began   RunBegin: its process and start
//! runs/.hosted/<name>.ended   RunEnd: its exit code and reason
//! ```
//!
//! A run that began, did not end and does not hold its lock is lost: its host was restarted, or it was killed. Where
//! locks do not work, a live process shows that the run continues.

use std::fs::{File, TryLockError};
use std::io;

use serde::{Deserialize, Serialize};

use super::submissions::SubmissionFiles;
use crate::files::{FILE_LIMIT, WriteError, read_regular, to_json, write_atomic};
use crate::lock::{Access, Identity, open_lock, open_or_make_lock};

/// The exit code of an `orchestrate` that was stopped early.
pub const INTERRUPTED: u8 = 11;

/// The identity of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunBegin {
    /// Its process id.
    pub process: u64,
    /// When it began, by the clock of its host. Together with the process id, this identifies the run.
    pub at: String,
    /// Its process, for observers on the same host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<Identity>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    /// Its exit code.
    pub code: u8,
    /// The reason for an early stop, if any: a signal, or `orchestrate stop`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<String>,
}

/// The state of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It runs.
    Running,
    /// It ended.
    Ended(RunEnd),
    /// It began, and was killed before its end.
    Lost,
}

/// The lock that a run holds until it ends.
#[derive(Debug)]
pub struct RunLock(#[expect(dead_code, reason = "open, because that is what holds the lock")] File);

impl SubmissionFiles {
    /// Takes the lock of this submission and writes `.began`. `None` if a run began before: a submission runs once on
    /// its host.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn begin_run(&self, begin: &RunBegin) -> Result<Option<RunLock>, WriteError> {
        let path = self.with(".run");
        let wrong = |source: io::Error| WriteError { path: path.clone(), source };
        let file = open_or_make_lock(&path, Access::Umask).map_err(io::Error::from).map_err(wrong)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(wrong(error)),
        }
        if self.with(".began").exists() {
            return Ok(None);
        }
        write_atomic(&self.with(".began"), &to_json(begin))?;
        Ok(Some(RunLock(file)))
    }

    /// Writes how the run ended. The caller still holds its lock.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn end_run(&self, _held: &RunLock, end: &RunEnd) -> Result<(), WriteError> {
        write_atomic(&self.with(".ended"), &to_json(end))
    }

    /// The run of this submission and its state; `None` if none began.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn run_state(&self) -> io::Result<Option<(RunBegin, RunState)>> {
        let Some(begin) = read::<RunBegin>(self, ".began")? else { return Ok(None) };
        let is_running = match open_lock(&self.with(".run")) {
            Ok(file) => match file.try_lock_shared() {
                Ok(()) => false,
                Err(TryLockError::WouldBlock) => true,
                Err(TryLockError::Error(error)) => return Err(error),
            },
            Err(error) => {
                let error = io::Error::from(error);
                if error.kind() != io::ErrorKind::NotFound {
                    return Err(error);
                }
                false
            }
        };
        // The lock is checked before `.ended` is read, so a run that ends in between counts as running.
        let state = match (is_running, read(self, ".ended")?) {
            (true, _) => RunState::Running,
            (false, Some(end)) => RunState::Ended(end),
            (false, None) if begin.who.as_ref().is_some_and(Identity::is_visibly_alive) => RunState::Running,
            (false, None) => RunState::Lost,
        };
        Ok(Some((begin, state)))
    }
}

fn read<T: for<'de> Deserialize<'de>>(files: &SubmissionFiles, ending: &str) -> io::Result<Option<T>> {
    match read_regular(&files.with(ending), FILE_LIMIT) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(io::Error::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::example_submission;
    use crate::store::Store;

    fn begin(process: u64) -> RunBegin {
        RunBegin { process, at: "2026-11-25T08:00:00Z".into(), who: None }
    }

    /// On some network file systems, locks do not exclude other processes.
    #[test]
    fn a_run_with_a_live_process_is_running_where_locks_do_not_work() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::create(&directory.path().join("runs")).unwrap();
        let files = store.freeze(&example_submission(1, 1), "").unwrap();
        let who = Some(Identity::of_this_process("t"));
        drop(files.begin_run(&RunBegin { who, ..begin(7) }).unwrap().unwrap());
        let state = files.run_state().unwrap().unwrap().1;
        // Without `/proc`, no process is seen.
        let is_linux = cfg!(target_os = "linux");
        assert_eq!(state, if is_linux { RunState::Running } else { RunState::Lost });
    }

    #[test]
    fn a_submission_runs_once_and_reports_its_state() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::create(&directory.path().join("runs")).unwrap();
        let submission = example_submission(1, 1);
        let files = store.freeze(&submission, "").unwrap();
        assert_eq!(files.run_state().unwrap(), None);
        let held = files.begin_run(&begin(7)).unwrap().unwrap();
        assert!(files.begin_run(&begin(8)).unwrap().is_none(), "another run is active");
        assert_eq!(files.run_state().unwrap(), Some((begin(7), RunState::Running)));
        drop(held);
        assert_eq!(files.run_state().unwrap(), Some((begin(7), RunState::Lost)));
        assert!(files.begin_run(&begin(8)).unwrap().is_none(), "a lost run is not repeated");
    }

    #[test]
    fn the_end_of_a_run_has_its_reason() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::create(&directory.path().join("runs")).unwrap();
        let files = store.freeze(&example_submission(1, 1), "").unwrap();
        let held = files.begin_run(&begin(7)).unwrap().unwrap();
        let end = RunEnd { code: 11, stopped_by: Some("SIGTERM".into()) };
        files.end_run(&held, &end).unwrap();
        assert_eq!(files.run_state().unwrap().unwrap().1, RunState::Running, "it still cleans up");
        drop(held);
        assert_eq!(files.run_state().unwrap().unwrap().1, RunState::Ended(end));
    }
}
