//! How the plan that a matrix file declares now differs from its saved plan.

use std::collections::BTreeSet;

use super::{Plan, PlannedEnv};
use crate::job::{Job, JobId};

/// How a plan differs from a saved one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drift {
    /// It has other jobs.
    Jobs {
        /// The number of jobs that only the new plan has.
        added: usize,
        /// The number of jobs that only the saved plan has.
        removed: usize,
    },
    /// It has the same jobs, with other settings: the keys of the matrix that declare them.
    Settings(BTreeSet<&'static str>),
}

/// How `declared` differs from `saved`; `None` if a run of either would be the same. The path and the bytes of their
/// files are not compared.
pub fn drift(saved: &Plan, declared: &Plan) -> Option<Drift> {
    let ids = |plan: &Plan| plan.certain_jobs().map(Job::id).collect::<BTreeSet<JobId>>();
    let (before, now) = (ids(saved), ids(declared));
    let (added, removed) = (now.difference(&before).count(), before.difference(&now).count());
    if added + removed > 0 {
        return Some(Drift::Jobs { added, removed });
    }
    let changed = changed_settings(saved, declared);
    (!changed.is_empty()).then_some(Drift::Settings(changed))
}

fn changed_settings(saved: &Plan, declared: &Plan) -> BTreeSet<&'static str> {
    // Exhaustive, so that a new field of a plan is compared here too. The schema depends on the version of
    // `orchestrate`, and the order of tables does not affect a run.
    let Plan {
        schema: _,
        matrix: _,
        description,
        order,
        order_seed,
        thresholds,
        declared: _,
        envs,
        rules,
        jobs: _,
    } = saved;
    let is_reordered = (order, order_seed) != (&declared.order, &declared.order_seed)
        || !saved.certain_jobs().eq(declared.certain_jobs());
    let whole = [
        (*description != declared.description, "description"),
        (is_reordered, "order"),
        (*thresholds != declared.thresholds, "thresholds"),
        (*rules != declared.rules, "repeats"),
        (!envs.keys().eq(declared.envs.keys()), "envs"),
    ];
    let pairs = envs.iter().filter_map(|(name, env)| Some((env, declared.envs.get(name)?)));
    let of_envs = pairs.flat_map(|(before, now)| changed_in_env(before, now));
    whole.into_iter().chain(of_envs).filter(|(is_changed, _)| *is_changed).map(|(_, key)| key).collect()
}

fn changed_in_env(before: &PlannedEnv, now: &PlannedEnv) -> [(bool, &'static str); 12] {
    let PlannedEnv {
        place,
        executor,
        share,
        peaks,
        usd_per_hour,
        cloud,
        variables,
        secret,
        pass,
        ops_if_reported,
        limits,
    } = before;
    [
        (place.host != now.place.host, "host"),
        (place.os != now.place.os, "os"),
        (*executor != now.executor, "where"),
        (*share != now.share, "share"),
        (*peaks != now.peaks, "peaks"),
        (*usd_per_hour != now.usd_per_hour, "usd_per_hour"),
        (*cloud != now.cloud, "cloud"),
        (*variables != now.variables, "variables"),
        (*secret != now.secret, "secret"),
        (*pass != now.pass, "pass"),
        (*ops_if_reported != now.ops_if_reported, "profile"),
        (*limits != now.limits, "limits"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Executor, SlurmRequest, check};
    use crate::plan::expand;
    use crate::record::MatrixFacts;

    fn plan(repeats: u32, more: &str, path: &str) -> Plan {
        let text = format!(
            "name: m\nmodels: [vgg16]\nbatches: [4, 8]\nrepeats: {repeats}\nprofile: {{ ops: false }}\n\
             envs: {{ e: {{ device: cpu }} }}\n{more}"
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
    fn conditional_profiling_is_a_setting() {
        let external = |profile: &str| {
            let text = format!(
                "name: m\nmodels: [m]\nbatches: [4]\nworker: {{ command: [x] }}\nprofile: {{ {profile} }}\n\
                 envs: {{ e: {{ device: cpu }} }}\n"
            );
            expand(&check(&text).unwrap(), MatrixFacts::example())
        };
        let settings = Drift::Settings(["profile"].into());
        assert_eq!(drift(&external(""), &external("ops: false")), Some(settings));
        assert_eq!(drift(&external(""), &external("ops: {}")), Some(Drift::Jobs { added: 1, removed: 0 }));
    }

    #[test]
    fn declarations_outside_of_keys_are_settings() {
        let saved = plan(2, "", "m.yaml");
        assert_eq!(drift(&saved, &plan(2, "", "elsewhere.yaml")), None, "the file's path changes no run");
        for (changed, keys) in [
            ("limits: { timeout: 7s }\n", &["limits"][..]),
            ("thresholds: { trend: 0.3 }\n", &["thresholds"]),
            ("order: sequential\n", &["order"]),
            ("description: new\nlimits: { grace: 7s }\n", &["description", "limits"]),
        ] {
            let settings = Drift::Settings(keys.iter().copied().collect());
            assert_eq!(drift(&saved, &plan(2, changed, "m.yaml")), Some(settings), "{changed}");
        }
        let mut moved = saved.clone();
        let env = moved.envs.values_mut().next().unwrap();
        (env.peaks, env.place.os) = (Some("t4".to_owned()), Some("macos".to_owned()));
        env.variables.insert("A".to_owned(), "1".to_owned());
        env.pass.insert("B_*".to_owned());
        env.executor = Executor::Slurm(SlurmRequest::default());
        let settings = ["os", "pass", "peaks", "variables", "where"];
        assert_eq!(drift(&saved, &moved), Some(Drift::Settings(settings.into_iter().collect())));
    }
}
