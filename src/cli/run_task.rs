//! `orchestrate run-task`: the command of a task of Slurm. Not for users.
//!
//! It runs the jobs of one task as `run` would on this host, under the same locks and the same gate, and shares the
//! store with all other tasks. If Slurm runs a task twice at the same time, the second one finds the jobs locked by the
//! first, waits, and then finds them done.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};

use super::clouds::contradiction_lines;
use super::needs::ByMarks;
use super::output::warn;
use super::progress::{Display, Style};
use super::refusal::site_failure;
use super::runtime::wait_for;
use super::secrets::load_secrets;
use super::{Exit, Failure, Global};
use crate::event::{Event, Observer, Summary};
use crate::host::{Programs, probe_cloud, probe_host};
use crate::job::{Job, JobId};
use crate::plan::{
    Decided, Decision, Estimator, Inventory, Leftovers, Needs, Plan, Present, SUBMISSION_SCHEMA, SharedPaths,
    Submission, decide, last_attempt,
};
use crate::record::HostFacts;
use crate::run::{RunOrder, Site, dispatch};
use crate::store::{Store, SubmissionFiles};
use crate::text::with_causes;

/// The arguments of `orchestrate run-task`.
#[derive(Debug, clap::Args)]
pub(super) struct RunTaskArgs {
    /// The frozen submission, as `run` wrote it.
    submission: PathBuf,
    /// The number of the task, from 0.
    task: usize,
}

/// Runs the jobs of a task that are not done yet.
pub(super) fn run(args: &RunTaskArgs, global: &Global) -> Result<Exit, Failure> {
    let not_one = || {
        let what = format!("{} is not a submission", args.submission.display());
        Failure::new(Exit::Usage, what).hint("`orchestrate run MATRIX.yaml` makes them for Slurm")
    };
    let files = SubmissionFiles::at(&args.submission).ok_or_else(not_one)?;
    if files.is_withdrawn() {
        warn(&format!("{} was stopped before it was known to be with Slurm", args.submission.display()));
        return Ok(Exit::Done);
    }
    run_submission(&files, args.task, global).map(|end| end.exit)
}

/// How a task ended.
#[derive(Debug)]
pub(super) struct TaskEnd {
    pub(super) exit: Exit,
    /// The signal that stopped it early, if one did.
    pub(super) stopped_by: Option<String>,
}

/// Runs the jobs of the task `number` of a submission, and saves which ones are left without a result.
pub(super) fn run_submission(
    files: &SubmissionFiles,
    number: usize,
    global: &Global,
) -> Result<TaskEnd, Failure> {
    let unusable = |error: Box<dyn Error + Send + Sync>| Failure::new(Exit::StoreUnusable, error);
    let submission = files.load().map_err(|error| unusable(error.into()))?;
    let task = Task::of(&submission, number, global)?;
    let (ended, left) = task.work(global);
    let leftovers = Leftovers { schema: SUBMISSION_SCHEMA, jobs: left };
    files.save_leftovers(number, &leftovers).map_err(|error| unusable(error.into()))?;
    ended
}

/// The jobs that a task left without a result, with the reasons.
type Left = BTreeMap<JobId, String>;

struct Task<'a> {
    submission: &'a Submission,
    number: usize,
    jobs: &'a [Job],
    store: Store,
}

impl<'a> Task<'a> {
    fn of(submission: &'a Submission, number: usize, global: &Global) -> Result<Task<'a>, Failure> {
        let jobs = submission.task(number);
        if jobs.is_empty() {
            let what = format!("{} has no task {number}, only {}", submission.name, submission.tasks());
            return Err(Failure::new(Exit::Usage, what));
        }
        let store = match &submission.shared {
            Some(SharedPaths { directory, store, .. }) => {
                // A directory that is not on this node: Slurm silently starts the task elsewhere.
                std::env::set_current_dir(directory).map_err(|error| {
                    Failure::new(Exit::Unexpected, format!("cannot enter {directory}: {error}"))
                        .hint("the project and the store must be on a file system that all nodes share")
                })?;
                Path::new(store)
            }
            None => &global.store,
        };
        let store = Store::open(store).map_err(Failure::store)?;
        Ok(Task { submission, number, jobs, store })
    }

    /// Runs the jobs that are to run. Also returns the jobs without a result, even after an error.
    fn work(&self, global: &Global) -> (Result<TaskEnd, Failure>, Left) {
        let host = probe_host();
        let plan = Plan { jobs: self.jobs.to_vec(), ..self.submission.plan.clone() };
        let inventory = self.inventory();
        let mut decided = decide(&plan, &inventory, &host, &Present::default(), &Needs::default());
        self.rerun(&mut decided, &inventory);
        let mut left: Left = decided.iter().filter_map(left_by_decision).collect();
        if !decided.iter().any(|decided| decided.decision.runs()) {
            let exit = if left.is_empty() { Exit::Done } else { Exit::SomeFailed };
            return (Ok(TaskEnd { exit, stopped_by: None }), left);
        }
        let site = match site(&plan, &decided, &host) {
            Ok(site) => site,
            Err(failure) => {
                let why = with_causes(&*failure.error);
                let running = decided.iter().filter(|decided| decided.decision.runs());
                left.extend(running.map(|decided| (decided.job.id(), why.clone())));
                return (Err(failure), left);
            }
        };
        let cloud = probe_cloud();
        contradiction_lines(&plan, &decided, cloud.as_ref()).iter().for_each(|line| warn(line));
        let style = if global.quiet { Style::Quiet } else { Style::Lines };
        let display = Display::new(Estimator::default(), style);
        let mut observer = TaskObserver { display, left: &mut left };
        let order = RunOrder {
            store: &self.store,
            plan: &plan,
            decided: &decided,
            inventory,
            judge: &ByMarks,
            host: &host,
            cloud,
            site,
            keep_going: self.submission.keep_going,
            no_wait: false,
            join: true,
        };
        let ended = match wait_for(dispatch(order, &mut observer)) {
            Ok(Ok(summary)) => Ok(TaskEnd { exit: exit_of(&summary), stopped_by: summary.stopped_by }),
            Ok(Err(error)) => Err(Failure::new(Exit::Unexpected, error)),
            Err(error) => Err(error.into()),
        };
        (ended, left)
    }

    /// The inventory of the task's jobs, and of smaller batches of the same submission, which can have run out of
    /// memory. Reading a whole store can take longer than a job.
    fn inventory(&self) -> Inventory {
        let largest = self.jobs.iter().map(|job| job.key().batch).max().unwrap_or(0);
        let smaller = self.submission.plan.jobs.iter().filter(|job| job.key().batch < largest);
        let mut found = Inventory::default();
        for job in self.jobs.iter().chain(smaller) {
            if found.jobs.contains_key(&job.id()) {
                continue;
            }
            let Inventory { jobs, reruns, accepted, problems } = self.store.load_job(job);
            found.jobs.extend(jobs);
            found.reruns.extend(reruns);
            found.accepted.extend(accepted);
            found.problems.extend(problems);
        }
        found
    }

    /// Turns done jobs that are to run again into re-runs, unless they have been repeated meanwhile.
    fn rerun(&self, decided: &mut [Decided], inventory: &Inventory) {
        let before: BTreeMap<JobId, u32> =
            self.submission.placed().map(|(job, _, before)| (job.id(), before)).collect();
        for Decided { job, decision } in decided {
            let id = job.id();
            let is_done = matches!(decision, Decision::Skip | Decision::Stale { .. });
            let is_as_it_was = before.get(&id) == Some(&last_attempt(inventory.jobs.get(&id)));
            if is_done && is_as_it_was && self.submission.reruns.contains(&id) {
                let why = format!("task {} of {} was to repeat it", self.number, self.submission.name);
                *decision = Decision::Rerun { why };
            }
        }
    }
}

/// The site of the jobs on this node.
fn site(plan: &Plan, decided: &[Decided], host: &HostFacts) -> Result<Site, Failure> {
    let mut programs = Programs::probe(host).map_err(|error| site_failure(error.into()))?;
    programs.surroundings.secrets = load_secrets(plan, decided)?;
    Site::probe(plan, decided, programs).map_err(site_failure)
}

fn exit_of(summary: &Summary) -> Exit {
    match &summary.stopped_by {
        Some(_) if summary.left() > 0 => Exit::Interrupted,
        _ if summary.is_short() => Exit::SomeFailed,
        _ => Exit::Done,
    }
}

/// Why a job has no result on this node; `None` if it runs or has one.
fn left_by_decision(decided: &Decided) -> Option<(JobId, String)> {
    Some((decided.job.id(), decided.decision.obstacle()?.to_owned()))
}

/// Prints the events of a task, and collects the jobs that it leaves without a record.
struct TaskObserver<'a> {
    display: Display,
    left: &'a mut Left,
}

impl Observer for TaskObserver<'_> {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Left { job, decision } => {
                let decided = Decided { job: (*job).clone(), decision: (*decision).clone() };
                self.left.extend(left_by_decision(&decided));
            }
            Event::GivenUp { job, why, .. } => drop(self.left.insert(job.id(), (*why).to_owned())),
            _ => {}
        }
        self.display.event(event);
    }
}
