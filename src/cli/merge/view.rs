//! The results of a merge as JSON.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::account::Account;
use super::text::{plan_sentence, sentence};
use crate::plan::Undeclared;
use crate::store::{JobFate, MergedJob, MergedPlan, Side};

/// The version of the `--json` format.
///
/// Changelog: 1, the first.
const MERGE_SCHEMA: u32 = 1;

/// The output.
#[derive(Debug, Serialize)]
pub(super) struct View<'a> {
    schema: u32,
    /// Whether it was a dry run.
    dry_run: bool,
    stores: Vec<StoreView>,
    undeclared: &'a [Undeclared],
}

#[derive(Debug, Serialize)]
struct StoreView {
    /// As the user named it.
    store: String,
    jobs: Vec<JobView>,
    plans: Vec<PlanView>,
}

#[derive(Debug, Serialize)]
struct JobView {
    directory: String,
    /// `taken`, `replaced`, `already here`, `kept`, `conflict`, `busy`, `unfinished` or `damaged`.
    what: &'static str,
    /// An explanation as a sentence, if necessary.
    why: Option<String>,
    ours: Option<SideView>,
    theirs: Option<SideView>,
    /// The new path of the replaced result.
    kept_in: Option<String>,
    /// Paths that were not copied because they are neither a file nor a directory.
    left_out: Vec<String>,
}

/// The record of one store.
#[derive(Debug, Serialize)]
struct SideView {
    path: String,
    attempt: u32,
    outcome: &'static str,
    host: String,
    ended_at: DateTime<Utc>,
}

#[derive(Debug, Serialize)]
struct PlanView {
    name: String,
    /// `taken`, `already here`, `kept` or `damaged`.
    what: &'static str,
    why: Option<String>,
}

impl<'a> View<'a> {
    pub(super) fn of(account: &'a Account) -> View<'a> {
        let stores = account.stores.iter().map(|(path, merged)| StoreView {
            store: path.display().to_string(),
            jobs: merged.jobs.iter().map(job).collect(),
            plans: merged.plans.iter().map(plan).collect(),
        });
        View {
            schema: MERGE_SCHEMA,
            dry_run: account.is_rehearsal,
            stores: stores.collect(),
            undeclared: &account.undeclared,
        }
    }
}

fn job(job: &MergedJob) -> JobView {
    let kept_in = match &job.what {
        JobFate::Replaced(kept) => kept.as_ref().map(|kept| kept.display().to_string()),
        _ => None,
    };
    JobView {
        directory: job.directory.clone(),
        what: job.what.name(),
        why: sentence(job),
        ours: job.ours.as_ref().map(side),
        theirs: job.theirs.as_ref().map(side),
        kept_in,
        left_out: job.left_out.clone(),
    }
}

fn side(side: &Side) -> SideView {
    let Side { path, attempt, outcome, host, ended_at } = side;
    SideView {
        path: path.display().to_string(),
        attempt: *attempt,
        outcome: outcome.kind(),
        host: host.clone(),
        ended_at: *ended_at,
    }
}

fn plan(plan: &MergedPlan) -> PlanView {
    PlanView { name: plan.name.clone(), what: plan.fate.name(), why: plan_sentence(plan) }
}
