//! Ends workers whose `orchestrate` died, for `orchestrate stop`: [`end_orphan`].
//!
//! Before a worker is ended, a request is written to its attempt's directory. So the process that concludes the attempt
//! knows that it was interrupted, even if that is another `orchestrate` that is adopting it.

use std::time::Duration;

use super::error::DispatchError;
use super::process::kill_process;
use super::supervise::{ended_now, stopped_on_request};
use super::survivors::{Groups, end_worker};
use crate::event::Observer;
use crate::files::{AttemptDir, WriteError, write_plain};
use crate::lock::{JobLock, Patience, orphaned_keepers};
use crate::store::{Durable, End, OpenAttempt, Store, save_record, tidy};

/// How long the system may take to end a killed process.
const PATIENCE: Duration = Duration::from_secs(10);

/// Requests that the owner of the attempt in `dir` ends its worker.
///
/// # Errors
/// The request cannot be written.
pub fn request_end(dir: &AttemptDir) -> Result<(), WriteError> {
    write_plain(&dir.stop(), "")
}

/// Whether the worker of `open`, or a process that it left, is visibly running.
pub fn is_running(open: &OpenAttempt, store: &Store) -> bool {
    let path = store.job_dir(&open.job).lock();
    Groups::of_worker(&open.dir, &open.attempt).is_some() || !orphaned_keepers(&path).is_empty()
}

/// Ends the worker of `open`, whose `orchestrate` died, and the processes that it left, and records that the attempt
/// was interrupted. Another `orchestrate` that is adopting it may do so instead. Returns `false` if a process keeps
/// running.
///
/// # Errors
/// The request or the record cannot be written, or the job's lock cannot be taken.
pub async fn end_orphan(
    open: &OpenAttempt,
    store: &Store,
    observer: &mut dyn Observer,
) -> Result<bool, DispatchError> {
    let OpenAttempt { job, dir, attempt } = open;
    request_end(dir)?;
    end_worker(dir, attempt).await;
    let job_dir = store.job_dir(job);
    orphaned_keepers(&job_dir.lock()).into_iter().for_each(kill_process);
    let mut patience = Patience { no_wait: false, signals: None, observer };
    let lock = JobLock::lock(job, job_dir.clone(), &mut patience);
    let Ok(lock) = tokio::time::timeout(PATIENCE, lock).await else { return Ok(false) };
    let lock = lock.map_err(DispatchError::Lock)?;
    if Groups::of_worker(dir, attempt).is_some() {
        return Ok(false);
    }
    // Another process may have recorded it meanwhile.
    if store.open_attempt(&job_dir).is_some_and(|still| still.dir == *dir) {
        let end = End { adopted: true, ..ended_now(stopped_on_request(), false) };
        tidy(&lock, dir);
        save_record(&lock, &attempt.clone().conclude(job, dir, end))?;
        let durable = Durable::of(store);
        durable.sync_soon(dir.clone());
        durable.sync()?;
    }
    Ok(true)
}
