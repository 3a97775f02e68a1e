//! `orchestrate stop`: ends runs, jobs and orphaned workers of a store.
//!
//! A run is asked to stop by a file with the name of its owner's lock, a job by a file in its attempt's directory.
//! These names are never reused, unlike process ids, so the wrong process is never stopped. This also works from
//! another host. A worker without an owner is ended here.

use std::time::Duration;

use super::find::no_store;
use super::global::store_flag;
use super::others::OtherRun;
use super::output::{hint, print_line};
use super::pick::find_job;
use super::queue::{CancelledJob, cancel, cancel_job};
use super::runtime::wait_for;
use super::{Exit, Failure, Global};
use crate::event::{Event, Observer};
use crate::files::{JobDir, probe_locks};
use crate::lock::{Owners, request_stop, withdraw_stop_request};
use crate::plan::quote;
use crate::run::stop::{end_orphan, is_running, request_end};
use crate::store::{OpenAttempt, Store};
use crate::text::{count_text, did_you_mean};

/// The arguments of `orchestrate stop`.
#[derive(Debug, clap::Args)]
pub(super) struct StopArgs {
    /// The name of a matrix, or the label, the directory or at least four digits of the id of a job [default: all
    /// running jobs of the store].
    what: Option<String>,
    /// Conditions that select one of several jobs with this label, such as `compile=true`; the job must meet all.
    #[arg(value_name = "CONDITION")]
    conditions: Vec<String>,
}

impl StopArgs {
    /// The words of the user.
    fn words(&self) -> Vec<&String> {
        self.what.iter().chain(&self.conditions).collect()
    }
}

/// Ends the selected jobs, and waits until they have ended.
pub(super) fn run(args: &StopArgs, global: &Global) -> Result<Exit, Failure> {
    end(&args.words(), global).map(|_| Exit::Done)
}

/// Ends the running jobs that `words` name, and waits until they have ended. Returns whether there were any.
fn end(words: &[&String], global: &Global) -> Result<bool, Failure> {
    let store = Store::at(&global.store).map_err(Failure::store)?;
    if let Some(failure) = no_store(&store) {
        return Err(failure.hint("`--store DIR` names another store"));
    }
    wait_for(async {
        let wanted = Wanted::find(&store, words, global)?;
        Stopping { store: &store, global, again: command(words, global) }.stop(&wanted).await
    })?
}

/// Ends the running jobs of the matrix or the job called `name`, and waits until they have ended. Returns whether there
/// were any.
pub(super) fn stop_named(name: &String, global: &Global) -> Result<bool, Failure> {
    end(&[name], global)
}

/// The command that stops the matrix or job that `words` name; everything without words.
fn command(words: &[&String], global: &Global) -> String {
    let what: String = words.iter().map(|word| format!(" {}", quote(word))).collect();
    format!("orchestrate stop{what}{}", store_flag(global))
}

/// The jobs to stop.
enum Wanted {
    Everything,
    /// The runs of the matrix of this name.
    Matrix(String),
    /// The job in this directory.
    Job(JobDir),
}

impl Wanted {
    fn find(store: &Store, words: &[&String], global: &Global) -> Result<Wanted, Failure> {
        let [word, conditions @ ..] = words else { return Ok(Wanted::Everything) };
        let mut names = store.plan_names().map_err(Failure::store)?;
        names.extend(OtherRun::all(store).iter().map(|run| run.matrix().to_owned()));
        if conditions.is_empty() && names.contains(word) {
            return Ok(Wanted::Matrix((*word).clone()));
        }
        match find_job(store, words.iter().copied()) {
            Ok(found) => Ok(Wanted::Job(found.dir)),
            Err(failure) if failure.exit == Exit::NothingSelected && conditions.is_empty() => {
                let what = format!("the store {} has no matrix or job `{word}`", store.root().display());
                let near = did_you_mean(word, names.iter().map(String::as_str))
                    .or(failure.hint.filter(|hint| hint.starts_with("did you mean")));
                let near =
                    near.unwrap_or_else(|| format!("`{}` ends all running jobs", command(&[], global)));
                Err(Failure::new(Exit::NothingSelected, what).hint(near))
            }
            Err(failure) => Err(failure),
        }
    }
}

struct Stopping<'a> {
    store: &'a Store,
    global: &'a Global,
    /// The command for another attempt.
    again: String,
}

/// A stopped run or job.
struct Stopped {
    /// The name of its matrix.
    matrix: String,
    /// Whether its run continues with other jobs.
    run_continues: bool,
}

/// The interval of checks whether a process has ended.
const LOOK: Duration = Duration::from_millis(100);

/// How long a process may take to end, beyond the grace of its worker.
const PATIENCE: Duration = Duration::from_secs(30);

impl Stopping<'_> {
    /// Stops the `wanted` jobs. Returns whether there were any.
    async fn stop(&self, wanted: &Wanted) -> Result<bool, Failure> {
        let stopped = match wanted {
            Wanted::Everything => self.stop_all(None).await?,
            Wanted::Matrix(name) => self.stop_all(Some(name)).await?,
            Wanted::Job(dir) => self.stop_job(dir).await?,
        };
        let flag = store_flag(self.global);
        match stopped.first().map(|it| (quote(&it.matrix), it.run_continues)) {
            None => {
                let what = match wanted {
                    Wanted::Everything => "nothing runs".to_owned(),
                    Wanted::Matrix(name) => format!("no job of {name} runs"),
                    Wanted::Job(dir) => format!("{} does not run", dir.name()),
                };
                print_line(&format!("{what} in {}", self.store.root().display()))?;
            }
            Some((matrix, true)) => hint(
                self.global.quiet,
                &format!("its run continues without it; `orchestrate resume {matrix}{flag}` runs it again"),
            ),
            Some((matrix, false)) => {
                hint(self.global.quiet, &format!("`orchestrate resume {matrix}{flag}` continues"));
            }
        }
        Ok(!stopped.is_empty())
    }

    /// Stops the queued jobs of `matrix`, or of all matrices, so that they start no more, and then the running ones.
    async fn stop_all(&self, matrix: Option<&str>) -> Result<Vec<Stopped>, Failure> {
        let cancelled = cancel(self.store, matrix).await;
        // Everything else is stopped even if a queue does not answer.
        let runs = self.stop_runs(matrix).await;
        let (cancelled, mut stopped) = (cancelled?, Vec::new());
        for (name, cancelled) in cancelled {
            for (queue, tasks) in cancelled.tasks {
                print_line(&format!("cancelled {} of {name} with {queue}", count_text(tasks, "task")))?;
            }
            stopped.push(Stopped { matrix: name, run_continues: false });
        }
        stopped.extend(runs?);
        Ok(stopped)
    }

    /// Stops the runs of `matrix`, or all, and the workers whose `orchestrate` died.
    async fn stop_runs(&self, matrix: Option<&str>) -> Result<Vec<Stopped>, Failure> {
        let mut stopped = Vec::new();
        let is_wanted = |name: &str| matrix.is_none_or(|wanted| wanted == name);
        let runs: Vec<OtherRun> =
            OtherRun::all(self.store).into_iter().filter(|run| is_wanted(run.matrix())).collect();
        for run in &runs {
            request_stop(&self.store.running(), &run.owner.name)?;
        }
        for run in runs {
            self.wait_for_run(&run).await?;
            let owner = run.owner.describe();
            let job = run.job().map_or(String::new(), |job| format!("; it ran {job}"));
            print_line(&format!("stopped the run of {}: {owner}{job}", run.matrix()))?;
            stopped.push(Stopped { matrix: run.matrix().to_owned(), run_continues: false });
        }
        for open in self.orphans()? {
            let name = open.attempt.provenance.matrix.name.to_string();
            if is_wanted(&name) {
                self.end(&open).await?;
                stopped.push(Stopped { matrix: name, run_continues: false });
            }
        }
        Ok(stopped)
    }

    /// Stops the job in `dir` alone, if it runs.
    async fn stop_job(&self, dir: &JobDir) -> Result<Vec<Stopped>, Failure> {
        let Some(open) = self.store.open_attempt(dir) else { return self.stop_queued(dir).await };
        let owners = Owners::of(self.store.running());
        let owner = open.attempt.owner().filter(|name| owners.is_at_work(name));
        match owner {
            Some(owner) => {
                request_end(&open.dir)?;
                let is_over = || {
                    let now = self.store.open_attempt(dir);
                    now.is_none_or(|now| now.dir != open.dir) || !owners.is_at_work(owner)
                };
                self.wait(&open, is_over).await?;
                print_line(&format!("stopped {}", open.job.label()))?;
            }
            None if is_running(&open, self.store) => self.end(&open).await?,
            None => return Ok(Vec::new()),
        }
        let matrix = open.attempt.provenance.matrix.name.to_string();
        Ok(vec![Stopped { matrix, run_continues: owner.is_some_and(|name| owners.is_at_work(name)) }])
    }

    /// Stops the job in `dir`, which does not run, if it waits in a queue.
    async fn stop_queued(&self, dir: &JobDir) -> Result<Vec<Stopped>, Failure> {
        let Some(cancelled) = cancel_job(self.store, dir).await? else { return Ok(Vec::new()) };
        let CancelledJob { matrix, queue } = cancelled;
        print_line(&format!("cancelled the task of {} with {queue}", dir.name()))?;
        Ok(vec![Stopped { matrix, run_continues: true }])
    }

    /// The attempts whose worker runs, but whose `orchestrate` died.
    fn orphans(&self) -> Result<Vec<OpenAttempt>, Failure> {
        let owners = Owners::of(self.store.running());
        // A store without this directory was never used by a run.
        let by_locks = probe_locks(&self.store.running()).unwrap_or(true);
        let mut open = self.store.open_attempts(by_locks).map_err(Failure::store)?;
        open.retain(|open| !open.attempt.owner().is_some_and(|name| owners.is_at_work(name)));
        open.retain(|open| is_running(open, self.store));
        Ok(open)
    }

    /// Ends a worker whose `orchestrate` died.
    async fn end(&self, open: &OpenAttempt) -> Result<(), Failure> {
        let label = open.job.label();
        if !end_orphan(open, self.store, &mut SilentObserver).await? {
            return Err(self.still_runs(&format!("the worker of {label}")));
        }
        print_line(&format!("ended the worker of {label}, whose orchestrate had died"))
    }

    async fn wait_for_run(&self, run: &OtherRun) -> Result<(), Failure> {
        let owners = Owners::of(self.store.running());
        let grace = run.open.as_ref().map_or(Duration::ZERO, |open| open.attempt.limits.grace);
        let is_over = || !owners.is_at_work(&run.owner.name);
        match wait_until(is_over, grace + PATIENCE).await {
            true => {
                withdraw_stop_request(&self.store.running(), &run.owner.name);
                Ok(())
            }
            false => Err(self.still_runs(&format!("orchestrate ({})", run.owner.describe()))),
        }
    }

    async fn wait(&self, open: &OpenAttempt, is_over: impl Fn() -> bool) -> Result<(), Failure> {
        match wait_until(is_over, open.attempt.limits.grace + PATIENCE).await {
            true => Ok(()),
            false => Err(self.still_runs(&format!("the worker of {}", open.job.label()))),
        }
    }

    fn still_runs(&self, what: &str) -> Failure {
        Failure::new(Exit::StoreUnusable, format!("{what} was asked to stop, and still runs")).hint(format!(
            "it might be suspended, belong to another user, or be of an older version: try `{}` again, or end it with \
             `kill`",
            self.again
        ))
    }
}

/// Waits until `is_over`, for at most `bound`. Returns whether it is.
async fn wait_until(is_over: impl Fn() -> bool, bound: Duration) -> bool {
    let mut waited = Duration::ZERO;
    while !is_over() {
        if waited >= bound {
            return false;
        }
        tokio::time::sleep(LOOK).await;
        waited += LOOK;
    }
    true
}

/// An observer that prints nothing, because `stop` reports the results itself.
pub(super) struct SilentObserver;

impl Observer for SilentObserver {
    fn event(&mut self, _: &Event<'_>) {}
}
