//! The result of a merge: the fate of each job ([`MergedJob`]) and saved plan ([`MergedPlan`]) of another store.

use std::path::PathBuf;

use chrono::{DateTime, Utc};

use crate::files::JobDir;
use crate::job::Job;
use crate::lock::LockError;
use crate::plan::{Drift, Existing};
use crate::record::{Outcome, Record};
use crate::store::StoreError;

/// A merge that cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// Another merge is writing to this store.
    #[error("another merge is at work on this store: {0}")]
    Busy(String),
    /// The lock of the merge cannot be taken.
    #[error(transparent)]
    Lock(LockError),
    /// The store cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The result of merging another store.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged {
    /// Each directory that is or should be that of a job, by name.
    pub jobs: Vec<MergedJob>,
    /// Each saved plan, by name.
    pub plans: Vec<MergedPlan>,
}

/// The result of merging a directory of another store.
#[derive(Clone, Debug, PartialEq)]
pub struct MergedJob {
    /// The name of the directory.
    pub directory: String,
    /// Its fate.
    pub what: JobFate,
    /// The job, if its result over there is sound.
    pub job: Option<Job>,
    /// The record that this store had before.
    pub ours: Option<Side>,
    /// The record of the other store.
    pub theirs: Option<Side>,
    /// Paths, relative to the directory, that were not copied because they are neither files nor directories.
    pub left_out: Vec<String>,
}

/// The fate of a job of another store.
#[derive(Clone, Debug, PartialEq)]
pub enum JobFate {
    /// It was taken.
    Taken,
    /// It was taken, and the previous directory was moved to this path. `None` in a dry run.
    Replaced(Option<PathBuf>),
    /// Its record is here already.
    AlreadyHere,
    /// The result of this store stays.
    Kept(Existing),
    /// It succeeded in both stores, in different attempts. The result of this store stays.
    Conflict,
    /// It could not be taken now, for this reason.
    Busy(String),
    /// It has no result in the other store, for this reason.
    Unfinished(String),
    /// Its files differ from what was written, for this reason.
    Damaged(String),
}

impl JobFate {
    /// Its name in tables and JSON.
    pub fn name(&self) -> &'static str {
        match self {
            JobFate::Taken => "taken",
            JobFate::Replaced(_) => "replaced",
            JobFate::AlreadyHere => "already here",
            JobFate::Kept(_) => "kept",
            JobFate::Conflict => "conflict",
            JobFate::Busy(_) => "busy",
            JobFate::Unfinished(_) => "unfinished",
            JobFate::Damaged(_) => "damaged",
        }
    }

    /// Whether the user has to act before everything is merged.
    pub fn is_left_out(&self) -> bool {
        matches!(self, JobFate::Conflict | JobFate::Busy(_) | JobFate::Damaged(_))
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
    /// The side with `record`, the current record of the job in `dir`.
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

/// The result of merging a saved plan of another store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedPlan {
    /// Its name.
    pub name: String,
    /// Its fate.
    pub fate: PlanFate,
}

/// The fate of a saved plan of another store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanFate {
    /// It was taken: this store had no plan of this name.
    Taken,
    /// This store has an equal plan.
    AlreadyHere,
    /// This store has a different plan of this name, which stays. These are the differences.
    Kept(Drift),
    /// One of the two plans cannot be read, for this reason. Nothing was changed.
    Damaged(String),
}

impl PlanFate {
    /// Its name in tables and JSON.
    pub fn name(&self) -> &'static str {
        match self {
            PlanFate::Taken => "taken",
            PlanFate::AlreadyHere => "already here",
            PlanFate::Kept(_) => "kept",
            PlanFate::Damaged(_) => "damaged",
        }
    }
}
