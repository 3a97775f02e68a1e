//! Files that are there completely or not at all.
//!
//! tmp → fsync → rename → fsync(directory): whatever happens in between, a reader sees the old file or the new one.
//! What a crash leaves behind is a hidden `.<name>.<pid>.tmp`, which nobody reads. Its name is the process's own, so that
//! two programs that save the same plan at the same time each put their whole file there, one after the other.
#![expect(clippy::disallowed_methods, reason = "this is the atomic writer that everybody else is sent to")]

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process;

use super::regular::overwrite;

/// A file that could not be written; what stood there before is untouched.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}", path.display())]
pub struct WriteError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub source: io::Error,
}

/// Makes `path` hold `contents`.
///
/// # Errors
/// The directory is missing or not writable, the disk is full: then `path` is as it was.
pub fn write_atomic(path: &Path, contents: &[u8]) -> Result<(), WriteError> {
    let wrong = |source| WriteError { path: path.to_owned(), source };
    let name = path.file_name().ok_or_else(|| wrong(io::ErrorKind::InvalidInput.into()))?;
    let directory = path.parent().ok_or_else(|| wrong(io::ErrorKind::InvalidInput.into()))?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}.tmp", process::id()));
    let tmp = directory.join(hidden);
    let written = write_synced(&tmp, contents).and_then(|()| fs::rename(&tmp, path));
    if let Err(source) = written {
        // On a full disk the part that was written is better gone; if it stays, nobody reads it.
        let _ = fs::remove_file(&tmp);
        return Err(wrong(source));
    }
    sync_directory(directory).map_err(wrong)
}

fn write_synced(path: &Path, contents: &[u8]) -> io::Result<()> {
    overwrite(path, contents)?.sync_all()
}

/// Makes the names in `directory` survive a power cut.
///
/// # Errors
/// The directory cannot be opened or synced.
fn sync_directory(directory: &Path) -> io::Result<()> {
    match File::open(directory)?.sync_all() {
        // Some network and overlay file systems know no fsync of directories; they offer nothing better.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        other => other,
    }
}

/// Writes a small file that nobody reads while it is written and that the next attempt writes anew.
pub fn write_plain(path: &Path, contents: &str) -> Result<(), WriteError> {
    overwrite(path, contents.as_bytes())
        .map(drop)
        .map_err(|source| WriteError { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_whole_files_and_leaves_no_tmp() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("record.json");
        write_atomic(&path, b"one").unwrap();
        write_atomic(&path, b"two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failure_leaves_what_was_there_and_names_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("record.json");
        write_atomic(&path, b"one").unwrap();
        // A directory in the way of the tmp file fails the write for every user, root included.
        fs::create_dir(directory.path().join(format!(".record.json.{}.tmp", process::id()))).unwrap();
        let error = write_atomic(&path, b"two").unwrap_err();
        assert_eq!(error.to_string(), format!("cannot write {}", path.display()));
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
    }
}
