//! How to wait for a lock, [`Patience`], and [`LockError`].

use std::io;
use std::path::{Path, PathBuf};

use super::file::{Foreign, OpenError};
use crate::event::{Observer, Waiting};
use crate::stop::{Stop, StopSignals};

/// A lock that was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The lock file cannot be created, opened or locked.
    #[error("cannot lock {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// The file at the path of the lock is not a lock file. It is left unchanged.
    #[error("cannot lock {}", path.display())]
    Foreign {
        /// Its path.
        path: PathBuf,
        /// Why it is not a lock file.
        #[source]
        what: Foreign,
    },
    /// It is held, and waiting is not allowed.
    #[error("{}", busy(.0))]
    Busy(Waiting),
    /// A stop signal arrived during the wait.
    #[error("stopped while waiting for a lock")]
    Stopped(Stop),
}

impl LockError {
    /// The lock file at `path` cannot be opened.
    pub(super) fn opening(path: &Path, error: OpenError) -> LockError {
        let path = path.to_owned();
        match error {
            OpenError::System(source) => LockError::File { path, source },
            OpenError::Foreign(what) => LockError::Foreign { path, what },
        }
    }
}

fn busy(waiting: &Waiting) -> String {
    match &waiting.holder {
        Some(holder) => format!("{} is busy: {holder}", waiting.what),
        None => format!("{} is busy", waiting.what),
    }
}

/// Whether to wait for locks, what ends a wait, and the observer to notify.
pub struct Patience<'a> {
    /// Do not wait at all, neither for the holder of a lock nor for other waiting processes.
    pub no_wait: bool,
    /// The signals that end the wait; none if `None`.
    pub signals: Option<&'a mut StopSignals>,
    /// The observer of waits.
    pub observer: &'a mut dyn Observer,
}
