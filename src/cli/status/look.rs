//! Reads the store for `status`, repeatedly with `--watch`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::args::StatusArgs;
use super::overview::Overview;
use super::render::{self, Extent};
use crate::cli::drift::FileDrift;
use crate::cli::output::Layout;
use crate::cli::queue::{QueueView, look, queue_view};
use crate::cli::select::Selection;
use crate::cli::stale::Here;
use crate::cli::{Failure, Global};
use crate::job::{Job, JobId};
use crate::plan::{Decided, Inventory, Plan, Whereabouts};
use crate::store::{Glimpse, Store, StoreError};

/// After this time, a watched store is read even without an announced change. Older versions announce none, and
/// neither do edits and deletions of files by the user.
const MAX_PERIOD: Duration = Duration::from_secs(300);

/// The least time between two questions to Slurm.
const QUEUE_PERIOD: Duration = Duration::from_secs(5);

/// At most one part in this many of the time is spent reading a watched store, because a worker needs the processors.
const LOOK_SHARE: u32 = 50;

/// The last reading of a store that is watched.
pub(in crate::cli) struct Seen {
    /// Taken before it.
    pub(in crate::cli) glimpse: Glimpse,
    /// The jobs that were running.
    pub(in crate::cli) running: Vec<Job>,
    /// Whether jobs are with Slurm, whose changes are not announced in the store.
    pub(in crate::cli) is_queued: bool,
    pub(in crate::cli) began: Instant,
    pub(in crate::cli) took: Duration,
}

impl Seen {
    /// Whether the store has to be read again.
    pub(in crate::cli) fn is_over(&self, store: &Store) -> bool {
        let Seen { glimpse, running, is_queued, began, took } = self;
        let since = began.elapsed();
        let has_changed = || glimpse.is_young() || store.glimpse() != *glimpse;
        // If all processes of a run are killed, none is left to announce it.
        let has_ended = || running.iter().any(|job| !store.load_job(job).is_running(job));
        let queue_can_differ = *is_queued && since >= QUEUE_PERIOD;
        since >= MAX_PERIOD
            || queue_can_differ
            || (since >= *took * LOOK_SHARE && (has_changed() || has_ended()))
    }
}

/// The state of the plan at one moment.
pub(super) struct Sighting {
    pub(super) overview: Overview,
    /// The jobs that are running.
    pub(super) running: Vec<Job>,
    /// All selected jobs.
    pub(super) ids: Vec<JobId>,
    pub(super) inventory: Inventory,
}

/// The inputs of an overview.
pub(super) struct Look<'a> {
    pub(super) args: &'a StatusArgs,
    pub(super) global: &'a Global,
    pub(super) store: Store,
    pub(super) plan: Plan,
    /// Whether the saved plan of this name is the same, so that commands can use its name.
    pub(super) is_saved: bool,
    pub(super) drift: Option<FileDrift>,
    pub(super) selection: Selection,
    pub(super) here: Here,
    /// The first reading of the store, if it was read in advance.
    pub(super) read: Option<Result<Inventory, StoreError>>,
    /// The last answer of the queues, and when they were asked.
    pub(super) asked: Option<(Instant, BTreeMap<JobId, Whereabouts>)>,
}

impl Look<'_> {
    /// The current state.
    pub(super) fn look(&mut self) -> Result<Sighting, Failure> {
        let read = self.read.take().unwrap_or_else(|| self.store.load_inventory());
        let inventory = read.map_err(Failure::store)?;
        let mut decided = self.here.decide(&self.plan, &inventory);
        decided.retain(|decided| self.selection.contains(decided.job.key()) && decided.is_listed());
        let mut overview = Overview::of(&self.plan, &inventory, &decided, self.args.include_marked);
        overview.drift = self.drift.clone();
        overview.queue = self.queue(&decided)?;
        let jobs: Vec<Job> = decided.into_iter().map(|decided| decided.job).collect();
        let running = jobs.iter().filter(|job| inventory.is_running(job)).cloned().collect();
        let ids = jobs.iter().map(Job::id).collect();
        Ok(Sighting { overview, running, ids, inventory })
    }

    /// The current state, and when it was read.
    #[expect(clippy::disallowed_methods, reason = "watching measures time")]
    pub(super) fn see(&mut self) -> Result<(Seen, Sighting), Failure> {
        let (began, glimpse) = (Instant::now(), self.store.glimpse());
        let sighting = self.look()?;
        let is_queued = !sighting.overview.queue.is_empty();
        let running = sighting.running.clone();
        Ok((Seen { glimpse, running, is_queued, began, took: began.elapsed() }, sighting))
    }

    /// The places in queues of those jobs of `decided` that have no result yet.
    #[expect(clippy::disallowed_methods, reason = "Slurm is not asked too often")]
    pub(super) fn queue(&mut self, decided: &[Decided]) -> Result<Vec<QueueView>, Failure> {
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

    /// The overview as text.
    pub(super) fn text(&self, overview: &Overview) -> String {
        let layout = Layout::of_stdout();
        // A pipe has no height.
        let is_all = self.args.all || layout == Layout::Plain;
        render::text(overview, if is_all { Extent::All } else { Extent::Short }, layout)
    }
}
