//! `orchestrate accept`: keeps stale jobs. What is accepted is written beside a job's record, which is never edited.
#![expect(clippy::disallowed_methods, reason = "what the user says is said at a time")]

use std::collections::{BTreeMap, BTreeSet};

use chrono::Utc;

use super::failure::{disk_remedy, foreign_remedy};
use super::find::find_job;
use super::global::store_flag;
use super::output::print_line;
use super::show::identify;
use super::stale::{Here, Planned, planned_jobs};
use super::{Exit, Failure, Global};
use crate::job::{Job, JobId};
use crate::lock::{JobLock, LockError};
use crate::plan::{
    ACCEPTANCE_SCHEMA, Acceptance, Change, Decided, Decision, Inventory, Standing, changes_text,
};
use crate::store::{Store, StoreError, save_acceptance};
use crate::text::jobs_text;

/// What `orchestrate accept` takes.
#[derive(Debug, clap::Args)]
pub(super) struct AcceptArgs {
    /// The jobs: labels, directories, or at least four digits of an id each.
    #[arg(value_name = "JOB", required_unless_present = "all", conflicts_with = "all")]
    jobs: Vec<String>,
    /// Every stale job of every saved plan.
    #[arg(long)]
    all: bool,
}

/// A stale job and what is to be accepted of it.
struct Wanted {
    job: Job,
    /// The attempt whose record is to be kept.
    attempt: u32,
    changes: Vec<Change>,
}

/// Accepts what changed since the jobs ran: they count as they are, until something else changes.
pub(super) fn run(args: AcceptArgs, global: &Global) -> Result<Exit, Failure> {
    let store = Store::open(&global.store).map_err(Failure::store)?;
    let inventory = store.load_inventory().map_err(Failure::store)?;
    let planned = planned_jobs(&store, &inventory, &mut Here::probe())?;
    let wanted = if args.all {
        let mut stale: Vec<Wanted> =
            planned.into_values().filter_map(|planned| stale(planned, &inventory)).collect();
        stale.sort_by_key(|wanted| wanted.job.dir_name());
        stale
    } else {
        named(&args.jobs, &store, &inventory, planned, global)?
    };
    for wanted in &wanted {
        accept(&store, wanted)?;
        print_line(&format!("accepted {}: {}", wanted.job.label(), changes_text(&wanted.changes)))?;
    }
    if args.all {
        print_line(&format!("{} accepted", jobs_text(wanted.len())))?;
    }
    Ok(Exit::Done)
}

fn stale(planned: Planned, inventory: &Inventory) -> Option<Wanted> {
    let Decided { job, decision } = planned.decided;
    match (decision, inventory.jobs.get(&job.id())) {
        (Decision::Stale { changes }, Some(Standing::Done(record))) => {
            Some(Wanted { job, attempt: record.attempt, changes })
        }
        _ => None,
    }
}

/// The stale ones of the jobs called `words`. Nothing is accepted if one of them is not done, or is known to no plan.
fn named(
    words: &[String],
    store: &Store,
    inventory: &Inventory,
    mut planned: BTreeMap<JobId, Planned>,
    global: &Global,
) -> Result<Vec<Wanted>, Failure> {
    let mut wanted = Vec::new();
    let mut seen = BTreeSet::new();
    for word in words {
        let job = identify(&find_job(store, word)?)?;
        // A job may be named twice, in two ways.
        if !seen.insert(job.id()) {
            continue;
        }
        if !matches!(inventory.standing(&job), Standing::Done(_)) {
            return Err(not_done(&job, global));
        }
        let found = planned.remove(&job.id()).ok_or_else(|| no_plan(&job))?;
        let why_not = match found.decided.decision {
            Decision::Run(_) => "is being repeated: there is nothing to accept yet",
            _ => "is not stale: there is nothing to accept",
        };
        match stale(found, inventory) {
            Some(stale) => wanted.push(stale),
            None => print_line(&format!("{} {why_not}", job.label()))?,
        }
    }
    Ok(wanted)
}

fn not_done(job: &Job, global: &Global) -> Failure {
    let message = format!("{} is not done, so there is nothing to accept", job.label());
    let explain = format!("`orchestrate explain {}{}` says why", job.dir_name(), store_flag(global));
    Failure::new(Exit::NothingSelected, message).hint(explain)
}

/// What a job would run with is known by its plan alone: its env and that env's variables.
fn no_plan(job: &Job) -> Failure {
    let message = format!("no saved plan holds {}, so it cannot be told what changed", job.label());
    Failure::new(Exit::NothingSelected, message).hint(
        "`orchestrate run MATRIX.yaml` saves the plan of its matrix; jobs that are done do not run again",
    )
}

/// Writes down what is accepted, if the record is still the one that it was read of.
fn accept(store: &Store, wanted: &Wanted) -> Result<(), Failure> {
    let Wanted { job, attempt, changes } = wanted;
    let lock = JobLock::try_lock(job, store.job_dir(job)).map_err(not_locked)?;
    if !matches!(store.load_standing(job), Standing::Done(record) if record.attempt == *attempt) {
        let message = format!("{} was run again meanwhile, so nothing of it is accepted", job.label());
        return Err(Failure::new(Exit::StoreUnusable, message));
    }
    let acceptance = Acceptance {
        schema: ACCEPTANCE_SCHEMA,
        attempt: *attempt,
        accepted_at: Utc::now(),
        changes: changes.clone(),
    };
    save_acceptance(&lock, &acceptance).map_err(|error| Failure::store(StoreError::Write(error)))
}

fn not_locked(error: LockError) -> Failure {
    let hint = match &error {
        LockError::Busy(_) => {
            "somebody runs it right now: `orchestrate status --watch` tells when that is over".to_owned()
        }
        LockError::File { source, .. } => {
            disk_remedy(source).unwrap_or("put right what is wrong with it").to_owned()
        }
        LockError::Foreign { path, .. } => foreign_remedy(path),
        LockError::Stopped(_) => "call it again".to_owned(),
    };
    Failure::new(Exit::StoreUnusable, error).hint(hint)
}
