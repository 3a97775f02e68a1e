//! Recognises failures that are no job's own: the environment is at fault, and the next job would fail the same way.

use std::collections::BTreeSet;

use crate::job::{JobId, Key};
use crate::record::Outcome;

/// So many failures in a row are no coincidence. Two configs can share a mistake; a third rarely does.
const ENOUGH: usize = 3;

/// The last failures in a row that say the same.
#[derive(Debug, Default)]
pub(super) struct Alike {
    /// What they say; empty after a success.
    words: String,
    /// Those that failed: jobs if they could not be started, which depends on no config, else configs.
    failed: BTreeSet<JobId>,
}

impl Alike {
    /// Notes how the last attempt of the job of `key` ended. Returns why the remaining jobs are not worth a try, as a
    /// sentence, once enough failures say the same.
    pub(super) fn note(&mut self, key: &Key, outcome: &Outcome) -> Option<String> {
        let policy = outcome.policy();
        if !policy.may_concern_all {
            if outcome.is_success() {
                *self = Alike::default();
            }
            return None;
        }
        let (words, id) = match policy.started {
            // A missing file is told with its path, which can differ.
            false => (policy.name.to_owned(), key.id()),
            true => (outcome.to_string(), key.config().id()),
        };
        if self.words != words {
            *self = Alike { words, failed: BTreeSet::new() };
        }
        self.failed.insert(id);
        (self.failed.len() >= ENOUGH).then(|| {
            let what = if policy.started { "different configs failed" } else { "jobs could not be started" };
            format!("{} {what} in a row: each {outcome}", self.failed.len())
        })
    }
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

    /// After how many of `endings` the run stops; `None` if it does not.
    fn stops_after(endings: &[(u32, u32, Outcome)]) -> Option<usize> {
        let mut alike = Alike::default();
        let stop = endings
            .iter()
            .position(|(batch, repeat, outcome)| alike.note(&key(*batch, *repeat), outcome).is_some());
        stop.map(|index| index + 1)
    }

    #[test]
    fn three_configs_that_say_the_same_stop_a_run() {
        let (same, other) = (|| exited("no module named torch"), || exited("bad batch"));
        assert_eq!(stops_after(&[(4, 1, same()), (8, 1, same()), (16, 1, same())]), Some(3));
        assert_eq!(stops_after(&[(4, 1, same()), (4, 2, same()), (4, 3, same()), (4, 4, same())]), None);
        assert_eq!(stops_after(&[(4, 1, same()), (8, 1, other()), (16, 1, same()), (32, 1, same())]), None);
        let done = || Outcome::Succeeded;
        assert_eq!(stops_after(&[(4, 1, same()), (8, 1, same()), (2, 1, done()), (16, 1, same())]), None);
        // What is not here, or was stopped, says nothing about the others.
        let not_here = || Outcome::Unsupported { message: "no such device".into() };
        let endings = [(4, 1, same()), (8, 1, same()), (2, 1, not_here()), (16, 1, same())];
        assert_eq!(stops_after(&endings), Some(4));
    }

    #[test]
    fn three_jobs_that_cannot_be_started_stop_a_run_whatever_their_config() {
        let missing = |path: &str| Outcome::FailedToSpawn { message: format!("no {path}") };
        let endings = [(4, 1, missing("a")), (4, 2, missing("b")), (4, 3, missing("c"))];
        assert_eq!(stops_after(&endings), Some(3));
    }

    #[test]
    fn what_depends_on_the_size_of_a_job_stops_no_run() {
        let too_large =
            Outcome::OutOfMemory { message: "20 GiB".into(), needed_bytes: None, free_bytes: None };
        for outcome in [Outcome::TimedOut { after_s: 60.0 }, too_large] {
            let endings: Vec<_> = (0..9).map(|power| (1 << power, 1, outcome.clone())).collect();
            assert_eq!(stops_after(&endings), None, "{outcome}");
        }
    }

    #[test]
    fn the_reason_names_what_they_say() {
        let mut alike = Alike::default();
        let reasons: Vec<Option<String>> =
            [4, 8, 16].map(|batch| alike.note(&key(batch, 1), &exited("no module named torch"))).into();
        assert_eq!(
            reasons[2].as_deref(),
            Some("3 different configs failed in a row: each exited with code 1: no module named torch")
        );
    }
}
