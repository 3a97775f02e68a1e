//! Reads `record.json`, the only file that decides whether a job is done.

use std::io;
use std::path::Path;

use serde::Deserialize;

use crate::files::{AttemptDir, FILE_LIMIT, FormError, JobDir, Versioned, from_sealed_json, read_regular};
use crate::job::{Job, JobId};
use crate::record::{Outcome, RECORD_SCHEMA, Record};

/// An unusable `record.json`.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// It cannot be read.
    #[error("record.json cannot be read")]
    Read(#[source] io::Error),
    /// It is torn, was changed after it was written, or has an unknown form or version.
    #[error(transparent)]
    Form(#[from] FormError),
    /// Its outcome is unknown.
    #[error("record.json has the outcome `{0}`, which this version does not know")]
    UnknownOutcome(String),
    /// Its key does not match its directory.
    #[error("record.json belongs to the job {0}, so it is in the wrong directory")]
    Foreign(String),
    /// Its id is not the hash of its key.
    #[error("record.json has the id {found}, but its key hashes to {expected}")]
    WrongId {
        /// The id in the file.
        found: JobId,
        /// The hash of the key.
        expected: JobId,
    },
}

impl RecordError {
    /// Whether a newer `orchestrate` wrote the record. This version cannot read it and must not replace it.
    pub fn is_newer(&self) -> bool {
        match self {
            RecordError::Form(error) => error.is_newer(),
            RecordError::UnknownOutcome(_) => true,
            RecordError::Read(_) | RecordError::Foreign(_) | RecordError::WrongId { .. } => false,
        }
    }
}

impl Versioned for Record {
    const FILE: &'static str = "record.json";
    const SCHEMA: u32 = RECORD_SCHEMA;
    const SEALED_SINCE: u32 = 2;

    fn schema(&self) -> u32 {
        self.schema
    }
}

impl JobDir {
    /// The record, if there is one.
    ///
    /// # Errors
    /// It exists but is unusable.
    pub fn load_record(&self) -> Result<Option<Record>, RecordError> {
        load_record(&self.record(), &self.name())
    }
}

impl AttemptDir {
    /// The record in the directory of this attempt, if any.
    ///
    /// # Errors
    /// It exists but is unusable.
    pub fn load_record(&self) -> Result<Option<Record>, RecordError> {
        let job_dir =
            self.path().parent().and_then(Path::parent).and_then(Path::file_name).unwrap_or_default();
        load_record(&self.record(), &job_dir.to_string_lossy())
    }
}

/// Reads the record at `path`, and compares it with the name of the job's directory.
fn load_record(path: &Path, dir_name: &str) -> Result<Option<Record>, RecordError> {
    let bytes = match read_regular(path, FILE_LIMIT) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(RecordError::Read)?,
    };
    parse_record(&bytes, dir_name).map(Some)
}

/// The record in `bytes`, compared with the name of the job's directory.
pub(super) fn parse_record(bytes: &[u8], dir_name: &str) -> Result<Record, RecordError> {
    let record: Record = from_sealed_json(bytes).map_err(|error| match error {
        FormError::Torn { .. } => unknown_outcome(bytes).unwrap_or(RecordError::Form(error)),
        other => RecordError::Form(other),
    })?;
    let job = Job::new(record.key.clone());
    if job.dir_name() != dir_name {
        return Err(RecordError::Foreign(job.dir_name()));
    }
    if job.id() != record.id {
        return Err(RecordError::WrongId { found: record.id, expected: job.id() });
    }
    Ok(record)
}

/// The error if the outcome in `bytes` is unknown: then a newer `orchestrate` wrote it.
fn unknown_outcome(bytes: &[u8]) -> Option<RecordError> {
    #[derive(Deserialize)]
    struct Wire {
        outcome: WireOutcome,
    }
    #[derive(Deserialize)]
    struct WireOutcome {
        kind: String,
    }
    let Wire { outcome: WireOutcome { kind } } = serde_json::from_slice(bytes).ok()?;
    let is_known = Outcome::POLICIES.iter().any(|policy| policy.name == kind);
    (!is_known).then_some(RecordError::UnknownOutcome(kind))
}
