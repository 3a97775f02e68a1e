//! The errors of a store and of its plans.

use std::io;
use std::path::PathBuf;

use crate::files::{FormError, WriteError};
use crate::job::Name;

/// A store that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store's directory cannot be created.
    #[error("cannot create the store {}", path.display())]
    Create {
        /// The directory.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// The store, or something in it, cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// Something in the store cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A saved plan is not one.
    #[error("{} is not a saved plan", path.display())]
    BadPlan {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: PlanError,
    },
    /// There is no saved plan of this name.
    #[error("the store {} has no saved plan `{name}`", store.display())]
    NoPlan {
        /// The store.
        store: PathBuf,
        /// The requested name.
        name: String,
    },
}

/// A text that is not a saved plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// It is torn, was changed after it was saved, or has an unknown form or version.
    #[error(transparent)]
    Form(#[from] FormError),
    /// A job's env is missing.
    #[error("the env `{0}` of a job is missing")]
    UnknownEnv(Name),
    /// A job occurs twice.
    #[error("the job {0} occurs twice")]
    Twice(String),
    /// The names of the file and of the matrix differ.
    #[error("it is the plan of the matrix `{0}`, which belongs in {0}.json")]
    OtherName(Name),
}
