//! `orchestrate resume`.

use super::run::{HowArgs, execute};
use super::{Exit, Failure, Global};
use crate::plan::{Plan, Standing};
use crate::run::{Store, StoreError};

/// What `orchestrate resume` takes.
#[derive(Debug, clap::Args)]
pub(super) struct ResumeArgs {
    /// The matrix's name; the one that was run last if not given.
    name: Option<String>,
    #[command(flatten)]
    how: HowArgs,
}

/// Goes on with the plan that `run` saved.
pub(super) fn run(args: ResumeArgs, global: &Global) -> Result<Exit, Failure> {
    let store = Store::open(&global.store).map_err(Failure::store)?;
    let plan = match &args.name {
        Some(name) => store.load_plan(name).map_err(|error| with_nearest(error, &store))?,
        None => most_recent(&store, global)?,
    };
    execute(&plan, &args.how, global)
}

/// The plan saved last. If others have jobs left too, says which.
fn most_recent(store: &Store, global: &Global) -> Result<Plan, Failure> {
    let names = store.plan_names().map_err(Failure::store)?;
    let Some((name, others)) = names.split_first() else {
        let message = format!("the store {} has no saved plan", store.root().display());
        return Err(Failure::new(Exit::StoreUnusable, message)
            .hint("run a matrix first: `orchestrate run MATRIX.yaml`"));
    };
    let plan = store.load_plan(name).map_err(Failure::store)?;
    if !others.is_empty() && !global.quiet {
        let inventory = store.load_inventory().map_err(Failure::store)?;
        let unfinished = |name: &&String| {
            let plan = store.load_plan(name);
            plan.is_ok_and(|plan| {
                plan.jobs().any(|job| matches!(inventory.standing(&job), Standing::NotDone(_)))
            })
        };
        let left: Vec<&str> = others.iter().filter(unfinished).map(String::as_str).collect();
        if !left.is_empty() {
            super::run::note(&format!("resuming {name}; jobs are also left in: {}", left.join(", ")));
        }
    }
    Ok(plan)
}

/// A plan that is not there, with the nearest name that is.
fn with_nearest(error: StoreError, store: &Store) -> Failure {
    let StoreError::NoPlan { name, .. } = &error else { return Failure::store(error) };
    let names = store.plan_names().unwrap_or_default();
    let nearest = names
        .iter()
        .max_by(|left, right| strsim::jaro_winkler(left, name).total_cmp(&strsim::jaro_winkler(right, name)));
    let hint = match nearest {
        Some(nearest) => format!("did you mean `{nearest}`? The saved plans are: {}", names.join(", ")),
        None => "run a matrix first: `orchestrate run MATRIX.yaml`".to_owned(),
    };
    Failure::new(Exit::StoreUnusable, error).hint(hint)
}
