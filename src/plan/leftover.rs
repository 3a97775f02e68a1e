//! Directories of jobs that nobody declared: those that older versions ran because they misread a number.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{Inventory, Plan};
use crate::job::{Job, JobId, Key};

/// A job that exists only because an older `orchestrate` misread a number of another's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Misread {
    /// The name of its directory.
    pub directory: String,
    /// The name of the directory of the job that was declared.
    pub declared: String,
    /// Which number was taken for which: `lr=0.0025118864315095794 as 0.002511886431509579`.
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

/// What older versions misread, as far as it concerns a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Misreadings {
    /// Directories of the store that no plan needs: misreadings of jobs of the plan.
    pub left_over: Vec<Misread>,
    /// Jobs of the plan itself that are misreadings: it was read and saved again by an older version.
    pub planned: Vec<Misread>,
}

/// What older versions misread of the jobs of `plan` and of those in `inventory`.
pub fn misreadings(plan: &Plan, inventory: &Inventory) -> Misreadings {
    let mut found = Misreadings::default();
    let mut planned: Option<BTreeSet<JobId>> = None;
    let mut is_planned =
        |id| planned.get_or_insert_with(|| plan.jobs().map(|job| job.id()).collect()).contains(&id);
    for declared in &plan.jobs {
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

/// What `job` is a misreading of, if one of the declared keys was misread as it.
pub fn misread_from<'a>(job: &Job, declared: impl IntoIterator<Item = &'a Key>) -> Option<Misread> {
    let is_it = |key: &&Key| key.misreadings().contains(job.key());
    declared.into_iter().find(is_it).map(|key| Misread::new(key, job))
}
