//! One attempt of the only job of a plan, by the engine of `run`.

use std::collections::BTreeMap;
use std::path::Path;

use super::task::Task;
use crate::analysis::conduct::Attempted;
use crate::cli::needs::ByMarks;
use crate::cli::output::say;
use crate::cli::refusal::site_failure;
use crate::cli::secrets::{find_secrets, report_guarded};
use crate::cli::stale::Here;
use crate::cli::{Exit, Failure, Global};
use crate::event::{Event, Narrator, Observer};
use crate::files::{AttemptDir, FILE_LIMIT, read_regular, tail};
use crate::job::{Job, WorkerTemplate};
use crate::matrix::Secret;
use crate::plan::{Decided, Decision, Estimator, Inventory, Invocation, Plan, quote};
use crate::record::{Record, text_without_secrets};
use crate::run::{DispatchError, RunOrder, Site, SiteError, dispatch};
use crate::store::Store;

/// The bytes of the standard output that are searched for lines of progress.
const STDOUT_LIMIT: u64 = 1 << 20;

/// The bytes of the standard error that are kept, to show its last lines.
const STDERR_LIMIT: u64 = 1 << 14;

/// The result of the attempt.
#[derive(Debug)]
pub(super) enum Tried {
    /// The worker's command cannot work, so nothing was started.
    Refused {
        /// The words of the command.
        command: Vec<String>,
        /// Why, as a sentence.
        why: String,
    },
    /// The user stopped it.
    Stopped,
    /// It ended.
    Ended(Box<Trial>),
}

/// An attempt that ended.
#[derive(Debug)]
pub(super) struct Trial {
    /// The words of the command.
    command: Vec<String>,
    /// Its record.
    pub(super) record: Record,
    measurement: Option<String>,
    iterations: Option<String>,
    stdout: String,
    /// The end of its standard error.
    pub(super) stderr: String,
}

impl Tried {
    /// The words of the command: as declared if the worker was not started, otherwise as called.
    pub(super) fn command(&self) -> &[String] {
        match self {
            Tried::Refused { command, .. } => command,
            Tried::Stopped => &[],
            Tried::Ended(trial) => &trial.command,
        }
    }
}

impl Trial {
    /// The attempt of `job` in `store`, if it left a record. `command` are the words by which its worker was called.
    /// All values of `secrets` are removed from the result.
    fn load(
        job: &Job,
        store: &Store,
        command: Vec<String>,
        secrets: &BTreeMap<String, Option<Secret>>,
    ) -> Result<Option<Trial>, Failure> {
        let dir = store.job_dir(job);
        let Some(record) = dir.load_record()? else { return Ok(None) };
        let attempt: AttemptDir = dir.attempt(record.attempt);
        let values = || secrets.values().flatten().map(Secret::reveal);
        let open = |text: &str| text_without_secrets(text, values());
        let text = |path: &Path| {
            let bytes = read_regular(path, FILE_LIMIT).ok()?;
            Some(open(&String::from_utf8_lossy(&bytes)))
        };
        let end = |path: &Path, limit| tail(path, limit).map(|text| open(&text)).unwrap_or_default();
        Ok(Some(Trial {
            command,
            measurement: text(&attempt.measurement()),
            iterations: text(&attempt.iterations()),
            stdout: end(&attempt.stdout(), STDOUT_LIMIT),
            stderr: end(&attempt.stderr(), STDERR_LIMIT),
            record,
        }))
    }

    /// The evidence for the remarks. `assumed` are the settings with default values.
    pub(super) fn attempted<'a>(&'a self, assumed: &'a [&'a str]) -> Attempted<'a> {
        Attempted {
            assumed,
            record: &self.record,
            measurement: self.measurement.as_deref(),
            iterations: self.iterations.as_deref(),
            stdout: &self.stdout,
        }
    }
}

/// Runs the first job of `task` that belongs on this host once, as `run` does, in a new store at `root`.
///
/// # Errors
/// No job belongs on this host (exit 4), or something other than the worker prevents the attempt.
pub(super) fn try_once(task: Task, root: &Path, global: &Global) -> Result<Tried, Failure> {
    let Task { plan, matrix } = task;
    let store = Store::create(root).map_err(Failure::store)?;
    let mut here = Here::probe();
    let mut decided = here.decide(&plan, &Inventory::default());
    match decided.iter().position(|decided| decided.decision.runs()) {
        Some(first) => decided = vec![decided.swap_remove(first)],
        None => return Err(not_here(&decided)),
    }
    let job = &decided[0].job;
    let plan = &Plan { jobs: vec![job.clone()], rules: BTreeMap::new(), ..plan };
    store.save_plan(plan).map_err(Failure::store)?;
    let mut programs = here.programs.map_err(|error| site_failure(error.into()))?;
    report_guarded(plan, &decided, &programs, global);
    programs.surroundings.secrets = find_secrets(plan, &decided, Some(&matrix))?;
    let site = match Site::probe(plan, &decided, programs) {
        Err(SiteError::Broken { why, .. }) => return Ok(Tried::Refused { command: declared(job), why }),
        probed => probed.map_err(site_failure)?,
    };
    let invocation = site.invocation(job, plan, &store.job_dir(job).attempt(1), None);
    let Invocation { argv: command, secrets, .. } = invocation.map_err(site_failure)?;
    if !global.quiet {
        let words: Vec<String> = command.iter().map(|word| quote(word)).collect();
        say(&format!("running the worker once: {}", words.join(" ")));
    }
    let order = RunOrder {
        store: &store,
        plan,
        decided: &decided,
        inventory: Inventory::default(),
        judge: &ByMarks,
        host: &here.host,
        // It does not affect how a worker follows the contract.
        cloud: None,
        site,
        keep_going: false,
        no_wait: false,
        join: false,
    };
    if engine(order, global)? {
        return Ok(Tried::Stopped);
    }
    let gone =
        || Failure::new(Exit::SomeFailed, "the attempt left no record, because its files were removed");
    Ok(Tried::Ended(Box::new(Trial::load(job, &store, command, &secrets)?.ok_or_else(gone)?)))
}

/// The failure if none of the jobs of `decided` can run here.
fn not_here(decided: &[Decided]) -> Failure {
    let why = decided.iter().find_map(|decided| match &decided.decision {
        Decision::NotHere { why } => Some(why.as_str()),
        _ => None,
    });
    let text = format!("the worker cannot be checked here: {}", why.unwrap_or("there is no timing job"));
    Failure::new(Exit::NothingSelected, text).hint("choose another device, or another env of the matrix")
}

/// The words of the worker's command, with placeholders.
fn declared(job: &Job) -> Vec<String> {
    match &job.key().worker {
        WorkerTemplate::Shipped => Vec::new(),
        WorkerTemplate::Command(words) => words.to_vec(),
    }
}

/// Runs `order`. Returns whether the user stopped it.
fn engine(order: RunOrder<'_>, global: &Global) -> Result<bool, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut listener = Listener { narrator: Narrator::new(Estimator::default()), is_quiet: global.quiet };
    let result = runtime.block_on(dispatch(order, &mut listener));
    // A thread that still waits for a lock must not delay the exit.
    runtime.shutdown_background();
    let summary = result.map_err(|error| match error {
        DispatchError::Site(error) => site_failure(error),
        DispatchError::Signals(_) => Failure::new(Exit::Unexpected, error),
        other => Failure::new(Exit::StoreUnusable, other).hint(
            "name another directory with `--keep DIR`, or one for the host's locks with ORCHESTRATE_LOCK_DIR",
        ),
    })?;
    Ok(summary.stopped_by.is_some() || summary.stopped_alone > 0)
}

/// Prints waits, warnings and notes during the attempt. The remarks describe its end.
struct Listener {
    narrator: Narrator,
    is_quiet: bool,
}

impl Observer for Listener {
    fn event(&mut self, event: &Event<'_>) {
        let line = self.narrator.narrate(event);
        let is_before_the_end = matches!(
            event,
            Event::Waiting(_)
                | Event::Stopping { .. }
                | Event::Note(_)
                | Event::Warning(_)
                | Event::GivenUp { .. }
        );
        if let Some(line) = line.filter(|_| is_before_the_end && !self.is_quiet) {
            say(&line.text);
        }
    }
}
