//! Decides which record of a job a merge of two stores keeps: [`decide_merge`]. Also lists results that no plan of a
//! store declares: [`undeclared`].

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::Plan;
use crate::job::{Job, JobId, Name};

/// The files of a job in this store, compared with the record from the other store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// The job has no directory, or an empty one.
    Nothing,
    /// The same record: it is the record of the job here, or was until a later attempt replaced it.
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

/// The decision of a merge about a record from the other store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeDecision {
    /// The record is copied. No file has to be set aside.
    Take,
    /// The record is copied, and the existing files are set aside.
    Replace,
    /// The record exists here already.
    AlreadyHere,
    /// The existing files are kept.
    Keep,
    /// Both succeeded in different attempts, and the user did not choose one. The existing files are kept.
    Conflict,
}

/// Decides about a record from another store. `held`: the files of the job in this store. `succeeded`: whether the
/// record is of a success. `replace`: whether the user prefers the successes of the other store.
///
/// A success replaces anything but a success, and a later attempt of the same store replaces an earlier one, as it did
/// there. Everything else is replaced only on request. So no success is lost, and merging again changes nothing.
pub fn decide_merge(held: Existing, succeeded: bool, replace: bool) -> MergeDecision {
    match held {
        Existing::Nothing => MergeDecision::Take,
        Existing::Earlier => MergeDecision::Replace,
        Existing::Same => MergeDecision::AlreadyHere,
        Existing::Newer => MergeDecision::Keep,
        Existing::NoResult | Existing::Failure if succeeded => MergeDecision::Replace,
        Existing::Success if succeeded && replace => MergeDecision::Replace,
        Existing::Success if succeeded => MergeDecision::Conflict,
        Existing::NoResult | Existing::Failure | Existing::Success => MergeDecision::Keep,
    }
}

/// Results of one env that no plan declares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Undeclared {
    /// The env.
    pub env: Name,
    /// The number of jobs.
    pub jobs: usize,
    /// Whether a plan has an env of this name, with other configs.
    pub env_is_declared: bool,
}

/// The `jobs` that none of `plans` declares, by env. Each job counts once.
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
        use Existing::{Earlier, Failure, Newer, NoResult, Nothing, Same, Success};
        use MergeDecision::{AlreadyHere, Conflict, Keep, Replace, Take};
        // The decision about a failure; about a success; about a success that the user prefers.
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
            assert_eq!(decide_merge(held, false, true), expected[0], "`replace` does not apply to failures");
        }
    }

    /// A record by its number. Those with an odd number succeeded.
    type Numbered = u32;

    fn succeeded(record: Numbered) -> bool {
        record % 2 == 1
    }

    fn held(current: Option<Numbered>, other: Numbered) -> Existing {
        match current {
            None => Existing::Nothing,
            Some(current) if current == other => Existing::Same,
            Some(current) if succeeded(current) => Existing::Success,
            Some(_) => Existing::Failure,
        }
    }

    /// Merges `records` of one job, one after another. Returns the final record, and all records that were set aside.
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
        fn many_merges_keep_the_first_success_or_with_replace_the_last(
            records in prop::collection::vec(0_u32..6, 1..12), replace in any::<bool>(),
        ) {
            let (current, aside) = merge(&records, replace);
            // Without `replace`, the first success is kept, and without a success the first record.
            let mut successes = records.iter().copied().filter(|record| succeeded(*record));
            let expected = match replace {
                false => successes.next(),
                true => successes.next_back(),
            };
            prop_assert_eq!(current, expected.or(records.first().copied()));
            if !replace {
                prop_assert!(aside.iter().all(|record| !succeeded(*record)), "a success was set aside");
            }
            let twice = [&records[..], &records[..]].concat();
            if !replace {
                prop_assert_eq!(merge(&twice, false).0, current, "merging all of them again changes nothing");
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
