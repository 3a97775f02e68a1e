//! Atomic writes: a file is complete or unchanged.
//!
//! tmp → fsync → rename → fsync(directory): a reader sees the old file or the new one, even after a crash in between.
//! Without the syncs, this is still true if a process is killed. But a power cut can leave an empty or truncated file,
//! so its readers must be able to detect that.
//!
//! A crash can leave a hidden `.<name>.<pid>-<place>.tmp`, which is never read. Its name identifies the process, its
//! container and its host, so programs that save the same plan at the same time do not mix their contents, even on two
//! hosts.
#![expect(clippy::disallowed_methods, reason = "this is the atomic writer that all other code uses")]

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::OnceLock;

use super::fault::Fault;
use super::regular::overwrite;

/// A file that could not be written. Its old contents are untouched.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}", path.display())]
pub struct WriteError {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    #[source]
    pub source: io::Error,
}

/// Writes `contents` to `path` atomically.
///
/// # Errors
/// The directory is missing or not writable, or the disk is full. Then `path` is unchanged.
pub fn write_atomic(path: &Path, contents: &[u8]) -> Result<(), WriteError> {
    write_atomic_by(path, |file| file.write_all(contents))
}

/// Writes the output of `write` to `path` atomically, for contents that are too large for memory.
///
/// # Errors
/// As [`write_atomic`], and the errors of `write`.
pub fn write_atomic_by(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<(), WriteError> {
    let directory = replace(path, |file| write(file).and_then(|()| file.sync_all()))?;
    sync_directory(directory).map_err(|source| WriteError { path: path.to_owned(), source })
}

/// Writes `contents` to `path` atomically, as one of many files of a directory that the caller syncs with
/// [`sync_directory`] after the last one.
///
/// # Errors
/// As [`write_atomic`].
pub fn write_one_of_many(path: &Path, contents: &[u8]) -> Result<(), WriteError> {
    replace(path, |file| file.write_all(contents).and_then(|()| file.sync_all())).map(drop)
}

/// Writes `contents` to `path` atomically for every reader, but does not sync: a power cut can leave an empty or
/// truncated file. Its readers must be able to detect that, for example by a seal.
///
/// # Errors
/// As [`write_atomic`].
pub fn write_whole(path: &Path, contents: &[u8]) -> Result<(), WriteError> {
    replace(path, |file| file.write_all(contents)).map(drop)
}

/// Calls `write` with an empty file beside `path`, and renames that to `path`. Returns the directory.
fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<&Path, WriteError> {
    let wrong = |source| WriteError { path: path.to_owned(), source };
    let name = path.file_name().ok_or_else(|| wrong(io::ErrorKind::InvalidInput.into()))?;
    let directory = path.parent().ok_or_else(|| wrong(io::ErrorKind::InvalidInput.into()))?;
    if Fault::NoRename.is_on() {
        return fill(path, write).map(|()| directory).map_err(wrong);
    }
    let tmp = directory.join(hidden_name(name, process::id()));
    let written = fill(&tmp, write).and_then(|()| fs::rename(&tmp, path));
    if let Err(source) = written {
        // On a full disk, the partial file should be removed. If it stays, it is never read.
        let _ = fs::remove_file(&tmp);
        return Err(wrong(source));
    }
    Ok(directory)
}

/// The name of the temporary file for `name` that the process `pid`, on this host and in this container, writes.
pub fn hidden_name(name: &OsStr, pid: u32) -> OsString {
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}.tmp", process_word(pid)));
    hidden
}

/// A part of a file's name that is unique to the process, as `<pid>-<place>`. Process ids are only unique in one
/// container of one host, but several hosts can share a file system.
pub fn process_word(pid: u32) -> String {
    static PLACE: OnceLock<u64> = OnceLock::new();
    let place = PLACE.get_or_init(|| {
        let mut hasher = DefaultHasher::new();
        nix::unistd::gethostname().ok().hash(&mut hasher);
        fs::read("/proc/sys/kernel/random/boot_id").ok().hash(&mut hasher);
        fs::read_link("/proc/self/ns/pid").ok().hash(&mut hasher);
        hasher.finish()
    });
    format!("{pid}-{place:016x}")
}

/// Truncates the file at `path`, or creates it, and calls `write` with it.
fn fill(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    write(&mut overwrite(path, b"")?)
}

/// Makes the names in `directory` survive a power cut.
///
/// # Errors
/// The directory cannot be opened or synced.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    match File::open(directory)?.sync_all() {
        // Some network and overlay file systems do not support fsync of directories, and offer nothing better.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        other => other,
    }
}

/// Writes a small file without atomicity, for files that are not read meanwhile and that the next attempt writes again.
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
    fn temporary_files_are_named_after_the_process_and_its_place() {
        let name = hidden_name(OsStr::new("record.json"), 12).into_string().unwrap();
        let place = name.strip_prefix(".record.json.12-").and_then(|rest| rest.strip_suffix(".tmp")).unwrap();
        assert!(place.len() == 16 && place.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
        assert_eq!(
            hidden_name(OsStr::new("record.json"), 12).to_str(),
            Some(name.as_str()),
            "it stays the same"
        );
    }

    #[test]
    fn a_failure_keeps_the_old_file_and_names_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("record.json");
        write_atomic(&path, b"one").unwrap();
        // A directory in the way of the tmp file fails the write for every user, root included.
        fs::create_dir(directory.path().join(hidden_name(OsStr::new("record.json"), process::id()))).unwrap();
        let error = write_atomic(&path, b"two").unwrap_err();
        assert_eq!(error.to_string(), format!("cannot write {}", path.display()));
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
    }
}
