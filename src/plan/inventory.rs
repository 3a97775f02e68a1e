//! What a store holds, as plain data: the input of [`super::decide`]. [`crate::run`] reads it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::job::{Job, JobId};
use crate::record::Record;

/// What a store holds, read once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inventory {
    /// How each job that has a directory stands.
    pub jobs: BTreeMap<JobId, Standing>,
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
}

/// How a job stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// There is a record of a success: the job never runs again.
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

impl Inventory {
    /// Every record there is, of successes and of failures.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.jobs.values().filter_map(|standing| match standing {
            Standing::Done(record) | Standing::NotDone(NotDone::Failed(record)) => Some(&**record),
            Standing::NotDone(_) => None,
        })
    }

    /// How `job` stands.
    pub fn standing(&self, job: &Job) -> Standing {
        self.jobs.get(&job.id()).cloned().unwrap_or(Standing::NotDone(NotDone::NeverRan))
    }
}
