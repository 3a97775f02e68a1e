//! `orchestrate explain`: the state of a job, and why.
//!
//! This file reads the store; [`page`] is the output.

mod page;

use std::collections::BTreeMap;

use super::altered::altered;
use super::find::load_inventory;
use super::global::store_flag;
use super::marked::{Doubts, doubts_of};
use super::misread::remove_command;
use super::output::{print, print_json};
use super::pick::{Found, PickArgs, identify};
use super::queue::{look, place_text};
use super::stale::{Here, Planned, planned_jobs};
use super::{Exit, Failure, Global};
use crate::files::{AttemptDir, JobDir};
use crate::job::{Job, JobId, Key};
use crate::plan::{Change, Inventory, Plan, Standing, changes, misread_from};
use crate::record::Record;
use crate::store::Store;

use page::{AttemptView, Explanation, Findings, Foreign};

/// The arguments of `orchestrate explain`.
#[derive(Debug, clap::Args)]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    job: PickArgs,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Prints the job's key, its state, the decision about it, its attempts, the changes since, and the next commands.
pub(super) fn run(args: ExplainArgs, global: &Global) -> Result<Exit, Failure> {
    let store = Store::at(&global.store).map_err(Failure::store)?;
    let found = args.job.find(&store)?;
    let job = identify(&found)?;
    let inventory = load_inventory(&store)?;
    let mut here = Here::probe();
    let mut planned = planned_jobs(&store, &inventory, &mut here)?;
    let misread = misread_from(&job, declared_keys(&planned, &inventory));
    let planned = planned.remove(&job.id());
    let plan = planned.as_ref().and_then(|planned| store.load_plan(&planned.plan).ok());
    let findings = Findings {
        dir: found.dir.clone(),
        doubts: match inventory.standing(&job) {
            Standing::Done(record) => doubts_of(&record, plan.as_ref(), &inventory, &store, global),
            Standing::NotDone(_) => Doubts::default(),
        },
        changes: changes_since(
            &store,
            &job,
            planned.as_ref().map(|planned| &*planned.plan),
            &inventory,
            &mut here,
        ),
        queue: queue_of(&store, &job, plan.as_ref(), &inventory)?,
        host: here.host.clone(),
        attempts: attempts(&found.dir),
        altered: altered(&found.dir),
        store_flag: store_flag(global),
        planned,
        foreign: foreign(&found, &job, &inventory),
        delete: misread.as_ref().map(|misread| remove_command(misread, global)),
        misread,
    };
    let explanation = Explanation::of(&job, &inventory, findings);
    if args.json {
        print_json(&explanation)?;
    } else {
        print(&explanation.text())?;
    }
    Ok(Exit::Done)
}

/// The place of `job` with Slurm or on another host, as a phrase; `None` if it was not handed over, or is done.
fn queue_of(
    store: &Store,
    job: &Job,
    plan: Option<&Plan>,
    inventory: &Inventory,
) -> Result<Option<String>, Failure> {
    let is_queued = |plan: &&Plan| plan.envs.get(&job.key().env).is_some_and(|env| !env.executor.is_local());
    let Some(plan) = plan.filter(is_queued) else { return Ok(None) };
    let is_done = matches!(inventory.standing(job), Standing::Done(_));
    let places = look(store, plan)?;
    let place = places.get(&job.id()).filter(|_| !is_done);
    Ok(place.map(|place| format!("{}: {}", place.queue.name(), place_text(place))))
}

/// Every key in a saved plan or a record.
fn declared_keys<'a>(
    planned: &'a BTreeMap<JobId, Planned>,
    inventory: &'a Inventory,
) -> impl Iterator<Item = &'a Key> {
    let planned = planned.values().map(|planned| planned.decided.job.key());
    planned.chain(inventory.records().map(|record| &record.key))
}

/// The directory that the user named, if it is not that of `job`, and the remedy.
fn foreign(found: &Found, job: &Job, inventory: &Inventory) -> Option<Foreign> {
    let path = found.dir.path();
    let remedy = || inventory.problems.iter().find(|problem| problem.path == path)?.remedy.clone();
    (found.dir.name() != job.dir_name())
        .then(|| Foreign { directory: path.display().to_string(), remedy: remedy() })
}

/// The changes since the job ran, accepted or not. Empty if it is not done, or in no plan.
fn changes_since(
    store: &Store,
    job: &Job,
    plan: Option<&str>,
    inventory: &Inventory,
    here: &mut Here,
) -> Vec<Change> {
    let Some(Standing::Done(record)) = inventory.jobs.get(&job.id()) else { return Vec::new() };
    let Some(plan) = plan.and_then(|name| store.load_plan(name).ok()) else { return Vec::new() };
    let present = here.present(&plan, inventory);
    changes(record, plan.env(job.key()), &here.host, &present)
}

/// Every attempt with a directory, in order, with its own record or the one that counts for the job.
fn attempts(dir: &JobDir) -> Vec<AttemptView> {
    let deciding = dir.load_record().ok().flatten();
    let view = |attempt: AttemptDir| {
        let number = attempt.number();
        let decides = |record: &Record| record.attempt == number;
        let record = match &deciding {
            Some(record) if decides(record) => Some(record.clone()),
            _ => attempt.load_record().ok().flatten(),
        };
        AttemptView::of(number, deciding.as_ref().is_some_and(decides), record.as_ref())
    };
    dir.attempts().unwrap_or_default().into_iter().map(view).collect()
}
