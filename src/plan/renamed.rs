//! Done jobs that a plan no longer counts because their env has another name.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::{Inventory, Plan, Standing};
use crate::job::{JobId, Key, Name};
use crate::record::Record;

/// Done jobs of an env that the plan does not have. They differ from jobs to run only in the env's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Renamed {
    /// The env of the done jobs.
    pub from: Name,
    /// The env of the jobs to run.
    pub to: Name,
    /// The number of done jobs.
    pub jobs: usize,
}

/// The done jobs in `inventory` that jobs of `plan` would repeat under another name of their env. Empty if no env was
/// renamed. This only informs: the name is part of a job's key.
pub fn renamed(plan: &Plan, inventory: &Inventory) -> Vec<Renamed> {
    let done = inventory.jobs.values().filter_map(|standing| match standing {
        Standing::Done(record) => Some(record),
        Standing::NotDone(_) => None,
    });
    let others: Vec<&Arc<Record>> = done.filter(|record| !plan.envs.contains_key(&record.key.env)).collect();
    // All keys get the same env, so that only their other fields are compared.
    let Some(same) = plan.envs.keys().next().filter(|_| !others.is_empty()) else { return Vec::new() };
    let nameless = |key: &Key| Key { env: same.clone(), ..key.clone() }.id();
    let is_done = |id: JobId| matches!(inventory.jobs.get(&id), Some(Standing::Done(_)));
    let mut open: BTreeMap<JobId, Vec<&Name>> = BTreeMap::new();
    for job in plan.jobs.iter().filter(|job| !is_done(job.id())) {
        open.entry(nameless(job.key())).or_default().push(&job.key().env);
    }
    let mut found: BTreeMap<(&Name, &Name), usize> = BTreeMap::new();
    for record in others {
        for to in open.get(&nameless(&record.key)).into_iter().flatten() {
            *found.entry((&record.key.env, to)).or_default() += 1;
        }
    }
    let view =
        |((from, to), jobs): ((&Name, &Name), usize)| Renamed { from: from.clone(), to: to.clone(), jobs };
    found.into_iter().map(view).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::check;
    use crate::plan::{NotDone, expand};
    use crate::record::{MatrixFacts, Outcome, testing::record};

    /// A plan of two batches and two repeats in each of `envs`.
    fn plan(envs: &[&str]) -> Plan {
        let envs: String = envs.iter().map(|env| format!("  {env}: {{ device: cpu }}\n")).collect();
        let text = format!("name: m\nmodels: [vgg16]\nbatches: [4, 8]\nrepeats: 2\nenvs:\n{envs}");
        expand(&check(&text).unwrap(), MatrixFacts::example())
    }

    /// The first `done` jobs of `plan` are done, and the others have failed.
    fn inventory(plan: &Plan, done: usize) -> Inventory {
        let mut inventory = Inventory::default();
        for (index, key) in plan.keys().enumerate() {
            let record = Arc::new(Record { key: key.clone(), id: key.id(), ..record(1, Outcome::Succeeded) });
            let standing = if index < done {
                Standing::Done(record)
            } else {
                Standing::NotDone(NotDone::Failed(record))
            };
            inventory.jobs.insert(key.id(), standing);
        }
        inventory
    }

    fn rename(from: &str, to: &str, jobs: usize) -> Renamed {
        Renamed { from: from.into(), to: to.into(), jobs }
    }

    #[test]
    fn done_jobs_of_a_renamed_env_are_counted() {
        let (before, after) = (plan(&["cpu"]), plan(&["laptop"]));
        assert_eq!(
            renamed(&after, &inventory(&before, 3)),
            [rename("cpu", "laptop", 3)],
            "failed ones are not"
        );
        assert_eq!(renamed(&before, &inventory(&before, 3)), []);
        assert_eq!(renamed(&after, &Inventory::default()), []);
    }

    #[test]
    fn an_env_that_is_still_declared_was_not_renamed() {
        assert_eq!(renamed(&plan(&["cpu", "laptop"]), &inventory(&plan(&["cpu"]), 4)), []);
    }

    #[test]
    fn jobs_done_under_both_names_are_not_counted() {
        let (before, after) = (plan(&["cpu"]), plan(&["laptop"]));
        let mut both = inventory(&before, 4);
        both.jobs.extend(inventory(&after, 1).jobs);
        assert_eq!(renamed(&after, &both), [rename("cpu", "laptop", 3)]);
    }

    #[test]
    fn one_old_env_can_match_several_new_ones() {
        let found = renamed(&plan(&["a", "b"]), &inventory(&plan(&["cpu"]), 2));
        assert_eq!(found, [rename("cpu", "a", 2), rename("cpu", "b", 2)]);
    }

    #[test]
    fn jobs_that_differ_in_more_than_the_env_are_other_jobs() {
        let mut other = plan(&["cpu"]);
        other.jobs.iter_mut().for_each(|job| {
            *job = Key { model: "resnet18".into(), ..job.key().clone() }.into();
        });
        assert_eq!(renamed(&plan(&["laptop"]), &inventory(&other, 4)), []);
    }
}
