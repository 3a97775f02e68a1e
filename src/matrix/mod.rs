//! The matrix: one YAML file, checked once, that declares the jobs.
//! The verbs call [`check()`] with the file's text; `plan` uses the checked [`Matrix`].
//! It never reads the store or the host, and reports every mistake before anything runs.
//!
//! `file.rs` mirrors the YAML, with the position of every value. [`check()`] converts it into a valid [`Matrix`], or
//! reports all mistakes together. [`schema()`] is the JSON Schema of the file for editors. [`Matrix::configs`] returns
//! the [`Config`]s, and [`Selector::matches`] decides whether a job meets a condition.
//!
//! Every env of a [`Matrix`] is complete: values that it does not override are filled in, so callers never need to
//! combine env and matrix.

mod check;
mod condition;
mod configs;
mod env;
mod excerpt;
mod executor;
mod file;
#[cfg(test)]
mod fuzz_tests;
#[cfg(test)]
mod identity_tests;
mod keys;
mod limits;
mod mask;
mod note;
mod profile;
mod reader;
mod repeats;
mod sbatch;
mod schema;
mod selector;
mod shell;
mod size;
mod slips;
mod ssh;
mod thresholds;
mod tree;
mod variables;
mod veil;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::job::{Device, Kind, ModelName, Name, ParamValue, Params, Precision, Profile, WorkerTemplate};
use crate::record::CloudFacts;
use crate::threshold::Thresholds;

pub use check::check;
pub use condition::{Operator, comma_separated};
pub use configs::Config;
pub use excerpt::render_notes;
pub use executor::{Executor, SlurmRequest};
pub use note::{Note, Span, Spanned};
pub use profile::NothingToProfile;
pub use schema::schema;
pub use ssh::SshRequest;
pub use variables::{Secret, Variables};

/// A checked matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// Its name, also that of the saved plan and of the report's directory.
    pub name: Name,
    /// A sentence that describes it.
    pub description: Option<String>,
    /// The environments in the file's order, each complete.
    pub envs: Vec<Env>,
    /// Configs to leave out.
    pub exclude: Vec<Selector>,
    /// Configs to add to the product.
    pub include: Vec<Include>,
    /// The order of jobs.
    pub order: Order,
    /// The seed of the order.
    pub order_seed: u64,
    /// The thresholds of marks and findings.
    pub thresholds: Thresholds,
}

/// A named environment: a device on a kind of host, with all its lists and parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Env {
    /// Its name.
    pub name: Name,
    /// The device of the worker.
    pub device: Device,
    /// The hosts to which it belongs.
    pub place: Place,
    /// The system that starts its jobs.
    pub executor: Executor,
    /// Whether a job of this env needs the whole host.
    pub share: Share,
    /// The name of its device's peaks file, without `.yaml`.
    pub peaks: Option<String>,
    /// The price of the machine per hour.
    pub usd_per_hour: Option<f64>,
    /// Its place in the cloud.
    pub cloud: Option<CloudFacts>,
    /// The worker program.
    pub worker: WorkerTemplate,
    /// Environment variables added to the worker's.
    pub variables: Variables,
    /// The axes in order, including `models`, `batches` and `precisions`. The product of their points is the env's
    /// configs. Several names in one axis are zipped.
    pub axes: Vec<Axis>,
    /// Parameters that are the same for all configs.
    pub params: Params,
    /// How often each config runs.
    pub repeats: RepeatRule,
    /// The limits of every job.
    pub limits: Limits,
    /// The profilers that run every config once; `ncu` only on NVIDIA devices.
    pub profiles: BTreeMap<Kind, Profile>,
    /// Whether its jobs of the kind `ops` are only needed once a timing run of their config has reported that its
    /// worker can profile operators. True for an external worker, unless the matrix declares these jobs.
    pub ops_if_reported: bool,
}

/// One dimension of an env, or several that vary together (`zip`).
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The names of the dimensions, at least one.
    pub names: Vec<AxisName>,
    /// The points in order, at least one, each with one value per name.
    pub points: Vec<Vec<AxisValue>>,
}

/// The dimension of an axis.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AxisName {
    /// The network.
    Model,
    /// The batch: samples per iteration.
    Batch,
    /// The precision.
    Precision,
    /// A worker parameter.
    Param(Arc<str>),
}

/// A value on an axis. Its variant matches its [`AxisName`].
#[derive(Clone, Debug, PartialEq)]
pub enum AxisValue {
    /// A network's name.
    Model(ModelName),
    /// The batch: samples per iteration.
    Batch(u32),
    /// The precision.
    Precision(Precision),
    /// A parameter's value.
    Param(ParamValue),
}

/// The hosts to which an env belongs. An absent field matches every host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Place {
    /// The host's name.
    pub host: Option<String>,
    /// `linux` or `macos`.
    pub os: Option<String>,
}

/// Whether other jobs may run on the host at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// A job needs the whole host: no other job runs at the same time.
    #[default]
    Nothing,
    /// A job only needs its device: jobs on other devices of the host may run at the same time.
    Device,
}

/// How often a config runs. The default is five times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RepeatRule {
    /// The fewest repeats, at least 1.
    pub min: u32,
    /// The most repeats, at least `min`; `min` without `until`.
    pub max: u32,
    /// The target half-width of the throughput's interval, as a share of the throughput. Repeats are added until it is
    /// reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<f64>,
    /// How often a run that marks leave out is repeated.
    #[serde(default)]
    pub replace_marked: u32,
}

/// The limits of a job, and the conditions of its start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// The time limit.
    pub timeout: Duration,
    /// Further attempts after a failure.
    pub retries: u32,
    /// The time between SIGINT and SIGKILL.
    pub grace: Duration,
    /// The pause between two jobs.
    pub cool_down: Duration,
    /// How quiet the host must be before a job starts. Plans of older versions lack this field and those below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet: Option<Quiet>,
    /// The highest temperature of the device when a job starts, in °C.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_temperature: Option<f64>,
    /// The longest wait for these two conditions, after which the job starts anyway.
    #[serde(default = "default_gate_timeout")]
    pub gate_timeout: Duration,
    /// The most bytes of a worker's standard output that are kept, and of its standard error.
    #[serde(default = "default_output")]
    pub output: u64,
}

/// How busy other processes may keep the processors when a job starts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quiet {
    /// Up to the threshold of the mark `contended` on a machine that was not calibrated.
    Usual,
    /// Up to this number of processors.
    Processors(f64),
}

impl Quiet {
    /// The number of processors that other processes may keep busy on a host with `usable` of them. `room` is the
    /// number that a job cannot use because of its quota.
    pub fn processors(self, usable: u32, room: f64) -> f64 {
        match self {
            Quiet::Usual => Thresholds::default().foreign_limit(usable) + room,
            Quiet::Processors(processors) => processors,
        }
    }
}

fn default_gate_timeout() -> Duration {
    Duration::from_secs(5 * 60)
}

/// More than a progress bar prints in a week, and less than a disk has.
fn default_output() -> u64 {
    64 << 20
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            timeout: Duration::from_secs(30 * 60),
            retries: 1,
            grace: Duration::from_secs(10),
            cool_down: Duration::ZERO,
            quiet: None,
            max_temperature: None,
            gate_timeout: default_gate_timeout(),
            output: default_output(),
        }
    }
}

/// The order of jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Repeat by repeat, with all configs of a repeat in a seeded random order. Drift of the machine then affects all
    /// configs equally.
    #[default]
    Interleaved,
    /// In the order of the file: env by env, config by config, repeat by repeat.
    Sequential,
    /// All jobs in one seeded random order.
    Random,
}

/// A condition on configs. All of its parts must be met.
#[derive(Clone, Debug, PartialEq)]
pub struct Selector {
    /// The field and the condition of each part.
    pub parts: Vec<(SelectorField, Condition)>,
}

/// The field of a part of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectorField {
    /// The env's name.
    Env,
    /// The network.
    Model,
    /// The batch: samples per iteration.
    Batch,
    /// The precision.
    Precision,
    /// The repeat; only on the command line.
    Repeat,
    /// A worker parameter; its default if the config does not declare it.
    Param(String),
}

/// The condition of a part of a selector.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// Any of these values.
    AnyOf(Vec<ParamValue>),
    /// None of these values.
    NoneOf(Vec<ParamValue>),
    /// A number in this relation to the bound.
    Number(Comparison, f64),
}

/// A relation between numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

/// One config added to the product.
#[derive(Clone, Debug, PartialEq)]
pub struct Include {
    /// The name of an existing env.
    pub env: Name,
    /// The network.
    pub model: ModelName,
    /// The batch: samples per iteration.
    pub batch: u32,
    /// The precision.
    pub precision: Precision,
    /// Parameters that replace those of the env. Those with their default are kept, since the env's value might differ.
    pub params: Params,
    /// How often it runs; as the other configs of the env if the file does not say.
    pub repeats: RepeatRule,
}
