//! Directories of undeclared jobs, which older versions ran because they misread a number.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{Inventory, Plan};
use crate::job::{Job, JobId, Key};

/// A job that only exists because an older `orchestrate` misread a number in another job's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Misread {
    /// The name of its directory.
    pub directory: String,
    /// The name of the declared job's directory.
    pub declared: String,
    /// The misread number, such as `lr=0.0025118864315095794 as 0.002511886431509579`.
    pub number: String,
}

impl Misread {
    fn new(declared: &Key, misread: &Job) -> Misread {
        Misread {
            directory: misread.dir_name(),
            declared: Job::new(declared.clone()).dir_name(),
            number: declared.misread_as(misread.key()),
        }
    }
}

/// The misreadings that concern a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Misreadings {
    /// Directories of misread jobs of the plan. They are not needed by any plan.
    pub left_over: Vec<Misread>,
    /// Misread jobs in the plan itself, because an older version read and saved it.
    pub planned: Vec<Misread>,
}

/// The misreadings of jobs of `plan` in `plan` itself and in `inventory`.
pub fn misreadings(plan: &Plan, inventory: &Inventory) -> Misreadings {
    let mut found = Misreadings::default();
    let mut planned: Option<BTreeSet<JobId>> = None;
    let mut is_planned =
        |id| planned.get_or_insert_with(|| plan.jobs.iter().map(Job::id).collect()).contains(&id);
    for declared in plan.keys() {
        for misread in declared.misreadings().into_iter().map(Job::new) {
            if inventory.jobs.contains_key(&misread.id()) && !is_planned(misread.id()) {
                found.left_over.push(Misread::new(declared, &misread));
            }
        }
    }
    for record in inventory.records() {
        for misread in record.key.misreadings().into_iter().map(Job::new) {
            if is_planned(misread.id()) && !is_planned(record.id) {
                found.planned.push(Misread::new(&record.key, &misread));
            }
        }
    }
    found
}

/// The declared job that was misread as `job`, if any.
pub fn misread_from<'a>(job: &Job, declared: impl IntoIterator<Item = &'a Key>) -> Option<Misread> {
    let is_it = |key: &&Key| key.misreadings().contains(job.key());
    declared.into_iter().find(is_it).map(|key| Misread::new(key, job))
}
