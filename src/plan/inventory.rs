//! What a store holds, as plain data: the input of [`super::decide`]. [`crate::run`] reads it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use super::Acceptance;
use crate::job::{Job, JobId};
use crate::record::Record;

/// What a store holds, read once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inventory {
    /// How each job that has a directory stands.
    pub jobs: BTreeMap<JobId, Standing>,
    /// Re-runs of done jobs that were begun and have left no record yet: they run right now, or were cut off.
    pub reruns: BTreeMap<JobId, NotDone>,
    /// What the user accepted of done jobs.
    pub accepted: BTreeMap<JobId, Acceptance>,
    /// Directories that say nothing usable. They are reported and skipped.
    pub problems: Vec<Problem>,
}

/// A directory that says nothing usable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The directory, or the file in it.
    pub path: PathBuf,
    /// What is wrong with it, as a sentence.
    pub message: String,
    /// What a person can do about it, as a sentence, where there is one thing to do.
    pub remedy: Option<String>,
    /// What it holds is of a newer `orchestrate`: sound, but not for us to understand or to replace.
    pub newer: bool,
}

/// How a job stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// There is a record of a success: the job never runs again, unless the user asks for a re-run.
    Done(Box<Record>),
    /// There is none.
    NotDone(NotDone),
}

/// Why a job is not done.
#[derive(Clone, Debug, PartialEq)]
pub enum NotDone {
    /// Nobody has tried.
    NeverRan,
    /// The last attempt failed, and its record says how.
    Failed(Box<Record>),
    /// Attempts were begun, but none left a record.
    Unfinished {
        /// How many.
        attempts: u32,
    },
    /// Its lock is held: somebody runs it right now.
    Running,
    /// Its directory holds something that cannot be read.
    Corrupt {
        /// What is wrong, as a sentence.
        message: String,
    },
}

impl fmt::Display for NotDone {
    /// One sentence without its full stop.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotDone::NeverRan => f.write_str("it never ran"),
            NotDone::Failed(record) => write!(f, "attempt {} {}", record.attempt, record.outcome),
            NotDone::Unfinished { attempts: 1 } => f.write_str("its attempt was cut off and left no record"),
            NotDone::Unfinished { attempts } => {
                write!(f, "the last of its {attempts} attempts was cut off and left no record")
            }
            NotDone::Running => f.write_str("somebody runs it right now"),
            NotDone::Corrupt { message } => write!(f, "its directory cannot be read: {message}"),
        }
    }
}

impl Inventory {
    /// Every record there is, of successes and of failures.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.jobs.values().filter_map(|standing| match standing {
            Standing::Done(record) | Standing::NotDone(NotDone::Failed(record)) => Some(&**record),
            Standing::NotDone(_) => None,
        })
    }

    /// How `job` stands. A directory of its name that does not even say which job it is of is a corrupt one.
    pub fn standing(&self, job: &Job) -> Standing {
        let from_problem = || match self.problem(job) {
            Some(problem) => NotDone::Corrupt { message: problem.message.clone() },
            None => NotDone::NeverRan,
        };
        self.jobs.get(&job.id()).cloned().unwrap_or_else(|| Standing::NotDone(from_problem()))
    }

    /// Whether `job` is done and no re-run of it waits for its record.
    pub fn is_settled(&self, job: &Job) -> bool {
        matches!(self.jobs.get(&job.id()), Some(Standing::Done(_))) && !self.reruns.contains_key(&job.id())
    }

    /// Why nothing may be started for `job`, as a sentence; `None` if it may.
    pub fn blocks(&self, job: &Job) -> Option<String> {
        let problem = self.problem(job).filter(|problem| problem.newer)?;
        let directory = problem.path.display();
        Some(format!("{}; update orchestrate, or delete {directory} to run it again", problem.message))
    }

    /// What is wrong with the directory of `job`.
    fn problem(&self, job: &Job) -> Option<&Problem> {
        if self.problems.is_empty() {
            return None;
        }
        let name = job.dir_name();
        self.problems.iter().find(|problem| problem.path.file_name().is_some_and(|file| *file == *name))
    }
}
