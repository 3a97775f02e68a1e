//! What an attempt's files held when its record was written.
//!
//! The record's own seal covers these digests, so one byte of any file that a number rests on cannot change unnoticed.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

/// The files of an attempt that its record's numbers rest on, by their names in the attempt's directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Sorted by name. A tree would need four times the memory, and a store has many records.
    files: Vec<(String, FileDigest)>,
}

/// What a file held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDigest {
    /// Its length.
    pub bytes: u64,
    /// Its SHA-256.
    #[serde(with = "hex::serde")]
    pub sha256: [u8; 32],
}

impl FileDigest {
    /// The digest of `content`.
    pub fn of(content: &[u8]) -> FileDigest {
        FileDigest { bytes: content.len() as u64, sha256: Sha256::digest(content).into() }
    }
}

/// A file that is not what it was when the record was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its name in the attempt's directory.
    pub file: String,
    /// What happened to it.
    pub kind: DifferenceKind,
}

/// What happened to a file after its record was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DifferenceKind {
    /// It holds something else.
    Changed,
    /// It is gone.
    Deleted,
    /// It was not there.
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
    /// Notes what the file `name` held.
    pub fn note(&mut self, name: String, digest: FileDigest) {
        match self.place(&name) {
            Ok(place) => self.files[place].1 = digest,
            Err(place) => self.files.insert(place, (name, digest)),
        }
    }

    /// Where the file `name` is, or belongs.
    fn place(&self, name: &str) -> Result<usize, usize> {
        self.files.binary_search_by(|(noted, _)| noted.as_str().cmp(name))
    }

    /// The number of files.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// How the file `name` differs from what was noted, if it holds `now`, or does not exist.
    pub fn difference(&self, name: &str, now: Option<&FileDigest>) -> Option<Difference> {
        let kind = match (self.place(name).ok().map(|place| &self.files[place].1), now) {
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
        serializer.collect_map(self.files.iter().map(|(name, digest)| (name, digest)))
    }
}

impl<'de> Deserialize<'de> for Evidence {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let files = BTreeMap::<String, FileDigest>::deserialize(deserializer)?;
        Ok(Evidence { files: files.into_iter().collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_what_it_was_or_the_difference_has_a_name() {
        let mut evidence = Evidence::default();
        evidence.note("time.txt".into(), FileDigest::of(b"1 s"));
        let told = |name, now: Option<&[u8]>| {
            evidence
                .difference(name, now.map(FileDigest::of).as_ref())
                .map(|difference| difference.to_string())
        };
        assert_eq!(told("time.txt", Some(b"1 s")), None);
        assert_eq!(told("ncu.csv", None), None);
        let difference = |name, now| told(name, now).unwrap();
        assert_eq!(difference("time.txt", Some(b"2 s")), "time.txt was changed after the record was written");
        assert_eq!(difference("time.txt", None), "time.txt was deleted after the record was written");
        assert_eq!(difference("ncu.csv", Some(b"")), "ncu.csv was added after the record was written");
    }
}
