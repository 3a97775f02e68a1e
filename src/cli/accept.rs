//! `orchestrate accept`: keeps the results of stale jobs. An acceptance is a file beside a job's record; records are
//! never edited.
#![expect(clippy::disallowed_methods, reason = "an acceptance has a time")]

use std::collections::{BTreeMap, BTreeSet};

use chrono::Utc;

use super::failure::{disk_remedy, lock_path_remedy};
use super::find::{load_inventory, no_plans};
use super::global::store_flag;
use super::output::print_line;
use super::pick::{Pick, identify};
use super::stale::{Here, Planned, planned_jobs};
use super::{Exit, Failure, Global};
use crate::job::{Job, JobId};
use crate::lock::{JobLock, LockError};
use crate::plan::{
    ACCEPTANCE_SCHEMA, Acceptance, Change, Decided, Decision, Inventory, Standing, changes_text,
};
use crate::store::{Store, StoreError, save_acceptance};
use crate::text::jobs_text;

/// The arguments of `orchestrate accept`.
#[derive(Debug, clap::Args)]
pub(super) struct AcceptArgs {
    /// The jobs, each by its label, its directory or at least four digits of its id. Conditions such as `compile=true`
    /// can follow if several jobs have this label.
    #[arg(value_name = "JOB", required_unless_present = "all", conflicts_with = "all")]
    jobs: Vec<String>,
    /// Accept every stale job of every saved plan.
    #[arg(long)]
    all: bool,
}

/// A stale job and the changes to accept.
struct Wanted {
    job: Job,
    /// The attempt whose record is kept.
    attempt: u32,
    changes: Vec<Change>,
}

/// Accepts the changes since the jobs ran. Their results count until the next change.
pub(super) fn run(args: AcceptArgs, global: &Global) -> Result<Exit, Failure> {
    let store = Store::at(&global.store).map_err(Failure::store)?;
    let inventory = load_inventory(&store)?;
    let planned = planned_jobs(&store, &inventory, &mut Here::probe())?;
    if args.all && store.plan_names().map_err(Failure::store)?.is_empty() {
        return Err(no_plans(&store));
    }
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

/// The stale jobs among those that `words` name. It is an error if one of these is not done or in no plan.
fn named(
    words: &[String],
    store: &Store,
    inventory: &Inventory,
    mut planned: BTreeMap<JobId, Planned>,
    global: &Global,
) -> Result<Vec<Wanted>, Failure> {
    let mut wanted = Vec::new();
    let mut seen = BTreeSet::new();
    for pick in Pick::all(words) {
        let job = identify(&pick.find(store)?)?;
        // Two words can name the same job.
        if !seen.insert(job.id()) {
            continue;
        }
        if !matches!(inventory.standing(&job), Standing::Done(_)) {
            return Err(not_done(&job, global));
        }
        let found = planned.remove(&job.id()).ok_or_else(|| no_plan(&job))?;
        let why_not = match found.decided.decision {
            Decision::Run(_) => "is running again, so there is nothing to accept yet",
            _ => "is not stale, so there is nothing to accept",
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
    let explain = format!("`orchestrate explain {}{}` shows why", job.dir_name(), store_flag(global));
    Failure::new(Exit::NothingSelected, message).hint(explain)
}

/// Without a plan, the current env and variables of a job are unknown.
fn no_plan(job: &Job) -> Failure {
    let message = format!("no saved plan contains {}, so its changes are unknown", job.label());
    Failure::new(Exit::NothingSelected, message).hint(
        "`orchestrate run MATRIX.yaml` saves the plan of its matrix; jobs that are done do not run again",
    )
}

/// Writes the acceptance, unless the record changed after it was read.
fn accept(store: &Store, wanted: &Wanted) -> Result<(), Failure> {
    let Wanted { job, attempt, changes } = wanted;
    let lock = JobLock::try_lock(job, store.job_dir(job)).map_err(not_locked)?;
    if !matches!(store.load_standing(job), Standing::Done(record) if record.attempt == *attempt) {
        let message =
            format!("{} ran again in the meantime, so none of its changes are accepted", job.label());
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
            "another orchestrate runs it now: `orchestrate status --watch` follows that run".to_owned()
        }
        LockError::File { source, .. } => disk_remedy(source).unwrap_or("fix this problem").to_owned(),
        LockError::Foreign { path, .. } => lock_path_remedy(path),
        LockError::Stopped(_) => "run the command again".to_owned(),
    };
    Failure::new(Exit::StoreUnusable, error).hint(hint)
}
