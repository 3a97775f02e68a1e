//! The matrix: one YAML file, checked once, that declares what is to be run.
//! The verbs call [`check()`] with the file's text; `plan` takes the checked [`Matrix`].
//! It never looks at the store or the host, and never lets a mistake through to be found later.
//!
//! `file.rs` mirrors the YAML, with the place of every value; [`check()`] turns it into a [`Matrix`] that cannot be
//! wrong, or into all of its mistakes at once; [`schema()`] is the JSON Schema of the file for editors. A matrix gives
//! its [`Config`]s by [`Matrix::configs`]; whoever asks whether a condition holds for a job asks [`Selector::matches`].
//!
//! Every env of a [`Matrix`] is complete: what it does not override is already filled in, so nobody downstream asks
//! "the env's or the matrix's?".

mod check;
mod condition;
mod configs;
mod env;
mod file;
#[cfg(test)]
mod identity_tests;
mod keys;
mod limits;
mod note;
mod profile;
mod reader;
mod schema;
mod selector;
mod thresholds;
mod tree;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::job::{Device, Kind, Name, ParamValue, Params, Precision, Profile, WorkerTemplate};
use crate::record::CloudFacts;
use crate::threshold::Thresholds;

pub use check::check;
pub use condition::{Operator, comma_separated};
pub use configs::Config;
pub use note::{Note, Span, Spanned, did_you_mean, nearest, one_of, render_notes};
pub use profile::NothingToProfile;
pub use schema::schema;

/// A checked matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// Its name: names the saved plan and the report's directory.
    pub name: Name,
    /// What it is about, in a sentence.
    pub description: Option<String>,
    /// The environments in the file's order, each complete.
    pub envs: Vec<Env>,
    /// Configs to leave out.
    pub exclude: Vec<Selector>,
    /// Configs to add to the product.
    pub include: Vec<Include>,
    /// In which order jobs run.
    pub order: Order,
    /// Seeds the order.
    pub order_seed: u64,
    /// From where on the results are doubtful.
    pub thresholds: Thresholds,
}

/// A named environment: a device on a kind of host, with every list and parameter it runs with.
#[derive(Clone, Debug, PartialEq)]
pub struct Env {
    /// Its name.
    pub name: Name,
    /// Where the worker computes.
    pub device: Device,
    /// Where the env belongs.
    pub place: Place,
    /// Whether a job of this env needs the whole host.
    pub share: Share,
    /// Name of the peaks file for its device, without `.yaml`.
    pub peaks: Option<String>,
    /// What an hour of the machine costs.
    pub usd_per_hour: Option<f64>,
    /// Where in the cloud it is.
    pub cloud: Option<CloudFacts>,
    /// The program that trains.
    pub worker: WorkerTemplate,
    /// Environment variables added to the worker's.
    pub variables: BTreeMap<String, String>,
    /// The axes in order, `models`, `batches` and `precisions` among them; the product of their points is the env's
    /// configs. Several names in one axis are zipped.
    pub axes: Vec<Axis>,
    /// Parameters that are the same for all configs.
    pub params: Params,
    /// Repeats of every config, at least 1.
    pub repeats: u32,
    /// Limits of every job.
    pub limits: Limits,
    /// The profilers that look into every config once. `ncu` only where the device is one of NVIDIA's.
    pub profiles: BTreeMap<Kind, Profile>,
}

/// One dimension of an env, or several that move together (`zip`).
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What varies. At least one.
    pub names: Vec<AxisName>,
    /// The points in order, each with one value a name. At least one.
    pub points: Vec<Vec<AxisValue>>,
}

/// What an axis varies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AxisName {
    /// The network.
    Model,
    /// Images an iteration.
    Batch,
    /// The arithmetic.
    Precision,
    /// A worker parameter.
    Param(String),
}

/// A value on an axis; its variant is that of its [`AxisName`].
#[derive(Clone, Debug, PartialEq)]
pub enum AxisValue {
    /// A network's name.
    Model(Name),
    /// Images an iteration.
    Batch(u32),
    /// The arithmetic.
    Precision(Precision),
    /// A parameter's value.
    Param(ParamValue),
}

/// Where an env belongs. What is absent fits every host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Place {
    /// The host's name.
    pub host: Option<String>,
    /// `linux` or `macos`.
    pub os: Option<String>,
}

/// What a job of an env keeps for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// The whole host: no other job runs meanwhile.
    #[default]
    Nothing,
    /// Its device alone: jobs on other devices of the host may run beside it.
    Device,
}

/// What a job may take, and what happens around it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// The longest a job may run.
    pub timeout: Duration,
    /// Further attempts after a failure.
    pub retries: u32,
    /// Between the gentle signal and SIGKILL.
    pub grace: Duration,
    /// Between the end of one job and the start of the next.
    pub cool_down: Duration,
    /// How quiet the host must be before a job starts. Absent, as are the next ones, in plans of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet: Option<Quiet>,
    /// How hot the device may be when a job starts, in °C.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_temperature: Option<f64>,
    /// The longest that a job waits for the two before it starts all the same.
    #[serde(default = "default_gate_timeout")]
    pub gate_timeout: Duration,
}

/// How busy others may keep the processors when a job starts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quiet {
    /// As busy as a run may see them without being marked `contended`.
    Usual,
    /// So many processors.
    Processors(f64),
}

impl Quiet {
    /// The processors that others may keep busy on a host with `usable` of them: usually as many as raise no mark.
    pub fn processors(self, usable: u32) -> f64 {
        match self {
            Quiet::Usual => Thresholds::default().foreign_limit(usable),
            Quiet::Processors(processors) => processors,
        }
    }
}

fn default_gate_timeout() -> Duration {
    Duration::from_secs(5 * 60)
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
        }
    }
}

/// The order of jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Repeat by repeat; within each repeat, all configs in a seeded random order. Drift of the machine then falls on
    /// all configs alike.
    #[default]
    Interleaved,
    /// As the file declares: env by env, config by config, repeat by repeat.
    Sequential,
    /// All jobs in one seeded random order.
    Random,
}

/// A condition on configs: all of its parts must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Selector {
    /// What each part looks at, and what it wants.
    pub parts: Vec<(SelectorField, Condition)>,
}

/// What a part of a selector looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectorField {
    /// The env's name.
    Env,
    /// The network.
    Model,
    /// Images an iteration.
    Batch,
    /// The arithmetic.
    Precision,
    /// Which repeat; only selections on the command line may ask for it.
    Repeat,
    /// A worker parameter, at its default if the config does not say.
    Param(String),
}

/// What a part of a selector wants.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// Any of these values.
    AnyOf(Vec<ParamValue>),
    /// None of these values.
    NoneOf(Vec<ParamValue>),
    /// A number that stands in this relation to the bound.
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
    /// The env, by name; it exists.
    pub env: Name,
    /// The network.
    pub model: Name,
    /// Images an iteration.
    pub batch: u32,
    /// The arithmetic.
    pub precision: Precision,
    /// Parameters that replace the env's own of the same name. One at its default is kept: the env's may differ.
    pub params: Params,
    /// Repeats, at least 1; the env's if the file does not say.
    pub repeats: u32,
}
