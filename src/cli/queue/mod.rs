//! Jobs of envs that a queue (Slurm or a host) starts: handing them over, following, showing and ending them.

mod fetch;
mod follow;
mod idle;
mod printed;
mod queues;
mod submit;
mod view;

use std::time::Duration;

use super::output::warn;
use super::{Failure, Global};
use crate::plan::{Origin, Plan, Submitted};
use crate::store::{QueueLock, Store, StoreError};
use crate::text::with_causes;

pub(super) use follow::{Followed, follow};
pub(super) use queues::Queues;
pub(super) use submit::{print_submissions, submit};
pub(super) use view::{
    CancelledJob, QueueView, cancel, cancel_job, logs_elsewhere, look, place_text, queue_view,
};

/// A plan whose jobs are handed to a queue.
pub(super) struct Handing<'a> {
    pub(super) store: &'a Store,
    pub(super) plan: &'a Plan,
    pub(super) origin: &'a Origin,
    pub(super) global: &'a Global,
}

/// The submissions of the plan that are not closed. Warns of those that cannot be read.
///
/// # Errors
/// Their directory cannot be read.
fn open_submissions(handing: &Handing<'_>) -> Result<Vec<Submitted>, StoreError> {
    load_submissions(handing.store, Some(handing.plan.matrix.name.as_str()))
}

/// The submissions of the matrix called `matrix`, or all of them. Warns of those that cannot be read.
///
/// # Errors
/// Their directory cannot be read.
fn load_submissions(store: &Store, matrix: Option<&str>) -> Result<Vec<Submitted>, StoreError> {
    let mut found = store.load_submissions()?;
    for problem in &found.problems {
        warn(&format!("a submission is left out: {}", with_causes(problem)));
    }
    found.open.retain(|it| matrix.is_none_or(|name| it.submission.plan.matrix.name.as_str() == name));
    Ok(found.open)
}

/// The interval of attempts to take a lock. Signals are handled in between.
const LOOK: Duration = Duration::from_millis(100);

/// Takes the lock for making submissions, and waits for it.
///
/// # Errors
/// It cannot be created.
async fn lock_queue(store: &Store) -> Result<QueueLock, Failure> {
    loop {
        if let Some(lock) = store.try_lock_queue().map_err(|error| Failure::store(error.into()))? {
            return Ok(lock);
        }
        tokio::time::sleep(LOOK).await;
    }
}
