//! Why a run could not go on.

use super::site::SiteError;
use crate::files::WriteError;
use crate::lock::LockError;
use crate::store::RestoreError;

/// A run that could not go on. Everything that was recorded stays recorded.
#[derive(Debug, thiserror::Error)]
pub enum DispatchError {
    /// A lock cannot be taken.
    #[error(transparent)]
    Lock(LockError),
    /// The store cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Something the run needs is gone.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// The system refuses a signal handler.
    #[error("cannot listen to signals")]
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
