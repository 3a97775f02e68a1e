//! Whether an error concerns one job or every job of the run.
//!
//! One bad directory must not stop a matrix, and a full disk must not be reported once per job. The system's error code
//! and the path of the error distinguish these cases.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use nix::errno::Errno;

use super::error::DispatchError;
use crate::files::JobDir;
use crate::lock::LockError;
use crate::store::Store;

/// Whether `error`, which occurred while the job of `dir` ran, concerns only that directory: other jobs can still run.
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

/// Whether every other job would fail in the same way: because of the disk, or a limit of this process or the system.
fn is_of_the_system(error: &io::Error) -> bool {
    use ErrorKind::{
        OutOfMemory, QuotaExceeded, ReadOnlyFilesystem, ResourceBusy, StaleNetworkFileHandle, StorageFull,
        TimedOut,
    };
    let kinds = [
        StorageFull,
        QuotaExceeded,
        ReadOnlyFilesystem,
        OutOfMemory,
        StaleNetworkFileHandle,
        TimedOut,
        ResourceBusy,
    ];
    let numbers = [Errno::EIO, Errno::EMFILE, Errno::ENFILE, Errno::ENOLCK];
    kinds.contains(&error.kind()) || numbers.iter().any(|number| error.raw_os_error() == Some(*number as i32))
}

/// Whether the store does not exist, or directories cannot be created in it.
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
    fn a_directory_concerns_its_job_and_the_disk_concerns_all() {
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
        assert!(!one(dir.path(), Errno::EACCES), "no directory can be made in the store");
        fs::remove_dir(store.root()).unwrap();
        assert!(!one(dir.path(), Errno::ENOENT), "the store is gone");
    }
}
