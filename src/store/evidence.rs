//! Reads the files from which a record is made, its evidence. [`EvidenceReader`] notes their digests in the record;
//! [`load_evidence`] and [`JobDir::differences`] compare them later.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::files::{JobDir, open_regular, read_regular};
use crate::record::{Difference, Evidence, FileDigest, Record};

/// Reads files and notes their digests.
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
            // A file that is too long might be cut to a usable length later.
            Err(_) => self.look_at(path),
        }
        read
    }

    /// Streams the regular file at `path`, of any length, to `read`. A missing file is empty.
    pub(super) fn stream<T>(&mut self, path: &Path, read: impl FnOnce(&mut dyn BufRead) -> T) -> T {
        let Ok(file) = open_regular(path) else { return read(&mut io::empty()) };
        let mut file = BufReader::with_capacity(1 << 16, Hashed { file, hasher: Sha256::new(), bytes: 0 });
        let result = read(&mut file);
        // The digest covers the whole file, even if `read` stopped at a mistake.
        let rest = io::copy(&mut file, &mut io::sink());
        if rest.is_ok() {
            let Hashed { hasher, bytes, .. } = file.into_inner();
            self.noted.note(name(path), FileDigest { bytes, sha256: hasher.finalize().into() });
        }
        result
    }

    /// Notes the digest of the file at `path`, of any length, if it exists.
    pub(super) fn look_at(&mut self, path: &Path) {
        if let Ok(digest) = digest(path) {
            self.noted.note(name(path), digest);
        }
    }

    /// The noted digests.
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
    /// The differences between the evidence of `record` now and when it was written, in the order of
    /// [`crate::files::AttemptDir::evidence`]. `None` if the record is of a version that did not note digests.
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

/// The bytes of the file at `path`, which is evidence of `record`. `None` if it does not exist.
///
/// # Errors
/// It cannot be read, or has changed since the record was written.
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

/// A file of evidence that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    /// It cannot be read.
    #[error("it cannot be read")]
    Read(#[from] io::Error),
    /// It has changed.
    #[error("{0}")]
    Differs(Difference),
}

/// The digest of the regular file at `path`, of any length.
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
