//! Digests of an attempt's files, taken when its record was written: [`Evidence`].
//!
//! The record's own seal covers these digests, so a change of a single byte in any file behind a number is noticed.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::shared::Shared;

/// The digests of the files that a record's numbers come from, by their names in the attempt's directory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Sorted. A store has many records, and most have files of the same names.
    names: Shared<Vec<String>>,
    /// The digests, in the order of the names.
    digests: Vec<FileDigest>,
}

/// The length and hash of a file's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDigest {
    /// The length in bytes.
    pub bytes: u64,
    /// The SHA-256.
    #[serde(with = "hex::serde")]
    pub sha256: [u8; 32],
}

impl FileDigest {
    /// The digest of `content`.
    pub fn of(content: &[u8]) -> FileDigest {
        FileDigest { bytes: content.len() as u64, sha256: Sha256::digest(content).into() }
    }
}

/// A file that changed after the record was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its name in the attempt's directory.
    pub file: String,
    /// Its change.
    pub kind: DifferenceKind,
}

/// The change of a file after its record was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DifferenceKind {
    /// Its content changed.
    Changed,
    /// It was deleted.
    Deleted,
    /// It was added.
    Added,
}

impl fmt::Display for Difference {
    /// A sentence without its full stop.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            DifferenceKind::Changed => "changed",
            DifferenceKind::Deleted => "deleted",
            DifferenceKind::Added => "added",
        };
        write!(f, "{} was {what} after the record was written", self.file)
    }
}

impl Evidence {
    /// Adds the digest of the file `name`.
    pub fn note(&mut self, name: String, digest: FileDigest) {
        match self.place(&name) {
            Ok(place) => self.digests[place] = digest,
            Err(place) => {
                self.names.insert(place, name);
                self.digests.insert(place, digest);
            }
        }
    }

    /// The names of the files, to be shared with records that have files of the same names.
    pub(super) fn names_mut(&mut self) -> &mut Shared<Vec<String>> {
        &mut self.names
    }

    /// The names of the files, sorted, and their digests in the same order.
    pub fn parts(&self) -> (&Shared<Vec<String>>, &[FileDigest]) {
        (&self.names, &self.digests)
    }

    /// The inverse of [`Evidence::parts`]. `None` if the numbers of names and digests differ.
    pub fn from_parts(names: Shared<Vec<String>>, digests: Vec<FileDigest>) -> Option<Evidence> {
        let fits = names.len() == digests.len() && names.is_sorted_by(|one, next| one < next);
        fits.then_some(Evidence { names, digests })
    }

    /// The index of the file `name`, or the index at which to insert it.
    fn place(&self, name: &str) -> Result<usize, usize> {
        self.names.binary_search_by(|noted| noted.as_str().cmp(name))
    }

    /// The number of files.
    pub fn files(&self) -> usize {
        self.names.len()
    }

    /// How the file `name` differs from its digest. `now` is its present digest, `None` if it does not exist.
    pub fn difference(&self, name: &str, now: Option<&FileDigest>) -> Option<Difference> {
        let kind = match (self.place(name).ok().map(|place| &self.digests[place]), now) {
            (None, None) => return None,
            (Some(then), Some(now)) if then == now => return None,
            (Some(_), Some(_)) => DifferenceKind::Changed,
            (Some(_), None) => DifferenceKind::Deleted,
            (None, Some(_)) => DifferenceKind::Added,
        };
        Some(Difference { file: name.to_owned(), kind })
    }
}

impl Serialize for Evidence {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.names.iter().zip(&self.digests))
    }
}

impl<'de> Deserialize<'de> for Evidence {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let files = BTreeMap::<String, FileDigest>::deserialize(deserializer)?;
        let (names, digests) = files.into_iter().unzip::<_, _, Vec<String>, Vec<FileDigest>>();
        Ok(Evidence { names: names.into(), digests })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_deleted_and_added_files_are_differences() {
        let mut evidence = Evidence::default();
        evidence.note("time.txt".into(), FileDigest::of(b"1 s"));
        let difference_text = |name, now: Option<&[u8]>| {
            evidence
                .difference(name, now.map(FileDigest::of).as_ref())
                .map(|difference| difference.to_string())
        };
        assert_eq!(difference_text("time.txt", Some(b"1 s")), None);
        assert_eq!(difference_text("ncu.csv", None), None);
        let difference = |name, now| difference_text(name, now).unwrap();
        assert_eq!(difference("time.txt", Some(b"2 s")), "time.txt was changed after the record was written");
        assert_eq!(difference("time.txt", None), "time.txt was deleted after the record was written");
        assert_eq!(difference("ncu.csv", Some(b"")), "ncu.csv was added after the record was written");
    }
}
