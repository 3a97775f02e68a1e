//! What a merge does with a job that two stores hold, and which results no plan of a store declares.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::Plan;
use crate::job::{Job, JobId, Name};

/// What a store holds of a job, compared with the record that another store brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Nothing: the job has no directory, or there is nothing in it.
    Nothing,
    /// The same record: it decides about the job here, or it did until a later attempt replaced it.
    Same,
    /// A record that the other store has too, and that a later attempt replaced there.
    Earlier,
    /// Attempts without a record, or a record that is damaged.
    NoResult,
    /// Another record, of an attempt that did not succeed.
    Failure,
    /// Another record, of an attempt that succeeded.
    Success,
    /// A record of a newer `orchestrate`, which this version cannot read and must not replace.
    Newer,
}

/// What a merge does with a record that another store brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeDecision {
    /// It is taken. Nothing has to make room.
    Take,
    /// It is taken, and what was here is set aside.
    Replace,
    /// It is here already.
    AlreadyHere,
    /// What is here stays.
    Keep,
    /// Both succeeded in different attempts, and nobody said which of them counts. What is here stays.
    Conflict,
}

/// What to do with a record that another store brings, where this one has `held` of the job. The record `succeeded` or
/// not. With `replace`, the user prefers the successes of the other store.
///
/// A success replaces what is none, and a later attempt of the same store replaces an earlier one, as it did there.
/// Nothing else replaces anything unasked. So no success is lost, and to merge again changes nothing.
pub fn decide_merge(held: Held, succeeded: bool, replace: bool) -> MergeDecision {
    match held {
        Held::Nothing => MergeDecision::Take,
        Held::Earlier => MergeDecision::Replace,
        Held::Same => MergeDecision::AlreadyHere,
        Held::Newer => MergeDecision::Keep,
        Held::NoResult | Held::Failure if succeeded => MergeDecision::Replace,
        Held::Success if succeeded && replace => MergeDecision::Replace,
        Held::Success if succeeded => MergeDecision::Conflict,
        Held::NoResult | Held::Failure | Held::Success => MergeDecision::Keep,
    }
}

/// Results of one env that no plan declares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Undeclared {
    /// The env.
    pub env: Name,
    /// How many jobs.
    pub jobs: usize,
    /// Whether some plan has an env of this name, with other configs.
    pub env_is_declared: bool,
}

/// Those of `jobs` that none of `plans` declares, by env. Each job counts once.
pub fn undeclared<'a>(jobs: impl IntoIterator<Item = &'a Job>, plans: &[Plan]) -> Vec<Undeclared> {
    let declared: BTreeSet<JobId> = plans.iter().flat_map(|plan| &plan.jobs).map(Job::id).collect();
    let mut found: BTreeMap<&Name, BTreeSet<JobId>> = BTreeMap::new();
    for job in jobs.into_iter().filter(|job| !declared.contains(&job.id())) {
        found.entry(&job.key().env).or_default().insert(job.id());
    }
    let of_env = |(env, jobs): (&Name, BTreeSet<JobId>)| Undeclared {
        env: env.clone(),
        jobs: jobs.len(),
        env_is_declared: plans.iter().any(|plan| plan.envs.contains_key(env)),
    };
    found.into_iter().map(of_env).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::job::Key;

    #[test]
    fn every_case_is_decided() {
        use Held::{Earlier, Failure, Newer, NoResult, Nothing, Same, Success};
        use MergeDecision::{AlreadyHere, Conflict, Keep, Replace, Take};
        // What it does with a failure; with a success; with a success that the user prefers.
        for (held, expected) in [
            (Nothing, [Take, Take, Take]),
            (Same, [AlreadyHere, AlreadyHere, AlreadyHere]),
            (Earlier, [Replace, Replace, Replace]),
            (NoResult, [Keep, Replace, Replace]),
            (Failure, [Keep, Replace, Replace]),
            (Success, [Keep, Conflict, Replace]),
            (Newer, [Keep, Keep, Keep]),
        ] {
            let found = [(false, false), (true, false), (true, true)]
                .map(|(succeeded, replace)| decide_merge(held, succeeded, replace));
            assert_eq!(found, expected, "{held:?}");
            assert_eq!(decide_merge(held, false, true), expected[0], "no failure is preferred to anything");
        }
    }

    /// A record by its number. Those with an odd number succeeded.
    type Numbered = u32;

    fn succeeded(record: Numbered) -> bool {
        record % 2 == 1
    }

    fn held(current: Option<Numbered>, brought: Numbered) -> Held {
        match current {
            None => Held::Nothing,
            Some(current) if current == brought => Held::Same,
            Some(current) if succeeded(current) => Held::Success,
            Some(_) => Held::Failure,
        }
    }

    /// Merges `records` of one job, one after another. Returns what counts in the end, and all that was set aside.
    fn merge(records: &[Numbered], replace: bool) -> (Option<Numbered>, Vec<Numbered>) {
        let (mut current, mut aside) = (None, Vec::new());
        for record in records {
            match decide_merge(held(current, *record), succeeded(*record), replace) {
                MergeDecision::Take => assert_eq!(current.replace(*record), None),
                MergeDecision::Replace => aside.extend(current.replace(*record)),
                MergeDecision::AlreadyHere | MergeDecision::Keep | MergeDecision::Conflict => {}
            }
        }
        (current, aside)
    }

    proptest! {
        #[test]
        fn what_counts_after_many_merges_is_what_a_person_would_pick(
            records in prop::collection::vec(0_u32..6, 1..12), replace in any::<bool>(),
        ) {
            let (current, aside) = merge(&records, replace);
            // Unasked, it is the first success, and without one the first record.
            let mut successes = records.iter().copied().filter(|record| succeeded(*record));
            let expected = match replace {
                false => successes.next(),
                true => successes.next_back(),
            };
            prop_assert_eq!(current, expected.or(records.first().copied()));
            if !replace {
                prop_assert!(aside.iter().all(|record| !succeeded(*record)), "a success was set aside unasked");
            }
            let twice = [&records[..], &records[..]].concat();
            if !replace {
                prop_assert_eq!(merge(&twice, false).0, current, "to merge all of them again changes nothing");
            }
        }
    }

    #[test]
    fn results_that_no_plan_declares_are_counted_by_env() {
        let key = |env: &str, batch| Key { env: env.into(), batch, ..Key::example() };
        let plans = [Plan::example(vec![key("cpu", 4), key("cpu", 8)])];
        let jobs = [key("cpu", 4), key("cpu", 16), key("gpu_a", 4), key("gpu_a", 8), key("gpu_a", 8)];
        let jobs = jobs.map(Job::new);
        let found = |env: &str, jobs, env_is_declared| Undeclared { env: env.into(), jobs, env_is_declared };
        assert_eq!(undeclared(&jobs, &plans), [found("cpu", 1, true), found("gpu_a", 2, false)]);
        assert_eq!(undeclared(&jobs[..1], &plans), []);
        assert_eq!(undeclared(&jobs[..1], &[]), [found("cpu", 1, false)]);
    }
}
