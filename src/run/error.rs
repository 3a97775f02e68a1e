//! Errors that end a run.

use std::path::PathBuf;

use super::site::SiteError;
use crate::files::WriteError;
use crate::lock::{LockError, Owner};
use crate::store::RestoreError;

/// A run had to end. Everything recorded so far is kept.
#[derive(Debug, thiserror::Error)]
pub enum DispatchError {
    /// A lock cannot be taken.
    #[error(transparent)]
    Lock(LockError),
    /// The store cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Something that the run needs is missing.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// Another `orchestrate` runs on the store, and no lock keeps the two apart.
    #[error("another orchestrate runs on this store, and no lock keeps the two apart: {}", .0.describe())]
    BeyondLocks(Box<Owner>),
    /// The store stands no longer where it stood when the run began.
    #[error("the store {} was moved or deleted while the run went on", .0.display())]
    StoreGone(PathBuf),
    /// The system refused a signal handler, or another handle on a file.
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
