//! How the plan that a matrix file declares now differs from its saved plan.

use std::collections::BTreeSet;

use super::Plan;
use crate::job::{Job, JobId};

/// How a plan differs from a saved one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    /// It has other jobs.
    Jobs {
        /// How many jobs only the new plan has.
        added: usize,
        /// How many jobs only the saved plan has.
        removed: usize,
    },
    /// It has the same jobs, but another order, or other limits, thresholds, variables or facts about its envs.
    Settings,
}

/// How `declared` differs from `saved`; `None` if a run of either would be the same. The path and the bytes of their
/// files are not compared.
pub fn drift(saved: &Plan, declared: &Plan) -> Option<Drift> {
    let ids = |plan: &Plan| plan.jobs.iter().map(Job::id).collect::<BTreeSet<JobId>>();
    let (before, now) = (ids(saved), ids(declared));
    let (added, removed) = (now.difference(&before).count(), before.difference(&now).count());
    if added + removed > 0 {
        return Some(Drift::Jobs { added, removed });
    }
    (!are_equal_but_for_the_file(saved, declared)).then_some(Drift::Settings)
}

fn are_equal_but_for_the_file(saved: &Plan, declared: &Plan) -> bool {
    // Exhaustive, so that a new field of a plan is compared here too.
    let Plan { schema, matrix: _, description, order, order_seed, thresholds, envs, jobs } = saved;
    (schema, description, order) == (&declared.schema, &declared.description, &declared.order)
        && (order_seed, thresholds) == (&declared.order_seed, &declared.thresholds)
        && (envs, jobs) == (&declared.envs, &declared.jobs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::check;
    use crate::plan::expand;
    use crate::record::MatrixFacts;

    fn plan(repeats: u32, more: &str, path: &str) -> Plan {
        let text = format!(
            "name: m\nmodels: [vgg16]\nbatches: [4, 8]\nrepeats: {repeats}\nenvs: {{ e: {{ device: cpu }} }}\n{more}"
        );
        expand(&check(&text).unwrap(), MatrixFacts { path: path.into(), ..MatrixFacts::example() })
    }

    #[test]
    fn jobs_are_counted_on_both_sides() {
        let saved = plan(2, "", "m.yaml");
        assert_eq!(drift(&saved, &plan(3, "", "m.yaml")), Some(Drift::Jobs { added: 2, removed: 0 }));
        assert_eq!(drift(&saved, &plan(1, "", "m.yaml")), Some(Drift::Jobs { added: 0, removed: 2 }));
        let longer = plan(2, "params: { iters: 7 }\n", "m.yaml");
        assert_eq!(drift(&saved, &longer), Some(Drift::Jobs { added: 4, removed: 4 }));
    }

    #[test]
    fn what_is_no_part_of_a_job_is_a_setting() {
        let saved = plan(2, "", "m.yaml");
        assert_eq!(drift(&saved, &plan(2, "", "elsewhere.yaml")), None, "the file's path changes no run");
        for changed in ["limits: { timeout: 7s }\n", "thresholds: { trend: 0.3 }\n", "order: sequential\n"] {
            assert_eq!(drift(&saved, &plan(2, changed, "m.yaml")), Some(Drift::Settings), "{changed}");
        }
    }
}
