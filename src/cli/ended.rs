//! The last lines of `run` and `resume`: the jobs by state, the time, and the reasons of failures; or why there was
//! nothing to run.

use std::collections::BTreeMap;

use crate::event::Summary;
use crate::job::{JobId, State};
use crate::plan::{Decided, Decision, Inventory, NotDone, Standing};
use crate::text::duration_text;

/// The result of a run of the plan `name` that took `seconds`: one line, and another one if jobs failed.
pub(super) fn ended_text(name: &str, summary: &Summary, seconds: f64, failures: &str) -> String {
    let first = format!("{name}: {summary} in {}", duration_text(seconds));
    if failures.is_empty() { first } else { format!("{first}\nfailed: {failures}") }
}

/// The outcomes of the failed ones of `jobs`, the most frequent first: `15 ran out of memory, 3 exited with code 1`.
pub(super) fn failures_text(inventory: &Inventory, jobs: impl Iterator<Item = JobId>) -> String {
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for id in jobs {
        let standing = inventory.jobs.get(&id);
        let Some(Standing::NotDone(NotDone::Failed(record))) = standing else { continue };
        if record.outcome.policy().leaves == State::Failed {
            let outcome = record.outcome.to_string();
            let ending = outcome.split_once(": ").map_or(outcome.as_str(), |(ending, _)| ending);
            *found.entry(ending.to_owned()).or_default() += 1;
        }
    }
    let mut found: Vec<(String, usize)> = found.into_iter().collect();
    found.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
    found.iter().map(|(ending, number)| format!("{number} {ending}")).collect::<Vec<_>>().join(", ")
}

/// Why the plan `name` has no jobs to run.
pub(super) fn nothing_to_do_text(name: &str, decided: &[Decided]) -> String {
    let summary = Summary::of(decided);
    // A pruned job is the least surprising obstacle, so others are named first.
    let first = |is_pruned: bool| {
        let of_kind = |decided: &&Decided| matches!(decided.decision, Decision::Pruned { .. }) == is_pruned;
        decided.iter().filter(of_kind).find_map(|decided| decided.decision.obstacle())
    };
    let reason = first(false).or_else(|| first(true));
    match reason {
        _ if summary.is_complete() => match summary.tally.of(State::NotNeeded) {
            0 => format!("{name}: all {} jobs are done", summary.jobs()),
            more => format!("{name}: all {} jobs that are needed are done", summary.jobs() - more),
        },
        None => format!("{name}: nothing to run: {summary}"),
        Some(why) => format!("{name}: nothing to run: {summary} ({why})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Key;
    use crate::record::Outcome;
    use crate::record::testing::record_of;

    #[test]
    fn summary_counts_jobs_and_reasons() {
        let oom = |message: &str| Outcome::OutOfMemory {
            message: message.into(),
            needed_bytes: None,
            free_bytes: None,
        };
        let exited = || Outcome::Exited { code: 1, message: Some("no module".into()) };
        let mut inventory = Inventory::default();
        let mut summary = Summary::default();
        summary.add(State::Done, false);
        for (batch, outcome) in [(1, exited()), (2, oom("wanted 2 GB")), (4, oom("wanted 4 GB"))] {
            let key = Key { batch, ..Key::example() };
            let record = record_of(key.clone(), outcome);
            inventory.jobs.insert(key.id(), Standing::NotDone(NotDone::Failed(record.into())));
            summary.add(State::Failed, false);
        }
        let failures = failures_text(&inventory, inventory.jobs.keys().copied());
        assert_eq!(failures, "2 ran out of memory, 1 exited with code 1");
        assert_eq!(
            ended_text("m", &summary, 75.0, &failures),
            "m: 1 done, 3 failed in 1m 15s\nfailed: 2 ran out of memory, 1 exited with code 1"
        );
        assert_eq!(ended_text("m", &summary, 5.0, ""), "m: 1 done, 3 failed in 5.0s");
    }
}
