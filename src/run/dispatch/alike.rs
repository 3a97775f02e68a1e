//! Recognises failures caused by the environment, [`Alike`]: the next job would fail in the same way.
//!
//! A defect of an environment affects all of its jobs. So a failure is not evidence of a defect where other configs
//! succeed, unless the failing config has succeeded there before.

use std::collections::{BTreeSet, HashMap, HashSet};

use chrono::{DateTime, Utc};

use crate::job::{JobId, Key, Kind, Name, WorkerTemplate};
use crate::record::{Outcome, Record};
use crate::text::without_numbers;

/// This many equal failures in a row are not a coincidence. Two configs can share a mistake, three rarely do.
const ENOUGH: usize = 3;

/// The environment of a worker: its env, its command, and its profiler.
type Environment = (Name, WorkerTemplate, Kind);

/// The last consecutive failures with the same message.
#[derive(Debug, Default)]
pub(super) struct Alike {
    /// Their message without numbers; empty after a success.
    words: String,
    /// The complete message of the first of them.
    first: String,
    /// Whether their messages differ in numbers.
    differ: bool,
    /// What failed: jobs if they could not be started, which does not depend on the config, else configs.
    failed: BTreeSet<JobId>,
    /// The environments in which jobs of this run have succeeded.
    works: HashSet<Environment>,
    /// The configs of this run that have succeeded.
    succeeded: BTreeSet<JobId>,
    /// The configs that failed in an earlier run, and after which others succeeded in the same environment.
    own_fault: BTreeSet<JobId>,
}

impl Alike {
    /// The state before a run, from `records` of this host.
    pub(super) fn after(records: &[&Record]) -> Alike {
        let mut last_success: HashMap<Environment, DateTime<Utc>> = HashMap::new();
        for record in records.iter().filter(|record| record.outcome.is_success()) {
            let last = last_success.entry(environment(&record.key)).or_insert(record.ended_at);
            *last = record.ended_at.max(*last);
        }
        let is_refuted = |record: &&&Record| {
            let last = last_success.get(&environment(&record.key));
            !record.outcome.is_success() && last.is_some_and(|last| *last > record.ended_at)
        };
        let own_fault = records.iter().filter(is_refuted).map(|record| record.key.config().id()).collect();
        Alike { own_fault, ..Alike::default() }
    }

    /// Notes how the last attempt of the job of `key` ended. After enough equal failures, returns a sentence with the
    /// reason for not running the remaining jobs.
    pub(super) fn note(&mut self, key: &Key, outcome: &Outcome) -> Option<String> {
        let (policy, config) = (outcome.policy(), key.config().id());
        if !policy.may_concern_all {
            if outcome.is_success() {
                (self.words, self.failed) = (String::new(), BTreeSet::new());
                self.works.insert(environment(key));
                self.succeeded.insert(config);
            }
            return None;
        }
        if policy.started && self.is_own_fault(key, config) {
            return None;
        }
        let (words, id) = match policy.started {
            // The message contains the path of the missing file, which can differ.
            false => (policy.name.to_owned(), key.id()),
            true => (message_without_numbers(&outcome.to_string()), config),
        };
        if self.words != words {
            (self.words, self.failed, self.first) = (words, BTreeSet::new(), outcome.to_string());
            self.differ = false;
        }
        self.differ |= self.first != outcome.to_string();
        self.failed.insert(id);
        (self.failed.len() >= ENOUGH).then(|| {
            let what = if policy.started { "different configs failed" } else { "jobs could not be started" };
            let which = if self.differ { "the last" } else { "each" };
            format!("{} {what} in a row: {which} {outcome}", self.failed.len())
        })
    }

    /// Whether a failure of `config` is not evidence of a defect of its environment.
    fn is_own_fault(&self, key: &Key, config: JobId) -> bool {
        self.own_fault.contains(&config)
            || (self.works.contains(&environment(key)) && !self.succeeded.contains(&config))
    }
}

/// The text `outcome` with `#` for each number of its message, such as a batch or a size. The ending, such as an exit
/// code, is unchanged.
fn message_without_numbers(outcome: &str) -> String {
    let (ending, message) = outcome.split_once(": ").unwrap_or((outcome, ""));
    format!("{ending}: {}", without_numbers(message))
}

fn environment(key: &Key) -> Environment {
    (key.env.clone(), key.worker.clone(), key.kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(batch: u32, repeat: u32) -> Key {
        Key { batch, repeat, ..Key::example() }
    }

    fn exited(message: &str) -> Outcome {
        Outcome::Exited { code: 1, message: Some(message.into()) }
    }

    /// The number of `endings` after which the run stops; `None` if it does not.
    fn stops_after(endings: &[(u32, u32, Outcome)]) -> Option<usize> {
        let mut alike = Alike::default();
        let stop = endings
            .iter()
            .position(|(batch, repeat, outcome)| alike.note(&key(*batch, *repeat), outcome).is_some());
        stop.map(|index| index + 1)
    }

    #[test]
    fn three_configs_with_the_same_message_stop_a_run() {
        let (same, other) = (|| exited("no module named torch"), || exited("bad batch"));
        assert_eq!(stops_after(&[(4, 1, same()), (8, 1, same()), (16, 1, same())]), Some(3));
        assert_eq!(stops_after(&[(4, 1, same()), (4, 2, same()), (4, 3, same()), (4, 4, same())]), None);
        assert_eq!(stops_after(&[(4, 1, same()), (8, 1, other()), (16, 1, same()), (32, 1, same())]), None);
        let done = || Outcome::Succeeded;
        assert_eq!(stops_after(&[(4, 1, same()), (8, 1, same()), (2, 1, done()), (16, 1, same())]), None);
        // Where one config succeeds, failures of others are their own fault.
        assert_eq!(stops_after(&[(2, 1, done()), (4, 1, same()), (8, 1, same()), (16, 1, same())]), None);
        // Failures of configs that succeeded before show that the environment has changed.
        let worked = [(4, 1, done()), (8, 1, done()), (16, 1, done())];
        let no_longer = [(32, 1, same()), (4, 2, same()), (8, 2, same()), (16, 2, same())];
        assert_eq!(stops_after(&[&worked[..], &no_longer[..3]].concat()), None);
        assert_eq!(stops_after(&[&worked[..], &no_longer[..]].concat()), Some(7));
        // Unsupported and interrupted jobs are not evidence.
        let not_here = || Outcome::Unsupported { message: "no such device".into() };
        let endings = [(4, 1, same()), (8, 1, same()), (2, 1, not_here()), (16, 1, same())];
        assert_eq!(stops_after(&endings), Some(4));
    }

    /// Otherwise, three configs that cannot work would stop every resumed run before the other jobs.
    #[test]
    fn configs_that_failed_where_others_succeeded_later_do_not_stop_a_run() {
        let ended = |batch: u32, minute: i64, outcome: Outcome| {
            let mut record = crate::record::testing::record_of(key(batch, 1), outcome);
            record.ended_at = DateTime::UNIX_EPOCH + chrono::Duration::minutes(minute);
            record
        };
        let stops = |records: &[Record]| {
            let mut alike = Alike::after(&records.iter().collect::<Vec<_>>());
            [4, 8, 16].iter().any(|batch| alike.note(&key(*batch, 2), &exited("no kernel")).is_some())
        };
        let failed = [4, 8, 16].map(|batch| ended(batch, 1, exited("no kernel")));
        assert!(stops(&failed), "nothing has succeeded");
        let with = |success: Record| [&failed[..], &[success]].concat();
        assert!(!stops(&with(ended(2, 2, Outcome::Succeeded))));
        assert!(stops(&with(ended(2, 0, Outcome::Succeeded))), "it can have broken since");
        let mut profiled = ended(2, 2, Outcome::Succeeded);
        profiled.key.kind = Kind::Ncu;
        assert!(stops(&with(profiled)), "a profiler is another environment");
    }

    #[test]
    fn three_jobs_of_one_config_that_cannot_be_started_stop_a_run() {
        let missing = |path: &str| Outcome::FailedToSpawn { message: format!("no {path}") };
        let endings = [(4, 1, missing("a")), (4, 2, missing("b")), (4, 3, missing("c"))];
        assert_eq!(stops_after(&endings), Some(3));
    }

    #[test]
    fn timeouts_and_lack_of_memory_do_not_stop_a_run() {
        let too_large =
            Outcome::OutOfMemory { message: "20 GiB".into(), needed_bytes: None, free_bytes: None };
        for outcome in [Outcome::TimedOut { after_s: 60.0 }, too_large] {
            let endings: Vec<_> = (0..9).map(|power| (1 << power, 1, outcome.clone())).collect();
            assert_eq!(stops_after(&endings), None, "{outcome}");
        }
    }

    #[test]
    fn the_reason_quotes_the_message() {
        let mut alike = Alike::default();
        let reasons: Vec<Option<String>> =
            [4, 8, 16].map(|batch| alike.note(&key(batch, 1), &exited("no module named torch"))).into();
        assert_eq!(
            reasons[2].as_deref(),
            Some("3 different configs failed in a row: each exited with code 1: no module named torch")
        );
    }

    /// Messages contain batches or numbers of bytes.
    #[test]
    fn failures_that_differ_only_in_numbers_are_alike() {
        let ending = |batch: u32, code| {
            let message = Some(format!("bad shape [{batch}, 3], expected [{}, 4]", 10 * batch));
            (batch, 1, Outcome::Exited { code, message })
        };
        assert_eq!(stops_after(&[4, 8, 16].map(|batch| ending(batch, 1))), Some(3));
        assert_eq!(stops_after(&[4, 8, 16].map(|batch| ending(batch, batch as i32))), None, "other codes");
        let mut alike = Alike::default();
        let reasons = [4, 8, 16].map(|batch| alike.note(&key(batch, 1), &ending(batch, 1).2));
        assert_eq!(
            reasons[2].as_deref(),
            Some(
                "3 different configs failed in a row: the last exited with code 1: bad shape [16, 3], expected [160, 4]"
            )
        );
    }
}
