//! What a merge did with each job and each saved plan of another store.

use std::path::PathBuf;

use chrono::{DateTime, Utc};

use crate::files::JobDir;
use crate::job::Job;
use crate::lock::LockError;
use crate::plan::{Drift, Held};
use crate::record::{Outcome, Record};
use crate::store::StoreError;

/// A merge that cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// Another one is at work on this store.
    #[error("another merge is at work on this store: {0}")]
    Busy(String),
    /// Our lock cannot be taken.
    #[error(transparent)]
    Lock(LockError),
    /// The store cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a merge did with another store.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged {
    /// Each directory that is or should be that of a job, by name.
    pub jobs: Vec<MergedJob>,
    /// Each saved plan, by name.
    pub plans: Vec<MergedPlan>,
}

/// What a merge did with a directory of another store.
#[derive(Clone, Debug, PartialEq)]
pub struct MergedJob {
    /// The name of the directory.
    pub directory: String,
    /// What became of it.
    pub what: What,
    /// The job, if its result over there is sound.
    pub job: Option<Job>,
    /// The record that this store had before.
    pub ours: Option<Side>,
    /// The record that the other store brings.
    pub theirs: Option<Side>,
    /// What was not copied because it is neither a file nor a directory: paths from the directory.
    pub left_out: Vec<String>,
}

/// What became of a job of another store.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// It was taken.
    Taken,
    /// It was taken, and what was here has been moved to this directory. `None` in a rehearsal.
    Replaced(Option<PathBuf>),
    /// Its record is here already.
    AlreadyHere,
    /// What this store has of it stays.
    Kept(Held),
    /// It succeeded in both stores, in different attempts. What this store has of it stays.
    Conflict,
    /// It could not be taken now, for this reason.
    Busy(String),
    /// It has no result over there, for this reason.
    Unfinished(String),
    /// It is not as it was written, for this reason.
    Damaged(String),
}

impl What {
    /// Its name, for people and for JSON.
    pub fn name(&self) -> &'static str {
        match self {
            What::Taken => "taken",
            What::Replaced(_) => "replaced",
            What::AlreadyHere => "already here",
            What::Kept(_) => "kept",
            What::Conflict => "conflict",
            What::Busy(_) => "busy",
            What::Unfinished(_) => "unfinished",
            What::Damaged(_) => "damaged",
        }
    }

    /// Whether somebody has to look at it before everything is merged.
    pub fn is_left_out(&self) -> bool {
        matches!(self, What::Conflict | What::Busy(_) | What::Damaged(_))
    }
}

/// The record of one of the two stores.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// The job's directory.
    pub path: PathBuf,
    /// The attempt's number.
    pub attempt: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// The name of the host where it ran.
    pub host: String,
    /// When it ended.
    pub ended_at: DateTime<Utc>,
}

impl Side {
    /// `record`, which decides about the job in `dir`.
    pub(super) fn of(record: &Record, dir: &JobDir) -> Side {
        Side {
            path: dir.path().to_owned(),
            attempt: record.attempt,
            outcome: record.outcome.clone(),
            host: record.provenance.host.hostname.clone(),
            ended_at: record.ended_at,
        }
    }
}

/// What a merge did with a saved plan of another store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedPlan {
    /// Its name.
    pub name: String,
    /// What became of it.
    pub fate: PlanFate,
}

/// What became of a saved plan of another store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanFate {
    /// It was taken: this store had none of this name.
    Taken,
    /// This store has the same.
    AlreadyHere,
    /// This store has another one of this name, which stays. The other one differs from it like this.
    Kept(Drift),
    /// One of the two cannot be read, for this reason. Nothing was changed.
    Damaged(String),
}

impl PlanFate {
    /// Its name, for people and for JSON.
    pub fn name(&self) -> &'static str {
        match self {
            PlanFate::Taken => "taken",
            PlanFate::AlreadyHere => "already here",
            PlanFate::Kept(_) => "kept",
            PlanFate::Damaged(_) => "damaged",
        }
    }
}
