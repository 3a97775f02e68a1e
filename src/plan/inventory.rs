//! The content of a store as plain data: the input of [`super::decide`]. `crate::store` reads it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use indexmap::IndexMap;

use super::Acceptance;
use crate::job::{Job, JobId};
use crate::record::Record;

/// The content of a store, read once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inventory {
    /// The standing of each job with a directory, by job. Every job is looked up many times, and there can be a hundred
    /// thousand.
    pub jobs: IndexMap<JobId, Standing>,
    /// Re-runs of done jobs without a record: they are running, or were cut off.
    pub reruns: BTreeMap<JobId, NotDone>,
    /// The changes that the user accepted for done jobs.
    pub accepted: BTreeMap<JobId, Acceptance>,
    /// Unusable directories. They are reported and skipped.
    pub problems: Vec<Problem>,
}

/// An unusable directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The directory, or the file in it.
    pub path: PathBuf,
    /// The problem, as a sentence.
    pub message: String,
    /// The remedy as a sentence, if known.
    pub remedy: Option<String>,
    /// Whether a newer `orchestrate` wrote it. Then it is intact, but this version cannot read it and must not replace
    /// it.
    pub newer: bool,
}

/// Whether a job is done. Copies share the record.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// There is a record of a success. The job never runs again unless the user requests a re-run.
    Done(Arc<Record>),
    /// There is no record of a success.
    NotDone(NotDone),
}

impl Standing {
    /// The record, of a success or of a failure.
    pub fn record(&self) -> Option<&Arc<Record>> {
        match self {
            Standing::Done(record) | Standing::NotDone(NotDone::Failed(record)) => Some(record),
            Standing::NotDone(
                NotDone::NeverRan | NotDone::Unfinished { .. } | NotDone::Running | NotDone::Corrupt { .. },
            ) => None,
        }
    }
}

/// Why a job is not done.
#[derive(Clone, Debug, PartialEq)]
pub enum NotDone {
    /// There was no attempt.
    NeverRan,
    /// The last attempt failed, with this record.
    Failed(Arc<Record>),
    /// There were attempts, but none left a record.
    Unfinished {
        /// The number of attempts.
        attempts: u32,
    },
    /// A process holds its lock, so it is running.
    Running,
    /// A file in its directory cannot be read.
    Corrupt {
        /// The problem, as a sentence.
        message: String,
    },
}

impl fmt::Display for NotDone {
    /// A sentence without its full stop.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotDone::NeverRan => f.write_str("it never ran"),
            NotDone::Failed(record) => write!(f, "attempt {} {}", record.attempt, record.outcome),
            NotDone::Unfinished { attempts: 1 } => f.write_str("its attempt was cut off and left no record"),
            NotDone::Unfinished { attempts } => {
                write!(f, "the last of its {attempts} attempts was cut off and left no record")
            }
            NotDone::Running => f.write_str("it is running"),
            NotDone::Corrupt { message } => write!(f, "its directory cannot be read: {message}"),
        }
    }
}

impl Inventory {
    /// Every record, of successes and of failures.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.jobs.values().filter_map(Standing::record).map(|record| &**record)
    }

    /// [`Standings::of`] for one job.
    pub fn standing(&self, job: &Job) -> Standing {
        self.standings().of(job)
    }

    /// The standings of many jobs.
    pub fn standings(&self) -> Standings<'_> {
        let mut problems = BTreeMap::new();
        for problem in &self.problems {
            if let Some(directory) = problem.path.file_name() {
                problems.entry(directory).or_insert(problem);
            }
        }
        Standings { jobs: &self.jobs, problems }
    }

    /// Whether `job` is running, for the first time or again.
    pub fn is_running(&self, job: &Job) -> bool {
        matches!(self.jobs.get(&job.id()), Some(Standing::NotDone(NotDone::Running)))
            || self.reruns.get(&job.id()) == Some(&NotDone::Running)
    }

    /// Whether `job` is done without a pending re-run.
    pub fn is_settled(&self, job: &Job) -> bool {
        matches!(self.jobs.get(&job.id()), Some(Standing::Done(_))) && !self.reruns.contains_key(&job.id())
    }

    /// [`Standings::blocks`] for one job.
    pub fn blocks(&self, job: &Job) -> Option<String> {
        self.standings().blocks(job)
    }
}

/// The standings of the jobs of an inventory, with its problems by directory.
#[derive(Debug)]
pub struct Standings<'a> {
    jobs: &'a IndexMap<JobId, Standing>,
    /// The first problem of each directory.
    problems: BTreeMap<&'a OsStr, &'a Problem>,
}

impl Standings<'_> {
    /// The standing of `job`, which shares its record with the inventory. If the job of the directory with its name is
    /// unknown, the job is corrupt.
    pub fn of(&self, job: &Job) -> Standing {
        let from_problem = || match self.problem(job) {
            Some(problem) => NotDone::Corrupt { message: problem.message.clone() },
            None => NotDone::NeverRan,
        };
        self.jobs.get(&job.id()).cloned().unwrap_or_else(|| Standing::NotDone(from_problem()))
    }

    /// Why `job` must not be started, as a sentence; `None` if it can be.
    pub fn blocks(&self, job: &Job) -> Option<String> {
        let problem = self.problem(job).filter(|problem| problem.newer)?;
        let directory = problem.path.display();
        Some(format!("{}; update orchestrate, or delete {directory} to run it again", problem.message))
    }

    /// The problem of the directory of `job`.
    fn problem(&self, job: &Job) -> Option<&Problem> {
        if self.problems.is_empty() {
            return None;
        }
        self.problems.get(OsStr::new(&job.dir_name())).copied()
    }
}
