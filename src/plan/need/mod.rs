//! Which jobs a config still needs, where results decide: repeats by `until` and `replace_marked` of the matrix, and
//! the job that profiles operators by what the config's worker reports.
//!
//! What counts depends on marks, which this room does not know. A [`Judge`] tells it: plain data, per done job. Nothing
//! else than that and the records decides, so whoever resumes a plan decides as the run did that was cut off.

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

/// Tells what done jobs are worth. The command line has one that asks `analysis`.
pub trait Judge: fmt::Debug {
    /// What each done timing job of `plan` is worth to its statistics, by the records of `inventory`.
    fn judge(&self, plan: &Plan, inventory: &Inventory) -> BTreeMap<JobId, Worth>;
}

/// What a done job is worth to the statistics.
#[derive(Clone, Debug, PartialEq)]
pub struct Worth {
    /// The number of its row: only runs of one row are pooled.
    pub row: usize,
    /// Samples per second; greater than 0. `None` if its seconds mean nothing, and would not if it ran again.
    pub per_s: Option<f64>,
    /// The marks that leave it out, with their numbers; `None` if it counts.
    pub left_out: Option<String>,
}

/// What the configs of a plan still need. The default knows no config, so that every job is needed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Needs {
    /// The configs with a rule, by their ids.
    configs: BTreeMap<JobId, Need>,
    /// The done jobs that are to be repeated, each with the marks that leave it out.
    replaced: BTreeMap<JobId, String>,
    profiling: Profiling,
}

/// Which configs have a worker that can profile operators, for envs where that decides whether it does.
#[derive(Clone, Debug, Default, PartialEq)]
struct Profiling {
    /// These envs.
    envs: BTreeSet<Name>,
    /// The ids of the timing configs of which a run reported it.
    able: BTreeSet<JobId>,
}

/// What a config needs.
#[derive(Clone, Debug, PartialEq)]
struct Need {
    rule: RepeatRule,
    /// Of the row of its last run.
    course: Course,
    /// Its jobs that are not done, in the order of their repeats, which are what is still to come.
    open: Vec<JobId>,
    /// How many repeats failed, if none has a result.
    failed_alone: usize,
}

/// What is to become of a job that is not done.
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
    /// Those of `plan`, whose done jobs are worth what `judge` says. It is only asked if that matters.
    pub fn judged(plan: &Plan, inventory: &Inventory, judge: &dyn Judge) -> Self {
        let worths = if plan.rules.is_empty() { BTreeMap::new() } else { judge.judge(plan, inventory) };
        Needs::of(plan, inventory, &worths)
    }

    /// Those of `plan`, whose done jobs are worth what `worths` says.
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

    /// What is to become of `job`, which is not done for the reason `not_done`.
    pub fn wants(&self, job: &Job, not_done: &NotDone) -> Wanted {
        let may_wait = match not_done {
            NotDone::NeverRan => true,
            NotDone::Failed(record) => !has_failed(record),
            // An attempt that nobody looks after is finished first, and a failure is tried again.
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

    /// Learns from a new `record`, without another look at all of them.
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

    /// Whether the job of `key` is of another kind, or its worker can do it as far as is known.
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
    /// That of the config whose `jobs` are given in the order of their repeats.
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

    /// Whether the interval is as narrow as it is to be. A config without `until` is never satisfied.
    fn is_met(&self) -> bool {
        self.rule.until.is_some() && self.course.is_enough() && self.course.n() >= self.rule.min as usize
    }

    fn wants(&self, job: &Job) -> Wanted {
        let Some(until) = self.rule.until else { return Wanted::Yes };
        if self.is_met() {
            return Wanted::No(self.course_text());
        }
        if self.failed_alone >= self.rule.min as usize {
            return Wanted::No(format!("none has a result, and {} failed", self.failed_alone));
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

/// How the repeats with these `logs` of throughput come to the interval of `rule`; without `until`, to any. The end of
/// the interval that is farther from the throughput must be within.
fn course_of(rule: &RepeatRule, logs: &[f64]) -> Course {
    let mut course = Course::towards(rule.until.unwrap_or(1.0).ln_1p(), CONFIDENCE);
    logs.iter().for_each(|log| course.add(*log));
    course
}

/// Whether `standing` is that of a job whose last attempt failed.
fn is_failure(standing: &Standing) -> bool {
    matches!(standing, Standing::NotDone(NotDone::Failed(record)) if has_failed(record))
}

/// Whether `record`, which is of no success, says something about its job. That of an interrupted attempt does not.
fn has_failed(record: &Record) -> bool {
    record.outcome.policy().leaves != State::Waiting
}

/// The done jobs of a config that marks leave out, with these marks, as long as `rule` lets them run again. Attempts
/// are counted, so that whoever resumes a plan begins no new count.
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
