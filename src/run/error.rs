//! Errors that end a run.

use std::path::PathBuf;

use super::site::SiteError;
use crate::files::WriteError;
use crate::lock::{LockError, Owner};
use crate::store::RestoreError;

/// The reason why a run had to end. Everything recorded so far is kept.
#[derive(Debug, thiserror::Error)]
pub enum DispatchError {
    /// A lock cannot be taken.
    #[error(transparent)]
    Lock(LockError),
    /// The store cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A program or file that the run needs is missing.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// Another `orchestrate` runs on the store, out of the reach of locks.
    #[error("another orchestrate runs on this store, and locks cannot coordinate the two: {}", .0.describe())]
    BeyondLocks(Box<Owner>),
    /// The store was moved or deleted during the run.
    #[error("the store {} was moved or deleted while the run went on", .0.display())]
    StoreGone(PathBuf),
    /// The system did not provide a signal handler or a file handle.
    #[error("cannot listen for signals")]
    Signals(#[source] std::io::Error),
}

impl From<RestoreError> for DispatchError {
    fn from(error: RestoreError) -> Self {
        match error {
            RestoreError::Lock(error) => DispatchError::Lock(error),
            RestoreError::Write(error) => DispatchError::Write(error),
        }
    }
}
