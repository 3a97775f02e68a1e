//! What is with a queue, for `status` and `explain`, and how `stop` ends it.
#![expect(clippy::disallowed_methods, reason = "a queue takes a while to end what it is asked to end")]

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

/// Jobs that were handed over, by where they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(in crate::cli) struct QueueView {
    /// `Slurm`, or the name of a host.
    pub(in crate::cli) queue: String,
    /// Where they are there, as a phrase.
    #[serde(rename = "where")]
    pub(in crate::cli) phrase: String,
    /// How many there are.
    pub(in crate::cli) jobs: usize,
}

/// A queue, and a phrase about a job that was handed to it.
pub(super) type Phrase = (String, String);

/// Where a job is.
pub(super) fn place_phrase(place: &Whereabouts) -> Phrase {
    (place.queue.name().to_owned(), place.fate.phrase(&place.queue))
}

/// How many jobs are at each of these places: by queue, the most common place first.
pub(super) fn phrases(places: impl Iterator<Item = Phrase>) -> Vec<(Phrase, usize)> {
    let mut found: BTreeMap<Phrase, usize> = BTreeMap::new();
    for place in places {
        *found.entry(place).or_default() += 1;
    }
    let mut found: Vec<(Phrase, usize)> = found.into_iter().collect();
    found.sort_by_key(|((queue, phrase), jobs)| (queue.clone(), Reverse(*jobs), phrase.clone()));
    found
}

/// What there is to wait for: `Slurm: 3 queued (Resources), 1 running on n2; mac-mini: 5 under way`.
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

/// Where the jobs of `plan` are that were handed over. Asks those who have them, if there is anything to ask.
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

/// Asks from outside of an async runtime, or within one: on a thread of its own.
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

/// A job that was handed over and is ended where it is.
#[derive(Debug)]
pub(in crate::cli) struct CancelledJob {
    /// The name of its matrix.
    pub(in crate::cli) matrix: String,
    /// `Slurm`, or the name of its host.
    pub(in crate::cli) queue: String,
}

/// Ends the job in `dir` where it was handed to: its task of Slurm, if no other job is in it, or the job alone on its
/// host. `None` if it is nowhere.
///
/// # Errors
/// Other jobs are in its task, the submissions cannot be read, or the queue does not do it.
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
        false => Err(waits_for_its_turn(&job, &queue, &matrix)),
    }
}

/// A host runs all that it was handed, and can end what runs.
fn waits_for_its_turn(job: &Job, host: &str, matrix: &str) -> Failure {
    let what = format!("{} does not run on {host} now: it waits for its turn, or has ended", job.label());
    Failure::new(Exit::StoreUnusable, what)
        .hint(format!("`orchestrate stop {}` ends all jobs of its matrix", quote(matrix)))
}

fn refused(queue: &str, error: impl Into<Box<dyn Error + Send + Sync>>) -> Failure {
    Failure::new(Exit::StoreUnusable, error).hint(format!("try again when {queue} answers"))
}

/// The command that shows what the worker of the job in `dir` prints on the host that it was handed to, as words;
/// `None` if it is on no host.
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

/// How long to wait before whoever still runs is cancelled once more.
const AGAIN: Duration = Duration::from_secs(5);

/// How often to look whether they have ended.
const LOOK: Duration = Duration::from_millis(500);

/// What was ended of a matrix.
#[derive(Debug, Default)]
pub(in crate::cli) struct Cancelled {
    /// How many tasks were waiting or running, by queue.
    pub(in crate::cli) tasks: BTreeMap<String, usize>,
}

/// Ends everything that was handed over of the matrix called `matrix`, or of all, and waits until nothing of it runs.
///
/// # Errors
/// The submissions cannot be read, or a queue does not do it.
pub(in crate::cli) async fn cancel(
    store: &Store,
    matrix: Option<&str>,
) -> Result<BTreeMap<String, Cancelled>, Failure> {
    let _held = match load_submissions(store, matrix).map_err(Failure::store)? {
        none if none.is_empty() => return Ok(BTreeMap::new()),
        // Nobody may hand anything over meanwhile.
        _ => lock_queue(store).await?,
    };
    let mut submitted = load_submissions(store, matrix).map_err(Failure::store)?;
    let mut queues = Queues::find();
    submitted.retain(|it| {
        let is_reached = queues.reaches(&it.submission);
        if !is_reached {
            let name = it.submission.queue().name().to_owned();
            warn(&format!(
                "the programs of {name} are not here, so what it has can only be ended where they are"
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
    wait_for_the_end(&mut queues, store, &submitted, bound, &unknown).await?;
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
        // What was never handed over must not be handed over later, or start if it was after all.
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
/// Some still are after `bound`, or nobody says so.
async fn wait_for_the_end(
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
        let everybody = handed.all(|it| asked.answers.contains_key(&it.submission.queue()));
        if live == 0 && everybody {
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
            // A controller that is killed forgets what it was told last. A run that had just begun was not found.
            queues.cancel(submitted).await;
            cancelled = Instant::now();
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Where a job is, as a phrase, with its task: `queued (Resources), task 4711_3`.
pub(in crate::cli) fn place_text(place: &Whereabouts) -> String {
    let is_slurm = place.queue == QueueId::Slurm;
    let task =
        place.task.as_ref().filter(|_| is_slurm).map(|task| format!(", task {task}")).unwrap_or_default();
    format!("{}{task}", place.fate.phrase(&place.queue))
}
