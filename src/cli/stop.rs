//! `orchestrate stop`: ends what runs in a store.
//!
//! A run is asked to stop by a file with the name of its owner's lock, a job by a file in its attempt's directory.
//! Neither name is ever used twice, so nobody can be mistaken for another, whatever became of its process id. This also
//! works from another host. A worker without an owner is ended here.

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
use crate::lock::{Owners, ask_no_longer, ask_to_stop};
use crate::plan::quote;
use crate::run::stop::{ask_to_end, end_orphan, is_running};
use crate::store::{OpenAttempt, Store};
use crate::text::{count_text, did_you_mean};

/// The arguments of `orchestrate stop`.
#[derive(Debug, clap::Args)]
pub(super) struct StopArgs {
    /// The name of a matrix, or the label, the directory or at least four digits of the id of a job [default:
    /// everything that runs in the store].
    what: Option<String>,
    /// What tells the job from others with this label, such as `compile=true`; all conditions must hold.
    #[arg(value_name = "CONDITION")]
    conditions: Vec<String>,
}

impl StopArgs {
    /// The words of the user.
    fn words(&self) -> Vec<&String> {
        self.what.iter().chain(&self.conditions).collect()
    }
}

/// Ends what runs, and waits until it has ended.
pub(super) fn run(args: &StopArgs, global: &Global) -> Result<Exit, Failure> {
    end(&args.words(), global).map(|_| Exit::Done)
}

/// Ends what runs of `words`, and waits until it has ended. Returns whether there was something.
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

/// Ends what runs of the matrix or the job called `name`, and waits until it has ended. Returns whether there was
/// something.
pub(super) fn stop_named(name: &String, global: &Global) -> Result<bool, Failure> {
    end(&[name], global)
}

/// The command that stops what `words` name; everything without words.
fn command(words: &[&String], global: &Global) -> String {
    let what: String = words.iter().map(|word| format!(" {}", quote(word))).collect();
    format!("orchestrate stop{what}{}", store_flag(global))
}

/// What the user wants to stop.
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
                let what = format!("the store {} has no matrix and no job `{word}`", store.root().display());
                let near = did_you_mean(word, names.iter().map(String::as_str))
                    .or(failure.hint.filter(|hint| hint.starts_with("did you mean")));
                let near =
                    near.unwrap_or_else(|| format!("`{}` ends everything that runs", command(&[], global)));
                Err(Failure::new(Exit::NothingSelected, what).hint(near))
            }
            Err(failure) => Err(failure),
        }
    }
}

struct Stopping<'a> {
    store: &'a Store,
    global: &'a Global,
    /// The command that does the same again.
    again: String,
}

/// Something that was stopped.
struct Stopped {
    /// The name of its matrix.
    matrix: String,
    /// Whether its run goes on with other jobs.
    run_goes_on: bool,
}

/// How often to look whether something has ended.
const LOOK: Duration = Duration::from_millis(100);

/// How long something may take to end, beyond the grace of its worker.
const PATIENCE: Duration = Duration::from_secs(30);

impl Stopping<'_> {
    /// Returns whether there was something to stop.
    async fn stop(&self, wanted: &Wanted) -> Result<bool, Failure> {
        let stopped = match wanted {
            Wanted::Everything => self.stop_all(None).await?,
            Wanted::Matrix(name) => self.stop_all(Some(name)).await?,
            Wanted::Job(dir) => self.stop_job(dir).await?,
        };
        let flag = store_flag(self.global);
        match stopped.first().map(|it| (quote(&it.matrix), it.run_goes_on)) {
            None => {
                let what = match wanted {
                    Wanted::Everything => "nothing runs".to_owned(),
                    Wanted::Matrix(name) => format!("nothing of {name} runs"),
                    Wanted::Job(dir) => format!("{} does not run", dir.name()),
                };
                print_line(&format!("{what} in {}", self.store.root().display()))?;
            }
            Some((matrix, true)) => hint(
                self.global.quiet,
                &format!("its run goes on without it; `orchestrate resume {matrix}{flag}` runs it again"),
            ),
            Some((matrix, false)) => {
                hint(self.global.quiet, &format!("`orchestrate resume {matrix}{flag}` continues"));
            }
        }
        Ok(!stopped.is_empty())
    }

    /// Stops what was handed over of `matrix`, or of all, so that it starts nothing more, and then what runs.
    async fn stop_all(&self, matrix: Option<&str>) -> Result<Vec<Stopped>, Failure> {
        let cancelled = cancel(self.store, matrix).await;
        // A queue that does not answer keeps nothing else alive.
        let runs = self.stop_runs(matrix).await;
        let (cancelled, mut stopped) = (cancelled?, Vec::new());
        for (name, cancelled) in cancelled {
            for (queue, tasks) in cancelled.tasks {
                print_line(&format!("cancelled {} of {name} with {queue}", count_text(tasks, "task")))?;
            }
            stopped.push(Stopped { matrix: name, run_goes_on: false });
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
            ask_to_stop(&self.store.running(), &run.owner.name)?;
        }
        for run in runs {
            self.wait_for_run(&run).await?;
            let who = run.owner.describe();
            let job = run.job().map_or(String::new(), |job| format!("; it ran {job}"));
            print_line(&format!("stopped the run of {}: {who}{job}", run.matrix()))?;
            stopped.push(Stopped { matrix: run.matrix().to_owned(), run_goes_on: false });
        }
        for open in self.orphans()? {
            let name = open.attempt.provenance.matrix.name.to_string();
            if is_wanted(&name) {
                self.end(&open).await?;
                stopped.push(Stopped { matrix: name, run_goes_on: false });
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
                ask_to_end(&open.dir)?;
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
        Ok(vec![Stopped { matrix, run_goes_on: owner.is_some_and(|name| owners.is_at_work(name)) }])
    }

    /// Stops the job in `dir`, which does not run, if it waits in a queue.
    async fn stop_queued(&self, dir: &JobDir) -> Result<Vec<Stopped>, Failure> {
        let Some(cancelled) = cancel_job(self.store, dir).await? else { return Ok(Vec::new()) };
        let CancelledJob { matrix, queue } = cancelled;
        print_line(&format!("cancelled the task of {} with {queue}", dir.name()))?;
        Ok(vec![Stopped { matrix, run_goes_on: true }])
    }

    /// The attempts whose worker runs, but whose `orchestrate` died.
    fn orphans(&self) -> Result<Vec<OpenAttempt>, Failure> {
        let owners = Owners::of(self.store.running());
        // Nobody ever ran in a store without this directory.
        let by_locks = probe_locks(&self.store.running()).unwrap_or(true);
        let mut open = self.store.open_attempts(by_locks).map_err(Failure::store)?;
        open.retain(|open| !open.attempt.owner().is_some_and(|name| owners.is_at_work(name)));
        open.retain(|open| is_running(open, self.store));
        Ok(open)
    }

    /// Ends a worker whose `orchestrate` died.
    async fn end(&self, open: &OpenAttempt) -> Result<(), Failure> {
        let label = open.job.label();
        if !end_orphan(open, self.store, &mut Deaf).await? {
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
                ask_no_longer(&self.store.running(), &run.owner.name);
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

/// Whoever ends something tells what at the end.
pub(super) struct Deaf;

impl Observer for Deaf {
    fn event(&mut self, _: &Event<'_>) {}
}
