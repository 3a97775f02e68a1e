//! Reads files that foreign programs can write.
//!
//! A worker is a foreign program and can leave anything under the names that we read: a FIFO that blocks `open`
//! forever, an endless device, a directory. So only regular files are read here, up to a limit. Everything else is an
//! immediate error.

use std::ffi::OsStr;
use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Component, Path};

use nix::libc;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, statat};

/// The maximum size of our files.
pub const FILE_LIMIT: u64 = 64 << 20;

/// Opens the regular file at `path` for reading; symbolic links are followed.
///
/// # Errors
/// It does not exist, cannot be opened, or is not a regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    check(OpenOptions::new().read(true).custom_flags(FLAGS).open(path)?)
}

/// An open directory below another one. Symbolic links below that one are not followed, so all files read are below it,
/// even if other processes rename or link directories meanwhile.
#[derive(Debug)]
pub struct Below(OwnedFd);

impl Below {
    /// Opens `directory`, which is `root` or below it.
    ///
    /// # Errors
    /// It does not exist, cannot be opened, is not below `root`, or its path has a symbolic link.
    pub fn open(root: &Path, directory: &Path) -> io::Result<Below> {
        let below = directory.strip_prefix(root).map_err(|_| outside())?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut at = openat(CWD, root, flags, Mode::empty())?;
        for component in below.components() {
            let Component::Normal(name) = component else { return Err(outside()) };
            at = openat(&at, name, flags | OFlags::NOFOLLOW, Mode::empty())?;
        }
        Ok(Below(at))
    }

    /// The size of the regular file called `name` in it, in bytes; `None` if there is none.
    pub fn size(&self, name: &OsStr) -> Option<u64> {
        let found = statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let is_regular = rustix::fs::FileType::from_raw_mode(found.st_mode).is_file();
        u64::try_from(found.st_size).ok().filter(|_| is_regular)
    }
}

/// Opens the regular file at `path` below the directory `root` for reading, as [`Below`].
///
/// # Errors
/// As [`open_regular`] and [`Below::open`].
pub fn open_below(root: &Path, path: &Path) -> io::Result<File> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return Err(outside()) };
    let at = Below::open(root, directory)?;
    let file = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
    check(openat(&at.0, name, file, Mode::empty())?.into())
}

fn outside() -> io::Error {
    io::Error::other("it is not below the directory")
}

/// Opens without blocking and without acquiring a terminal. Neither flag affects regular files.
pub(super) const FLAGS: i32 = libc::O_NONBLOCK | libc::O_NOCTTY;

/// `file`, if it is a regular one.
pub(super) fn check(file: File) -> io::Result<File> {
    let kind = file.metadata()?.file_type();
    if kind.is_file() { Ok(file) } else { Err(io::Error::other(format!("it is {}", kind_text(kind)))) }
}

fn kind_text(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_dir() => "a directory, not a file",
        kind if kind.is_fifo() => "a FIFO, not a regular file",
        kind if kind.is_socket() => "a socket, not a regular file",
        kind if kind.is_block_device() || kind.is_char_device() => "a device, not a regular file",
        _ => "not a regular file",
    }
}

/// The bytes of the regular file at `path`.
///
/// # Errors
/// As [`open_regular`], it cannot be read, or it is longer than `limit` bytes.
pub fn read_regular(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open_regular(path)?;
    // With a little spare capacity, one call reads everything, and a second one detects the end.
    let length = file.metadata()?.len().min(limit);
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0).saturating_add(64));
    // It can grow while it is read, so the length in the metadata is not enough.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::other(format!("it is longer than {limit} bytes")));
    }
    Ok(bytes)
}

/// The text of the regular file at `path`.
///
/// # Errors
/// As [`read_regular`] with [`FILE_LIMIT`], or it is not UTF-8.
pub fn read_regular_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read_regular(path, FILE_LIMIT)?)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Replaces the content of the file at `path` with `contents`, not atomically.
///
/// # Errors
/// It cannot be written, or writing to it would block.
pub fn overwrite(path: &Path, contents: &[u8]) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).custom_flags(FLAGS).open(path)?;
    file.write_all(contents)?;
    Ok(file)
}

/// The last `bytes` bytes of the file at `path`; `None` if it cannot be read or is not a regular file.
pub fn tail(path: &Path, bytes: u64) -> Option<String> {
    let mut file = open_regular(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(bytes))).ok()?;
    let mut read = Vec::new();
    file.take(bytes).read_to_end(&mut read).ok()?;
    Some(String::from_utf8_lossy(&read).into_owned())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write the files they read")]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;

    use nix::sys::stat;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn only_regular_files_are_read_and_reads_never_block() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("file"), "text").unwrap();
        std::os::unix::fs::symlink(path("file"), path("link")).unwrap();
        mkfifo(&path("fifo"), stat::Mode::S_IRWXU).unwrap();
        fs::create_dir(path("directory")).unwrap();
        let _socket = UnixListener::bind(path("socket")).unwrap();
        assert_eq!(read_regular(&path("file"), 4).unwrap(), b"text");
        assert_eq!(read_regular_text(&path("link")).unwrap(), "text");
        let error = |path: &Path| read_regular(path, 4).unwrap_err().to_string();
        assert_eq!(error(&path("fifo")), "it is a FIFO, not a regular file");
        assert_eq!(error(&path("directory")), "it is a directory, not a file");
        assert_eq!(error(Path::new("/dev/zero")), "it is a device, not a regular file");
        // A socket cannot be opened, so the message is the system's.
        assert!(open_regular(&path("socket")).is_err());
        assert_eq!(open_regular(&path("nothing")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(overwrite(&path("fifo"), b"text").is_err());
    }

    #[test]
    fn a_file_longer_than_expected_is_rejected() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read_regular(&path, 4).unwrap_err().to_string(), "it is longer than 4 bytes");
        assert_eq!(read_regular(&path, 5).unwrap(), b"12345");
    }

    #[test]
    fn files_outside_of_a_directory_are_not_opened_below_it() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("store");
        let path = |name: &str| root.join(name);
        fs::create_dir_all(path("job/attempts")).unwrap();
        fs::write(directory.path().join("secret"), "secret").unwrap();
        fs::write(path("job/attempts/log"), "text").unwrap();
        let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, path(name)).unwrap();
        link("../../../secret", "job/attempts/stdout.log");
        link("log", "job/attempts/link");
        link("..", "job/up");
        link("/etc", "etc");
        let mut text = String::new();
        open_below(&root, &path("job/attempts/log")).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
        let refused = [
            "job/attempts/stdout.log",
            "job/attempts/link",
            "job/up/secret",
            "etc/passwd",
            "job/../../secret",
            "../secret",
            "job",
            "",
        ];
        for name in refused {
            assert!(open_below(&root, &path(name)).is_err(), "{name} is opened");
        }
        assert!(open_below(&root, Path::new("/etc/passwd")).is_err());
        // The root itself may be a link.
        std::os::unix::fs::symlink(&root, directory.path().join("linked")).unwrap();
        let linked = directory.path().join("linked");
        assert!(open_below(&linked, &linked.join("job/attempts/log")).is_ok());
    }
}
