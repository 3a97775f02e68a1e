//! Copies the directory of a finished job. The copy becomes a job's directory only when it is renamed.
#![expect(clippy::disallowed_methods, reason = "a copy is made of files")]

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::inspect::Incoming;
use crate::files::{WriteError, open_regular, write_whole};

/// Entries that are not simply copied. The lock belongs to the other store, and the record is written last. Of the
/// attempts, only those that have ended are copied.
const NOT_COPIED: [&str; 3] = ["attempts", "lock", "record.json"];

/// A copy that was not made.
#[derive(Debug, thiserror::Error)]
pub(super) enum CopyError {
    /// The original cannot be read.
    #[error("{} cannot be read", path.display())]
    Read {
        /// The file or directory, by its path from the job's directory.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// The copy cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Copies `incoming` to the directory `to`, which must not exist. Returns the paths that were not copied because they
/// are neither files nor directories.
///
/// Later attempts without a record are not copied: they are running on the other host, or were cut off. In the copy
/// they would look like attempts of this store.
pub(super) fn copy_job(incoming: &Incoming, to: &Path) -> Result<Vec<String>, CopyError> {
    let from = &incoming.dir;
    let mut copy = Copy { root: from.path(), left_out: Vec::new() };
    make(to)?;
    for name in copy.names(from.path())? {
        let text = name.to_string_lossy();
        if !text.starts_with('.') && !NOT_COPIED.contains(&&*text) {
            copy.any(&from.path().join(&name), &to.join(&name))?;
        }
    }
    let attempts = from.attempts().map_err(|source| copy.unreadable(&from.attempts_dir(), source))?;
    let copies = to.join("attempts");
    make(&copies)?;
    for attempt in attempts {
        if attempt.number() <= incoming.record.attempt || attempt.record().exists() {
            let name = attempt.path().file_name().unwrap_or_default();
            copy.any(attempt.path(), &copies.join(name))?;
        }
    }
    write_whole(&to.join("record.json"), &incoming.bytes)?;
    Ok(copy.left_out)
}

fn make(directory: &Path) -> Result<(), WriteError> {
    fs::create_dir(directory).map_err(|source| WriteError { path: directory.to_owned(), source })
}

/// A copy in progress.
struct Copy<'a> {
    /// The original directory.
    root: &'a Path,
    left_out: Vec<String>,
}

impl Copy<'_> {
    fn below(&self, path: &Path) -> PathBuf {
        path.strip_prefix(self.root).unwrap_or(path).to_owned()
    }

    fn unreadable(&self, path: &Path, source: io::Error) -> CopyError {
        CopyError::Read { path: self.below(path), source }
    }

    /// The names of the entries of `directory`, sorted.
    fn names(&self, directory: &Path) -> Result<Vec<OsString>, CopyError> {
        let names = fs::read_dir(directory)
            .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>());
        let mut names = names.map_err(|source| self.unreadable(directory, source))?;
        names.sort_unstable();
        Ok(names)
    }

    fn any(&mut self, from: &Path, to: &Path) -> Result<(), CopyError> {
        let kind = match fs::symlink_metadata(from) {
            Ok(found) => found.file_type(),
            // If it was needed, verifying the copy fails later.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(source) => return Err(self.unreadable(from, source)),
        };
        if kind.is_dir() {
            self.directory(from, to)
        } else if kind.is_file() {
            self.file(from, to)
        } else {
            // A link could point anywhere, and reading a FIFO would block.
            self.left_out.push(self.below(from).display().to_string());
            Ok(())
        }
    }

    fn directory(&mut self, from: &Path, to: &Path) -> Result<(), CopyError> {
        make(to)?;
        self.names(from)?.into_iter().try_for_each(|name| self.any(&from.join(&name), &to.join(&name)))
    }

    /// Copies a file and its permissions. The owner can always read and write the copy.
    fn file(&self, from: &Path, to: &Path) -> Result<(), CopyError> {
        let read = |source| self.unreadable(from, source);
        let write = |source| WriteError { path: to.to_owned(), source };
        let original = open_regular(from).map_err(read)?;
        let found = original.metadata().map_err(read)?;
        let mut copy = OpenOptions::new().write(true).create_new(true).open(to).map_err(write)?;
        // A process that outlived its attempt may still append to it.
        let mut original = original.take(found.len());
        let mut buffer = vec![0; 1 << 16];
        loop {
            match original.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => copy.write_all(&buffer[..count]).map_err(write)?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(read(source)),
            }
        }
        set_mode(&copy, found.permissions().mode()).map_err(write)?;
        Ok(())
    }
}

fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode((mode & 0o777) | 0o600))
}
