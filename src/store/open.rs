//! Attempts without a record, [`OpenAttempt`]: they are running, or were cut off.

use std::collections::BTreeSet;

use super::attempt::Attempt;
use super::directory::Store;
use super::error::StoreError;
use super::inventory::{is_locked, last_begun, load_key};
use super::survivors::Survivors;
use crate::files::{AttemptDir, JobDir};
use crate::job::Job;

/// An attempt without a record.
#[derive(Clone, Debug)]
pub struct OpenAttempt {
    /// Its job.
    pub job: Job,
    /// Its directory.
    pub dir: AttemptDir,
    /// The facts before its start.
    pub attempt: Attempt,
}

impl Store {
    /// Every attempt without a record. With `by_locks`, for stores with working locks, only those that may be running:
    /// the job's lock is held, or the environment of a process names the job's directory.
    ///
    /// # Errors
    /// [`StoreError::Read`].
    pub fn open_attempts(&self, by_locks: bool) -> Result<Vec<OpenAttempt>, StoreError> {
        let named = if by_locks { Survivors::of_system().job_names() } else { BTreeSet::new() };
        let may_run = |dir: &JobDir| !by_locks || named.contains(&dir.name()) || is_locked(dir);
        let dirs = self.job_dirs()?.into_iter().filter(may_run);
        Ok(dirs.filter_map(|dir| self.open_attempt(&dir)).collect())
    }

    /// The last attempt of the job in `dir`, if it has no record.
    pub fn open_attempt(&self, dir: &JobDir) -> Option<OpenAttempt> {
        let attempt_dir = last_begun(dir).filter(|attempt| !attempt.record().exists())?;
        let recorded = dir.load_record().ok().flatten().map_or(0, |record| record.attempt);
        let job = Job::new(load_key(dir).ok().flatten()?);
        let is_open = attempt_dir.number() > recorded && job.dir_name() == dir.name();
        let attempt = Attempt::load(&attempt_dir).ok().filter(|_| is_open)?;
        Some(OpenAttempt { job, dir: attempt_dir, attempt })
    }
}
