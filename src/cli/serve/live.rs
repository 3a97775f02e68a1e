//! Reads the store for the live pages, as `status` and `report` do.
#![expect(clippy::disallowed_methods, reason = "a watched store is read at intervals")]

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use super::job::{distinct_label, job_view, started_at};
use crate::analysis::order::sort;
use crate::analysis::table::CSV_FILES;
use crate::analysis::{Cell, Study, analyse};
use crate::cli::calibrate::calibrations;
use crate::cli::needs::needs;
use crate::cli::start::next_command;
use crate::cli::status::{Seen, sensors, state_of, time_left};
use crate::cli::study::StudyArgs;
use crate::cli::{Exit, Failure, Global};
use crate::files::JobDir;
use crate::host::probe_host;
use crate::job::{Device, Job, State, Tally, varying_parameters};
use crate::plan::{Decided, Inventory, Plan, Present, decide, quote};
use crate::record::HostFacts;
use crate::report::{RunLinks, render_live};
use crate::serve::{Index, JobView, Progress, Report, RunningJob, Source};
use crate::store::{Store, StoreError, last_samples};
use crate::text::{jobs_text, with_causes};

/// The most plans with their progress in the index, and the most plans in memory.
const MOST_PLANS: usize = 20;

/// The relative URL from the page of a plan to those of jobs.
const JOBS: [&str; 3] = ["..", "..", "job"];

/// A store with viewers.
pub(super) struct LiveStore {
    store: Store,
    /// Quiet, because the same warnings would be printed after each reading.
    global: Global,
    /// The machine; `None` until it is needed.
    host: Option<HostFacts>,
    /// The last reading.
    seen: Option<Seen>,
    /// The saved plans, the latest first, with their times of saving.
    saved: Vec<(SystemTime, String)>,
    plans: HashMap<String, (SystemTime, Arc<Plan>)>,
    inventory: Inventory,
    /// A value that changes with every record.
    records: u64,
}

impl LiveStore {
    /// A store that is not read yet.
    pub(super) fn new(store: Store) -> LiveStore {
        let global = Global { store: store.root().to_owned(), quiet: true };
        LiveStore {
            store,
            global,
            host: None,
            seen: None,
            saved: Vec::new(),
            plans: HashMap::new(),
            inventory: Inventory::default(),
            records: 0,
        }
    }

    /// The plan called `name`, if it is among those of the last reading.
    fn plan(&mut self, name: &str) -> Option<Result<Arc<Plan>, StoreError>> {
        let saved_at = self.saved_at(name)?;
        if let Some((at, plan)) = self.plans.get(name)
            && *at == saved_at
        {
            return Some(Ok(Arc::clone(plan)));
        }
        let plan = match self.store.load_plan(name) {
            Ok(plan) => Arc::new(plan),
            Err(error) => return Some(Err(error)),
        };
        if self.plans.len() >= MOST_PLANS {
            self.plans.clear();
        }
        self.plans.insert(name.to_owned(), (saved_at, Arc::clone(&plan)));
        Some(Ok(plan))
    }

    fn saved_at(&self, name: &str) -> Option<SystemTime> {
        self.saved.iter().find(|(_, saved)| saved == name).map(|(at, _)| *at)
    }

    /// The decision about each listed job of `plan`. Stale jobs count as done, so the programs of this machine need not
    /// be probed.
    fn decided(&mut self, plan: &Plan) -> Vec<Decided> {
        let host = self.host.get_or_insert_with(probe_host);
        let needs = needs(plan, &self.inventory);
        let mut decided = decide(plan, &self.inventory, host, &Present::default(), &needs);
        decided.retain(Decided::is_listed);
        decided
    }

    fn progress_of(&mut self, plan: &Plan) -> Progress {
        let name = &plan.matrix.name;
        let decided = self.decided(plan);
        let inventory = &self.inventory;
        let mut states: Vec<(&Decided, State)> =
            decided.iter().map(|decided| (decided, state_of(decided, inventory))).collect();
        sort(&mut states, &plan.declared, |(decided, _)| decided.job.key());
        let tally: Tally = states.iter().map(|(_, state)| *state).collect();
        let varying = varying_parameters(decided.iter().map(|decided| decided.job.key()));
        let running = states.iter().map(|(decided, _)| &decided.job).filter(|job| inventory.is_running(job));
        let running: Vec<Job> = running.cloned().collect();
        let left = time_left(plan, inventory, &states);
        let progress = Progress {
            name: name.to_string(),
            description: plan.description.clone(),
            done: tally.of(State::Done),
            needed: tally.clone().without(State::NotNeeded).without(State::IfNeeded).jobs(),
            counts: format!("{}: {tally}", jobs_text(tally.jobs())),
            time_left: if left.jobs > 0 { left.to_string() } else { String::new() },
            running: running.iter().map(|job| self.running_job(job, &varying)).collect(),
            next: format!("orchestrate {}", next_command(&tally, &quote(name))),
            problem: None,
        };
        self.watch(running);
        progress
    }

    /// From now on, checks whether these `jobs` still run: the end of a killed `orchestrate` is not announced.
    fn watch(&mut self, jobs: Vec<Job>) {
        let Some(Seen { running, .. }) = &mut self.seen else { return };
        let is_new = |job: &Job| !running.iter().any(|known| known.id() == job.id());
        let new: Vec<Job> = jobs.into_iter().filter(is_new).collect();
        running.extend(new);
    }

    fn running_job(&self, job: &Job, varying: &[String]) -> RunningJob {
        let dir = self.store.job_dir(job);
        RunningJob {
            label: distinct_label(job, varying),
            directory: dir.name(),
            started_at: started_at(&dir),
        }
    }

    /// The study of the plan called `name`, as `orchestrate report` without options makes it.
    fn study(&mut self, name: &str) -> Result<Study, Failure> {
        let plan = match self.plan(name) {
            Some(plan) => plan.map_err(Failure::store)?,
            None => return Err(Failure::new(Exit::NothingSelected, format!("there is no plan `{name}`"))),
        };
        let args = StudyArgs::without_options();
        let study = args.reading().study(Plan::clone(&plan), &self.inventory, &self.store, &self.global)?;
        let devices: Vec<Device> = study.cells.iter().map(|cell| cell.job.key().device).collect();
        Ok(Study { noise: calibrations(&self.store, &self.inventory, &devices), ..study })
    }
}

impl Source for LiveStore {
    fn has_changed(&mut self) -> bool {
        let has_new_plan = || self.store.saved_plans().is_ok_and(|saved| saved != self.saved);
        self.seen.as_ref().is_none_or(|seen| seen.is_over(&self.store)) || has_new_plan()
    }

    fn read(&mut self) -> Result<(), String> {
        let (began, glimpse) = (Instant::now(), self.store.glimpse());
        self.saved = self.store.saved_plans().map_err(|error| with_causes(&error))?;
        self.inventory = self.store.load_inventory().map_err(|error| with_causes(&error))?;
        self.records = stamp(&self.inventory);
        // The pages of plans and jobs add the running ones.
        let running = Vec::new();
        self.seen = Some(Seen { glimpse, running, is_queued: false, began, took: began.elapsed() });
        Ok(())
    }

    fn results(&self, plan: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.records, self.saved_at(plan)).hash(&mut hasher);
        hasher.finish()
    }

    fn index(&mut self) -> Index {
        let names: Vec<String> = self.saved.iter().map(|(_, name)| name.clone()).collect();
        let (shown, others) = names.split_at(names.len().min(MOST_PLANS));
        Index {
            store: self.store.root().display().to_string(),
            plans: shown.iter().filter_map(|name| self.progress(name)).collect(),
            others: others.to_vec(),
            problems: self
                .inventory
                .problems
                .iter()
                .map(|problem| format!("{}: {}", problem.path.display(), problem.message))
                .collect(),
        }
    }

    fn progress(&mut self, plan: &str) -> Option<Progress> {
        Some(match self.plan(plan)? {
            Ok(plan) => self.progress_of(&plan),
            Err(error) => Progress {
                name: plan.to_owned(),
                next: "orchestrate verify".to_owned(),
                problem: Some(with_causes(&error)),
                ..Progress::default()
            },
        })
    }

    fn report(&mut self, plan: &str) -> Result<Report, String> {
        let study = match self.study(plan) {
            Ok(study) => study,
            Err(failure) if failure.exit == Exit::NothingToAggregate => {
                return Ok(Report::NoResults("No job has a result yet.".to_owned()));
            }
            Err(failure) => return Err(with_causes(&*failure.error)),
        };
        let has_page = |cell: &&Cell| self.store.job_dir(&cell.job).path().is_dir();
        let links = RunLinks::new(&JOBS, study.cells.iter().filter(has_page).map(|cell| &cell.job));
        let commands = StudyArgs::without_options().commands(&study);
        let files = render_live(&study, &analyse(&study), &links, &commands);
        files.map(Report::Files).map_err(|error| with_causes(&error))
    }

    fn table(&mut self, plan: &str, name: &str) -> Option<Vec<u8>> {
        let table = CSV_FILES.iter().find(|file| file.name == name)?;
        let study = self.study(plan).ok()?;
        let mut text = Vec::new();
        (table.rows)(&analyse(&study)).write_csv(&mut text).ok()?;
        Some(text)
    }

    fn job(&mut self, name: &str) -> Option<JobView> {
        let dir = self.store.job_dirs().ok()?.into_iter().find(|dir| dir.name() == name)?;
        let names: Vec<String> = self.saved.iter().take(MOST_PLANS).map(|(_, name)| name.clone()).collect();
        let plans: Vec<Arc<Plan>> = names.iter().filter_map(|name| self.plan(name)?.ok()).collect();
        let (view, running) = job_view(dir, &plans, &self.inventory, &self.store, &self.global);
        self.watch(running.into_iter().collect());
        Some(view)
    }

    fn sensors(&mut self, dir: &JobDir) -> String {
        let attempts = dir.attempts().unwrap_or_default();
        let samples = attempts.last().map(|attempt| last_samples(&attempt.telemetry())).unwrap_or_default();
        sensors(&samples).join(", ")
    }
}

/// A number that changes with every record.
fn stamp(inventory: &Inventory) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (id, standing) in &inventory.jobs {
        id.hash(&mut hasher);
        if let Some(record) = standing.record() {
            (record.attempt, record.ended_at).hash(&mut hasher);
        }
    }
    hasher.finish()
}
