//! The content of the live page of a job, with the sections of `show`.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::cli::Global;
use crate::cli::marked::{Doubts, doubts_of};
use crate::cli::pick::{Found, identify};
use crate::cli::show::{Page, load_page};
use crate::files::JobDir;
use crate::job::{Job, distinction};
use crate::plan::{Inventory, NotDone, Plan, Standing, quote};
use crate::serve::{AttemptLine, JobView, Section};
use crate::store::{Attempt, Store};
use crate::text::with_causes;

/// The job in `dir`, which can be in some of `plans`, the last saved one first. Also returns the job if it is running.
pub(super) fn job_view(
    dir: JobDir,
    plans: &[Arc<Plan>],
    inventory: &Inventory,
    store: &Store,
    global: &Global,
) -> (JobView, Option<Job>) {
    let job = match identify(&Found { dir: dir.clone(), job: None }) {
        Ok(job) => job,
        Err(failure) => return (unknown(dir, failure.error.to_string()), None),
    };
    let standing = inventory.standing(&job);
    let holders: Vec<&Arc<Plan>> =
        plans.iter().filter(|plan| plan.jobs().any(|held| held.id() == job.id())).collect();
    let plan = holders.first().map(|plan| &***plan);
    let doubts = match &standing {
        Standing::Done(record) => doubts_of(record, plan, inventory, store, global),
        Standing::NotDone(_) => Doubts::default(),
    };
    let is_running = inventory.is_running(&job);
    let has_failed = matches!(standing, Standing::NotDone(NotDone::Failed(_)));
    let state = match &standing {
        _ if is_running => "it is running".to_owned(),
        Standing::Done(_) => "done".to_owned(),
        Standing::NotDone(not_done) => not_done.to_string(),
    };
    let usd_per_hour = plan.and_then(|plan| plan.envs.get(&job.key().env)?.usd_per_hour);
    let page = load_page(&dir, job.clone(), standing).map(|mut page| {
        (page.usd_per_hour, page.doubts) = (usd_per_hour, doubts);
        page
    });
    let (attempts, sections) = page.as_ref().map_or_else(|_| Default::default(), parts);
    let view = JobView {
        label: job.label(),
        state: page.as_ref().map_or_else(|error| with_causes(error), |_| state),
        is_running,
        has_failed,
        started_at: if is_running { started_at(&dir) } else { None },
        attempts,
        sections,
        plans: holders.iter().map(|plan| plan.matrix.name.to_string()).collect(),
        show: format!("orchestrate show {}", quote(&dir.name())),
        dir,
    };
    (view, is_running.then_some(job))
}

/// The attempts of a job, and its other sections.
fn parts(page: &Page) -> (Vec<AttemptLine>, Vec<Section>) {
    let attempts = page.attempts.iter().zip(page.attempt_lines());
    let attempts = attempts.map(|(attempt, (_, text))| AttemptLine { number: attempt.number, text });
    let sections = page.short().into_iter().map(|(title, lines)| Section { title, lines });
    (attempts.collect(), sections.collect())
}

/// The view of a directory whose job is unknown, for the reason `why`.
fn unknown(dir: JobDir, why: String) -> JobView {
    JobView {
        label: dir.name(),
        state: why,
        is_running: false,
        has_failed: false,
        started_at: None,
        attempts: Vec::new(),
        sections: Vec::new(),
        plans: Vec::new(),
        show: format!("orchestrate show {}", quote(&dir.name())),
        dir,
    }
}

/// The label of `job`, with its values of the `varying` parameters.
pub(super) fn distinct_label(job: &Job, varying: &[String]) -> String {
    format!("{}{}", job.label(), distinction(job.key(), varying))
}

/// When the last attempt in `dir` began.
pub(super) fn started_at(dir: &JobDir) -> Option<DateTime<Utc>> {
    Some(Attempt::load(dir.attempts().ok()?.last()?).ok()?.started_at)
}
