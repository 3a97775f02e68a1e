//! `accepted.json`: the changes that the user accepted for a stale job, stored beside its record. Only the verb
//! `accept` writes it, under the job's lock.

use std::io;

use crate::files::{
    FILE_LIMIT, FormError, JobDir, Versioned, WriteError, from_sealed_json, read_regular, to_sealed_json,
    write_atomic,
};
use crate::lock::JobLock;
use crate::plan::{ACCEPTANCE_SCHEMA, Acceptance};

/// An unusable `accepted.json`.
#[derive(Debug, thiserror::Error)]
pub enum AcceptanceError {
    /// It cannot be read.
    #[error("accepted.json cannot be read")]
    Read(#[source] io::Error),
    /// It is torn, was changed after it was written, or has an unknown form or version.
    #[error(transparent)]
    Form(#[from] FormError),
}

impl Versioned for Acceptance {
    const FILE: &'static str = "accepted.json";
    const SCHEMA: u32 = ACCEPTANCE_SCHEMA;
    const SEALED_SINCE: u32 = 2;

    fn schema(&self) -> u32 {
        self.schema
    }
}

impl JobDir {
    /// The changes that the user accepted for the job, if any.
    ///
    /// # Errors
    /// The file exists but is unusable.
    pub fn load_acceptance(&self) -> Result<Option<Acceptance>, AcceptanceError> {
        let bytes = match read_regular(&self.accepted(), FILE_LIMIT) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(AcceptanceError::Read)?,
        };
        Ok(Some(from_sealed_json(&bytes)?))
    }
}

/// Writes the changes that the user accepts for a job. Does not touch its record.
///
/// # Errors
/// It cannot be written. An earlier acceptance remains.
pub fn save_acceptance(lock: &JobLock, acceptance: &Acceptance) -> Result<(), WriteError> {
    write_atomic(&lock.dir().accepted(), &to_sealed_json(acceptance))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make the files they look at")]
mod tests {
    use std::fs;

    use super::*;
    use crate::job::{Job, Key};
    use crate::plan::Change;
    use crate::store::Store;

    fn job() -> Job {
        Job::new(Key::example())
    }

    #[test]
    fn an_acceptance_round_trips_and_a_torn_one_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let dir = Store::at(directory.path()).unwrap().job_dir(&job());
        assert_eq!(dir.load_acceptance().unwrap(), None);
        let acceptance = Acceptance {
            schema: ACCEPTANCE_SCHEMA,
            attempt: 3,
            accepted_at: Default::default(),
            changes: vec![Change { what: "worker".into(), from: "a".into(), to: "b".into() }],
        };
        let lock = JobLock::try_lock(&job(), dir.clone()).unwrap();
        save_acceptance(&lock, &acceptance).unwrap();
        assert_eq!(dir.load_acceptance().unwrap(), Some(acceptance));
        let whole = fs::read(dir.accepted()).unwrap();
        for length in 0..whole.len() {
            fs::write(dir.accepted(), &whole[..length]).unwrap();
            let error = dir.load_acceptance().unwrap_err();
            assert!(error.to_string().starts_with("accepted.json"), "{length}: {error}");
        }
        fs::write(dir.accepted(), r#"{"schema":7}"#).unwrap();
        let error = dir.load_acceptance().unwrap_err();
        assert_eq!(error.to_string(), "accepted.json has schema 7: expected 1 to 2");
    }

    #[test]
    fn a_locked_job_is_busy() {
        let directory = tempfile::tempdir().unwrap();
        let dir = Store::at(directory.path()).unwrap().job_dir(&job());
        let held = JobLock::try_lock(&job(), dir.clone()).unwrap();
        let error = JobLock::try_lock(&job(), dir.clone()).unwrap_err();
        assert!(error.to_string().contains("is busy"), "{error}");
        drop(held);
        JobLock::try_lock(&job(), dir).unwrap();
    }
}
