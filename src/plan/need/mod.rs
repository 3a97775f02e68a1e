//! The jobs that a config still needs, if results decide: [`Needs`]. These are repeats by `until` and `replace_marked`
//! of the matrix, and the job that profiles operators, if the config's worker reports that it can.
//!
//! Whether a result counts depends on marks, which this room does not know. A [`Judge`] provides that as plain data per
//! done job. Decisions depend only on that and on the records, so a resumed plan decides in the same way as the
//! interrupted run.

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{Inventory, NotDone, Plan, Standing};
use crate::job::{Job, JobId, Key, Kind, Name, State};
use crate::matrix::RepeatRule;
use crate::protocol::PROFILES_OPERATORS;
use crate::record::Record;
use crate::stats::{CONFIDENCE, Course};

/// Judges the worth of done jobs. The command line has an implementation that uses `analysis`.
pub trait Judge: fmt::Debug {
    /// The [`Worth`] of each done timing job of `plan`, from the records of `inventory`.
    fn judge(&self, plan: &Plan, inventory: &Inventory) -> BTreeMap<JobId, Worth>;
}

/// The contribution of a done job to the statistics.
#[derive(Clone, Debug, PartialEq)]
pub struct Worth {
    /// The number of its row: only runs of one row are pooled.
    pub row: usize,
    /// Samples per second; greater than 0. `None` if its time is not meaningful, and would not be after another run.
    pub per_s: Option<f64>,
    /// The marks that leave it out, with their numbers; `None` if it counts.
    pub left_out: Option<String>,
}

/// The jobs that the configs of a plan still need. The default has no configs with a rule, so every job is needed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Needs {
    /// The configs with a rule, by their ids.
    configs: BTreeMap<JobId, Need>,
    /// The done jobs that are to be repeated, each with the marks that leave it out.
    replaced: BTreeMap<JobId, String>,
    profiling: Profiling,
}

/// The configs whose worker can profile operators, for envs that profile them only in that case.
#[derive(Clone, Debug, Default, PartialEq)]
struct Profiling {
    /// These envs.
    envs: BTreeSet<Name>,
    /// The ids of the timing configs with a run that reported it.
    able: BTreeSet<JobId>,
}

/// The needs of a config.
#[derive(Clone, Debug, PartialEq)]
struct Need {
    rule: RepeatRule,
    /// The course of the interval, over the row of its last run.
    course: Course,
    /// Its jobs that are not done, in the order of their repeats.
    open: Vec<JobId>,
    /// The number of failed repeats, if no repeat has a result.
    failed_alone: usize,
}

/// Whether a job that is not done is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// It is expected to run.
    Yes,
    /// It runs only if the repeats before it are not enough, for this reason.
    IfNeeded(String),
    /// It is not needed, for this reason.
    No(String),
}

impl Needs {
    /// The needs of `plan`. `judge` is called only if a decision depends on it.
    pub fn judged(plan: &Plan, inventory: &Inventory, judge: &dyn Judge) -> Self {
        let worths = if plan.rules.is_empty() { BTreeMap::new() } else { judge.judge(plan, inventory) };
        Needs::of(plan, inventory, &worths)
    }

    /// The needs of `plan`, given the worth of its done jobs.
    pub fn of(plan: &Plan, inventory: &Inventory, worths: &BTreeMap<JobId, Worth>) -> Self {
        let mut jobs: BTreeMap<JobId, Vec<&Job>> = BTreeMap::new();
        if !plan.rules.is_empty() {
            for job in &plan.jobs {
                jobs.entry(job.key().config_id()).or_default().push(job);
            }
        }
        let mut needs = Needs { profiling: Profiling::of(plan, inventory), ..Needs::default() };
        for (config, rule) in &plan.rules {
            let mut jobs = jobs.remove(config).unwrap_or_default();
            jobs.sort_by_key(|job| job.key().repeat);
            let need = Need::of(*rule, &jobs, inventory, worths);
            if !need.is_met() {
                needs.replaced.extend(replaced(rule, &jobs, inventory, worths));
            }
            needs.configs.insert(*config, need);
        }
        needs
    }

    /// Whether `job`, which is not done for the reason `not_done`, is needed.
    pub fn wants(&self, job: &Job, not_done: &NotDone) -> Wanted {
        let may_wait = match not_done {
            NotDone::NeverRan => true,
            NotDone::Failed(record) => !has_failed(record),
            // An unsupervised attempt is finished first, and a failure is tried again.
            NotDone::Unfinished { .. } | NotDone::Running | NotDone::Corrupt { .. } => false,
        };
        if may_wait && !self.profiling.wants(job.key()) {
            return Wanted::No(
                "no run of its config reports that its worker can profile operators".to_owned(),
            );
        }
        let is_known = may_wait && !self.configs.is_empty();
        match is_known.then(|| self.configs.get(&job.key().config_id())).flatten() {
            Some(need) => need.wants(job),
            None => Wanted::Yes,
        }
    }

    /// Learns from a new `record`, without reading all records again.
    pub fn learn(&mut self, record: &Record) {
        self.profiling.learn(record);
    }

    /// Why the done `job` is to be repeated; `None` if it is not.
    pub fn replaces(&self, job: &Job) -> Option<&str> {
        self.replaced.get(&job.id()).map(String::as_str)
    }
}

impl Profiling {
    fn of(plan: &Plan, inventory: &Inventory) -> Self {
        let envs = plan.envs.iter().filter(|(_, env)| env.ops_if_reported).map(|(name, _)| name.clone());
        let mut profiling = Profiling { envs: envs.collect(), able: BTreeSet::new() };
        if !profiling.envs.is_empty() {
            inventory.records().for_each(|record| profiling.learn(record));
        }
        profiling
    }

    fn learn(&mut self, record: &Record) {
        let key = &record.key;
        if key.kind == Kind::Timing && self.envs.contains(&key.env) && reports_profiles(record) {
            self.able.insert(key.config_id());
        }
    }

    /// Whether the job of `key` is of another kind, or its worker is known to support it.
    fn wants(&self, key: &Key) -> bool {
        key.kind != Kind::Ops
            || !self.envs.contains(&key.env)
            || self.able.contains(&key.timing_config().id())
    }
}

/// Whether `record` is of a success whose worker reported that it can profile operators.
fn reports_profiles(record: &Record) -> bool {
    let measurement = record.measurement.as_ref().filter(|_| record.outcome.is_success());
    measurement.is_some_and(|it| it.details.profiles.iter().any(|word| word == PROFILES_OPERATORS))
}

impl Need {
    /// The need of the config whose `jobs` are given in the order of their repeats.
    fn of(rule: RepeatRule, jobs: &[&Job], inventory: &Inventory, worths: &BTreeMap<JobId, Worth>) -> Self {
        let done = |job: &Job| match inventory.jobs.get(&job.id()) {
            Some(Standing::Done(record)) => Some(record),
            Some(Standing::NotDone(_)) | None => None,
        };
        let last = jobs.iter().filter_map(|job| Some((done(job)?.started_at, worths.get(&job.id())?.row)));
        let row = last.max().map(|(_, row)| row);
        let counting = jobs.iter().filter_map(|job| worths.get(&job.id()));
        let counting = counting.filter(|worth| Some(worth.row) == row && worth.left_out.is_none());
        let logs: Vec<f64> = counting.filter_map(|worth| Some(worth.per_s?.ln())).collect();
        let open: Vec<JobId> = jobs.iter().filter(|job| done(job).is_none()).map(|job| job.id()).collect();
        let has_failed = |id: &&JobId| inventory.jobs.get(*id).is_some_and(is_failure);
        let has_result = open.len() < jobs.len();
        let failed_alone = if has_result { 0 } else { open.iter().filter(has_failed).count() };
        Need { rule, course: course_of(&rule, &logs), open, failed_alone }
    }

    /// Whether the interval has the requested width. A config without `until` is never satisfied.
    fn is_met(&self) -> bool {
        self.rule.until.is_some() && self.course.is_enough() && self.course.n() >= self.rule.min as usize
    }

    fn wants(&self, job: &Job) -> Wanted {
        let Some(until) = self.rule.until else { return Wanted::Yes };
        if self.is_met() {
            return Wanted::No(self.course_text());
        }
        if self.failed_alone >= self.rule.min as usize {
            return Wanted::No(format!("no repeat has a result, and {} failed", self.failed_alone));
        }
        let expected = self.course.expected(self.rule.max as usize).max(self.rule.min as usize);
        let place = self.open.iter().position(|open| *open == job.id()).unwrap_or_default();
        if self.course.n() + place < expected {
            return Wanted::Yes;
        }
        let until = percent(until);
        Wanted::IfNeeded(format!("{}, and {expected} repeats should make it ± {until}", self.course_text()))
    }

    /// Such as `interval ± 1.4 % at n = 8`.
    fn course_text(&self) -> String {
        match self.course.half_width() {
            Some(half) => format!("interval ± {} at n = {}", percent(half.exp() - 1.0), self.course.n()),
            None => format!("no interval at n = {}", self.course.n()),
        }
    }
}

/// The course of the repeats with these `logs` of throughput towards the interval of `rule`, or towards any interval
/// without `until`. The end of the interval that is farther from the throughput must be within the bound.
fn course_of(rule: &RepeatRule, logs: &[f64]) -> Course {
    let mut course = Course::towards(rule.until.unwrap_or(1.0).ln_1p(), CONFIDENCE);
    logs.iter().for_each(|log| course.add(*log));
    course
}

/// Whether `standing` is that of a job whose last attempt failed.
fn is_failure(standing: &Standing) -> bool {
    matches!(standing, Standing::NotDone(NotDone::Failed(record)) if has_failed(record))
}

/// Whether `record`, which is not of a success, is evidence about its job. That of an interrupted attempt is not.
fn has_failed(record: &Record) -> bool {
    record.outcome.policy().leaves != State::Waiting
}

/// The done jobs of a config that marks leave out, with these marks, as long as `rule` lets them run again. Attempts
/// are counted, so that resuming a plan does not restart the count.
fn replaced<'a>(
    rule: &'a RepeatRule,
    jobs: &'a [&Job],
    inventory: &'a Inventory,
    worths: &'a BTreeMap<JobId, Worth>,
) -> impl Iterator<Item = (JobId, String)> + 'a {
    jobs.iter().filter_map(|job| {
        let worth = worths.get(&job.id())?;
        let Some(Standing::Done(record)) = inventory.jobs.get(&job.id()) else { return None };
        let is_left = record.attempt <= rule.replace_marked && worth.per_s.is_some();
        Some((job.id(), worth.left_out.clone().filter(|_| is_left)?))
    })
}

/// Such as `1.4 %`, and `0.32 %` below one.
fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent < 1.0 { format!("{percent:.2} %") } else { format!("{percent:.1} %") }
}
