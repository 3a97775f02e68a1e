//! Opens lock files safely: [`open_lock`] and [`open_or_make_lock`]; [`Foreign`] is the reason for rejecting a file.
//!
//! Locks are in a directory that other users can write, `/tmp` by default. A link there must not make this process
//! write elsewhere, so a lock file is opened without following links. It must be a regular file with one name, owned by
//! a user who may create it, and empty or written by `orchestrate`. Anything else is rejected and left unchanged.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use nix::libc;
use nix::unistd::geteuid;

/// Never follows a link, blocks, or acquires a terminal.
const FLAGS: i32 = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;

/// How many bytes at the beginning of a lock file are examined.
const BEGINNING: usize = 256;

/// The reason why the file at the path of a lock is not a lock file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Foreign {
    /// A symbolic link.
    #[error("it is a symbolic link, not a lock file")]
    Link,
    /// A directory, a FIFO, a socket, a device.
    #[error("it is {0}, not a regular file")]
    NotRegular(&'static str),
    /// A file with several names (hard links).
    #[error("it has {0} names (hard links), but a lock file has one")]
    HardLinked(u64),
    /// A file whose owner cannot write to its directory.
    #[error("it belongs to user {0}, who cannot write to its directory")]
    Owner(u32),
    /// A file that `orchestrate` did not write.
    #[error("it contains something that orchestrate did not write")]
    Contents,
}

/// A lock file that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The system returned an error.
    #[error(transparent)]
    System(#[from] io::Error),
    /// It is not a lock file.
    #[error(transparent)]
    Foreign(#[from] Foreign),
}

impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::System(error) => error,
            OpenError::Foreign(what) => io::Error::other(what),
        }
    }
}

/// The permissions of a new lock file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Users that the umask allows, for files of a store.
    Umask,
    /// All users of this host.
    AllUsers,
}

/// Opens the lock file at `path` to find its holder.
///
/// # Errors
/// It does not exist, cannot be opened, or is not a lock file.
pub fn open_lock(path: &Path) -> Result<File, OpenError> {
    open(path, OpenOptions::new().read(true))
}

/// Opens the lock file at `path`, and creates it if it is missing.
///
/// # Errors
/// It cannot be created, or as [`open_lock`].
pub fn open_or_make_lock(path: &Path, access: Access) -> Result<File, OpenError> {
    loop {
        // Not in one step with O_CREAT: in a sticky directory, Linux allows only the owner to open a file that way.
        match open(path, OpenOptions::new().read(true).write(true)) {
            Err(OpenError::System(error)) if error.kind() == ErrorKind::NotFound => {}
            other => return other,
        }
        match make(path, access) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            other => return Ok(other?),
        }
    }
}

/// Creates the file at `path` with O_EXCL, which does not follow links either.
fn make(path: &Path, access: Access) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o666).open(path)?;
    if access == Access::AllUsers {
        // The umask removed permissions.
        file.set_permissions(Permissions::from_mode(0o666))?;
    }
    Ok(file)
}

fn open(path: &Path, options: &mut OpenOptions) -> Result<File, OpenError> {
    let file = options.custom_flags(FLAGS).open(path).map_err(|error| refused(path, error))?;
    let data = file.metadata()?;
    check_kind(&data)?;
    check_owner(&data, path)?;
    let mut beginning = [0; BEGINNING];
    let length = file.read_at(&mut beginning, 0)?;
    if is_ours(&beginning[..length]) { Ok(file) } else { Err(Foreign::Contents.into()) }
}

/// The error of a failed open. The kind of file explains it better than the error number, if it is unexpected.
fn refused(path: &Path, error: io::Error) -> OpenError {
    let there = std::fs::symlink_metadata(path).ok();
    there.and_then(|data| check_kind(&data).err()).map_or(OpenError::System(error), OpenError::Foreign)
}

fn check_kind(data: &Metadata) -> Result<(), Foreign> {
    let kind = data.file_type();
    match kind {
        _ if kind.is_symlink() => Err(Foreign::Link),
        _ if kind.is_dir() => Err(Foreign::NotRegular("a directory")),
        _ if kind.is_fifo() => Err(Foreign::NotRegular("a FIFO")),
        _ if kind.is_socket() => Err(Foreign::NotRegular("a socket")),
        _ if !kind.is_file() => Err(Foreign::NotRegular("a device")),
        // A file without a name was just deleted, which is detected after locking it.
        _ if data.nlink() > 1 => Err(Foreign::HardLinked(data.nlink())),
        _ => Ok(()),
    }
}

fn check_owner(data: &Metadata, path: &Path) -> Result<(), OpenError> {
    let directory = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let directory = directory.metadata()?;
    let owners = [geteuid().as_raw(), 0, directory.uid()];
    let may_write = is_shared(directory.mode()) || owners.contains(&data.uid());
    if may_write { Ok(()) } else { Err(Foreign::Owner(data.uid()).into()) }
}

/// Whether users other than the owner can write to a directory with this mode.
fn is_shared(mode: u32) -> bool {
    mode & 0o022 != 0
}

/// Whether `file` is still the file at `path`.
pub(super) fn is_same_file(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

/// Whether the file belongs to this user. Files of other users are locked, but never written.
pub(super) fn is_own(file: &File) -> bool {
    file.metadata().is_ok_and(|data| data.uid() == geteuid().as_raw() && data.nlink() == 1)
}

/// Whether a lock file can begin like this: it is empty, or begins like a [`super::holder::Holder`]. A crash can cut it
/// off anywhere, and a power cut can fill it with zeros.
fn is_ours(beginning: &[u8]) -> bool {
    let is_zeros = beginning.iter().all(|byte| *byte == 0);
    let digits = beginning.iter().skip(PID.len()).take_while(|byte| byte.is_ascii_digit()).count();
    let after = beginning.get(PID.len() + digits..).unwrap_or_default();
    is_zeros || agree(beginning, PID) && agree(after, JOB)
}

const PID: &[u8] = b"{\"pid\":";
const JOB: &[u8] = b",\"job\":\"";

/// Whether one of the two begins with the other.
fn agree(text: &[u8], pattern: &[u8]) -> bool {
    text.iter().zip(pattern).all(|(one, other)| one == other)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make the files they look at")]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    const SIGNED: &str = r#"{"pid":12,"job":"cpu_m_fp32_bs4_run1","store":"/home/me/runs"}"#;

    fn foreign(path: &Path) -> Foreign {
        match (open_or_make_lock(path, Access::AllUsers), open_lock(path)) {
            (Err(OpenError::Foreign(one)), Err(OpenError::Foreign(other))) if one == other => one,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn other_files_in_place_of_a_lock_are_refused_unchanged() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let text = "years of work\n";
        fs::write(path("victim"), text).unwrap();
        symlink(path("victim"), path("link")).unwrap();
        symlink(path("nothing"), path("dangling")).unwrap();
        fs::create_dir(path("directory")).unwrap();
        mkfifo(&path("fifo"), Mode::S_IRWXU).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        for (name, why) in [
            ("victim", Foreign::Contents),
            ("link", Foreign::Link),
            ("dangling", Foreign::Link),
            ("directory", Foreign::NotRegular("a directory")),
            ("fifo", Foreign::NotRegular("a FIFO")),
            ("socket", Foreign::NotRegular("a socket")),
        ] {
            assert_eq!(foreign(&path(name)), why, "{name}");
        }
        assert_eq!(foreign(Path::new("/dev/null")), Foreign::NotRegular("a device"));
        fs::write(path("signed"), SIGNED).unwrap();
        fs::hard_link(path("signed"), path("second")).unwrap();
        assert_eq!(foreign(&path("second")), Foreign::HardLinked(2));
        assert_eq!(fs::read_to_string(path("victim")).unwrap(), text);
        assert_eq!(fs::read_to_string(path("signed")).unwrap(), SIGNED);
        assert!(!path("nothing").exists());
    }

    #[test]
    fn a_lock_file_is_created_with_the_requested_access() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let error = open_lock(&path).unwrap_err();
        assert!(matches!(&error, OpenError::System(error) if error.kind() == ErrorKind::NotFound), "{error}");
        let made = open_or_make_lock(&path, Access::AllUsers).unwrap();
        assert_eq!(made.metadata().unwrap().mode() & 0o777, 0o666);
        assert!(is_own(&made));
        assert_eq!(open_lock(&path).unwrap().metadata().unwrap().ino(), made.metadata().unwrap().ino());
    }

    /// A crash must not need manual repair: any part of a signature is a lock file.
    #[test]
    fn a_signature_cut_anywhere_is_a_lock_file() {
        for length in 0..=SIGNED.len() {
            assert!(is_ours(&SIGNED.as_bytes()[..length]), "{length}");
        }
        assert!(is_ours(&[0; 64]));
        for other in [
            "x",
            "{",
            "{}",
            "{\"pid\":\"1\"}",
            "{\"pid\":1}",
            "{\"pid\":1,\"name\":\"\"}",
            "\n",
            " {\"pid\":1",
        ] {
            assert_eq!(is_ours(other.as_bytes()), other == "{", "{other}");
        }
    }

    #[test]
    fn directories_writable_by_others_are_shared() {
        assert!([0o41777, 0o40777, 0o40775].into_iter().all(is_shared));
        assert!(![0o40755, 0o40700, 0o40555].into_iter().any(is_shared));
    }
}
