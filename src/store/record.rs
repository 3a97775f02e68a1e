//! Reading a `record.json`: the one file that says whether a job is done.

use std::io;
use std::path::Path;

use serde::Deserialize;

use crate::files::{AttemptDir, FILE_LIMIT, JobDir, check_schema, read_regular};
use crate::job::{Job, JobId};
use crate::record::{Outcome, RECORD_SCHEMA, Record};

/// A `record.json` that decides nothing.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// It cannot be read.
    #[error("record.json cannot be read")]
    Read(#[source] io::Error),
    /// Not JSON, or not of the form: torn, or written by hand.
    #[error("record.json is torn or not of the form")]
    Syntax(#[source] serde_json::Error),
    /// Of a version we do not know.
    #[error("record.json has schema {0}: expected {RECORD_SCHEMA}")]
    UnknownSchema(u32),
    /// Its outcome is none that we know.
    #[error("record.json has the outcome `{0}`, which this version does not know")]
    UnknownOutcome(String),
    /// Its key is not that of the directory it lies in.
    #[error("record.json is of the job {0}, which belongs in another directory")]
    Foreign(String),
    /// Its id is not the hash of its key.
    #[error("record.json has the id {found}, but its key hashes to {expected}")]
    WrongId {
        /// As it stands.
        found: JobId,
        /// The hash.
        expected: JobId,
    },
}

impl RecordError {
    /// Whether the record is of a newer `orchestrate`: not for us to understand or to replace.
    pub fn is_newer(&self) -> bool {
        match self {
            RecordError::UnknownSchema(schema) => *schema > RECORD_SCHEMA,
            RecordError::UnknownOutcome(_) => true,
            RecordError::Read(_)
            | RecordError::Syntax(_)
            | RecordError::Foreign(_)
            | RecordError::WrongId { .. } => false,
        }
    }
}

impl JobDir {
    /// The record, if there is one.
    ///
    /// # Errors
    /// There is one, but it decides nothing.
    pub fn load_record(&self) -> Result<Option<Record>, RecordError> {
        load_record(&self.record(), &self.name())
    }
}

impl AttemptDir {
    /// The record of this attempt that was kept here, if one was.
    ///
    /// # Errors
    /// There is one, but it cannot be read as such.
    pub fn load_record(&self) -> Result<Option<Record>, RecordError> {
        let job_dir =
            self.path().parent().and_then(Path::parent).and_then(Path::file_name).unwrap_or_default();
        load_record(&self.record(), &job_dir.to_string_lossy())
    }
}

/// Reads the record at `path` and holds it against the name of the job's directory.
fn load_record(path: &Path, dir_name: &str) -> Result<Option<Record>, RecordError> {
    let bytes = match read_regular(path, FILE_LIMIT) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(RecordError::Read)?,
    };
    parse_record(&String::from_utf8_lossy(&bytes), dir_name).map(Some)
}

/// The record that `text` is, held against the name of the job's directory.
pub(super) fn parse_record(text: &str, dir_name: &str) -> Result<Record, RecordError> {
    check_schema(text, RECORD_SCHEMA, RecordError::Syntax, RecordError::UnknownSchema)?;
    let record: Record = serde_json::from_str(text)
        .map_err(|error| unknown_outcome(text).unwrap_or(RecordError::Syntax(error)))?;
    let job = Job::new(record.key.clone());
    if job.dir_name() != dir_name {
        return Err(RecordError::Foreign(job.dir_name()));
    }
    if job.id() != record.id {
        return Err(RecordError::WrongId { found: record.id, expected: job.id() });
    }
    Ok(record)
}

/// What is wrong with the record `text`, if that is its outcome: one that only a newer `orchestrate` can have written.
fn unknown_outcome(text: &str) -> Option<RecordError> {
    #[derive(Deserialize)]
    struct Wire {
        outcome: WireOutcome,
    }
    #[derive(Deserialize)]
    struct WireOutcome {
        kind: String,
    }
    let Wire { outcome: WireOutcome { kind } } = serde_json::from_str(text).ok()?;
    let is_known = Outcome::POLICIES.iter().any(|policy| policy.name == kind);
    (!is_known).then_some(RecordError::UnknownOutcome(kind))
}
