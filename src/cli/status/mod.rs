//! `orchestrate status`: the progress of a plan and its results so far.
//!
//! [`overview`] computes the content, [`render`] the text; both are pure.

mod fold;
mod overview;
mod render;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use super::drift::{FileDrift, file_drift, renamed_hints};
use super::exit::leave;
use super::find::{find_plan, is_file, while_reading};
use super::global::store_flag;
use super::misread::misread_hints;
use super::output::{Layout, hint, is_reader_gone, print, print_bytes, print_json};
use super::queue::{QueueView, look, queue_view};
use super::select::{SelectArgs, Selection};
use super::stale::{Here, stale_hint};
use super::words::failure_hint;
use super::{Exit, Failure, Global};
use crate::files::JobDir;
use crate::job::{Job, JobId, State};
use crate::plan::{Decided, Inventory, Plan, Whereabouts, quote};
use crate::store::{Glimpse, Store, StoreError};

use overview::Overview;
pub(super) use overview::state_of;
use render::Extent;

/// The interval of `--watch`.
const WATCH_PERIOD: Duration = Duration::from_secs(2);

/// After this time, `--watch` reads the store even if nobody announced a change. An older version announces nothing,
/// and nor does somebody who edits or deletes a file.
const LOOK_ANYWAY: Duration = Duration::from_secs(300);

/// The least time between two questions to Slurm.
const QUEUE_PERIOD: Duration = Duration::from_secs(5);

/// The share of the time that `--watch` reads the store at most, as one of so many: a worker needs the processors.
const LOOK_SHARE: u32 = 50;

/// The last reading of `--watch`.
struct Seen {
    /// From before it.
    glimpse: Glimpse,
    /// The jobs that were running.
    running: Vec<Job>,
    /// Whether something is with Slurm, where changes show nowhere else.
    is_queued: bool,
    began: Instant,
    took: Duration,
}

impl Seen {
    /// Whether the store has to be read again.
    fn is_over(&self, store: &Store) -> bool {
        let Seen { glimpse, running, is_queued, began, took } = self;
        let since = began.elapsed();
        let has_changed = || glimpse.is_young() || store.glimpse() != *glimpse;
        // If everybody is killed, nobody is left to announce it.
        let has_ended = || running.iter().any(|job| !store.load_job(job).is_running(job));
        let queue_can_differ = *is_queued && since >= QUEUE_PERIOD;
        since >= LOOK_ANYWAY
            || queue_can_differ
            || (since >= *took * LOOK_SHARE && (has_changed() || has_ended()))
    }
}

/// Clears the screen but not the scrollback, and moves to the first line.
const CLEAR: &[u8] = b"\x1b[2J\x1b[H";

/// The arguments of `orchestrate status`.
#[derive(Debug, clap::Args)]
pub(super) struct StatusArgs {
    /// Name or file of a matrix [default: the last one that was run].
    plan: Option<String>,
    #[command(flatten)]
    select: SelectArgs,
    /// Include runs in the statistics that their marks leave out, such as contended ones.
    #[arg(long)]
    include_marked: bool,
    /// Keep what is printed up to date, until nothing is left to run or until Ctrl-C.
    #[arg(long)]
    watch: bool,
    /// Show every config and every failed job, however many there are.
    #[arg(long)]
    all: bool,
    /// Print JSON instead of tables; with `--watch`, one document per line.
    #[arg(long)]
    json: bool,
}

/// Prints the progress of the plan. Runs no job and changes no result.
pub(super) fn run(args: StatusArgs, global: &Global) -> Result<Exit, Failure> {
    let store = Store::at(&global.store).map_err(Failure::store)?;
    let find = || find_plan(&store, args.plan.as_deref());
    let (plan, here, read) = match args.watch {
        false => {
            let ((plan, here), inventory) = while_reading(&store, || (find(), Here::probe()));
            (plan?, here, Some(inventory))
        }
        // Every reading needs a glimpse from before it.
        true => (find()?, Here::probe(), None),
    };
    let selection = args.select.apply(&plan)?;
    let (is_saved, drift) = match is_file(args.plan.as_deref()) {
        false => (true, file_drift(&plan, Path::new(&plan.matrix.path))),
        true => {
            let saved = store.load_plan(&plan.matrix.name).ok();
            let drift = saved.as_ref().and_then(|saved| file_drift(saved, Path::new(&plan.matrix.path)));
            (saved.as_ref() == Some(&plan), drift)
        }
    };
    let mut look =
        Look { args: &args, global, store, plan, is_saved, drift, selection, here, read, asked: None };
    if args.watch {
        return look.watch();
    }
    let exit = look.once();
    leave(look);
    exit
}

/// The inputs of an overview.
struct Look<'a> {
    args: &'a StatusArgs,
    global: &'a Global,
    store: Store,
    plan: Plan,
    /// Whether a saved plan is the same, so that its name names it.
    is_saved: bool,
    drift: Option<FileDrift>,
    selection: Selection,
    here: Here,
    /// The first reading of the store, unless it is read when it is needed.
    read: Option<Result<Inventory, StoreError>>,
    /// What Slurm said last, and when it was asked.
    asked: Option<(Instant, BTreeMap<JobId, Whereabouts>)>,
}

impl Look<'_> {
    fn overview(&mut self) -> Result<Overview, Failure> {
        self.look().map(|(overview, _)| overview)
    }

    /// What there is now, and the jobs that are running.
    fn look(&mut self) -> Result<(Overview, Vec<Job>), Failure> {
        let read = self.read.take().unwrap_or_else(|| self.store.load_inventory());
        let inventory = read.map_err(Failure::store)?;
        let mut decided = self.here.decide(&self.plan, &inventory);
        decided.retain(|decided| self.selection.contains(decided.job.key()) && decided.is_listed());
        let mut overview = Overview::of(&self.plan, &inventory, &decided, self.args.include_marked);
        overview.drift = self.drift.clone();
        overview.queue = self.queue(&decided)?;
        let running = decided.into_iter().map(|decided| decided.job).filter(|job| inventory.is_running(job));
        let running = running.collect();
        if !self.args.watch {
            leave(inventory);
        }
        Ok((overview, running))
    }

    /// Where the jobs of `decided` are with Slurm that have no result yet.
    #[expect(clippy::disallowed_methods, reason = "Slurm is not asked too often")]
    fn queue(&mut self, decided: &[Decided]) -> Result<Vec<QueueView>, Failure> {
        if self.plan.envs.values().all(|env| env.executor.is_local()) {
            return Ok(Vec::new());
        }
        if self.asked.as_ref().is_none_or(|(at, _)| at.elapsed() >= QUEUE_PERIOD) {
            self.asked = Some((Instant::now(), look(&self.store, &self.plan)?));
        }
        let places = self.asked.as_ref().map(|(_, places)| places);
        let open = decided.iter().filter(|decided| decided.decision.runs());
        Ok(queue_view(open.filter_map(|decided| places?.get(&decided.job.id()))))
    }

    fn once(&mut self) -> Result<Exit, Failure> {
        let overview = self.overview()?;
        if self.args.json {
            print_json(&overview)?;
            return Ok(Exit::Done);
        }
        print(&self.text(&overview))?;
        for text in self.next_commands(&overview) {
            hint(self.global.quiet, &text);
        }
        Ok(Exit::Done)
    }

    #[expect(clippy::disallowed_methods, reason = "who watches does so in time")]
    fn watch(&mut self) -> Result<Exit, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut shown = String::new();
            let mut seen = None;
            loop {
                if seen.as_ref().is_none_or(|seen: &Seen| seen.is_over(&self.store)) {
                    let (began, glimpse) = (Instant::now(), self.store.glimpse());
                    let (overview, running) = self.look()?;
                    self.show_if_changed(&overview, &mut shown)?;
                    if overview.is_settled() {
                        return Ok(Exit::Done);
                    }
                    let is_queued = !overview.queue.is_empty();
                    seen = Some(Seen { glimpse, running, is_queued, began, took: began.elapsed() });
                }
                if is_reader_gone() {
                    return Ok(Exit::Done);
                }
                tokio::select! {
                    // Ctrl-C is the normal way to leave.
                    _ = tokio::signal::ctrl_c() => return Ok(Exit::Done),
                    () = tokio::time::sleep(WATCH_PERIOD) => {}
                }
            }
        })
    }

    fn show_if_changed(&self, overview: &Overview, shown: &mut String) -> Result<(), Failure> {
        let text = if self.args.json {
            format!("{}\n", serde_json::to_string(overview)?)
        } else {
            self.text(overview)
        };
        if text == *shown {
            return Ok(());
        }
        if Layout::of_stdout() != Layout::Plain && !self.args.json {
            print_bytes(CLEAR)?;
        }
        print(&text)?;
        *shown = text;
        Ok(())
    }

    fn text(&self, overview: &Overview) -> String {
        let layout = Layout::of_stdout();
        // A pipe has no height.
        let is_all = self.args.all || layout == Layout::Plain;
        render::text(overview, if is_all { Extent::All } else { Extent::Short }, layout)
    }

    /// The next commands to type.
    fn next_commands(&self, overview: &Overview) -> Vec<String> {
        let store = store_flag(self.global);
        let counts = &overview.counts;
        let mut found = Vec::new();
        if let Some(failure) = overview.failures.first() {
            let dir = JobDir::at(self.store.root().join(&failure.directory));
            found.push(failure_hint(&failure.outcome, &failure.key, &dir, failure.attempt, &store));
        }
        // A name means the saved plan. If that is another one, only the file names this plan.
        let (verb, name) = match self.is_saved {
            true => ("resume", quote(&self.plan.matrix.name)),
            false => ("run", quote(&overview.file)),
        };
        let again = format!("{verb} {name}{}", self.args.select.flags());
        if !overview.stale.is_empty() {
            found.push(stale_hint(&again, self.global));
        }
        if counts.of(State::Failed) + counts.of(State::Waiting) > 0 && counts.of(State::Running) == 0 {
            found.push(format!("`orchestrate {again}{store}` runs what is missing"));
        } else if counts.of(State::Running) > 0 {
            found.push(format!("`orchestrate status {name} --watch{store}` follows the run"));
        } else if counts.of(State::Done) > 0 {
            found.push(format!("`orchestrate report {name}{store}` makes tables and figures"));
        }
        found.extend(overview.drift.as_ref().map(|drift| drift.hint(self.global)));
        found.extend(renamed_hints(&overview.renamed, &overview.file));
        found.extend(misread_hints(&overview.misread, &self.plan, self.global));
        found
    }
}
