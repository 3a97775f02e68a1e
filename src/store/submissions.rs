//! The submissions of a store: jobs that were handed to a queue, the queue's tickets, and the leftovers of tasks.
//!
//! ```text
//! runs/.queue/<name>.json               Submission, written before it is handed to the queue
//! runs/.queue/<name>.sh                 the script of its tasks
//! runs/.queue/<name>.ticket.json        Ticket, the answer of the queue
//! runs/.queue/<name>.left.<task>.json   Leftovers: the jobs that a task left without a result, with the reasons
//! runs/.queue/<name>.over               it is finished or withdrawn
//! runs/.queue/out/<name>.<array>_<task> the output of its tasks
//! ```
#![expect(clippy::disallowed_methods, reason = "a submission is files")]

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::directory::Store;
use super::error::StoreError;
use crate::files::{
    FILE_LIMIT, FormError, Versioned, WriteError, from_sealed_json, read_regular, to_sealed_json,
    write_atomic,
};
use crate::lock::{Access, open_or_make_lock};
use crate::plan::{Leftovers, SUBMISSION_SCHEMA, Submission, Submitted, Ticket};

/// The longest submission that is read. The longest array of Slurm has four million tasks.
const SUBMISSION_LIMIT: u64 = 1 << 30;

/// A file of a submission that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SubmissionError {
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// It is torn, was changed after it was written, or has an unknown form or version.
    #[error("{} is not usable", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: FormError,
    },
}

impl Versioned for Submission {
    const FILE: &'static str = "the submission";
    const SCHEMA: u32 = SUBMISSION_SCHEMA;
    const SEALED_SINCE: u32 = 1;

    fn schema(&self) -> u32 {
        self.schema
    }
}

impl Versioned for Ticket {
    const FILE: &'static str = "the ticket";
    const SCHEMA: u32 = SUBMISSION_SCHEMA;
    const SEALED_SINCE: u32 = 1;

    fn schema(&self) -> u32 {
        self.schema
    }
}

impl Versioned for Leftovers {
    const FILE: &'static str = "the list of leftovers";
    const SCHEMA: u32 = SUBMISSION_SCHEMA;
    const SEALED_SINCE: u32 = 1;

    fn schema(&self) -> u32 {
        self.schema
    }
}

/// The readable submissions of a store, and the errors of the others.
#[derive(Debug, Default)]
pub struct Submissions {
    /// Submissions that are not closed.
    pub open: Vec<Submitted>,
    /// Submissions that cannot be read.
    pub problems: Vec<SubmissionError>,
}

/// Held while submissions are made, so that two `orchestrate`s of a host do not hand over the same jobs.
#[derive(Debug)]
pub struct QueueLock(#[expect(dead_code, reason = "open, because that is what holds the lock")] File);

/// Content of the `.over` file of a withdrawn submission. It is empty for a finished one.
const WITHDRAWN: &str = "withdrawn\n";

/// Prefix of directories into which results are fetched.
const FETCHED: &str = "fetched-";

/// A temporary directory for results from another host.
#[derive(Debug)]
pub struct Fetching {
    directory: tempfile::TempDir,
    /// Held until the directory is gone.
    _lock: File,
}

impl Fetching {
    /// The path of the directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// The files of one submission.
#[derive(Clone, Debug)]
pub struct SubmissionFiles {
    directory: PathBuf,
    name: String,
}

impl SubmissionFiles {
    /// The files of the submission whose `.json` file is at `path`. `None` if the name does not end in `.json`.
    pub fn at(path: &Path) -> Option<SubmissionFiles> {
        let name = path.file_name()?.to_str()?.strip_suffix(".json")?.to_owned();
        Some(SubmissionFiles { directory: path.parent()?.to_owned(), name })
    }

    pub(super) fn with(&self, ending: &str) -> PathBuf {
        self.directory.join(format!("{}{ending}", self.name))
    }

    /// The frozen submission.
    pub fn frozen(&self) -> PathBuf {
        self.with(".json")
    }

    /// The script of its tasks.
    pub fn script(&self) -> PathBuf {
        self.with(".sh")
    }

    /// The answer of the queue.
    pub fn ticket(&self) -> PathBuf {
        self.with(".ticket.json")
    }

    /// The leftovers of its task of this number.
    pub fn leftovers(&self, task: usize) -> PathBuf {
        self.with(&format!(".left.{task}.json"))
    }

    /// Exists if the submission is finished or withdrawn.
    fn over(&self) -> PathBuf {
        self.with(".over")
    }

    /// Whether it was withdrawn: it must not start jobs any more.
    pub fn is_withdrawn(&self) -> bool {
        read_regular(&self.over(), FILE_LIMIT).is_ok_and(|text| text == WITHDRAWN.as_bytes())
    }

    /// The directory for the output of tasks.
    pub fn printed(&self) -> PathBuf {
        self.directory.join("out")
    }

    /// The output of the task that Slurm calls `task`, such as `4711_3`.
    pub fn printed_by(&self, task: &str) -> PathBuf {
        self.printed().join(format!("{}.{task}", self.name))
    }

    /// The bytes of the frozen submission.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read_frozen(&self) -> io::Result<Vec<u8>> {
        read_regular(&self.frozen(), SUBMISSION_LIMIT)
    }

    /// Reads the frozen submission.
    ///
    /// # Errors
    /// [`SubmissionError`].
    pub fn load(&self) -> Result<Submission, SubmissionError> {
        load(&self.frozen(), SUBMISSION_LIMIT)
    }

    /// The jobs that the task of this number left without a result; `None` if there are none.
    ///
    /// # Errors
    /// [`SubmissionError`].
    pub fn load_leftovers(&self, task: usize) -> Result<Option<Leftovers>, SubmissionError> {
        none_if_missing(load(&self.leftovers(task), FILE_LIMIT))
    }

    /// Writes the jobs that the task of this number left without a result. If there are none, removes the file of an
    /// earlier try of the task.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save_leftovers(&self, task: usize, leftovers: &Leftovers) -> Result<(), WriteError> {
        let path = self.leftovers(task);
        if !leftovers.jobs.is_empty() {
            return write_atomic(&path, &to_sealed_json(leftovers));
        }
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(WriteError { path, source }),
            _ => Ok(()),
        }
    }

    fn load_all(&self) -> Result<Submitted, SubmissionError> {
        let mut found = Submitted {
            submission: self.load()?,
            ticket: none_if_missing(load(&self.ticket(), FILE_LIMIT))?,
            leftovers: BTreeMap::new(),
        };
        for task in 0..found.submission.tasks() {
            let leftovers = self.leftovers(task);
            // Most tasks have no leftovers.
            if leftovers.exists() {
                found.add(load(&leftovers, FILE_LIMIT)?);
            }
        }
        Ok(found)
    }
}

impl Store {
    fn queue(&self) -> PathBuf {
        self.root().join(".queue")
    }

    /// The files of the submission called `name`.
    pub fn submission_files(&self, name: &str) -> SubmissionFiles {
        SubmissionFiles { directory: self.queue(), name: name.to_owned() }
    }

    /// Takes the lock for making submissions; `None` if another process has it. Where locks do not work, two processes
    /// can submit the same jobs; then claims of attempts prevent running them twice.
    ///
    /// # Errors
    /// The directory or the lock cannot be made.
    pub fn try_lock_queue(&self) -> Result<Option<QueueLock>, WriteError> {
        Ok(self.try_lock_in_queue("lock")?.map(QueueLock))
    }

    /// Takes the lock called `name` in the directory of submissions, and creates both. `None` if another process has
    /// it.
    fn try_lock_in_queue(&self, name: &str) -> Result<Option<File>, WriteError> {
        let directory = self.queue();
        let path = directory.join(name);
        let wrong = |source| WriteError { path: path.clone(), source };
        fs::create_dir_all(&directory).map_err(wrong)?;
        let file = open_or_make_lock(&path, Access::Umask).map_err(io::Error::from).map_err(wrong)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(wrong(error)),
        }
    }

    /// Creates a directory for results from another host; `None` while another `orchestrate` fetches. It is removed
    /// when dropped. Directories of killed processes are removed now.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn begin_fetch(&self) -> Result<Option<Fetching>, WriteError> {
        let queue = self.queue();
        let wrong = |source| WriteError { path: queue.clone(), source };
        let Some(lock) = self.try_lock_in_queue("fetch.lock")? else { return Ok(None) };
        for entry in fs::read_dir(&queue).map_err(wrong)?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(FETCHED) {
                fs::remove_dir_all(entry.path()).map_err(wrong)?;
            }
        }
        let directory = tempfile::Builder::new().prefix(FETCHED).tempdir_in(&queue).map_err(wrong)?;
        Ok(Some(Fetching { directory, _lock: lock }))
    }

    /// Writes `submission`, with the `script` of its tasks, before it is handed to the queue.
    ///
    /// # Errors
    /// It cannot be written, or one of this name exists.
    pub fn freeze(&self, submission: &Submission, script: &str) -> Result<SubmissionFiles, WriteError> {
        freeze(self.submission_files(&submission.name), submission, script)
    }

    /// The files of the submission called `name` that another host handed to this one.
    pub fn hosted_files(&self, name: &str) -> SubmissionFiles {
        SubmissionFiles { directory: self.root().join(".hosted"), name: name.to_owned() }
    }

    /// Writes a submission that another host handed to this one.
    ///
    /// # Errors
    /// It cannot be written, or one of this name exists.
    pub fn receive(&self, submission: &Submission) -> Result<SubmissionFiles, WriteError> {
        freeze(self.hosted_files(&submission.name), submission, "")
    }

    /// Writes the answer of the queue.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save_ticket(&self, ticket: &Ticket) -> Result<(), WriteError> {
        write_atomic(&self.submission_files(&ticket.name).ticket(), &to_sealed_json(ticket))
    }

    /// Marks the submission called `name` as finished, so that it is not read again.
    pub fn close_submission(&self, name: &str) {
        // A failure only costs time.
        let _ = fs::write(self.submission_files(name).over(), "");
    }

    /// Marks the submission called `name`, which may or may not be in its queue, as withdrawn: it must not start jobs.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn withdraw_submission(&self, name: &str) -> Result<(), WriteError> {
        write_atomic(&self.submission_files(name).over(), WITHDRAWN.as_bytes())
    }

    /// The submissions that are not closed. Unreadable ones are reported in [`Submissions::problems`].
    ///
    /// # Errors
    /// [`StoreError::Read`].
    pub fn load_submissions(&self) -> Result<Submissions, StoreError> {
        let directory = self.queue();
        let read = |source| StoreError::Read { path: directory.clone(), source };
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Submissions::default()),
            other => other.map_err(read)?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(read)?.file_name().to_string_lossy().into_owned();
            names.extend(name.strip_suffix(".json").filter(|name| is_submission(name)).map(str::to_owned));
        }
        names.sort_unstable();
        let mut found = Submissions::default();
        for name in names {
            let files = self.submission_files(&name);
            if files.over().exists() {
                continue;
            }
            match files.load_all() {
                Ok(submitted) => found.open.push(submitted),
                Err(problem) => found.problems.push(problem),
            }
        }
        Ok(found)
    }
}

/// Writes `submission` and the `script` of its tasks to `files`.
fn freeze(
    files: SubmissionFiles,
    submission: &Submission,
    script: &str,
) -> Result<SubmissionFiles, WriteError> {
    let wrong = |path: PathBuf| |source| WriteError { path, source };
    let printed = files.printed();
    fs::create_dir_all(&printed).map_err(wrong(printed))?;
    let frozen = files.frozen();
    if frozen.exists() {
        return Err(wrong(frozen)(io::ErrorKind::AlreadyExists.into()));
    }
    // This file is written last: a readable submission is complete.
    write_atomic(&files.script(), script.as_bytes())?;
    write_atomic(&frozen, &to_sealed_json(submission))?;
    Ok(files)
}

/// Whether the file `name`.json is a submission, not a ticket or a list of leftovers.
fn is_submission(name: &str) -> bool {
    let is_beside = name.ends_with(".ticket")
        || name.rsplit_once(".left.").is_some_and(|(_, task)| task.bytes().all(|byte| byte.is_ascii_digit()));
    name.starts_with("orch-") && !is_beside
}

fn load<T: Versioned>(path: &Path, limit: u64) -> Result<T, SubmissionError> {
    let bytes = read_regular(path, limit)
        .map_err(|source| SubmissionError::Read { path: path.to_owned(), source })?;
    from_sealed_json(&bytes).map_err(|source| SubmissionError::Form { path: path.to_owned(), source })
}

/// Turns the error of a missing file into `None`.
fn none_if_missing<T>(read: Result<T, SubmissionError>) -> Result<Option<T>, SubmissionError> {
    match read {
        Err(SubmissionError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::plan::example_submission;

    fn store() -> (tempfile::TempDir, Store) {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::create(&directory.path().join("runs")).unwrap();
        (directory, store)
    }

    fn ticket(of: &Submission) -> Ticket {
        Ticket { schema: SUBMISSION_SCHEMA, name: of.name.clone(), array: 7, submitted: None }
    }

    #[test]
    fn loads_submissions_with_ticket_and_leftovers() {
        let (_directory, store) = store();
        let submission = example_submission(5, 2);
        assert!(store.load_submissions().unwrap().open.is_empty(), "there is no such directory");
        let files = store.freeze(&submission, "exit 0\n").unwrap();
        assert_eq!(fs::read_to_string(files.script()).unwrap(), "exit 0\n");
        let read = || store.load_submissions().unwrap().open.remove(0);
        assert_eq!((read().submission, read().ticket), (submission.clone(), None));
        store.save_ticket(&ticket(&submission)).unwrap();
        let left = submission.plan.jobs[4].id();
        let why = || "it does not belong on n2".to_owned();
        let leftovers = Leftovers { schema: SUBMISSION_SCHEMA, jobs: BTreeMap::from([(left, why())]) };
        files.save_leftovers(2, &leftovers).unwrap();
        assert_eq!((read().ticket, read().leftovers[&left].clone()), (Some(ticket(&submission)), why()));
        files.save_leftovers(2, &Leftovers::default()).unwrap();
        files.save_leftovers(2, &Leftovers::default()).unwrap();
        assert!(read().leftovers.is_empty(), "another try left nothing");
        store.close_submission(&submission.name);
        assert!(store.load_submissions().unwrap().open.is_empty());
        assert_eq!(SubmissionFiles::at(&files.frozen()).unwrap().load().unwrap(), submission);
    }

    #[test]
    fn a_submission_is_frozen_once() {
        let (_directory, store) = store();
        let submission = example_submission(1, 1);
        store.freeze(&submission, "").unwrap();
        let error = store.freeze(&submission, "").unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn an_unreadable_submission_does_not_hide_others() {
        let (_directory, store) = store();
        let sound = example_submission(1, 1);
        store.freeze(&sound, "").unwrap();
        let torn = store.submission_files("orch-m-torn");
        let bytes = fs::read(store.submission_files(&sound.name).frozen()).unwrap();
        fs::write(torn.frozen(), &bytes[..bytes.len() - 3]).unwrap();
        fs::write(store.queue().join("notes.json"), "{}").unwrap();
        let found = store.load_submissions().unwrap();
        assert_eq!((found.open.len(), found.problems.len()), (1, 1));
        assert!(found.problems[0].to_string().contains("orch-m-torn.json"), "{:?}", found.problems);
    }
}
