//! Hands the jobs of a plan to Slurm: freezes submissions, then hands over all that Slurm does not have yet.
#![expect(clippy::disallowed_methods, reason = "a submission has a time")]

use std::collections::BTreeMap;

use chrono::Utc;

use super::{Handing, names, open_submissions};
use crate::cli::output::{print_line, say, warn};
use crate::cli::{Exit, Failure, Global};
use crate::job::JobId;
use crate::plan::{
    Decided, Inventory, Origin, Standing, Submission, Verdict, Whereabouts, submissions, whereabouts,
};
use crate::queue::{HandOverError, Queue, Slurm, hand_over, script};
use crate::store::{Store, StoreError};
use crate::text::{count_text, jobs_text, with_causes};

/// Hands those jobs of `decided` to Slurm that are not there yet. What cannot be handed over now stays frozen, and
/// [`super::follow`] tries again.
///
/// # Errors
/// The store cannot be read or written.
pub(in crate::cli) async fn submit(
    slurm: &mut Slurm,
    handing: &Handing<'_>,
    decided: &[Decided],
    inventory: &Inventory,
) -> Result<(), Failure> {
    let Handing { store, plan, origin, global } = *handing;
    let longest = slurm.longest_array().await;
    let _held = store.lock_queue().map_err(|error| Failure::store(error.into()))?;
    let known = open_submissions(handing).map_err(Failure::store)?;
    let answer = if known.is_empty() { Ok(Vec::new()) } else { slurm.poll(&names(&known)).await };
    let places = whereabouts(&known, answer.as_deref().ok());
    // Some may have ended since the store was read, and before Slurm was asked.
    let now = if known.is_empty() { None } else { Some(store.load_inventory().map_err(Failure::store)?) };
    let now = now.as_ref().unwrap_or(inventory);
    let mut to_submit = not_there(decided, now, &places);
    to_submit.retain(|it| !has_become_done(it, inventory, now));
    let longest = longest.unwrap_or(UNKNOWN_LONGEST);
    // What is handed over again in one run is another submission.
    let origin = Origin { now: Utc::now(), ..origin.clone() };
    let new = submissions(plan, &to_submit, now, longest, &origin);
    for submission in &new {
        freeze(store, submission)?;
    }
    let unsent = known.iter().filter(|it| it.ticket.is_none()).map(|it| (&it.submission, false));
    let mut refusal: Option<HandOverError> = None;
    for (submission, is_new) in unsent.chain(new.iter().map(|submission| (submission, true))) {
        match hand_over(slurm, store, submission, is_new).await {
            Ok(ticket) => tell(submission, ticket.array, global),
            // The next one would meet the same.
            Err(error) => {
                refusal = Some(error);
                break;
            }
        }
    }
    if let Some(error) = refusal {
        warn(&format!("not handed to Slurm yet: {}; it is tried again", with_causes(&error)));
    }
    Ok(())
}

/// The most tasks of an array if Slurm does not answer: what every cluster accepts.
const UNKNOWN_LONGEST: usize = 1000;

/// Those of `decided` that run and of which Slurm has nothing that is under way.
pub(super) fn not_there(
    decided: &[Decided],
    inventory: &Inventory,
    places: &BTreeMap<JobId, Whereabouts>,
) -> Vec<Decided> {
    let is_there = |decided: &Decided| {
        let id = decided.job.id();
        let verdict = places.get(&id).map(|place| place.verdict(inventory.jobs.get(&id)));
        verdict == Some(Verdict::Pending)
    };
    decided.iter().filter(|decided| decided.decision.runs() && !is_there(decided)).cloned().collect()
}

/// Whether the job of `decided` was not done `before` and is done `now`.
fn has_become_done(decided: &Decided, before: &Inventory, now: &Inventory) -> bool {
    let is_done =
        |inventory: &Inventory| matches!(inventory.jobs.get(&decided.job.id()), Some(Standing::Done(_)));
    is_done(now) && !is_done(before)
}

/// Writes `submission` to the store, with its script.
///
/// # Errors
/// It cannot be written.
fn freeze(store: &Store, submission: &Submission) -> Result<(), Failure> {
    let path = store.submission_files(&submission.name).frozen().display().to_string();
    let script = script(submission, &path).map_err(|error| Failure::new(Exit::Unexpected, error))?;
    let frozen = store.freeze(submission, &script);
    frozen.map(drop).map_err(|error| Failure::store(StoreError::Write(error)))
}

fn tell(submission: &Submission, array: u64, global: &Global) {
    if global.quiet {
        return;
    }
    say(&format!(
        "Slurm has {} of {} as {} of array {array}",
        jobs_text(submission.plan.jobs.len()),
        submission.env,
        count_text(submission.tasks(), "task")
    ));
}

/// Prints what would be handed to Slurm, and how, without handing anything over.
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
        let files = store.submission_files(&submission.name);
        let words = Slurm::command_line(&submission, &files);
        let (jobs, tasks) = (jobs_text(submission.plan.jobs.len()), count_text(submission.tasks(), "task"));
        print_line(&format!("# {jobs} of {} in {tasks} of Slurm\n{words}", submission.env))?;
        let path = files.frozen().display().to_string();
        let text = script(&submission, &path).map_err(|error| Failure::new(Exit::Unexpected, error))?;
        text.lines().try_for_each(|line| print_line(&format!("#   {line}")))?;
    }
    Ok(())
}

/// Hands over what is frozen and not with Slurm yet. Returns why that failed, if it did.
///
/// # Errors
/// The store cannot be read or written.
pub(super) async fn hand_over_the_rest(
    slurm: &mut Slurm,
    handing: &Handing<'_>,
) -> Result<Option<String>, Failure> {
    let Handing { store, global, .. } = *handing;
    let _held = store.lock_queue().map_err(|error| Failure::store(error.into()))?;
    for it in open_submissions(handing).map_err(Failure::store)? {
        if it.ticket.is_some() {
            continue;
        }
        match hand_over(slurm, store, &it.submission, false).await {
            Ok(ticket) => tell(&it.submission, ticket.array, global),
            Err(error) => return Ok(Some(with_causes(&error))),
        }
    }
    Ok(None)
}
