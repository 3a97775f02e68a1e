//! Ends workers whose `orchestrate` died, for `orchestrate stop`.
//!
//! Whoever ends a worker first leaves a request in its attempt's directory. So whoever judges the attempt knows that it
//! was interrupted, even another `orchestrate` that is adopting it.

use std::time::Duration;

use super::error::DispatchError;
use super::process::kill_process;
use super::supervise::{asked, seen};
use super::survivors::{Groups, end_worker};
use crate::event::Observer;
use crate::files::{AttemptDir, WriteError, write_plain};
use crate::lock::{JobLock, Patience, orphaned_keepers};
use crate::store::{Durable, End, OpenAttempt, Store, save_record, tidy};

/// How long the system may take to end what was killed.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks whoever looks after the attempt in `dir` to end its worker.
///
/// # Errors
/// The request cannot be written.
pub fn ask_to_end(dir: &AttemptDir) -> Result<(), WriteError> {
    write_plain(&dir.stop(), "")
}

/// Whether the worker of `open` is seen to run, or something that it left behind.
pub fn is_running(open: &OpenAttempt, store: &Store) -> bool {
    let path = store.job_dir(&open.job).lock();
    Groups::of_worker(&open.dir, &open.attempt).is_some() || !orphaned_keepers(&path).is_empty()
}

/// Ends the worker of `open`, whose `orchestrate` died, and what it left behind, and records that the attempt was
/// interrupted. Somebody who is adopting it may do so instead. Returns `false` if something keeps running.
///
/// # Errors
/// The request or the record cannot be written, or the job's lock cannot be taken.
pub async fn end_orphan(
    open: &OpenAttempt,
    store: &Store,
    observer: &mut dyn Observer,
) -> Result<bool, DispatchError> {
    let OpenAttempt { job, dir, attempt } = open;
    ask_to_end(dir)?;
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
    // Somebody else may have recorded it meanwhile.
    if store.open_attempt(&job_dir).is_some_and(|still| still.dir == *dir) {
        let end = End { adopted: true, ..seen(asked(), false) };
        tidy(&lock, dir);
        save_record(&lock, &attempt.clone().conclude(job, dir, end))?;
        let durable = Durable::of(store);
        durable.sync_soon(dir.clone());
        durable.sync()?;
    }
    Ok(true)
}
