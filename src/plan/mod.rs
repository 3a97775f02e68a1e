//! What to do, decided before anything is done.
//! The verbs call it, and `run` obeys it; `store` and `host` bring what it decides from.
//! It never touches the world and never changes its mind: planning twice changes nothing.
//!
//! [`expand`] turns a matrix into the ordered jobs of a [`Plan`]; [`decide`] holds them against what the store has, what
//! the host is and what jobs would run with now; [`invocation`] says how a job's process chain is called, as data. The executor
//! ([`crate::run`]) has no choices left.

mod change;
mod decide;
mod estimate;
mod expand;
mod inventory;
mod invocation;
mod leftover;
mod order;
mod profiler;
mod stale;
mod state;
mod variables;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::job::{Job, Key, Name};
use crate::matrix::{Limits, Order, Place, Share};
use crate::record::{CloudFacts, MatrixFacts};
use crate::threshold::Thresholds;

pub use change::{Change, changes_text};
pub use decide::{Ceilings, Decided, Decision, decide, rerun_marked, rerun_stale};
pub use estimate::{Basis, Estimate, Estimator, TimeLeft};
pub use expand::expand;
pub use inventory::{Inventory, NotDone, Problem, Standing};
pub use invocation::{Invocation, InvocationError, Outputs, PASSED_ON, Surroundings, invocation, quote};
pub use leftover::{Misread, Misreadings, misread_from, misreadings};
pub use profiler::Profiler;
pub use stale::{ACCEPTANCE_SCHEMA, Acceptance, Present, changes};
pub use state::state;

/// The version of a saved plan.
///
/// Changelog: 1, the first.
pub const PLAN_SCHEMA: u32 = 1;

/// The ordered jobs of a matrix: what `resume` and `status` go by. Saved as `runs/.plans/<matrix name>.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// [`PLAN_SCHEMA`].
    pub schema: u32,
    /// The matrix file it was made from.
    pub matrix: MatrixFacts,
    /// What the matrix is about.
    pub description: Option<String>,
    /// How the jobs were ordered.
    pub order: Order,
    /// The seed of that order.
    pub order_seed: u64,
    /// From where on the results are doubtful. No part of any key: changing it re-runs nothing.
    #[serde(default, skip_serializing_if = "Thresholds::are_default")]
    pub thresholds: Thresholds,
    /// The envs by name: what their jobs share.
    pub envs: BTreeMap<Name, PlannedEnv>,
    /// The jobs in the order in which they run; no two have the same id.
    pub jobs: Vec<Key>,
}

/// What all jobs of an env share and what is not part of their keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedEnv {
    /// Where the env belongs.
    pub place: Place,
    /// Whether its jobs need the whole host.
    pub share: Share,
    /// Name of the peaks file for its device.
    pub peaks: Option<String>,
    /// What an hour of the machine costs.
    pub usd_per_hour: Option<f64>,
    /// Where in the cloud it is.
    pub cloud: Option<CloudFacts>,
    /// Environment variables added to the worker's.
    pub variables: BTreeMap<String, String>,
    /// Limits of its jobs.
    pub limits: Limits,
}

impl Plan {
    /// The jobs in order, with their ids.
    pub fn jobs(&self) -> impl Iterator<Item = Job> + '_ {
        self.jobs.iter().cloned().map(Job::new)
    }

    /// The env of a job of this plan.
    ///
    /// # Panics
    /// If `key` is not of this plan: plans are made, and on loading checked, so that every job's env is there.
    pub fn env(&self, key: &Key) -> &PlannedEnv {
        self.envs.get(&key.env).expect("every job of a plan has its env in the plan")
    }
}
