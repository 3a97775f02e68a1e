//! Checks that a directory is another store before merging it: [`Store::other`] returns it or [`NotMergeable`].
#![expect(clippy::disallowed_methods, reason = "a store is recognised by the entries of its directory")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::files::JobDir;
use crate::store::Store;
use crate::store::directory::is_job_name;

/// A directory that cannot be merged into a store.
#[derive(Debug, thiserror::Error)]
pub enum NotMergeable {
    /// It does not exist.
    #[error("there is no store at {}", .0.display())]
    Missing(PathBuf),
    /// It is not a directory.
    #[error("{} is a file, not a store", .0.display())]
    File(PathBuf),
    /// It, or the store, cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The directory.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// It is the store itself.
    #[error("{} is this store itself", .0.display())]
    Itself(PathBuf),
    /// It is below the store.
    #[error("{} is inside this store", .0.display())]
    Within(PathBuf),
    /// It is the directory of one job.
    #[error("{} is the directory of one job, not a store", .0.display())]
    OneJob(PathBuf),
    /// It has no entries, or only a README.
    #[error("{} is empty", .0.display())]
    Empty(PathBuf),
    /// It has no directory of a job, and no saved plan.
    #[error("{} is not a store: it holds no directory of a job", path.display())]
    NoStore {
        /// The directory.
        path: PathBuf,
        /// A store below it.
        below: Option<PathBuf>,
    },
}

impl Store {
    /// Opens the store at `path`, from which results can be merged into this one. This one need not exist.
    ///
    /// # Errors
    /// [`NotMergeable`].
    pub fn other(&self, path: &Path) -> Result<Store, NotMergeable> {
        let read = |source| NotMergeable::Read { path: path.to_owned(), source };
        let there = fs::canonicalize(path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => NotMergeable::Missing(path.to_owned()),
            _ => read(source),
        })?;
        if !there.is_dir() {
            return Err(NotMergeable::File(path.to_owned()));
        }
        let entries = names(&there).map_err(read)?;
        self.check_place(path, &there)?;
        let dir = JobDir::at(there.clone());
        if dir.key().is_file() || dir.record().is_file() {
            return Err(NotMergeable::OneJob(path.to_owned()));
        }
        if !holds_jobs(&entries) {
            return Err(match entries.iter().all(|name| name == "README.md") {
                true => NotMergeable::Empty(path.to_owned()),
                false => NotMergeable::NoStore { path: path.to_owned(), below: self.store_below(path) },
            });
        }
        Store::at(path).map_err(|_| NotMergeable::Missing(path.to_owned()))
    }

    /// `path/runs`, if it is another store: the user probably meant that.
    fn store_below(&self, path: &Path) -> Option<PathBuf> {
        let below = path.join("runs");
        let there = fs::canonicalize(&below).ok()?;
        let is_store = names(&there).is_ok_and(|entries| holds_jobs(&entries));
        (is_store && self.check_place(&below, &there).is_ok()).then_some(below)
    }

    /// Rejects `path`, which is `there` without links, if it is this store or a part of it. A directory below
    /// `.replaced/` is accepted: merging it restores the replaced results.
    fn check_place(&self, path: &Path, there: &Path) -> Result<(), NotMergeable> {
        let Ok(here) = fs::canonicalize(self.root()) else { return Ok(()) };
        let replaced = Store::at(&here).map(|store| store.replaced()).ok();
        match there.strip_prefix(&here) {
            Ok(below) if below.as_os_str().is_empty() => Err(NotMergeable::Itself(path.to_owned())),
            Ok(_) if there.parent() != replaced.as_deref() => Err(NotMergeable::Within(path.to_owned())),
            _ => Ok(()),
        }
    }
}

/// Whether a directory with these `entries` is a store.
fn holds_jobs(entries: &[String]) -> bool {
    entries.iter().any(|name| name == ".plans" || is_job_name(name))
}

/// The names of the entries of `directory`.
fn names(directory: &Path) -> io::Result<Vec<String>> {
    fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}
