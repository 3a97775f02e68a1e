//! The overview of a plan: every config with its jobs by state and its throughput, and every failure with its reason.
//! Pure. It is also the JSON of `status --json`.

use std::collections::{BTreeMap, HashMap};

use serde::{Serialize, Serializer};

use crate::analysis::group::Row;
use crate::analysis::marks::mark_names;
use crate::analysis::order::sort;
use crate::analysis::{Study, judge};
use crate::cli::drift::FileDrift;
use crate::cli::marked::study;
use crate::cli::problem::ProblemView;
use crate::cli::queue::QueueView;
use crate::cli::stale::{stale_reasons, unconfirmed_jobs};
use crate::job::{ConfigOf, JobId, Key, State, Tally, varying_parameters};
use crate::plan::{
    Decided, Decision, Estimator, Inventory, Misreadings, NotDone, Plan, Renamed, Standing, TimeLeft,
    misreadings, renamed, state,
};
use crate::protocol::SampleUnit;
use crate::record::{Outcome, Record};
use crate::stats::Interval;

/// The version of the `--json` format.
///
/// Changelog: 1, the first; later extended by `stale`, `unconfirmed`, `misread`, `renamed`, `drift`, `kept`,
/// `row_marks`, `interval` and `queue`.
const OVERVIEW_SCHEMA: u32 = 1;

/// The progress of a plan.
#[derive(Debug, Serialize)]
pub(super) struct Overview {
    schema: u32,
    /// The matrix's name.
    pub(super) matrix: String,
    /// Its file.
    pub(super) file: String,
    /// All selected jobs. Stale ones count as done.
    #[serde(serialize_with = "counts_by_state")]
    pub(super) counts: Tally,
    /// For the jobs that are waiting, failed or running.
    pub(super) time_left: TimeLeft,
    /// Whether the statistics include runs that their marks would leave out.
    pub(super) include_marked: bool,
    /// Names of the parameters that differ between jobs.
    pub(super) varying: Vec<String>,
    /// By env, model, precision, parameters and batch, in the order of the matrix.
    pub(super) configs: Vec<ConfigView>,
    /// Jobs whose last attempt failed.
    pub(super) failures: Vec<FailureView>,
    /// Reasons why jobs are not here, pruned or blocked, each with the number of jobs.
    pub(super) left_out: BTreeMap<String, usize>,
    /// Changes that made jobs stale, each with the number of jobs.
    pub(super) stale: BTreeMap<String, usize>,
    /// Declared parameters that the records of done jobs do not confirm.
    pub(super) unconfirmed: Vec<UnconfirmedView>,
    /// Unusable directories of the store.
    pub(super) problems: Vec<ProblemView>,
    /// Leftovers of older versions that misread a number.
    pub(super) misread: Misreadings,
    /// Done jobs that would run again because their env has another name.
    pub(super) renamed: Vec<Renamed>,
    /// The differences between the matrix file and the saved plan; `None` if there are none.
    pub(super) drift: Option<FileDrift>,
    /// The jobs in queues, by their place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) queue: Vec<QueueView>,
}

/// Parameters that the records of some done jobs do not confirm.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct UnconfirmedView {
    /// Their names.
    pub(super) parameters: Vec<String>,
    /// The number of jobs.
    pub(super) jobs: usize,
}

/// One config.
#[derive(Debug, Serialize)]
pub(super) struct ConfigView {
    /// Its key, with repeat 1.
    pub(super) key: Key,
    /// Its jobs. Stale ones count as done.
    #[serde(serialize_with = "counts_by_state")]
    pub(super) counts: Tally,
    /// The outcomes of its failed jobs as in `record.json`, each with the number of jobs.
    pub(super) failed: BTreeMap<&'static str, usize>,
    /// From its timing jobs. Several if their circumstances differ, because such runs are never pooled.
    pub(super) throughput: Vec<ThroughputView>,
}

/// Samples per second of runs in the same circumstances.
#[derive(Debug, Serialize)]
pub(super) struct ThroughputView {
    /// Runs that count.
    pub(super) n: usize,
    /// The unit of their samples.
    pub(super) unit: SampleUnit,
    /// `None` if none counts.
    pub(super) geometric_mean: Option<f64>,
    /// `None` if none counts.
    pub(super) median: Option<f64>,
    /// The median absolute deviation; `None` if `n` is too small.
    pub(super) mad: Option<f64>,
    /// The ends of the 95 % interval of the geometric mean; `None` if `n` is too small.
    #[serde(serialize_with = "ends")]
    pub(super) interval: Option<Interval>,
    /// Runs that succeeded but do not count, by the names of their marks.
    pub(super) left_out: BTreeMap<String, usize>,
    /// Runs that count only because of `--include-marked`, by the names of the marks that would leave them out.
    pub(super) included: BTreeMap<String, usize>,
    /// Marks that leave no run out, with the number of runs that count and have them.
    pub(super) kept: BTreeMap<&'static str, usize>,
    /// Marks of the row itself.
    pub(super) row_marks: Vec<&'static str>,
    /// Where they ran.
    pub(super) host: String,
    /// The differences from the first group of the config, as `name first / this`.
    pub(super) differences: Vec<String>,
}

/// A job whose last attempt failed.
#[derive(Debug, Serialize)]
pub(super) struct FailureView {
    pub(super) id: JobId,
    pub(super) label: String,
    /// The name of its directory.
    pub(super) directory: String,
    pub(super) attempt: u32,
    pub(super) outcome: Outcome,
    /// The outcome as a sentence.
    pub(super) sentence: String,
    /// Its declared key, for hints.
    #[serde(skip)]
    pub(super) key: Key,
}

impl Overview {
    /// The unit of the samples of all results; without results, the expected one.
    pub(super) fn unit(&self) -> SampleUnit {
        let found = || self.configs.iter().flat_map(|config| &config.throughput);
        if found().next().is_some() {
            SampleUnit::common(found().map(|group| group.unit.clone()))
        } else {
            SampleUnit::common(self.configs.iter().map(|config| SampleUnit::default_for(&config.key)))
        }
    }

    /// The overview of `decided`, the selected jobs of `plan`. Statistics include marked runs if `include_marked`.
    pub(super) fn of(
        plan: &Plan,
        inventory: &Inventory,
        decided: &[Decided],
        include_marked: bool,
    ) -> Overview {
        let mut sorted: Vec<(&Decided, State)> =
            decided.iter().map(|decided| (decided, state_of(decided, inventory))).collect();
        sort(&mut sorted, &plan.declared, |(decided, _)| decided.job.key());
        let mut overview = Overview {
            schema: OVERVIEW_SCHEMA,
            matrix: plan.matrix.name.to_string(),
            file: plan.matrix.path.clone(),
            counts: Tally::default(),
            time_left: time_left(plan, inventory, &sorted),
            include_marked,
            varying: varying_parameters(decided.iter().map(|decided| decided.job.key())),
            configs: Vec::new(),
            failures: Vec::new(),
            left_out: BTreeMap::new(),
            stale: stale_reasons(decided),
            unconfirmed: unconfirmed(inventory, decided),
            problems: ProblemView::all(inventory),
            misread: misreadings(plan, inventory),
            renamed: renamed(plan, inventory),
            drift: None,
            queue: Vec::new(),
        };
        let mut places = HashMap::new();
        for (decided, state) in &sorted {
            overview.add(decided, *state, inventory, &mut places);
        }
        overview.add_throughput(plan, inventory, decided, &places);
        overview
    }

    /// Whether no job is running or waiting.
    pub(super) fn is_settled(&self) -> bool {
        self.counts.of(State::Running) + self.counts.of(State::Waiting) == 0
    }

    /// Counts the job of `decided`. `places` are those of the configs so far.
    fn add<'a>(
        &mut self,
        decided: &'a Decided,
        state: State,
        inventory: &Inventory,
        places: &mut HashMap<ConfigOf<'a>, usize>,
    ) {
        self.counts.add(state);
        let key = decided.job.key();
        let place = *places.entry(ConfigOf::new(key)).or_insert_with(|| {
            self.configs.push(ConfigView::of(key.config()));
            self.configs.len() - 1
        });
        let view = &mut self.configs[place];
        view.counts.add(state);
        match state {
            State::Failed => {
                if let Some(Standing::NotDone(NotDone::Failed(record))) =
                    inventory.jobs.get(&decided.job.id())
                {
                    *view.failed.entry(record.outcome.kind()).or_default() += 1;
                    self.failures.push(FailureView::of(decided, record));
                }
            }
            State::NotHere | State::Pruned | State::Blocked => {
                *self.left_out.entry(left_out_reason(decided, inventory)).or_default() += 1;
            }
            State::Done
            | State::Stale
            | State::Running
            | State::Waiting
            | State::IfNeeded
            | State::NotNeeded => {}
        }
    }

    fn add_throughput(
        &mut self,
        plan: &Plan,
        inventory: &Inventory,
        decided: &[Decided],
        places: &HashMap<ConfigOf<'_>, usize>,
    ) {
        let study = Study {
            include_marked: self.include_marked,
            ..study(plan, inventory, decided.iter().map(|decided| &decided.job))
        };
        let judged = judge(&study);
        let mut first: Option<&Row<'_>> = None;
        for row in judged.rows.iter().filter(|row| row.circumstances.is_some()) {
            if row.part.0 == 1 {
                first = Some(row);
            }
            if let Some(place) = places.get(&ConfigOf::new(&row.config)) {
                self.configs[*place].throughput.push(ThroughputView::of(row, first));
            }
        }
    }
}

/// The state of the job of `decided`. A stale job is done, because its record counts. Stale jobs are listed below the
/// tables.
pub(in crate::cli) fn state_of(decided: &Decided, inventory: &Inventory) -> State {
    match state(inventory.jobs.get(&decided.job.id()), &decided.decision) {
        State::Stale => State::Done,
        other => other,
    }
}

/// Why the job of `decided` is not here, pruned or blocked.
fn left_out_reason(decided: &Decided, inventory: &Inventory) -> String {
    match (inventory.jobs.get(&decided.job.id()), &decided.decision) {
        // The decision is to try again, so the reason is that of the last attempt.
        (Some(Standing::NotDone(NotDone::Failed(record))), Decision::Run(_) | Decision::Rerun { .. }) => {
            format!("it {}", record.outcome)
        }
        (_, decision) => decision.why().unwrap_or_default(),
    }
}

/// The estimated time left for the jobs of `sorted` that failed, are running or waiting.
pub(in crate::cli) fn time_left(
    plan: &Plan,
    inventory: &Inventory,
    sorted: &[(&Decided, State)],
) -> TimeLeft {
    let is_open = |state: State| matches!(state, State::Failed | State::Running | State::Waiting);
    let mut open =
        sorted.iter().filter(|(_, state)| is_open(*state)).map(|(decided, _)| decided.job.key()).peekable();
    if open.peek().is_none() {
        return TimeLeft::default();
    }
    Estimator::new(plan, inventory.records()).time_left(open)
}

/// The tally in the stable format of `counts`: `{ "jobs": 9, "done": 4, … }`. Stale jobs count as done.
fn counts_by_state<S: Serializer>(counts: &Tally, serializer: S) -> Result<S::Ok, S::Error> {
    let states = State::ALL.iter().filter(|state| **state != State::Stale);
    let states = states.map(|state| (state.name(), counts.of(*state)));
    serializer.collect_map([("jobs", counts.jobs())].into_iter().chain(states))
}

/// `{ "low": 26.0, "high": 26.9 }`
fn ends<S: Serializer>(interval: &Option<Interval>, serializer: S) -> Result<S::Ok, S::Error> {
    match interval {
        Some(Interval { low, high, .. }) => serializer.collect_map([("low", low), ("high", high)]),
        None => serializer.serialize_none(),
    }
}

fn unconfirmed(inventory: &Inventory, decided: &[Decided]) -> Vec<UnconfirmedView> {
    let counted = unconfirmed_jobs(inventory, decided).into_iter();
    counted.map(|(parameters, jobs)| UnconfirmedView { parameters, jobs }).collect()
}

impl ConfigView {
    fn of(key: Key) -> ConfigView {
        ConfigView { key, counts: Tally::default(), failed: BTreeMap::new(), throughput: Vec::new() }
    }
}

impl FailureView {
    fn of(decided: &Decided, record: &Record) -> FailureView {
        FailureView {
            id: record.id,
            label: record.label.clone(),
            directory: decided.job.dir_name(),
            attempt: record.attempt,
            outcome: record.outcome.clone(),
            sentence: record.outcome.to_string(),
            key: record.key.clone(),
        }
    }
}

impl ThroughputView {
    /// The view of `row`, a group of runs of the config whose first group is `first`.
    fn of(row: &Row<'_>, first: Option<&Row<'_>>) -> ThroughputView {
        let (mut left_out, mut included, mut kept) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for run in &row.runs {
            let names = mark_names(run.marks.iter().filter(|mark| mark.disqualifies())).join(" and ");
            let by_names = if run.counts() { &mut included } else { &mut left_out };
            if !names.is_empty() {
                *by_names.entry(names).or_default() += 1;
            }
            let others = run.marks.iter().filter(|mark| run.counts() && !mark.disqualifies());
            for name in mark_names(others) {
                *kept.entry(name).or_default() += 1;
            }
        }
        let statistics = row.statistics.as_ref().ok();
        let circumstances = row.circumstances.as_ref();
        let first = first.filter(|first| !std::ptr::eq(*first, row));
        let differences = match (first.and_then(|first| first.circumstances.as_ref()), circumstances) {
            (Some(first), Some(own)) => first.differences(own),
            _ => Vec::new(),
        };
        ThroughputView {
            n: statistics.map_or(0, |statistics| statistics.n),
            unit: row.unit(),
            geometric_mean: statistics.map(|statistics| statistics.geometric_mean),
            median: statistics.map(|statistics| statistics.median),
            mad: statistics.and_then(|statistics| statistics.mad.ok()),
            interval: statistics.and_then(|statistics| statistics.interval.ok()),
            left_out,
            included,
            kept,
            row_marks: mark_names(&row.doubts),
            host: circumstances.map(|it| it.host().to_owned()).unwrap_or_default(),
            differences,
        }
    }
}

#[cfg(test)]
#[path = "overview_tests.rs"]
mod tests;
