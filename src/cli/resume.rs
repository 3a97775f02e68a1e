//! `orchestrate resume`: continues a saved plan.

use super::drift::warn_of_drift;
use super::find::{find_saved_plan, no_plans, while_reading};
use super::needs::needs;
use super::output::say;
use super::run::{HowArgs, execute};
use super::{Exit, Failure, Global};
use crate::job::Job;
use crate::plan::{Inventory, Needs, Plan, Standing, Wanted};
use crate::store::Store;

/// The arguments of `orchestrate resume`.
#[derive(Debug, clap::Args)]
pub(super) struct ResumeArgs {
    /// Name of the matrix [default: the last one that was run].
    name: Option<String>,
    #[command(flatten)]
    how: HowArgs,
}

/// Continues a plan that `run` saved.
pub(super) fn run(args: ResumeArgs, global: &Global) -> Result<Exit, Failure> {
    let store = Store::at(&global.store).map_err(Failure::store)?;
    let (plan, inventory) = while_reading(&store, || match &args.name {
        Some(name) => find_saved_plan(&store, name),
        None => most_recent(&store),
    });
    let plan = plan?;
    if let (None, false, Ok(inventory)) = (&args.name, global.quiet, &inventory) {
        report_other_plans(&plan, inventory, &store)?;
    }
    warn_of_drift(&plan, "resuming the saved plan", global);
    execute(&plan, inventory, &args.how, global)
}

/// The last saved plan.
fn most_recent(store: &Store) -> Result<Plan, Failure> {
    let names = store.plan_names().map_err(Failure::store)?;
    let last = names.first().ok_or_else(|| no_plans(store))?;
    store.load_plan(last).map_err(Failure::store)
}

/// Mentions the plans beside `plan` that have jobs left.
fn report_other_plans(plan: &Plan, inventory: &Inventory, store: &Store) -> Result<(), Failure> {
    let names = store.plan_names().map_err(Failure::store)?;
    let standings = inventory.standings();
    let is_left = |needs: &Needs, job: &Job| match standings.of(job) {
        Standing::NotDone(not_done) => !matches!(needs.wants(job, &not_done), Wanted::No(_)),
        Standing::Done(_) => false,
    };
    let unfinished = |name: &&String| {
        let Ok(plan) = store.load_plan(name) else { return false };
        let needs = needs(&plan, inventory);
        plan.jobs.iter().any(|job| is_left(&needs, job))
    };
    let resumed = plan.matrix.name.as_str();
    let others = names.iter().filter(|name| name.as_str() != resumed);
    let left: Vec<&str> = others.filter(unfinished).map(String::as_str).collect();
    if !left.is_empty() {
        say(&format!("resuming {resumed}; jobs are also left in: {}", left.join(", ")));
    }
    Ok(())
}
