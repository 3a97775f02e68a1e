//! The store of a check: a temporary directory, or one that is kept.
#![expect(clippy::disallowed_methods, reason = "a check has its own store")]

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::unistd::gethostname;
use tempfile::TempDir;

use crate::cli::failure::disk_remedy;
use crate::cli::{Exit, Failure};
use crate::lock::OwnerLock;

/// How the names of temporary directories begin.
pub(super) const PREFIX: &str = "orchestrate-check.";

/// The directory in the temporary `directory` in which its owner holds a lock; not a job of the store. Its name
/// contains the hostname: hosts can share a directory of temporary files, and only processes of this host can be
/// checked.
pub(super) fn watch(directory: &Path) -> PathBuf {
    let host = gethostname().unwrap_or_default();
    directory.join(format!(".check-{}", host.to_string_lossy()))
}

/// What its owner runs, as shown to other processes.
pub(super) const NAME: &str = "check-worker";

/// A directory that is made for one check.
#[derive(Debug)]
pub(super) enum Scratch {
    /// It stays.
    Kept(PathBuf),
    /// It is removed when this is dropped. Other users cannot read it, because a worker may write secrets.
    Temporary {
        /// Marks the directory as in use. Dropped before the directory, so that no process takes its owner for dead.
        _owner: Box<OwnerLock>,
        /// The directory.
        directory: TempDir,
    },
}

/// The directory of a check cannot be created.
#[derive(Debug, thiserror::Error)]
#[error("cannot create the directory {}", path.display())]
struct CreateError {
    path: PathBuf,
    source: io::Error,
}

impl Scratch {
    /// A new directory: `keep`, or a temporary one.
    ///
    /// # Errors
    /// Exit 2 if `keep` exists, 12 if the directory cannot be created.
    pub(super) fn create(keep: Option<&Path>) -> Result<Scratch, Failure> {
        let Some(path) = keep else {
            let ours = Permissions::from_mode(0o700);
            let made = tempfile::Builder::new().prefix(PREFIX).permissions(ours).tempdir();
            let directory = made.map_err(|error| failure(&std::env::temp_dir(), error))?;
            let owner = OwnerLock::take(&watch(directory.path()), NAME);
            let owner = owner.map_err(|error| Failure::new(Exit::StoreUnusable, error))?;
            return Ok(Scratch::Temporary { _owner: Box::new(owner), directory });
        };
        match fs::create_dir_all(path.parent().unwrap_or(Path::new(""))).and_then(|()| fs::create_dir(path)) {
            Ok(()) => Ok(Scratch::Kept(path.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let text = format!("{} exists already, and a check needs a new store", path.display());
                Err(Failure::new(Exit::Usage, text).hint("name another directory with `--keep DIR`"))
            }
            Err(error) => Err(failure(path, error)),
        }
    }

    /// The directory.
    pub(super) fn path(&self) -> &Path {
        match self {
            Scratch::Kept(path) => path,
            Scratch::Temporary { directory, .. } => directory.path(),
        }
    }
}

fn failure(path: &Path, source: io::Error) -> Failure {
    let hint = disk_remedy(&source).unwrap_or("name another directory with `--keep DIR`, or another TMPDIR");
    Failure::new(Exit::StoreUnusable, CreateError { path: path.to_owned(), source }).hint(hint)
}
