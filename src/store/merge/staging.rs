//! Where a merge makes its copies, `runs/.merging/`, and how a copy becomes a job's directory.
//!
//! A merge holds a lock there, as a run does in `runs/.running/`, and has a directory for copies beside it:
//! `runs/.merging/PID-N.lock` and `runs/.merging/PID-N.copies/JOB/`. Copies of processes that have died are removed.
//! Where the system can exchange two directories in one step, the replaced directory is among the copies for a
//! moment. It has a lock file, which no copy has, so it is recognised and moved to `runs/.replaced/` instead.
#![expect(clippy::disallowed_methods, reason = "directories are made, renamed and removed")]

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::copy::{CopyError, copy_job};
use super::inspect::{Incoming, is_bare};
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
    /// The directory for the copies of this merge.
    copies: PathBuf,
    /// Held until the merge ends.
    _lock: OwnerLock,
}

/// A checked copy that is to become a job's directory.
#[derive(Debug)]
pub(super) struct Staged {
    pub(super) incoming: Incoming,
    pub(super) copy: JobDir,
    /// The paths of files that were not copied.
    pub(super) left_out: Vec<String>,
}

impl<'a> Staging<'a> {
    /// Takes the right to merge into `store`, and removes copies of merges that were killed.
    ///
    /// # Errors
    /// Another merge is running, or the store cannot be written.
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

    /// Copies `incoming`.
    ///
    /// # Errors
    /// [`CopyError`]. The incomplete copy is removed.
    pub(super) fn copy(&self, incoming: &Incoming) -> Result<(JobDir, Vec<String>), CopyError> {
        let copy = JobDir::at(self.copies.join(incoming.job.dir_name()));
        match copy_job(incoming, copy.path()) {
            Ok(left_out) => Ok((copy, left_out)),
            Err(error) => {
                self.discard(&copy);
                Err(error)
            }
        }
    }

    pub(super) fn discard(&self, copy: &JobDir) {
        let _ = fs::remove_dir_all(copy.path());
    }

    /// Makes all copies survive a power cut.
    pub(super) fn sync(&self) -> Result<(), WriteError> {
        sync_tree(&self.copies)
    }

    /// Renames `copy` to `ours`. Returns `false` if `ours` exists already.
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

    /// Replaces the directory `ours`, whose lock the caller holds, by `copy`. Returns the new place of the replaced
    /// directory; `None` if it had no attempts and was removed.
    ///
    /// # Errors
    /// A directory cannot be renamed. Nothing is lost.
    pub(super) fn put_instead(&self, copy: &JobDir, ours: &JobDir) -> Result<Option<PathBuf>, WriteError> {
        let is_exchanged = exchange(copy.path(), ours.path());
        self.make_room(copy, ours, is_exchanged)
            .map_err(|source| WriteError { path: ours.path().to_owned(), source })
    }

    /// The rest of [`Staging::put_instead`]. Without `is_exchanged`, the system cannot exchange two directories.
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
        // A process that is killed here leaves a job without a directory. Repeating the merge completes it.
        fs::rename(copy.path(), ours.path()).map_err(|error| match &kept {
            Some(kept) => io::Error::other(format!("{error}; what was there is now {}", kept.display())),
            None => error,
        })?;
        Ok(kept)
    }
}

impl Drop for Staging<'_> {
    fn drop(&mut self) {
        // If this fails, the next merge removes them.
        let _ = clear(self.store, &self.copies);
    }
}

/// Exchanges two directories in one step. Returns `false` if the system cannot do that. This is a direct system call,
/// because the C library has a function for it only since glibc 2.28.
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

/// Moves the directory of a job to `runs/.replaced/` and returns its new path. Removes it if it has no attempts.
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
    unreachable!("no file system has that many directories")
}

/// Removes the directory `copies` and the copies in it. A directory that came from the store moves to
/// `runs/.replaced/`.
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
