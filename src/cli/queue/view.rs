//! Jobs in queues: `status` and `explain` show them, `stop` ends them.
#![expect(clippy::disallowed_methods, reason = "a queue takes a while to end tasks")]

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::error::Error;
use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::queues::Queues;
use super::{load_submissions, lock_queue};
use crate::cli::output::warn;
use crate::cli::{Exit, Failure};
use crate::files::JobDir;
use crate::job::{Job, JobId};
use crate::plan::{Answers, Fate, Plan, QueueId, QueuedTask, Submitted, Whereabouts, quote, whereabouts};
use crate::store::Store;
use crate::text::count_text;

/// The jobs that are at one place in a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(in crate::cli) struct QueueView {
    /// `Slurm`, or the name of a host.
    pub(in crate::cli) queue: String,
    /// Their place, as a phrase: `queued (Resources)`.
    #[serde(rename = "where")]
    pub(in crate::cli) phrase: String,
    /// The number of jobs.
    pub(in crate::cli) jobs: usize,
}

/// A queue, and a phrase about a job that was handed to it.
pub(super) type Phrase = (String, String);

pub(super) fn place_phrase(place: &Whereabouts) -> Phrase {
    (place.queue.name().to_owned(), place.fate.phrase(&place.queue))
}

/// The number of jobs at each of these places: by queue, the most common place first.
pub(super) fn phrases(places: impl Iterator<Item = Phrase>) -> Vec<(Phrase, usize)> {
    let mut found: BTreeMap<Phrase, usize> = BTreeMap::new();
    for place in places {
        *found.entry(place).or_default() += 1;
    }
    let mut found: Vec<(Phrase, usize)> = found.into_iter().collect();
    found.sort_by_key(|((queue, phrase), jobs)| (queue.clone(), Reverse(*jobs), phrase.clone()));
    found
}

/// The places and their numbers of jobs: `Slurm: 3 queued (Resources), 1 running on n2; mac-mini: 5 under way`.
pub(super) fn waiting_text(found: &[(Phrase, usize)]) -> String {
    let by_queue = found.chunk_by(|((left, _), _), ((right, _), _)| left == right);
    let text = |places: &[(Phrase, usize)]| {
        let words: Vec<String> =
            places.iter().map(|((_, phrase), jobs)| format!("{jobs} {phrase}")).collect();
        let queue = places.first().map_or("", |((queue, _), _)| queue.as_str());
        format!("{queue}: {}", words.join(", "))
    };
    by_queue.map(text).collect::<Vec<_>>().join("; ")
}

/// The places of the jobs of `plan` that were handed over. Asks their queues, unless there are no submissions.
///
/// # Errors
/// The submissions cannot be read.
pub(in crate::cli) fn look(store: &Store, plan: &Plan) -> Result<BTreeMap<JobId, Whereabouts>, Failure> {
    let submitted = load_submissions(store, Some(plan.matrix.name.as_str())).map_err(Failure::store)?;
    if submitted.is_empty() {
        return Ok(BTreeMap::new());
    }
    Ok(whereabouts(&submitted, &ask_now(store, &submitted)))
}

/// Asks on a separate thread, because the caller may or may not run in an async runtime.
fn ask_now(store: &Store, submitted: &[Submitted]) -> Answers {
    let ask = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_or_else(
            |_| Answers::new(),
            |runtime| runtime.block_on(Queues::find().ask(store, submitted)).answers,
        )
    };
    thread::scope(|scope| scope.spawn(ask).join().unwrap_or_else(|panic| resume_unwind(panic)))
}

/// The jobs of `places` by where they are.
pub(in crate::cli) fn queue_view<'a>(places: impl Iterator<Item = &'a Whereabouts>) -> Vec<QueueView> {
    let found = phrases(places.map(place_phrase));
    found.into_iter().map(|((queue, phrase), jobs)| QueueView { queue, phrase, jobs }).collect()
}

/// A job that was ended in its queue.
#[derive(Debug)]
pub(in crate::cli) struct CancelledJob {
    /// The name of its matrix.
    pub(in crate::cli) matrix: String,
    /// `Slurm`, or the name of its host.
    pub(in crate::cli) queue: String,
}

/// Ends the job in `dir` in its queue: its task of Slurm, if no other job is in it, or only the job on its host.
/// `None` if it is in no queue.
///
/// # Errors
/// Other jobs are in its task, the submissions cannot be read, or the queue does not end it.
pub(in crate::cli) async fn cancel_job(store: &Store, dir: &JobDir) -> Result<Option<CancelledJob>, Failure> {
    let submitted = load_submissions(store, None).map_err(Failure::store)?;
    let jobs = submitted.iter().flat_map(|it| it.submission.plan.jobs());
    let Some(job) = jobs.into_iter().find(|job| job.dir_name() == dir.name()) else { return Ok(None) };
    let mut queues = Queues::find();
    let asked = queues.ask(store, &submitted).await;
    let places = whereabouts(&submitted, &asked.answers);
    let place = places.get(&job.id()).filter(|place| place.fate.is_live());
    let Some((place, task)) = place.and_then(|place| Some((place, place.task.as_ref()?))) else {
        return Ok(None);
    };
    let is_its = |it: &&Submitted| it.submission.name == place.submission;
    let Some(of_it) = submitted.iter().find(is_its) else { return Ok(None) };
    let (queue, matrix) = (place.queue.name().to_owned(), of_it.submission.plan.matrix.name.to_string());
    if place.fate == Fate::Unknown {
        return Err(refused(&queue, asked.troubles.join("; ")));
    }
    let ended = match &place.queue {
        QueueId::Ssh { .. } => match queues.host(&of_it.submission) {
            Some(host) => host.stop(&dir.name()).await,
            None => return Ok(None),
        },
        QueueId::Slurm if place.jobs > 1 => {
            let what =
                format!("{} is {}, in a task with {} jobs", job.label(), place_text(place), place.jobs);
            return Err(Failure::new(Exit::StoreUnusable, what).hint(format!(
                "`scancel {task}` ends all of them; `orchestrate stop JOB` ends one once it runs"
            )));
        }
        QueueId::Slurm => queues.cancel_task(task).await.map(|()| true),
    };
    match ended.map_err(|error| refused(&queue, error))? {
        true => Ok(Some(CancelledJob { matrix, queue })),
        false => Err(not_running_now(&job, &queue, &matrix)),
    }
}

/// A host can end one job only while it runs.
fn not_running_now(job: &Job, host: &str, matrix: &str) -> Failure {
    let what = format!("{} does not run on {host} now: it waits for its turn, or has ended", job.label());
    Failure::new(Exit::StoreUnusable, what)
        .hint(format!("`orchestrate stop {}` ends all jobs of its matrix", quote(matrix)))
}

fn refused(queue: &str, error: impl Into<Box<dyn Error + Send + Sync>>) -> Failure {
    Failure::new(Exit::StoreUnusable, error).hint(format!("try again when {queue} answers"))
}

/// The command, as words, that shows the output of the worker of the job in `dir`, on the host that has the job. `None`
/// if no host has it.
///
/// # Errors
/// The submissions cannot be read.
pub(in crate::cli) fn logs_elsewhere(store: &Store, dir: &JobDir) -> Result<Option<Vec<String>>, Failure> {
    let submitted = load_submissions(store, None).map_err(Failure::store)?;
    let has_it = |it: &&Submitted| it.submission.plan.jobs.iter().any(|job| job.dir_name() == dir.name());
    let Some(it) = submitted.iter().rev().find(has_it) else {
        return Ok(None);
    };
    let mut queues = Queues::find();
    let Some(host) = queues.host(&it.submission) else { return Ok(None) };
    let words = host.logs_command(&dir.name());
    words.map(Some).map_err(|error| Failure::new(Exit::Unexpected, error))
}

/// How long Slurm may take to end tasks, beyond the grace of their workers.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long to wait before tasks that still run are cancelled again.
const AGAIN: Duration = Duration::from_secs(5);

/// The interval of checks whether they have ended.
const LOOK: Duration = Duration::from_millis(500);

/// The tasks of one matrix that were ended.
#[derive(Debug, Default)]
pub(in crate::cli) struct Cancelled {
    /// How many tasks were waiting or running, by queue.
    pub(in crate::cli) tasks: BTreeMap<String, usize>,
}

/// Ends all jobs of the matrix called `matrix`, or of all, that were handed over, and waits until none of them runs.
///
/// # Errors
/// The submissions cannot be read, or a queue does not end them.
pub(in crate::cli) async fn cancel(
    store: &Store,
    matrix: Option<&str>,
) -> Result<BTreeMap<String, Cancelled>, Failure> {
    let _held = match load_submissions(store, matrix).map_err(Failure::store)? {
        none if none.is_empty() => return Ok(BTreeMap::new()),
        // No other process must hand over jobs meanwhile.
        _ => lock_queue(store).await?,
    };
    let mut submitted = load_submissions(store, matrix).map_err(Failure::store)?;
    let mut queues = Queues::find();
    submitted.retain(|it| {
        let is_reached = queues.reaches(&it.submission);
        if !is_reached {
            let name = it.submission.queue().name().to_owned();
            warn(&format!(
                "the programs of {name} are not on this machine, so its jobs can only be ended where they are"
            ));
        }
        is_reached
    });
    let asked = queues.ask(store, &submitted).await;
    let unknown = asked.troubles.join("; ");
    let troubles = queues.cancel(&submitted).await;
    if !troubles.is_empty() {
        return Err(Failure::new(Exit::StoreUnusable, troubles.join("; "))
            .hint("try again when it answers; not everything was ended"));
    }
    let grace = submitted.iter().flat_map(|it| it.submission.plan.envs.values()).map(|env| env.limits.grace);
    let bound = PATIENCE + grace.max().unwrap_or_default();
    wait_until_ended(&mut queues, store, &submitted, bound, &unknown).await?;
    let mut ended: BTreeMap<String, Cancelled> = BTreeMap::new();
    for it in &submitted {
        let queue = it.submission.queue();
        let tasks = asked.answers.get(&queue).map(Vec::as_slice).unwrap_or_default();
        let is_live = |task: &&QueuedTask| task.name == it.submission.name && task.state.is_live();
        let live = tasks.iter().filter(is_live).count();
        if live > 0 || it.ticket.is_none() {
            let of_matrix = ended.entry(it.submission.plan.matrix.name.to_string()).or_default();
            *of_matrix.tasks.entry(queue.name().to_owned()).or_default() += live;
        }
        // A submission without a ticket must not be handed over later, nor start if it was handed over after all.
        if it.ticket.is_none() {
            let withdrawn = store.withdraw_submission(&it.submission.name);
            withdrawn.map_err(|error| Failure::store(error.into()))?;
        }
    }
    Ok(ended)
}

/// Waits until no task of `submitted` is live.
///
/// # Errors
/// A task is still live after `bound`, or a queue has not answered until then.
async fn wait_until_ended(
    queues: &mut Queues,
    store: &Store,
    submitted: &[Submitted],
    bound: Duration,
    trouble: &str,
) -> Result<(), Failure> {
    let began = Instant::now();
    let (mut trouble, mut cancelled) = (trouble.to_owned(), began);
    loop {
        // A queue that does not answer for a moment is asked again.
        let asked = queues.ask(store, submitted).await;
        let live = asked.answers.values().flatten().filter(|task| task.state.is_live()).count();
        let mut handed = submitted.iter().filter(|it| it.ticket.is_some());
        let all_answered = handed.all(|it| asked.answers.contains_key(&it.submission.queue()));
        if live == 0 && all_answered {
            return Ok(());
        }
        if !asked.troubles.is_empty() {
            trouble = asked.troubles.join("; ");
        }
        if began.elapsed() >= bound {
            let what = match live {
                0 => trouble,
                live => format!("{} were cancelled, and still run", count_text(live, "task")),
            };
            let hint = "`orchestrate status` shows them; try again".to_owned();
            return Err(Failure::new(Exit::StoreUnusable, what).hint(hint));
        }
        if cancelled.elapsed() >= AGAIN {
            // A killed controller forgets its last commands, and a run that had just begun was not found.
            queues.cancel(submitted).await;
            cancelled = Instant::now();
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The place of a job with its task: `queued (Resources), task 4711_3`.
pub(in crate::cli) fn place_text(place: &Whereabouts) -> String {
    let is_slurm = place.queue == QueueId::Slurm;
    let task =
        place.task.as_ref().filter(|_| is_slurm).map(|task| format!(", task {task}")).unwrap_or_default();
    format!("{}{task}", place.fate.phrase(&place.queue))
}
