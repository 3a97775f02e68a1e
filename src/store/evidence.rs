//! Reads the files that a record rests on: when it is made, noting what they hold, and later, to see whether they still
//! hold that.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::files::{JobDir, open_regular, read_regular};
use crate::record::{Difference, Evidence, FileDigest, Record};

/// Reads files and notes what they held.
#[derive(Debug, Default)]
pub(super) struct EvidenceReader {
    noted: Evidence,
}

impl EvidenceReader {
    /// The bytes of the regular file at `path`, as [`read_regular`].
    ///
    /// # Errors
    /// As [`read_regular`].
    pub(super) fn read(&mut self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let read = read_regular(path, limit);
        match &read {
            Ok(bytes) => self.noted.note(name(path), FileDigest::of(bytes)),
            // What is too long to be used might be cut to a usable length later.
            Err(_) => self.look_at(path),
        }
        read
    }

    /// Lets `read` read the regular file at `path`, of whatever length, or nothing if there is none.
    pub(super) fn stream<T>(&mut self, path: &Path, read: impl FnOnce(&mut dyn BufRead) -> T) -> T {
        let Ok(file) = open_regular(path) else { return read(&mut io::empty()) };
        let mut file = BufReader::with_capacity(1 << 16, Hashed { file, hasher: Sha256::new(), bytes: 0 });
        let result = read(&mut file);
        // The digest is that of the whole file, even if `read` stopped at a mistake.
        let rest = io::copy(&mut file, &mut io::sink());
        if rest.is_ok() {
            let Hashed { hasher, bytes, .. } = file.into_inner();
            self.noted.note(name(path), FileDigest { bytes, sha256: hasher.finalize().into() });
        }
        result
    }

    /// Notes what the file at `path` holds, of whatever length, if it exists.
    pub(super) fn look_at(&mut self, path: &Path) {
        if let Ok(digest) = digest(path) {
            self.noted.note(name(path), digest);
        }
    }

    /// Everything that was noted.
    pub(super) fn evidence(self) -> Evidence {
        self.noted
    }
}

/// A file whose bytes are hashed as they are read.
struct Hashed {
    file: File,
    hasher: Sha256,
    bytes: u64,
}

impl Read for Hashed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        self.bytes += count as u64;
        Ok(count)
    }
}

impl JobDir {
    /// How the files that `record` of this job rests on differ from what they were when it was written, in the order
    /// of [`crate::files::AttemptDir::evidence`]. `None` if the record is of a version that did not note it.
    ///
    /// # Errors
    /// A file exists but cannot be read.
    pub fn differences(&self, record: &Record) -> io::Result<Option<Vec<Difference>>> {
        let Some(noted) = &record.evidence else { return Ok(None) };
        let mut differences = Vec::new();
        for path in self.attempt(record.attempt).evidence(record.key.kind) {
            let now = match digest(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                other => Some(other?),
            };
            differences.extend(noted.difference(&name(&path), now.as_ref()));
        }
        Ok(Some(differences))
    }
}

/// The bytes of the file at `path`, on which `record` rests, if it exists.
///
/// # Errors
/// It cannot be read, or is not what it was when the record was written.
pub fn load_evidence(path: &Path, limit: u64, record: &Record) -> Result<Option<Vec<u8>>, EvidenceError> {
    let bytes = match read_regular(path, limit) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        other => Some(other?),
    };
    let now = bytes.as_deref().map(FileDigest::of);
    let difference = record.evidence.as_ref().and_then(|noted| noted.difference(&name(path), now.as_ref()));
    match difference {
        Some(difference) => Err(EvidenceError::Differs(difference)),
        None => Ok(bytes),
    }
}

/// A file that a record rests on, and that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    /// It cannot be read.
    #[error("it cannot be read")]
    Read(#[from] io::Error),
    /// It is not what it was.
    #[error("{0}")]
    Differs(Difference),
}

/// The digest of the regular file at `path`, of whatever length.
fn digest(path: &Path) -> io::Result<FileDigest> {
    let mut file = open_regular(path)?;
    let (mut hasher, mut bytes) = (Sha256::new(), 0);
    let mut buffer = [0; 1 << 16];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(FileDigest { bytes, sha256: hasher.finalize().into() }),
            Ok(count) => {
                hasher.update(&buffer[..count]);
                bytes += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
