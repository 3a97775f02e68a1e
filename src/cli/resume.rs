//! `orchestrate resume`.

use super::drift::warn_of_drift;
use super::find::{find_saved_plan, no_plans};
use super::output::say;
use super::run::{HowArgs, execute};
use super::{Exit, Failure, Global};
use crate::plan::{Plan, Standing};
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
    let plan = match &args.name {
        Some(name) => find_saved_plan(&store, name)?,
        None => most_recent(&store, global)?,
    };
    warn_of_drift(&plan, "resuming the saved plan", global);
    execute(&plan, &args.how, global)
}

/// The last saved plan. Mentions other plans that have jobs left.
fn most_recent(store: &Store, global: &Global) -> Result<Plan, Failure> {
    let names = store.plan_names().map_err(Failure::store)?;
    let Some((name, others)) = names.split_first() else {
        return Err(no_plans(store));
    };
    let plan = store.load_plan(name).map_err(Failure::store)?;
    if !others.is_empty() && !global.quiet {
        let inventory = store.load_inventory().map_err(Failure::store)?;
        let standings = inventory.standings();
        let unfinished = |name: &&String| {
            let plan = store.load_plan(name);
            plan.is_ok_and(|plan| plan.jobs().any(|job| matches!(standings.of(&job), Standing::NotDone(_))))
        };
        let left: Vec<&str> = others.iter().filter(unfinished).map(String::as_str).collect();
        if !left.is_empty() {
            say(&format!("resuming {name}; jobs are also left in: {}", left.join(", ")));
        }
    }
    Ok(plan)
}
