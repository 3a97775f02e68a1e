//! Whom an error concerns: one job alone, or every job of the run.
//!
//! One bad directory must not stop a matrix, and a full disk must not be met once for every job. Two things tell them
//! apart: what the system said, and whose path it said it of.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use nix::errno::Errno;

use super::error::DispatchError;
use crate::files::JobDir;
use crate::lock::LockError;
use crate::store::Store;

/// Whether `error`, met while the job of `dir` was run, is of that directory alone, so that other jobs can run.
pub(super) fn concerns_one_job(error: &DispatchError, store: &Store, dir: &JobDir) -> bool {
    if let DispatchError::Lock(LockError::Foreign { path, .. }) = error {
        return path.starts_with(dir.path());
    }
    let (path, source) = match error {
        DispatchError::Write(error) => (&error.path, &error.source),
        DispatchError::Lock(LockError::File { path, source }) => (path, source),
        _ => return false,
    };
    path.starts_with(dir.path()) && !is_of_the_system(source) && !is_of_the_store(source, store, dir.path())
}

/// What every other job would meet as well: the disk, or a limit of this process or the system.
fn is_of_the_system(error: &io::Error) -> bool {
    use ErrorKind::{
        OutOfMemory, QuotaExceeded, ReadOnlyFilesystem, StaleNetworkFileHandle, StorageFull, TimedOut,
    };
    let kinds =
        [StorageFull, QuotaExceeded, ReadOnlyFilesystem, OutOfMemory, StaleNetworkFileHandle, TimedOut];
    let numbers = [Errno::EIO, Errno::EMFILE, Errno::ENFILE, Errno::ENOLCK];
    kinds.contains(&error.kind()) || numbers.iter().any(|number| error.raw_os_error() == Some(*number as i32))
}

/// The store is gone, or nobody may make a directory in it.
fn is_of_the_store(error: &io::Error, store: &Store, dir: &Path) -> bool {
    !store.root().is_dir()
        || error.kind() == ErrorKind::PermissionDenied && fs::symlink_metadata(dir).is_err()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make the files they look at")]
mod tests {
    use super::*;
    use crate::files::WriteError;
    use crate::job::{Job, Key};

    fn job() -> Job {
        Job::new(Key::example())
    }

    #[test]
    fn one_directory_is_one_jobs_and_the_disk_is_everybodys() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::at(&root.path().join("runs")).unwrap();
        let dir = store.job_dir(&job());
        fs::create_dir_all(dir.path()).unwrap();
        let one = |path: &Path, number: Errno| {
            let source = io::Error::from_raw_os_error(number as i32);
            let error = WriteError { path: path.to_owned(), source };
            concerns_one_job(&error.into(), &store, &dir)
        };
        for number in
            [Errno::EACCES, Errno::EPERM, Errno::ENOTDIR, Errno::EISDIR, Errno::EEXIST, Errno::ENOENT]
        {
            assert!(one(&dir.record(), number), "{number}");
        }
        for number in [Errno::ENOSPC, Errno::EDQUOT, Errno::EROFS, Errno::EIO, Errno::EMFILE, Errno::ESTALE] {
            assert!(!one(&dir.record(), number), "{number}");
        }
        assert!(!one(&root.path().join("locks/host.lock"), Errno::EACCES), "a path of the host");
        assert!(!one(store.root(), Errno::EACCES), "a path of the store");
        fs::remove_dir(dir.path()).unwrap();
        assert!(!one(dir.path(), Errno::EACCES), "nobody may make a directory in the store");
        fs::remove_dir(store.root()).unwrap();
        assert!(!one(dir.path(), Errno::ENOENT), "the store is gone");
    }
}
