//! Detects whether a job's directory has changed: [`Stamps`] of its inodes, sizes and times.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::files::JobDir;

/// The stamps of everything that determines how a done job is read.
///
/// Replacing or changing a record changes its stamp. A new attempt changes the stamp of `attempts/`, and a new
/// `accepted.json` changes that of the job's directory.
///
/// Serialised as a list of twelve numbers to save space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "[Numbers; 3]", into = "[Numbers; 3]")]
pub(in crate::store) struct Stamps {
    directory: Stamp,
    record: Stamp,
    attempts: Stamp,
}

/// Metadata of a file that changes whenever the file changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Numbers", into = "Numbers")]
pub(super) struct Stamp {
    inode: u64,
    bytes: u64,
    /// The last change of the content, in nanoseconds since the Unix epoch. Programs can set it.
    modified_ns: i64,
    /// The last change of content or metadata, in nanoseconds since the Unix epoch. Programs cannot set it.
    changed_ns: i64,
}

/// The fields of a [`Stamp`] in their order.
type Numbers = (u64, u64, i64, i64);

impl From<Numbers> for Stamp {
    fn from((inode, bytes, modified_ns, changed_ns): Numbers) -> Self {
        Stamp { inode, bytes, modified_ns, changed_ns }
    }
}

impl From<Stamp> for Numbers {
    fn from(Stamp { inode, bytes, modified_ns, changed_ns }: Stamp) -> Self {
        (inode, bytes, modified_ns, changed_ns)
    }
}

impl From<[Numbers; 3]> for Stamps {
    fn from(numbers: [Numbers; 3]) -> Self {
        let [directory, record, attempts] = numbers.map(Stamp::from);
        Stamps { directory, record, attempts }
    }
}

impl From<Stamps> for [Numbers; 3] {
    fn from(Stamps { directory, record, attempts }: Stamps) -> Self {
        [directory, record, attempts].map(Numbers::from)
    }
}

impl Stamps {
    /// The stamps of `dir` now; `None` if something is missing or of the wrong kind.
    pub(in crate::store) fn of(dir: &JobDir) -> Option<Stamps> {
        let look = |path: &Path| fs::symlink_metadata(path).ok();
        let directory = look(dir.path()).filter(Metadata::is_dir)?;
        let record = look(&dir.record()).filter(Metadata::is_file)?;
        let attempts = look(&dir.attempts_dir()).filter(Metadata::is_dir)?;
        let [directory, record, attempts] = [directory, record, attempts].map(|found| Stamp::of(&found));
        Some(Stamps { directory, record, attempts })
    }

    /// The latest change of any of the three, in nanoseconds since the Unix epoch, by the file system's clock.
    pub(super) fn newest_ns(&self) -> i64 {
        let Stamps { directory, record, attempts } = self;
        [directory, record, attempts].map(Stamp::newest_ns).into_iter().max().unwrap_or(i64::MAX)
    }
}

impl Stamp {
    /// The stamp of the file at `path`. Follows links.
    ///
    /// # Errors
    /// Its metadata cannot be read.
    pub(super) fn at(path: &Path) -> io::Result<Stamp> {
        fs::metadata(path).map(|found| Stamp::of(&found))
    }

    pub(super) fn of(found: &Metadata) -> Stamp {
        let ns = |seconds: i64, ns: i64| seconds.saturating_mul(1_000_000_000).saturating_add(ns);
        Stamp {
            inode: found.ino(),
            bytes: found.size(),
            modified_ns: ns(found.mtime(), found.mtime_nsec()),
            changed_ns: ns(found.ctime(), found.ctime_nsec()),
        }
    }

    pub(super) fn newest_ns(&self) -> i64 {
        self.modified_ns.max(self.changed_ns)
    }
}
