//! The store of a check: a temporary directory, or one that is kept.
#![expect(clippy::disallowed_methods, reason = "a check has a store of its own, which it removes")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::cli::failure::disk_remedy;
use crate::cli::{Exit, Failure};

/// A directory that is there for one check.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
    is_kept: bool,
}

/// The directory of a check cannot be created.
#[derive(Debug, thiserror::Error)]
#[error("cannot create the directory {}", path.display())]
struct CreateError {
    path: PathBuf,
    source: io::Error,
}

impl Scratch {
    /// A new directory: `keep`, which stays, or a temporary one, which is removed when this is dropped.
    ///
    /// # Errors
    /// Exit 2 if `keep` is there already, 12 if the directory cannot be created.
    pub(super) fn create(keep: Option<&Path>) -> Result<Scratch, Failure> {
        let Some(path) = keep else { return Scratch::temporary() };
        match fs::create_dir_all(path.parent().unwrap_or(Path::new(""))).and_then(|()| fs::create_dir(path)) {
            Ok(()) => Ok(Scratch { path: path.to_owned(), is_kept: true }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let text =
                    format!("{} is there already, and a check begins with a new store", path.display());
                Err(Failure::new(Exit::Usage, text).hint("name another directory with `--keep DIR`"))
            }
            Err(error) => Err(failure(path, error)),
        }
    }

    fn temporary() -> Result<Scratch, Failure> {
        let (place, own) = (std::env::temp_dir(), std::process::id());
        for number in 0_u32.. {
            let path = place.join(format!("orchestrate-check.{own}.{number}"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Scratch { path, is_kept: false }),
                // Left behind by a process that had our number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failure(&path, error)),
            }
        }
        unreachable!("some number is free")
    }

    /// The directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

fn failure(path: &Path, source: io::Error) -> Failure {
    let hint = disk_remedy(&source).unwrap_or("name another directory with `--keep DIR`, or another TMPDIR");
    Failure::new(Exit::StoreUnusable, CreateError { path: path.to_owned(), source }).hint(hint)
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.is_kept {
            // Whatever stays is in the system's directory for such files.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
