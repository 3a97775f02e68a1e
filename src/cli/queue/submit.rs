//! Hands over the jobs of a plan: freezes submissions, then hands over those that Slurm and the hosts lack.
#![expect(clippy::disallowed_methods, reason = "a submission has a time")]

use std::collections::{BTreeMap, BTreeSet};

use chrono::Utc;

use super::queues::Queues;
use super::{Handing, lock_queue, open_submissions};
use crate::cli::output::{print_whole, say, warn};
use crate::cli::{Exit, Failure, Global};
use crate::job::JobId;
use crate::matrix::Executor;
use crate::plan::{
    Decided, Inventory, Origin, QueueId, Standing, Submission, Ticket, Verdict, Whereabouts, submissions,
    whereabouts,
};
use crate::queue::{Slurm, script};
use crate::store::{Store, StoreError};
use crate::text::{count_text, jobs_text, with_causes};

/// Fetches finished results from hosts, then hands over those jobs of `decided` that are not under way. A submission
/// that cannot be handed over stays frozen, and [`super::follow`] tries again.
///
/// # Errors
/// The store cannot be read or written.
pub(in crate::cli) async fn submit(
    queues: &mut Queues,
    handing: &Handing<'_>,
    decided: &[Decided],
    inventory: &Inventory,
) -> Result<(), Failure> {
    let Handing { store, plan, origin, global } = *handing;
    let longest = match plan.envs.values().any(|env| matches!(env.executor, Executor::Slurm(_))) {
        true => queues.longest_array().await,
        false => None,
    };
    let _held = lock_queue(store).await?;
    let mut known = open_submissions(handing).map_err(Failure::store)?;
    let asked = queues.ask_and_fetch(store, &mut known).await?;
    let places = whereabouts(&known, &asked.answers);
    // Some may have ended between the reading of the store and the questions to the queues.
    let now = if known.is_empty() { None } else { Some(store.load_inventory().map_err(Failure::store)?) };
    let now = now.as_ref().unwrap_or(inventory);
    let mut to_submit = not_under_way(decided, now, &places);
    to_submit.retain(|it| !finished_meanwhile(it, inventory, now));
    let longest = longest.unwrap_or(UNKNOWN_LONGEST);
    // Handing a job over again in one run makes another submission.
    let origin = Origin { now: Utc::now(), ..origin.clone() };
    let new = submissions(plan, &to_submit, now, longest, &origin);
    for submission in &new {
        freeze(store, submission)?;
    }
    let unsent = known.iter().filter(|it| it.ticket.is_none()).map(|it| (&it.submission, false));
    let mut refused: BTreeSet<QueueId> = BTreeSet::new();
    for (submission, is_new) in unsent.chain(new.iter().map(|submission| (submission, true))) {
        let queue = submission.queue();
        if refused.contains(&queue) {
            continue;
        }
        match queues.hand_over(store, submission, is_new).await {
            Ok(ticket) => print_ticket(submission, &ticket, global),
            // The next submission to this queue would fail in the same way.
            Err(error) => {
                let why = with_causes(&error);
                warn(&format!("not handed to {} yet: {why}; orchestrate tries again", queue.name()));
                refused.insert(queue);
            }
        }
    }
    Ok(())
}

/// The most tasks of an array if Slurm does not answer. Every cluster accepts this number.
const UNKNOWN_LONGEST: usize = 1000;

/// Those of `decided` that are to run and are not under way in a queue.
pub(super) fn not_under_way(
    decided: &[Decided],
    inventory: &Inventory,
    places: &BTreeMap<JobId, Whereabouts>,
) -> Vec<Decided> {
    let is_pending = |decided: &Decided| {
        let id = decided.job.id();
        let verdict = places.get(&id).map(|place| place.verdict(inventory.jobs.get(&id)));
        verdict == Some(Verdict::Pending)
    };
    decided.iter().filter(|decided| decided.decision.runs() && !is_pending(decided)).cloned().collect()
}

/// Whether the job of `decided` was not done `before` and is done `now`, or was done and has been repeated since.
fn finished_meanwhile(decided: &Decided, before: &Inventory, now: &Inventory) -> bool {
    let success = |inventory: &Inventory| match inventory.jobs.get(&decided.job.id()) {
        Some(Standing::Done(record)) => Some((record.attempt, record.ended_at)),
        _ => None,
    };
    let now = success(now);
    now.is_some() && now != success(before)
}

/// Writes `submission` to the store, with its script.
///
/// # Errors
/// It cannot be written.
fn freeze(store: &Store, submission: &Submission) -> Result<(), Failure> {
    let path = store.submission_files(&submission.name).frozen().display().to_string();
    let script = match submission.queue() {
        QueueId::Slurm => script(submission, &path).map_err(|error| Failure::new(Exit::Unexpected, error))?,
        QueueId::Ssh { .. } => String::new(),
    };
    let frozen = store.freeze(submission, &script);
    frozen.map(drop).map_err(|error| Failure::store(StoreError::Write(error)))
}

fn print_ticket(submission: &Submission, ticket: &Ticket, global: &Global) {
    if global.quiet {
        return;
    }
    let queue = submission.queue();
    let what =
        format!("{} has {} of {}", queue.name(), jobs_text(submission.plan.jobs.len()), submission.env);
    match queue {
        QueueId::Slurm => {
            let tasks = count_text(submission.tasks(), "task");
            say(&format!("{what} as {tasks} of array {}", ticket.array));
        }
        QueueId::Ssh { .. } => say(&what),
    }
}

/// Prints the submissions that would be made, without handing anything over.
///
/// # Errors
/// Standard output cannot be written.
pub(in crate::cli) fn print_submissions(
    handing: &Handing<'_>,
    decided: &[Decided],
    inventory: &Inventory,
) -> Result<(), Failure> {
    let Handing { store, plan, origin, .. } = *handing;
    for submission in submissions(plan, decided, inventory, UNKNOWN_LONGEST, origin) {
        let jobs = jobs_text(submission.plan.jobs.len());
        if let QueueId::Ssh { host, directory } = submission.queue() {
            print_whole(&format!("# {jobs} of {} on {host}, in {directory}\n", submission.env))?;
            continue;
        }
        let files = store.submission_files(&submission.name);
        let words = Slurm::command_line(&submission, &files);
        let tasks = count_text(submission.tasks(), "task");
        print_whole(&format!("# {jobs} of {} in {tasks} of Slurm\n{words}\n", submission.env))?;
        let path = files.frozen().display().to_string();
        let text = script(&submission, &path).map_err(|error| Failure::new(Exit::Unexpected, error))?;
        text.lines().try_for_each(|line| print_whole(&format!("#   {line}\n")))?;
    }
    Ok(())
}

/// Hands over the submissions that are frozen and not yet handed over. Returns the failures, as sentences.
///
/// # Errors
/// The store cannot be read or written.
pub(super) async fn hand_over_frozen(
    queues: &mut Queues,
    handing: &Handing<'_>,
) -> Result<Vec<String>, Failure> {
    let Handing { store, global, .. } = *handing;
    // Avoids the lock in the usual case.
    if open_submissions(handing).map_err(Failure::store)?.iter().all(|it| it.ticket.is_some()) {
        return Ok(Vec::new());
    }
    let _held = lock_queue(store).await?;
    let mut refused: BTreeMap<QueueId, String> = BTreeMap::new();
    for it in open_submissions(handing).map_err(Failure::store)? {
        let queue = it.submission.queue();
        if it.ticket.is_some() || refused.contains_key(&queue) {
            continue;
        }
        match queues.hand_over(store, &it.submission, false).await {
            Ok(ticket) => print_ticket(&it.submission, &ticket, global),
            Err(error) => drop(refused.insert(queue, with_causes(&error))),
        }
    }
    Ok(refused.into_values().collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::job::{Job, Key};
    use crate::plan::{Decision, NotDone};
    use crate::record::{Outcome, testing::record};

    #[test]
    fn jobs_finished_meanwhile_are_not_handed_over() {
        let job = Job::new(Key::example());
        let decided = Decided { job: job.clone(), decision: Decision::Rerun { why: "it is stale".into() } };
        let with = |standing| {
            let mut inventory = Inventory::default();
            inventory.jobs.insert(job.id(), standing);
            inventory
        };
        let done = |attempt| with(Standing::Done(Arc::new(record(attempt, Outcome::Succeeded))));
        let never = || with(Standing::NotDone(NotDone::NeverRan));
        assert!(finished_meanwhile(&decided, &never(), &done(1)));
        assert!(finished_meanwhile(&decided, &done(1), &done(2)), "another one repeated it");
        assert!(!finished_meanwhile(&decided, &done(1), &done(1)), "it is to run again");
        assert!(!finished_meanwhile(&decided, &done(1), &never()));
    }
}
