//! The store: where everything stands below `runs/`, and how it is read and written.
//!
//! ```text
//! runs/<label>-<12 hex of id>/
//!   key.json            first: the hash's preimage, readable
//!   command.sh          the command of the last attempt, to repeat or to profile by hand
//!   lock                held (flock) by whoever runs the job, the worker included
//!   attempts/01/        attempt.json stdout.log stderr.log time.txt measurement.json iterations.csv
//!                       [ncu.csv | perf.csv]
//!   record.json         last: tmp → fsync → rename → fsync(dir)
//!   accepted.json       what the user accepted of a stale job, if anything
//! runs/.plans/<matrix name>.json
//! ```
//!
//! A failed attempt's record is also kept as `attempts/NN/record.json`, for the next attempt's takes its place above; a
//! success is kept there when a re-run's record takes its place. Only the `record.json` of the job's own directory counts.
#![expect(clippy::disallowed_methods, reason = "the store is the files")]

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::atomic::{WriteError, write_atomic};
use super::regular::{FILE_LIMIT, overwrite, read_regular, read_regular_text};
use crate::job::{Job, JobId, Kind};
use crate::plan::{PLAN_SCHEMA, Plan};
use crate::record::{RECORD_SCHEMA, Record};

/// What a new store tells whoever looks into it.
const README: &str = "\
# The store of orchestrate

One directory a job, `<label>-<12 hex of its id>`, and the saved plans in `.plans/`.

A job is done when its `record.json` says so; deleting a job's directory makes it run again. `orchestrate show JOB`
prints what a directory holds.
";

/// A store that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store's directory cannot be made.
    #[error("cannot create the store {}", path.display())]
    Create {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The store, or something in it, cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Something in the store cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A saved plan is not one.
    #[error("{} is not a saved plan", path.display())]
    BadPlan {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: PlanError,
    },
    /// There is no saved plan of this name.
    #[error("the store {} has no saved plan `{name}`", store.display())]
    NoPlan {
        /// The store.
        store: PathBuf,
        /// The name asked for.
        name: String,
    },
}

/// A text that is not a saved plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Not JSON, or not of the form.
    #[error("it is not of the form")]
    Syntax(#[source] serde_json::Error),
    /// Of a version we do not know.
    #[error("it has schema {0}: expected {PLAN_SCHEMA}")]
    UnknownSchema(u32),
    /// A job's env is missing.
    #[error("the env `{0}` of a job is missing")]
    UnknownEnv(String),
    /// The same job twice.
    #[error("the job {0} occurs twice")]
    Twice(String),
}

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
        matches!(self, RecordError::UnknownSchema(schema) if *schema > RECORD_SCHEMA)
    }
}

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
        JobDir { path: self.root.join(job.dir_name()) }
    }

    /// Every directory that is named like a job's or like anything else, hidden ones left out, by name.
    ///
    /// # Errors
    /// [`StoreError::Read`].
    pub fn job_dirs(&self) -> Result<Vec<JobDir>, StoreError> {
        let read = |source| StoreError::Read { path: self.root.clone(), source };
        let mut found = Vec::new();
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
            other => other.map_err(read)?,
        };
        for entry in entries {
            let entry = entry.map_err(read)?;
            let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            if !hidden && entry.path().is_dir() {
                found.push(JobDir { path: entry.path() });
            }
        }
        found.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(found)
    }

    /// Everything that has the name of a job's directory and is none: a file, a symbolic link that leads nowhere.
    ///
    /// # Errors
    /// [`StoreError::Read`].
    pub(super) fn no_job_dirs(&self) -> Result<Vec<JobDir>, StoreError> {
        let read = |source| StoreError::Read { path: self.root.clone(), source };
        let mut found = Vec::new();
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
            other => other.map_err(read)?,
        };
        for entry in entries {
            let entry = entry.map_err(read)?;
            if is_job_name(&entry.file_name().to_string_lossy()) && !entry.path().is_dir() {
                found.push(JobDir { path: entry.path() });
            }
        }
        found.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(found)
    }

    fn plans(&self) -> PathBuf {
        self.root.join(".plans")
    }

    /// Saves `plan` under its matrix's name; from then on it is the most recent one. One that is saved already is not
    /// written again, so that a store that cannot be written does no harm where there is nothing to write.
    ///
    /// # Errors
    /// [`StoreError::Write`].
    pub fn save_plan(&self, plan: &Plan) -> Result<(), StoreError> {
        let directory = self.plans();
        let path = directory.join(format!("{}.json", plan.matrix.name));
        let wrong = |source| WriteError { path: path.clone(), source };
        let text = serde_json::to_vec_pretty(plan).expect("a plan has string keys and no failing serializer");
        if read_regular(&path, FILE_LIMIT).is_ok_and(|saved| saved == text) {
            // `resume` without a name takes the newest file. On a disk that cannot be written it keeps its old time.
            let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
            return Ok(());
        }
        fs::create_dir_all(&directory).map_err(wrong)?;
        // Two runs may save the same plan at once; the lock ends with the file's scope.
        let lock = File::create(directory.join("lock")).map_err(wrong)?;
        lock.lock().map_err(wrong)?;
        Ok(write_atomic(&path, &text)?)
    }

    /// The saved plan called `name`.
    ///
    /// # Errors
    /// [`StoreError::NoPlan`], [`StoreError::Read`], or [`StoreError::BadPlan`].
    pub fn load_plan(&self, name: &str) -> Result<Plan, StoreError> {
        let path = self.plans().join(format!("{name}.json"));
        let text = match read_regular_text(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(StoreError::NoPlan { store: self.root.clone(), name: name.to_owned() });
            }
            other => other.map_err(|source| StoreError::Read { path: path.clone(), source })?,
        };
        parse_plan(&text).map_err(|source| StoreError::BadPlan { path, source })
    }

    /// Names of the saved plans, the most recently saved first. Empty if there are none.
    ///
    /// # Errors
    /// [`StoreError::Read`].
    pub fn plan_names(&self) -> Result<Vec<String>, StoreError> {
        let directory = self.plans();
        let read = |source| StoreError::Read { path: directory.clone(), source };
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(read)?,
        };
        let mut found: Vec<(SystemTime, String)> = Vec::new();
        for entry in entries {
            let entry = entry.map_err(read)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some(name) = name.strip_suffix(".json").filter(|name| !name.starts_with('.')) {
                found.push((
                    entry.metadata().and_then(|data| data.modified()).map_err(read)?,
                    name.to_owned(),
                ));
            }
        }
        found.sort_by(|left, right| right.cmp(left));
        Ok(found.into_iter().map(|(_, name)| name).collect())
    }
}

/// Whether `name` is of the form `<label>-<12 hex of id>`.
fn is_job_name(name: &str) -> bool {
    let digits = name.rsplit_once('-').map_or("", |(_, digits)| digits);
    digits.len() == 12 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn parse_plan(text: &str) -> Result<Plan, PlanError> {
    check_schema(text, PLAN_SCHEMA, PlanError::Syntax, PlanError::UnknownSchema)?;
    let plan: Plan = serde_json::from_str(text).map_err(PlanError::Syntax)?;
    let mut seen = std::collections::BTreeSet::new();
    for job in plan.jobs() {
        if !plan.envs.contains_key(&job.key().env) {
            return Err(PlanError::UnknownEnv(job.key().env.clone()));
        }
        if !seen.insert(job.id()) {
            return Err(PlanError::Twice(job.label()));
        }
    }
    Ok(plan)
}

/// A newer version may well not parse; its schema then is the better thing to name.
pub(super) fn check_schema<E>(
    text: &str,
    known: u32,
    syntax: impl FnOnce(serde_json::Error) -> E,
    unknown: impl FnOnce(u32) -> E,
) -> Result<(), E> {
    #[derive(Deserialize)]
    struct Version {
        schema: u32,
    }
    match serde_json::from_str::<Version>(text) {
        Ok(Version { schema }) if schema != known => Err(unknown(schema)),
        Ok(_) => Ok(()),
        Err(error) => Err(syntax(error)),
    }
}

/// A job's directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobDir {
    path: PathBuf,
}

impl JobDir {
    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its name: `<label>-<12 hex of id>` if it really is a job's.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// `key.json`.
    pub fn key(&self) -> PathBuf {
        self.path.join("key.json")
    }

    /// `command.sh`.
    pub fn command(&self) -> PathBuf {
        self.path.join("command.sh")
    }

    /// `record.json`.
    pub fn record(&self) -> PathBuf {
        self.path.join("record.json")
    }

    /// `accepted.json`.
    pub fn accepted(&self) -> PathBuf {
        self.path.join("accepted.json")
    }

    /// `lock`.
    pub fn lock(&self) -> PathBuf {
        self.path.join("lock")
    }

    /// The directory of the attempt `number`, from 1.
    pub fn attempt(&self, number: u32) -> AttemptDir {
        AttemptDir { path: self.path.join("attempts").join(format!("{number:02}")), number }
    }

    /// The attempts that have a directory, in order; empty if none has.
    ///
    /// # Errors
    /// `attempts/` is there but cannot be read.
    pub fn attempts(&self) -> io::Result<Vec<AttemptDir>> {
        let entries = match fs::read_dir(self.path.join("attempts")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let mut numbers = Vec::new();
        for entry in entries {
            numbers.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
        }
        numbers.sort_unstable();
        Ok(numbers.into_iter().map(|number| self.attempt(number)).collect())
    }

    /// The record, if there is one.
    ///
    /// # Errors
    /// There is one, but it decides nothing.
    pub fn load_record(&self) -> Result<Option<Record>, RecordError> {
        load_record(&self.record(), &self.name())
    }
}

/// Reads the record at `path` and holds it against the name of the job's directory.
fn load_record(path: &Path, dir_name: &str) -> Result<Option<Record>, RecordError> {
    let bytes = match read_regular(path, FILE_LIMIT) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(RecordError::Read)?,
    };
    let text = String::from_utf8_lossy(&bytes);
    check_schema(&text, RECORD_SCHEMA, RecordError::Syntax, RecordError::UnknownSchema)?;
    let record: Record = serde_json::from_str(&text).map_err(RecordError::Syntax)?;
    let job = Job::new(record.key.clone());
    if job.dir_name() != dir_name {
        return Err(RecordError::Foreign(job.dir_name()));
    }
    if job.id() != record.id {
        return Err(RecordError::WrongId { found: record.id, expected: job.id() });
    }
    Ok(Some(record))
}

/// The directory of one attempt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttemptDir {
    path: PathBuf,
    number: u32,
}

impl AttemptDir {
    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Which attempt it is, from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// `attempt.json`: written before the start; what whoever sees the end needs to write the record.
    pub fn attempt(&self) -> PathBuf {
        self.path.join("attempt.json")
    }

    /// `stdout.log`.
    pub fn stdout(&self) -> PathBuf {
        self.path.join("stdout.log")
    }

    /// `stderr.log`.
    pub fn stderr(&self) -> PathBuf {
        self.path.join("stderr.log")
    }

    /// `time.txt`: the report of `/usr/bin/time`.
    pub fn time(&self) -> PathBuf {
        self.path.join("time.txt")
    }

    /// `measurement.json`, written by the worker.
    pub fn measurement(&self) -> PathBuf {
        self.path.join("measurement.json")
    }

    /// `iterations.csv`, written by the worker.
    pub fn iterations(&self) -> PathBuf {
        self.path.join("iterations.csv")
    }

    /// `telemetry.csv`: what sensors showed meanwhile.
    pub fn telemetry(&self) -> PathBuf {
        self.path.join("telemetry.csv")
    }

    /// What the profiler of a job of `kind` writes to, its table and its complaints alike; `None` for a timing job.
    pub fn profile(&self, kind: Kind) -> Option<PathBuf> {
        match kind {
            Kind::Timing => None,
            Kind::Ncu | Kind::Perf => Some(self.path.join(format!("{kind}.csv"))),
        }
    }

    /// `record.json`: this attempt's, kept if it failed or if a re-run's has taken its place.
    pub fn record(&self) -> PathBuf {
        self.path.join("record.json")
    }

    /// The record of this attempt that was kept here, if one was.
    ///
    /// # Errors
    /// There is one, but it cannot be read as such.
    pub fn load_record(&self) -> Result<Option<Record>, RecordError> {
        let job_dir = self.path.parent().and_then(Path::parent).and_then(Path::file_name).unwrap_or_default();
        load_record(&self.record(), &job_dir.to_string_lossy())
    }
}

/// `value` as the JSON of one of our files.
pub(super) fn to_json(value: &impl Serialize) -> Vec<u8> {
    let mut json =
        serde_json::to_vec_pretty(value).expect("our files have string keys and no failing serializer");
    json.push(b'\n');
    json
}

/// Writes a small file that nobody reads while it is written and that the next attempt writes anew.
pub(super) fn write_plain(path: &Path, contents: &str) -> Result<(), WriteError> {
    overwrite(path, contents.as_bytes())
        .map(drop)
        .map_err(|source| WriteError { path: path.to_owned(), source })
}
