//! Where a merge makes its copies, `runs/.merging/`, and how a copy becomes a job's directory.
//!
//! A merge holds a lock there, as a run does in `runs/.running/`, and beside it has a directory of its own for copies.
//! What the dead left in theirs is removed. But where two directories can be exchanged in one step, what was here
//! before is there for a moment. It tells itself by its lock file, which no copy has, and is set aside then.
#![expect(clippy::disallowed_methods, reason = "directories are made, renamed and removed")]

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::copy::{CopyError, copy_job};
use super::look::{Brought, is_bare};
use super::merged::MergeError;
use crate::files::{JobDir, WriteError, sync_directory};
use crate::lock::OwnerLock;
use crate::store::durable::sync_tree;
use crate::store::{Store, StoreError};

/// The name of the directory in the store.
const MERGING: &str = ".merging";

/// How the names of directories of copies end.
const COPIES: &str = "copies";

/// The right to merge into a store, and a place for copies.
#[derive(Debug)]
pub(super) struct Staging<'a> {
    store: &'a Store,
    /// The directory of our copies.
    copies: PathBuf,
    /// Held until the end.
    _lock: OwnerLock,
}

/// A copy that is to become a job's directory.
#[derive(Debug)]
pub(super) struct Staged {
    pub(super) brought: Brought,
    pub(super) copy: JobDir,
    /// The paths of what was left out.
    pub(super) left_out: Vec<String>,
}

impl<'a> Staging<'a> {
    /// Takes the right to merge into `store`, and removes what the dead left behind.
    ///
    /// # Errors
    /// Another merge is at work, or the store cannot be written.
    pub(super) fn take(store: &'a Store) -> Result<Staging<'a>, MergeError> {
        let directory = store.root().join(MERGING);
        let lock = OwnerLock::take(&directory, "merge").map_err(MergeError::Lock)?;
        if let Some(other) = lock.owners().others().first() {
            return Err(MergeError::Busy(other.describe()));
        }
        let wrong = |source| StoreError::Write(WriteError { path: directory.clone(), source });
        for entry in fs::read_dir(&directory).map_err(wrong)?.flatten() {
            if entry.path().extension() == Some(OsStr::new(COPIES)) {
                clear(store, &entry.path()).map_err(wrong)?;
            }
        }
        let copies = directory.join(lock.name()).with_extension(COPIES);
        fs::create_dir(&copies).map_err(wrong)?;
        Ok(Staging { store, copies, _lock: lock })
    }

    /// Copies `brought`.
    ///
    /// # Errors
    /// [`CopyError`]. Then there is no copy.
    pub(super) fn copy(&self, brought: &Brought) -> Result<(JobDir, Vec<String>), CopyError> {
        let copy = JobDir::at(self.copies.join(brought.job.dir_name()));
        match copy_job(brought, copy.path()) {
            Ok(left_out) => Ok((copy, left_out)),
            Err(error) => {
                self.discard(&copy);
                Err(error)
            }
        }
    }

    /// Removes a copy.
    pub(super) fn discard(&self, copy: &JobDir) {
        let _ = fs::remove_dir_all(copy.path());
    }

    /// Makes all copies survive a power cut.
    pub(super) fn sync(&self) -> Result<(), WriteError> {
        sync_tree(&self.copies)
    }

    /// Makes `copy` the directory `ours`. Returns whether it did: not if there is something at `ours` already.
    ///
    /// # Errors
    /// It cannot be renamed.
    pub(super) fn put(&self, copy: &JobDir, ours: &JobDir) -> Result<bool, WriteError> {
        match fs::rename(copy.path(), ours.path()) {
            Ok(()) => Ok(true),
            Err(error) => match error.kind() {
                io::ErrorKind::DirectoryNotEmpty
                | io::ErrorKind::AlreadyExists
                | io::ErrorKind::NotADirectory => Ok(false),
                _ => Err(WriteError { path: ours.path().to_owned(), source: error }),
            },
        }
    }

    /// Makes `copy` the directory `ours`, of which the caller holds the lock, and sets aside what was there. Returns
    /// where that is now; `None` if it was worth nothing.
    ///
    /// # Errors
    /// Something cannot be renamed. Nothing is lost.
    pub(super) fn put_instead(&self, copy: &JobDir, ours: &JobDir) -> Result<Option<PathBuf>, WriteError> {
        let is_exchanged = exchange(copy.path(), ours.path());
        self.make_room(copy, ours, is_exchanged)
            .map_err(|source| WriteError { path: ours.path().to_owned(), source })
    }

    /// The rest of [`Staging::put_instead`]: both directories have been exchanged, or the system cannot do that.
    pub(super) fn make_room(
        &self,
        copy: &JobDir,
        ours: &JobDir,
        is_exchanged: bool,
    ) -> io::Result<Option<PathBuf>> {
        if is_exchanged {
            return retire(self.store, copy);
        }
        let kept = retire(self.store, ours)?;
        // Whoever is killed here leaves a job without a directory. It takes its result when the merge is repeated.
        fs::rename(copy.path(), ours.path()).map_err(|error| match &kept {
            Some(kept) => io::Error::other(format!("{error}; what was there is now {}", kept.display())),
            None => error,
        })?;
        Ok(kept)
    }
}

impl Drop for Staging<'_> {
    fn drop(&mut self) {
        // If it fails, the next merge does it.
        let _ = clear(self.store, &self.copies);
    }
}

/// Exchanges two directories in one step. Returns whether the system can do that, and did. The kernel is asked itself:
/// the C library has a function for it only since glibc 2.28.
fn exchange(one: &Path, two: &Path) -> bool {
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        renameat_with(CWD, one, CWD, two, RenameFlags::EXCHANGE).is_ok()
    }
    #[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
    {
        let _ = (one, two);
        false
    }
}

/// Sets aside the directory of a job, and returns where it is now. If nothing of worth is in it, it is removed.
fn retire(store: &Store, dir: &JobDir) -> io::Result<Option<PathBuf>> {
    if is_bare(dir) {
        return fs::remove_dir_all(dir.path()).map(|()| None);
    }
    let name = dir.path().file_name().unwrap_or_default();
    for number in 1_u32.. {
        let slot = store.replaced().join(number.to_string());
        let kept = slot.join(name);
        if fs::symlink_metadata(&kept).is_ok() {
            continue;
        }
        fs::create_dir_all(&slot)?;
        fs::rename(dir.path(), &kept)?;
        sync_directory(&slot)?;
        return Ok(Some(kept));
    }
    unreachable!("nobody has that many directories")
}

/// Removes the directory `copies` and the copies in it. What was in the store before is set aside.
fn clear(store: &Store, copies: &Path) -> io::Result<()> {
    for entry in fs::read_dir(copies)? {
        let dir = JobDir::at(entry?.path());
        if fs::symlink_metadata(dir.lock()).is_ok() {
            retire(store, &dir)?;
        } else {
            fs::remove_dir_all(dir.path())?;
        }
    }
    fs::remove_dir(copies)
}
