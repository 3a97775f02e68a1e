//! Plans: every decision is made here, before any job runs. The verbs call it and `run` executes it; `store` and `host`
//! provide its inputs. It never has side effects, and planning twice gives the same plan.
//!
//! [`expand`] turns a matrix into the ordered jobs of a [`Plan`]. [`decide`] compares them with the store, the host,
//! and the present worker and environment. [`invocation`] builds the call of a job's processes, as data. The executor
//! (`crate::run`) has no choices left. [`Absences`] explains afterwards why jobs have no result.

mod absent;
mod ceilings;
mod change;
mod decide;
mod drift;
mod estimate;
mod expand;
mod forecast;
mod idle;
mod inventory;
mod invocation;
mod leftover;
mod listed;
mod merge;
mod need;
mod order;
mod profiler;
mod renamed;
mod stale;
mod state;
mod submission;
mod variables;
mod whereabouts;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::job::{Declared, Job, JobId, Key, Kind, Name};
use crate::matrix::{Executor, Limits, Order, Place, RepeatRule, Share};
use crate::record::{CloudFacts, MatrixFacts, contains_password, looks_secret, passes};
use crate::threshold::Thresholds;

pub use absent::Absences;
pub use ceilings::Ceilings;
pub use change::{Change, changes_text};
pub use decide::{Decided, Decision, decide, rerun_marked, rerun_stale};
pub use drift::{Drift, drift};
pub use estimate::{Basis, Estimate, Estimator, TimeLeft};
pub use expand::expand;
pub use forecast::Forecast;
pub use idle::idle_tasks;
pub use inventory::{Inventory, NotDone, Problem, Standing, Standings};
pub use invocation::{
    Caller, Invocation, InvocationError, Outputs, Secrets, Surroundings, caller, filled_words, invocation,
    quote,
};
pub use leftover::{Misread, Misreadings, misread_from, misreadings};
pub use merge::{Existing, MergeDecision, Undeclared, decide_merge, undeclared};
pub use need::{Judge, Needs, Wanted, Worth};
pub use profiler::Profiler;
pub use renamed::{Renamed, renamed};
pub use stale::{ACCEPTANCE_SCHEMA, Acceptance, Present, changes, missing_scripts, worker_changes};
pub use state::{is_listed, state};
#[cfg(test)]
pub(crate) use submission::example_submission;
pub use submission::{
    Leftovers, Origin, QueueId, SUBMISSION_SCHEMA, SharedPaths, Submission, Ticket, last_attempt, submissions,
};
pub use whereabouts::{Answers, Fate, QueuedTask, Submitted, TaskState, Verdict, Whereabouts, whereabouts};

/// The version of a saved plan.
///
/// Changelog: 1, the first; 2, sealed, with every config once; later extended by `rules`; 3, with executors.
/// A plan whose jobs are all local still has version 2, since it is the same to an older `orchestrate`.
pub const PLAN_SCHEMA: u32 = 3;

/// The version of a plan whose jobs are all local.
const LOCAL_PLAN_SCHEMA: u32 = 2;

/// The ordered jobs of a matrix, for `resume` and `status`. Saved as `runs/.plans/<matrix name>.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// [`PLAN_SCHEMA`], or an older one if an older version saved it.
    pub schema: u32,
    /// The matrix file that it was made from.
    pub matrix: MatrixFacts,
    /// The description of the matrix.
    pub description: Option<String>,
    /// The order of the jobs.
    pub order: Order,
    /// The seed of that order.
    pub order_seed: u64,
    /// The thresholds of marks and findings. They are not part of any key, so changing them repeats no job.
    #[serde(default, skip_serializing_if = "Thresholds::are_default")]
    pub thresholds: Thresholds,
    /// The order of the values of its axes in tables and figures. Absent in plans of older versions.
    #[serde(default, skip_serializing_if = "Declared::is_empty")]
    pub declared: Declared,
    /// The envs by name, with what their jobs share.
    pub envs: BTreeMap<Name, PlannedEnv>,
    /// How often the configs with these ids run, if their results decide that. The plan has the greatest number of jobs
    /// that they can need.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rules: BTreeMap<JobId, RepeatRule>,
    /// The jobs in the order of execution, each with a different id.
    #[serde(with = "listed")]
    pub jobs: Vec<Job>,
}

/// The settings that all jobs of an env share in addition to their keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedEnv {
    /// The hosts to which the env belongs.
    pub place: Place,
    /// The system that starts its jobs. Absent if they are local, and in plans of older versions.
    #[serde(default, skip_serializing_if = "Executor::is_local")]
    pub executor: Executor,
    /// Whether its jobs need the whole host.
    pub share: Share,
    /// The name of its device's peaks file.
    pub peaks: Option<String>,
    /// The price of the machine per hour.
    pub usd_per_hour: Option<f64>,
    /// Its place in the cloud.
    pub cloud: Option<CloudFacts>,
    /// Environment variables added to the worker's, without the secret ones.
    pub variables: BTreeMap<String, String>,
    /// The names of the secret variables added to the worker's. Absent in plans of older versions, which have their
    /// values among `variables`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<BTreeSet<String>>,
    /// The variables of orchestrate's environment that its workers inherit in addition to the common ones: names, and
    /// prefixes with `*` after them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub pass: BTreeSet<String>,
    /// Whether its jobs of the kind `ops` are only needed once a timing run of their config has reported that its
    /// worker can profile operators. Absent if not, and in plans of older versions, which have no such jobs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ops_if_reported: bool,
    /// The limits of its jobs.
    pub limits: Limits,
}

impl Plan {
    /// The jobs in order, as copies that share their keys.
    pub fn jobs(&self) -> impl Iterator<Item = Job> + '_ {
        self.jobs.iter().cloned()
    }

    /// Whether results decide which of its jobs are needed.
    pub fn depends_on_results(&self) -> bool {
        !self.rules.is_empty() || self.envs.values().any(|env| env.ops_if_reported)
    }

    /// Whether it has `job` regardless of results.
    pub fn is_certain(&self, job: &Job) -> bool {
        job.key().kind != Kind::Ops || !self.env(job.key()).ops_if_reported
    }

    /// The jobs in order that it has regardless of results.
    pub fn certain_jobs(&self) -> impl Iterator<Item = &Job> {
        self.jobs.iter().filter(|job| self.is_certain(job))
    }

    /// The keys of the jobs in order.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.jobs.iter().map(Job::key)
    }

    /// The env of a job of this plan.
    ///
    /// # Panics
    /// If `key` does not belong to this plan. Expanding and loading a plan ensure that it has every job's env.
    pub fn env(&self, key: &Key) -> &PlannedEnv {
        self.envs.get(&key.env).expect("every job of a plan has its env in the plan")
    }
}

impl PlannedEnv {
    /// The names of the secret variables.
    pub fn secrets(&self) -> impl Iterator<Item = &String> {
        self.secret.iter().flatten()
    }

    /// The variables of `ambient`, the environment of `orchestrate`, that workers inherit as secrets although they are
    /// not declared secret: their values contain passwords.
    pub fn guarded<'a>(
        &'a self,
        ambient: &'a BTreeMap<String, String>,
    ) -> impl Iterator<Item = (&'a String, &'a String)> {
        let is_declared =
            |name: &String| self.variables.contains_key(name) || self.secrets().any(|secret| secret == name);
        ambient.iter().filter(move |(name, value)| {
            contains_password(name, value) && passes(name, &self.pass) && !is_declared(name)
        })
    }

    /// The names of all variables.
    pub fn variable_names(&self) -> BTreeSet<String> {
        self.variables.keys().chain(self.secrets()).cloned().collect()
    }

    /// Drops the values of secrets that an older version saved. Then secrets are recognised only by their names.
    pub fn forget_secrets(&mut self) {
        if self.secret.is_none() {
            let secret: BTreeSet<String> =
                self.variables.keys().filter(|name| looks_secret(name)).cloned().collect();
            self.variables.retain(|name, _| !secret.contains(name));
            self.secret = Some(secret);
        }
    }
}

#[cfg(test)]
impl Plan {
    /// For tests: these jobs in this order, all in the env `cpu`.
    pub(crate) fn example(jobs: Vec<Key>) -> Plan {
        Plan {
            schema: LOCAL_PLAN_SCHEMA,
            matrix: MatrixFacts::example(),
            description: None,
            order: Order::Sequential,
            order_seed: 0,
            thresholds: Thresholds::default(),
            declared: Declared::default(),
            envs: BTreeMap::from([("cpu".into(), PlannedEnv::example())]),
            rules: BTreeMap::new(),
            jobs: jobs.into_iter().map(Job::new).collect(),
        }
    }
}

#[cfg(test)]
impl PlannedEnv {
    /// For tests: an env for any host, without declarations.
    pub(crate) fn example() -> PlannedEnv {
        PlannedEnv {
            place: Place::default(),
            executor: Executor::Local,
            share: Share::default(),
            peaks: None,
            usd_per_hour: None,
            cloud: None,
            variables: BTreeMap::new(),
            secret: None,
            pass: BTreeSet::new(),
            ops_if_reported: false,
            limits: Limits::default(),
        }
    }
}
