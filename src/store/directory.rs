//! The `runs/` directory, [`Store`], and the directories of jobs in it.
#![expect(clippy::disallowed_methods, reason = "the store is the files")]

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::announce::RUNNING;
use super::begin::remove_tmp;
use super::error::StoreError;
use crate::files::{JobDir, write_whole};
use crate::job::Job;

/// The `README.md` of a new store.
const README: &str = "\
# The store of orchestrate

One directory per job, `<label>-<12 hex of its id>`, and the saved plans in `.plans/`.

A job is done if its `record.json` has a success. To run a job again, delete its directory. `orchestrate show JOB`
prints the contents of a directory.
";

/// The name of the directory for results that merges replaced: `1/`, `2/` …, each of which is a store.
const REPLACED: &str = ".replaced";

/// The `runs/` directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    root: PathBuf,
}

/// The entries of a store, sorted by name.
#[derive(Debug, Default)]
pub(super) struct Entries {
    /// The directories, except hidden ones.
    pub(super) directories: Vec<JobDir>,
    /// Entries with the name of a job's directory that are not directories, such as files or dangling links.
    pub(super) others: Vec<JobDir>,
}

/// A store's directory, kept open to detect whether it is still at its path. While it is open, its inode number is not
/// reused.
#[derive(Debug)]
pub struct Place {
    root: PathBuf,
    directory: File,
}

impl Place {
    /// Whether the directory is still at its path.
    pub fn is_ours(&self) -> bool {
        let number = |data: Metadata| (data.dev(), data.ino());
        let (ours, there) = (self.directory.metadata().map(number), fs::metadata(&self.root).map(number));
        ours.is_ok_and(|ours| there.is_ok_and(|there| ours == there))
    }
}

impl Store {
    /// The store at `root`, which must exist.
    ///
    /// # Errors
    /// [`StoreError::Read`] if it is missing, unreadable, or not a directory.
    pub fn open(root: &Path) -> Result<Store, StoreError> {
        let read = |source| StoreError::Read { path: root.to_owned(), source };
        fs::read_dir(root).map_err(read)?;
        Store::at(root)
    }

    /// The store at `root`. Creates it and its `README.md` if they are missing.
    ///
    /// # Errors
    /// [`StoreError::Create`] if it cannot be created, and as [`Store::open`].
    pub fn create(root: &Path) -> Result<Store, StoreError> {
        if !root.exists() {
            fs::create_dir_all(root)
                .map_err(|source| StoreError::Create { path: root.to_owned(), source })?;
        }
        let readme = root.join("README.md");
        if !readme.exists() {
            // A crash may have left a partly written one.
            remove_tmp(root, "README.md.");
            // A store that cannot be written can still be read.
            let _ = write_whole(&readme, README.as_bytes());
        }
        Store::open(root)
    }

    /// The store at `root`, which need not exist, for read-only verbs. A missing store is empty.
    ///
    /// # Errors
    /// [`StoreError::Read`] if `root` is relative and the current directory is unknown.
    pub fn at(root: &Path) -> Result<Store, StoreError> {
        let read = |source| StoreError::Read { path: root.to_owned(), source };
        Ok(Store { root: std::path::absolute(root).map_err(read)? })
    }

    /// The absolute path of the store.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The store's directory, to be watched during a run; `None` if it cannot be opened.
    pub fn place(&self) -> Option<Place> {
        Some(Place { root: self.root.clone(), directory: File::open(&self.root).ok()? })
    }

    /// The directory of the locks of all `orchestrate` processes that run on this store.
    pub fn running(&self) -> PathBuf {
        self.root.join(RUNNING)
    }

    /// The directory for results that merges replaced.
    pub(super) fn replaced(&self) -> PathBuf {
        self.root.join(REPLACED)
    }

    /// The stores in [`Store::replaced`], sorted by name.
    ///
    /// # Errors
    /// [`StoreError::Read`].
    pub(super) fn replaced_stores(&self) -> Result<Vec<Store>, StoreError> {
        let slots = Store { root: self.replaced() }.entries()?.directories;
        Ok(slots.into_iter().map(|slot| Store { root: slot.path().to_owned() }).collect())
    }

    /// The directory of `job`, which need not exist.
    pub fn job_dir(&self, job: &Job) -> JobDir {
        JobDir::at(self.root.join(job.dir_name()))
    }

    /// All directories except hidden ones, sorted by name.
    ///
    /// # Errors
    /// [`StoreError::Read`].
    pub fn job_dirs(&self) -> Result<Vec<JobDir>, StoreError> {
        Ok(self.entries()?.directories)
    }

    /// The entries of the store. Empty if it does not exist.
    ///
    /// # Errors
    /// [`StoreError::Read`].
    pub(super) fn entries(&self) -> Result<Entries, StoreError> {
        let read = |source| StoreError::Read { path: self.root.clone(), source };
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Entries::default()),
            other => other.map_err(read)?,
        };
        let (mut directories, mut others) = (Vec::new(), Vec::new());
        for entry in entries {
            let entry = entry.map_err(read)?;
            // Only links need another system call.
            let kind = entry.file_type().map_err(read)?;
            let is_dir = kind.is_dir() || (kind.is_symlink() && entry.path().is_dir());
            let name = entry.file_name();
            if is_dir && !name.as_bytes().starts_with(b".") {
                directories.push(name);
            } else if !is_dir && is_job_name(&name.to_string_lossy()) {
                others.push(name);
            }
        }
        let [directories, others] = [directories, others].map(|mut names| {
            names.sort_unstable();
            names.into_iter().map(|name| JobDir::at(self.root.join(name))).collect()
        });
        Ok(Entries { directories, others })
    }
}

/// Whether `name` is of the form `<label>-<12 hex of id>`.
pub(super) fn is_job_name(name: &str) -> bool {
    let digits = name.rsplit_once('-').map_or("", |(_, digits)| digits);
    digits.len() == 12 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}
