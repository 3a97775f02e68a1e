//! The files of locks.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Opens a lock file that several users share.
pub(super) fn open_shared(path: &Path) -> io::Result<File> {
    loop {
        // Not in one step with O_CREAT: in a sticky directory Linux lets nobody but its owner open a file that way.
        match OpenOptions::new().read(true).write(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o666).open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => {
                let file = other?;
                file.set_permissions(Permissions::from_mode(0o666))?;
                return Ok(file);
            }
        }
    }
}

/// Whether `file` is what stands at `path` now.
pub(super) fn is_same_file(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}
