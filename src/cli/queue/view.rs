//! What is with a queue, for `status` and `explain`, and how `stop` ends it.
#![expect(clippy::disallowed_methods, reason = "a queue takes a while to end what it is asked to end")]

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::{load_submissions, names};
use crate::cli::output::warn;
use crate::cli::{Exit, Failure};
use crate::files::JobDir;
use crate::job::JobId;
use crate::plan::{Fate, Plan, QueuedTask, Submitted, Whereabouts, whereabouts};
use crate::queue::{Queue, QueueError, Slurm};
use crate::store::Store;
use crate::text::count_text;

/// Jobs that are with a queue, by where they are there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(in crate::cli) struct QueueView {
    /// Where they are, as a phrase.
    #[serde(rename = "where")]
    pub(in crate::cli) phrase: String,
    /// How many there are.
    pub(in crate::cli) jobs: usize,
}

/// How many jobs have each of these fates, the most common one first.
pub(super) fn phrases<'a>(fates: impl Iterator<Item = &'a Fate>) -> Vec<(String, usize)> {
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for fate in fates {
        *found.entry(fate.to_string()).or_default() += 1;
    }
    let mut found: Vec<(String, usize)> = found.into_iter().collect();
    found.sort_by_key(|(phrase, jobs)| (Reverse(*jobs), phrase.clone()));
    found
}

/// Where the jobs of `plan` are that were handed to Slurm. Asks Slurm, if there is anything to ask.
///
/// # Errors
/// The submissions cannot be read.
pub(in crate::cli) fn look(store: &Store, plan: &Plan) -> Result<BTreeMap<JobId, Whereabouts>, Failure> {
    let submitted = load_submissions(store, Some(plan.matrix.name.as_str())).map_err(Failure::store)?;
    if submitted.is_empty() {
        return Ok(BTreeMap::new());
    }
    let answer = Slurm::find().and_then(|slurm| poll_now(slurm, &names(&submitted)).ok());
    Ok(whereabouts(&submitted, answer.as_deref()))
}

/// Asks Slurm from outside of an async runtime, or within one: on a thread of its own.
fn poll_now(mut slurm: Slurm, names: &[&str]) -> Result<Vec<QueuedTask>, QueueError> {
    let silent = |why: String| QueueError::Silent { program: "squeue", why };
    let poll = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|error| silent(error.to_string()))?.block_on(slurm.poll(names))
    };
    thread::scope(|scope| scope.spawn(poll).join().unwrap_or_else(|panic| resume_unwind(panic)))
}

/// The jobs of `places` by where they are.
pub(in crate::cli) fn queue_view<'a>(places: impl Iterator<Item = &'a Whereabouts>) -> Vec<QueueView> {
    let found = phrases(places.map(|place| &place.fate));
    found.into_iter().map(|(phrase, jobs)| QueueView { phrase, jobs }).collect()
}

/// Has Slurm cancel the task of the job in `dir`, if the job is with Slurm and no other job is in its task. Returns the
/// name of the matrix; `None` if the job is not there.
///
/// # Errors
/// Other jobs are in its task, the submissions cannot be read, or Slurm does not do it.
pub(in crate::cli) async fn cancel_job(store: &Store, dir: &JobDir) -> Result<Option<String>, Failure> {
    let submitted = load_submissions(store, None).map_err(Failure::store)?;
    let jobs = submitted.iter().flat_map(|it| it.submission.plan.jobs());
    let Some(job) = jobs.into_iter().find(|job| job.dir_name() == dir.name()) else { return Ok(None) };
    let Some(mut slurm) = Slurm::find() else { return Ok(None) };
    let refused =
        |error: QueueError| Failure::new(Exit::StoreUnusable, error).hint("try again when Slurm answers");
    let answer = slurm.poll(&names(&submitted)).await.map_err(refused)?;
    let places = whereabouts(&submitted, Some(&answer));
    let place = places.get(&job.id()).filter(|place| place.fate.is_live());
    let Some((place, task)) = place.and_then(|place| Some((place, place.task.as_ref()?))) else {
        return Ok(None);
    };
    if place.jobs > 1 {
        let what = format!("{} is {}, in a task with {} jobs", job.label(), place_text(place), place.jobs);
        return Err(Failure::new(Exit::StoreUnusable, what).hint(format!(
            "`scancel {task}` ends all of them; `orchestrate stop JOB` ends one once it runs"
        )));
    }
    slurm.cancel_task(task).await.map_err(refused)?;
    let is_its = |it: &&Submitted| it.submission.name == place.submission;
    Ok(submitted.iter().find(is_its).map(|it| it.submission.plan.matrix.name.to_string()))
}

/// How long Slurm may take to end tasks, beyond the grace of their workers.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often to look whether they have ended.
const LOOK: Duration = Duration::from_millis(500);

/// Has Slurm cancel everything of the matrix called `matrix`, or of all, and waits until nothing of it runs. Returns
/// the number of tasks that were waiting or running, by matrix.
///
/// # Errors
/// The submissions cannot be read, or Slurm does not do it.
pub(in crate::cli) async fn cancel(
    store: &Store,
    matrix: Option<&str>,
) -> Result<BTreeMap<String, usize>, Failure> {
    let _held = match load_submissions(store, matrix).map_err(Failure::store)? {
        none if none.is_empty() => return Ok(BTreeMap::new()),
        // Nobody may hand anything over meanwhile.
        _ => store.lock_queue().map_err(|error| Failure::store(error.into()))?,
    };
    let submitted = load_submissions(store, matrix).map_err(Failure::store)?;
    let Some(mut slurm) = Slurm::find() else {
        warn("Slurm's programs are not here, so what it has can only be ended where they are");
        return Ok(BTreeMap::new());
    };
    let names = names(&submitted);
    let refused = |error: QueueError| {
        Failure::new(Exit::StoreUnusable, error).hint("try again when Slurm answers; nothing was ended")
    };
    let tasks = slurm.poll(&names).await.map_err(refused)?;
    slurm.cancel(&names).await.map_err(refused)?;
    let grace = submitted.iter().flat_map(|it| it.submission.plan.envs.values()).map(|env| env.limits.grace);
    let bound = PATIENCE + grace.max().unwrap_or_default();
    wait_for_the_end(&mut slurm, &names, bound).await?;
    let mut ended: BTreeMap<String, usize> = BTreeMap::new();
    for it in &submitted {
        let is_live = |task: &&QueuedTask| task.name == it.submission.name && task.state.is_live();
        let live = tasks.iter().filter(is_live).count();
        if live > 0 || it.ticket.is_none() {
            *ended.entry(it.submission.plan.matrix.name.to_string()).or_default() += live;
        }
        // What was never handed over must not be handed over later.
        if it.ticket.is_none() {
            store.close_submission(&it.submission.name);
        }
    }
    Ok(ended)
}

/// Waits until no task of submissions with these names is live.
///
/// # Errors
/// Some still are after `bound`.
async fn wait_for_the_end(slurm: &mut Slurm, names: &[&str], bound: Duration) -> Result<(), Failure> {
    let began = Instant::now();
    loop {
        // A controller that does not answer for a moment is asked again.
        let live =
            slurm.poll(names).await.map(|tasks| tasks.iter().filter(|task| task.state.is_live()).count());
        if matches!(live, Ok(0)) {
            return Ok(());
        }
        if began.elapsed() >= bound {
            let what = match live {
                Ok(live) => format!("{} of Slurm were cancelled, and still run", count_text(live, "task")),
                Err(error) => error.to_string(),
            };
            let hint = format!("`squeue --name={}` shows them; try again", names.join(","));
            return Err(Failure::new(Exit::StoreUnusable, what).hint(hint));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Where the job with this id is, as a phrase, with its task: `queued (Resources), task 4711_3`.
pub(in crate::cli) fn place_text(place: &Whereabouts) -> String {
    let task = place.task.as_ref().map(|task| format!(", task {task}")).unwrap_or_default();
    format!("{}{task}", place.fate)
}
