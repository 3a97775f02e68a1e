//! Tests whether the locks of a file system work: [`probe_locks`].
//!
//! On some file systems `flock` does nothing, although it succeeds: some network file systems, some FUSE file systems,
//! and those mounted without locks. Only a trial detects that.
#![expect(clippy::disallowed_methods, reason = "a trial needs a file")]

use std::fs::{self, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use super::atomic::process_word;

/// Whether a lock on a file in `directory` keeps out a second descriptor of the same file. The file is removed again.
///
/// # Errors
/// A file cannot be created there, or the file system refuses the first lock.
pub fn probe_locks(directory: &Path) -> io::Result<bool> {
    static TRIALS: AtomicU32 = AtomicU32::new(0);
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let (path, first) = loop {
        let trial = TRIALS.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!(".trial.{}-{trial}.tmp", process_word(process::id())));
        // O_EXCL follows no link. A crash can leave the file to a later process of the same number.
        match options.clone().create_new(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => break (path, other?),
        }
    };
    let second = options.open(&path);
    let _ = fs::remove_file(&path);
    first.try_lock()?;
    Ok(matches!(second?.try_lock(), Err(TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_removes_its_file() {
        let directory = tempfile::tempdir().unwrap();
        probe_locks(directory.path()).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        assert!(probe_locks(&directory.path().join("missing")).is_err());
    }
}
