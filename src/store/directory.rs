//! The `runs/` directory, and the directories of jobs in it.
#![expect(clippy::disallowed_methods, reason = "the store is the files")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::StoreError;
use crate::files::{JobDir, write_atomic};
use crate::job::Job;

/// What a new store tells whoever looks into it.
const README: &str = "\
# The store of orchestrate

One directory per job, `<label>-<12 hex of its id>`, and the saved plans in `.plans/`.

A job is done when its `record.json` says so; deleting a job's directory makes it run again. `orchestrate show JOB`
prints what a directory holds.
";

/// The `runs/` directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    root: PathBuf,
}

impl Store {
    /// The store at `root`, which has to be there.
    ///
    /// # Errors
    /// [`StoreError::Read`] if it is missing, no directory, or not readable.
    pub fn open(root: &Path) -> Result<Store, StoreError> {
        let read = |source| StoreError::Read { path: root.to_owned(), source };
        fs::read_dir(root).map_err(read)?;
        Store::at(root)
    }

    /// The store at `root`, made with a `README.md` if it is missing.
    ///
    /// # Errors
    /// [`StoreError::Create`] if it cannot be made, and as [`Store::open`].
    pub fn create(root: &Path) -> Result<Store, StoreError> {
        if !root.exists() {
            fs::create_dir_all(root)
                .map_err(|source| StoreError::Create { path: root.to_owned(), source })?;
            write_atomic(&root.join("README.md"), README.as_bytes())?;
        }
        Store::open(root)
    }

    /// The store at `root`, whether or not it is there: for asking what would happen. One that is missing holds nothing.
    ///
    /// # Errors
    /// [`StoreError::Read`] if the current directory, which a relative `root` is below, cannot be told.
    pub fn at(root: &Path) -> Result<Store, StoreError> {
        let read = |source| StoreError::Read { path: root.to_owned(), source };
        Ok(Store { root: std::path::absolute(root).map_err(read)? })
    }

    /// The absolute path of the store.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where `job` stands. The directory need not exist.
    pub fn job_dir(&self, job: &Job) -> JobDir {
        JobDir::at(self.root.join(job.dir_name()))
    }

    /// Every directory that is named like a job's or like anything else, hidden ones left out, by name.
    ///
    /// # Errors
    /// [`StoreError::Read`].
    pub fn job_dirs(&self) -> Result<Vec<JobDir>, StoreError> {
        self.entries(|name, is_dir| is_dir && !name.starts_with('.'))
    }

    /// Everything that has the name of a job's directory and is none: a file, a symbolic link that leads nowhere.
    ///
    /// # Errors
    /// [`StoreError::Read`].
    pub(super) fn no_job_dirs(&self) -> Result<Vec<JobDir>, StoreError> {
        self.entries(|name, is_dir| !is_dir && is_job_name(name))
    }

    /// What the store holds, by name, if `wanted` says so of its name and of whether it is a directory.
    fn entries(&self, wanted: impl Fn(&str, bool) -> bool) -> Result<Vec<JobDir>, StoreError> {
        let read = |source| StoreError::Read { path: self.root.clone(), source };
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(read)?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(read)?;
            if wanted(&entry.file_name().to_string_lossy(), entry.path().is_dir()) {
                found.push(JobDir::at(entry.path()));
            }
        }
        found.sort_by(|left, right| left.path().cmp(right.path()));
        Ok(found)
    }
}

/// Whether `name` is of the form `<label>-<12 hex of id>`.
fn is_job_name(name: &str) -> bool {
    let digits = name.rsplit_once('-').map_or("", |(_, digits)| digits);
    digits.len() == 12 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}
