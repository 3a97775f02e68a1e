//! `orchestrate merge`: copies the results of other stores into this one.

mod account;
mod text;
mod view;

use std::path::{Path, PathBuf};

use clap::ValueHint;

use super::failure::{disk_remedy, lock_path_remedy};
use super::global::store_flag;
use super::output::{hint, print, print_json, say};
use super::{Exit, Failure, Global};
use crate::job::Job;
use crate::lock::LockError;
use crate::plan::{Plan, quote, undeclared};
use crate::store::{JobFate, Merge, MergeError, Merged, NotMergeable, PlanFate, Store, StoreError};

use account::Account;
use text::text;
use view::View;

/// The arguments of `orchestrate merge`.
#[derive(Debug, clap::Args)]
pub(super) struct MergeArgs {
    /// The other stores: each the `runs/` directory of another machine, or a copy of it.
    #[arg(value_name = "DIR", required = true, value_hint = ValueHint::DirPath)]
    stores: Vec<PathBuf>,
    /// If a job succeeded in both stores, take the result of the other one. The replaced result moves to `.replaced/`
    /// in this store.
    #[arg(long)]
    replace: bool,
    /// Print which results would be taken, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Merges one store after another, and prints the result for each job.
pub(super) fn run(args: MergeArgs, global: &Global) -> Result<Exit, Failure> {
    let store = Store::at(&global.store).map_err(Failure::store)?;
    // Nothing is merged if one of them is wrong, because it is most likely a typing mistake.
    let others = args.stores.iter().map(|path| store.other(path).map_err(not_mergeable));
    let others = others.collect::<Result<Vec<Store>, Failure>>()?;
    let merge = if args.dry_run {
        Merge::rehearse(&store, args.replace)
    } else {
        Store::create(&global.store).map_err(Failure::store)?;
        Merge::begin(&store, args.replace).map_err(|error| begin_failure(error, global))?
    };
    let mut stores = Vec::new();
    for (path, other) in args.stores.into_iter().zip(&others) {
        let mut report_progress = |done: usize, of: usize| {
            if !global.quiet {
                say(&format!("merging {}: {done} of {of}", path.display()));
            }
        };
        let merged = merge.merge(other, &mut report_progress).map_err(merge_failure)?;
        stores.push((path, merged));
    }
    drop(merge);
    let undeclared = undeclared(jobs(&stores), &plans(&store, &others, &stores));
    let account = Account { is_rehearsal: args.dry_run, stores, undeclared };
    if args.json {
        print_json(&View::of(&account))?;
    } else {
        print(&text(&account))?;
    }
    print_hints(&account, global);
    Ok(account.exit())
}

/// The jobs whose results are in this store after the merge.
fn jobs(stores: &[(PathBuf, Merged)]) -> impl Iterator<Item = &Job> {
    let jobs = stores.iter().flat_map(|(_, merged)| &merged.jobs);
    jobs.filter(|job| !matches!(job.what, JobFate::Busy(_))).filter_map(|job| job.job.as_ref())
}

/// The saved plans of this store after the merge, or after it would be done in a dry run. Unreadable ones, which the
/// merge has already named, are left out.
fn plans(store: &Store, others: &[Store], stores: &[(PathBuf, Merged)]) -> Vec<Plan> {
    let mut plans: Vec<Plan> = Vec::new();
    plans.extend(store.plan_names().unwrap_or_default().iter().filter_map(|name| store.load_plan(name).ok()));
    for (other, (_, merged)) in others.iter().zip(stores) {
        let taken = merged.plans.iter().filter(|plan| plan.fate == PlanFate::Taken);
        plans.extend(taken.filter_map(|plan| other.load_plan(&plan.name).ok()));
    }
    plans
}

fn print_hints(account: &Account, global: &Global) {
    let flag = store_flag(global);
    if account.has(|what| *what == JobFate::Conflict) {
        hint(
            global.quiet,
            "`--replace` takes the results of the other store where both succeeded, and moves those of this one away",
        );
    }
    if account.has(|what| matches!(what, JobFate::Damaged(_))) {
        hint(
            global.quiet,
            "copy the damaged results again, and repeat the merge; it keeps those that were taken already",
        );
    }
    if account.has(|what| matches!(what, JobFate::Busy(_))) {
        hint(
            global.quiet,
            &format!("repeat the merge later; `orchestrate status{flag}` shows the running jobs"),
        );
    }
    if !account.undeclared.is_empty() {
        hint(
            global.quiet,
            &format!("`orchestrate report FILE{flag}` shows them with a matrix file that declares them"),
        );
    }
}

/// The failure for a directory that cannot be merged, with a similar one in its hint.
fn not_mergeable(error: NotMergeable) -> Failure {
    let (exit, remedy) = match &error {
        NotMergeable::Missing(_) => {
            (Exit::NothingSelected, "copy the `runs/` directory of the other machine to this one".to_owned())
        }
        NotMergeable::File(_) => {
            (Exit::StoreUnusable, "unpack an archive first, and name the `runs/` directory in it".to_owned())
        }
        NotMergeable::Read { source, .. } => (
            Exit::StoreUnusable,
            disk_remedy(source).unwrap_or("name a directory that can be read").to_owned(),
        ),
        NotMergeable::Itself(_) | NotMergeable::Within(_) => {
            (Exit::Usage, "name the store of another machine; `--store DIR` is the destination".to_owned())
        }
        NotMergeable::OneJob(path) => (Exit::NothingSelected, one_job_remedy(path)),
        NotMergeable::Empty(_) | NotMergeable::NoStore { below: None, .. } => (
            Exit::NothingSelected,
            "name the `runs/` directory itself: the one with a directory for each job".to_owned(),
        ),
        NotMergeable::NoStore { below: Some(below), .. } => {
            (Exit::NothingSelected, format!("did you mean {}?", quote(&below.display().to_string())))
        }
    };
    Failure::new(exit, error).hint(remedy)
}

fn one_job_remedy(path: &Path) -> String {
    match path.parent().filter(|above| !above.as_os_str().is_empty()) {
        Some(above) => format!("name the store that contains it: {}", quote(&above.display().to_string())),
        None => "name the store that contains it".to_owned(),
    }
}

/// The failure of a merge that did not begin.
fn begin_failure(error: MergeError, global: &Global) -> Failure {
    let remedy = match error {
        MergeError::Store(error) => return Failure::store(error),
        MergeError::Busy(_) => {
            format!(
                "repeat this one when it has ended; `orchestrate verify{}` checks the store",
                store_flag(global)
            )
        }
        MergeError::Lock(LockError::Foreign { ref path, .. }) => lock_path_remedy(path),
        MergeError::Lock(LockError::File { ref source, .. }) => {
            disk_remedy(source).unwrap_or("choose another store with `--store DIR`").to_owned()
        }
        MergeError::Lock(LockError::Busy(_) | LockError::Stopped(_)) => "run the command again".to_owned(),
    };
    Failure::new(Exit::StoreUnusable, error).hint(remedy)
}

/// The failure of a merge that ended early.
fn merge_failure(error: StoreError) -> Failure {
    let failure = Failure::store(error);
    let remedy = failure.hint.as_ref().map_or(String::new(), |remedy| format!("{remedy}, and "));
    let hint = format!("{remedy}repeat the merge; it keeps the results that were taken already");
    failure.hint(hint)
}
