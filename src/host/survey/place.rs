//! A directory that a run writes to: whether it is writable, its file system, its free space, and whether locks work.
#![expect(clippy::disallowed_methods, reason = "this examines directories")]

use std::fs;
use std::path::Path;

use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, access};
use serde::Serialize;

use crate::files::probe_locks;

/// A directory that a run writes to. A missing directory is judged by its nearest existing ancestor, where it would be
/// made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PlaceFacts {
    /// Its absolute path.
    pub path: String,
    /// Whether it exists already.
    pub exists: bool,
    /// Why it cannot be used, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The kind of its file system, in the system's words: `ext4`, `nfs4`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_system: Option<String>,
    /// Bytes that this user may still write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// Bytes of the whole file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// Whether its locks work, by trial; absent if a trial was not possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locks_work: Option<bool>,
}

impl PlaceFacts {
    /// Examines the directory `path`, and the file `inside` it, which must be writable too if it exists.
    pub(super) fn probe(path: &Path, inside: Option<&str>) -> PlaceFacts {
        let nearest = path.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/"));
        let file = inside.map(|name| path.join(name)).filter(|file| file.exists());
        let room = statvfs(nearest).ok();
        PlaceFacts {
            path: path.display().to_string(),
            exists: path.exists(),
            problem: directory_problem(nearest).or_else(|| file.as_deref().and_then(file_problem)),
            file_system: file_system(nearest),
            free_bytes: room.map(|it| bytes(it.blocks_available() as u128, it.fragment_size() as u128)),
            total_bytes: room.map(|it| bytes(it.blocks() as u128, it.fragment_size() as u128)),
            locks_work: probe_locks(nearest).ok(),
        }
    }
}

/// The counts have different widths on different systems.
fn bytes(blocks: u128, block_size: u128) -> u64 {
    u64::try_from(blocks * block_size).unwrap_or(u64::MAX)
}

fn directory_problem(path: &Path) -> Option<String> {
    if !path.is_dir() {
        return Some(format!("{} is not a directory", path.display()));
    }
    let error = access(path, AccessFlags::W_OK | AccessFlags::X_OK).err()?;
    Some(format!("cannot write in {}: {}", path.display(), error.desc()))
}

fn file_problem(path: &Path) -> Option<String> {
    let error = access(path, AccessFlags::R_OK | AccessFlags::W_OK).err()?;
    Some(format!("cannot write {}: {}", path.display(), error.desc()))
}

#[cfg(target_os = "linux")]
fn file_system(path: &Path) -> Option<String> {
    let path = fs::canonicalize(path).ok()?;
    mounted(&fs::read_to_string("/proc/self/mountinfo").ok()?, &path)
}

#[cfg(not(target_os = "linux"))]
fn file_system(path: &Path) -> Option<String> {
    let path = fs::canonicalize(path).ok()?;
    nix::sys::statfs::statfs(&path).ok().map(|it| it.filesystem_type_name().to_owned())
}

/// The kind of file system of `path`, from `/proc/self/mountinfo`: lines `id parent device root MOUNT-POINT options
/// [optional …] - KIND source options`. The longest mount point wins. Among equal ones the last wins, since it hides
/// the others.
#[cfg(any(target_os = "linux", test))]
fn mounted(mount_info: &str, path: &Path) -> Option<String> {
    let mount = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let point = unescape(left.split(' ').nth(4)?);
        let point = Path::new(&point);
        path.starts_with(point).then_some(())?;
        Some((point.components().count(), right.split(' ').next()?.to_owned()))
    };
    mount_info.lines().filter_map(mount).max_by_key(|(depth, _)| *depth).map(|(_, kind)| kind)
}

/// Mount points write blanks and backslashes as octal numbers: `\040`.
#[cfg(any(target_os = "linux", test))]
fn unescape(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code.filter(u8::is_ascii) {
            Some(code) => plain.extend([char::from(code)].into_iter().chain(part[3..].chars())),
            None => plain.extend(['\\'].into_iter().chain(part.chars())),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
                          40 27 0:40 / /home rw shared:5 - nfs4 server:/home rw,vers=4.2\n\
                          41 40 0:41 / /home/me/my\\040disk rw - fuse.sshfs me@host: rw\n\
                          42 27 0:42 / /data rw - xfs /dev/sdb rw\n43 27 0:43 / /data rw - lustre mgs:/l rw\n";

    #[test]
    fn the_nearest_mount_decides_the_kind() {
        let kind = |path: &str| mounted(MOUNTS, Path::new(path)).unwrap();
        assert_eq!(kind("/tmp"), "ext4");
        assert_eq!(kind("/home/me/runs"), "nfs4");
        assert_eq!(kind("/home/me/my disk/runs"), "fuse.sshfs");
        assert_eq!(kind("/homeless"), "ext4");
        assert_eq!(kind("/data/x"), "lustre", "the later mount hides the earlier");
        assert_eq!(mounted("", Path::new("/")), None);
    }

    #[test]
    fn escapes_in_mount_points() {
        assert_eq!(unescape(r"/a\040b\134c"), r"/a b\c");
        assert_eq!(unescape(r"/a\04"), r"/a\04");
        assert_eq!(unescape("/ü\\040ö"), "/ü ö");
    }

    #[test]
    fn a_missing_directory_is_judged_by_its_nearest_ancestor() {
        let directory = tempfile::tempdir().unwrap();
        let place = PlaceFacts::probe(&directory.path().join("a/b"), Some("x.lock"));
        assert_eq!((place.exists, &place.problem), (false, &None));
        assert!(place.total_bytes >= place.free_bytes && place.free_bytes.is_some(), "{place:?}");
        assert!(place.file_system.is_some_and(|kind| !kind.is_empty()));
    }

    #[test]
    fn a_file_cannot_be_used_as_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("runs");
        fs::write(&file, "").unwrap();
        let problem = PlaceFacts::probe(&file, None).problem.unwrap();
        assert!(problem.contains("is not a directory"), "{problem}");
        assert!(PlaceFacts::probe(&file.join("inner"), None).problem.is_some());
        assert!(PlaceFacts::probe(directory.path(), Some("runs")).problem.is_none());
    }
}
