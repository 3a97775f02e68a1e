//! How a lock is waited for, and what may come instead of it.

use std::io;
use std::path::{Path, PathBuf};

use super::file::{Foreign, OpenError};
use crate::event::{Observer, Waiting};
use crate::stop::{Stop, StopSignals};

/// A lock that was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The lock file cannot be made, opened or locked.
    #[error("cannot lock {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Something else stands in the place of the lock file, or of its directory. It is left as it is.
    #[error("cannot lock {}", path.display())]
    Foreign {
        /// Its path.
        path: PathBuf,
        /// What it is.
        #[source]
        what: Foreign,
    },
    /// Somebody holds it, and we must not wait.
    #[error("{}", busy(.0))]
    Busy(Waiting),
    /// We were told to stop while we waited.
    #[error("told to stop while waiting for a lock")]
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

/// How to wait for locks, and whom to tell.
pub struct Patience<'a> {
    /// Do not wait at all: neither for whoever holds a lock, nor for whoever waits for it and has it next.
    pub no_wait: bool,
    /// What may end the wait; nothing does if it is `None`.
    pub signals: Option<&'a mut StopSignals>,
    /// Who is told of it.
    pub observer: &'a mut dyn Observer,
}
