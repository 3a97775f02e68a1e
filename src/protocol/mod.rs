//! The interface between `orchestrate` and a worker: variables, exit codes, `measurement.json`, `iterations.csv`,
//! progress. Any room may call it, and so may workers; a worker is any process that speaks this protocol. It never
//! reads a file, and never judges whether a measurement is fast, only whether it is valid and as requested.
//!
//! A worker's file is parsed into a [`WireMeasurement`] and converted to a [`Measurement`], which is always valid in
//! itself. Whether it is as the job requests is a separate question: see [`Measurement::mismatches`]. [`mistakes`]
//! lists all mistakes in a file, [`schema()`] is its JSON Schema, and [`objects`] lists its fields.

mod details;
mod effective;
mod exit;
mod form;
#[cfg(test)]
mod fuzz_tests;
mod iteration_clock;
mod iterations;
mod mistakes;
mod objects;
mod operators;
mod own_metric;
mod peaks;
mod rounding;
mod sample_unit;
mod schema;
mod setting;
mod words;

use std::collections::BTreeMap;
use std::io;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::job::Key;
use crate::shared::Shared;
use own_metric::wrong_metrics;

pub use details::{Details, Rank};
pub use effective::{Effective, Mismatch};
pub use exit::WorkerExit;
pub use form::BadForm;
pub use iteration_clock::IterationClock;
pub use iterations::{BadIterations, Iterations};
pub use mistakes::mistakes;
pub use objects::{ObjectForm, objects};
pub use operators::{
    MOST_OPERATORS, OPERATORS_VARIABLE, OperatorClass, OperatorProfile, OperatorSample, PROFILES_OPERATORS,
    Phase,
};
pub use own_metric::OwnMetric;
pub use peaks::{
    CacheFact, Clocks, ConvolutionSample, GemmSample, GpuUnits, InstructionSample, Layout, LeftOut,
    MeasuredPeaks, MemoryFormat, Operands, StreamSample,
};
pub use rounding::ROUNDING_VARIABLES;
pub use sample_unit::{BadUnit, SampleUnit};
pub use schema::schema;
pub use setting::{Setting, Settings};

/// The version of `measurement.json`.
///
/// Changelog: 1: the first version.
pub const MEASUREMENT_SCHEMA: u32 = 1;

/// The variable with the path of the measurement that the worker writes. The shipped worker also takes it as `--out`.
pub const MEASUREMENT_VARIABLE: &str = "ORCHESTRATE_MEASUREMENT";

/// The variable with the path to which the worker can write its times per iteration.
pub const ITERATIONS_VARIABLE: &str = "ORCHESTRATE_ITERATIONS";

/// The header of `iterations.csv`: the iteration within the window, from 0; its seconds; how many of them were data
/// wait, and the loss, each empty if unknown; and the [`IterationClock`].
pub const ITERATIONS_HEADER: [&str; 5] = ["iteration", "elapsed_s", "data_wait_s", "loss", "clock"];

/// The NVTX range around the measured window. Profilers are restricted to it.
pub const NVTX_RANGE: &str = "orchestrate";

/// A line of JSON on the worker's standard output that reports its progress. Other lines are only stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Progress {
    /// The worker loads libraries, network and data.
    Preparing,
    /// `done` of `of` warm-up iterations are finished.
    Warmup {
        /// Iterations finished.
        done: u32,
        /// Iterations in total.
        of: u32,
    },
    /// `done` of `of` measured iterations are finished.
    Measure {
        /// Iterations finished.
        done: u32,
        /// Iterations in total.
        of: u32,
    },
}

impl Progress {
    /// The progress that `line` reports; `None` if it is another line.
    pub fn parse(line: &str) -> Option<Progress> {
        let line = line.trim();
        if !line.starts_with('{') {
            return None;
        }
        serde_json::from_str(line).ok()
    }

    /// The line, without a line break.
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("a progress line is a flat record of numbers")
    }
}

/// The content of `measurement.json`. Unknown fields are ignored, so that newer workers can add some.
///
/// Its doc comments are the descriptions of [`schema()`], so they are written for authors of workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WireMeasurement {
    /// The version of this file.
    #[schemars(extend("const" = MEASUREMENT_SCHEMA))]
    pub schema: u32,
    /// Why there is no measurement. A file with it needs none of the other fields but `schema`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Samples trained on within the window, in the unit of `batch`: a whole number of batches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// The length of the window in seconds, by a monotonic clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_s: Option<f64>,
    /// Whether the device was synchronised at both ends of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synchronized: Option<bool>,
    /// The settings that the worker used, read back if possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Effective>")]
    pub effective: Option<Shared<Effective>>,
    /// The name of the samples: `images`, `sequences`, `tokens`. The throughput has this unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "words::sample_unit")]
    pub unit: Option<SampleUnit>,
    /// Metrics that the worker defines, by name. They have columns and are summarised, but never judged.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "words::metrics")]
    pub metrics: BTreeMap<String, OwnMetric>,
    /// The time of a few profiled iterations by operator. They are outside the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<OperatorProfile>")]
    pub ops: Option<Shared<OperatorProfile>>,
    /// Optional parts.
    #[serde(default)]
    #[schemars(with = "Details")]
    pub details: Shared<Details>,
}

/// Why a worker has no measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// Its class: `out_of_memory`, `unsupported`, or any other word.
    #[schemars(schema_with = "words::failure_kind")]
    pub kind: FailureKind,
    /// One sentence, with numbers if there are any.
    pub message: String,
    /// If out of memory: the bytes that were requested and not available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed_bytes: Option<u64>,
    /// If out of memory: the bytes that were free then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
}

/// The failures that a worker can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The device, or the host, had too little memory.
    OutOfMemory,
    /// The device, precision or network does not exist here.
    Unsupported,
    /// Any other kind: the message and the exit code describe it.
    #[serde(other)]
    Other,
}

/// The shortest window that a clock can measure, in seconds.
const LEAST_WINDOW_S: f64 = 1e-6;

/// The longest plausible window, in seconds: some thirty years.
const GREATEST_WINDOW_S: f64 = 1e9;

/// A measurement that is valid in itself: a known schema, seconds that a clock can measure, and samples that are a
/// positive whole number of batches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "WireMeasurement", into = "WireMeasurement")]
pub struct Measurement {
    /// Samples trained on within the window.
    pub samples: u64,
    /// The length of the window in seconds.
    pub elapsed_s: f64,
    /// Whether the device was synchronised at both ends of the window. If not, it must not be published.
    pub synchronized: bool,
    /// The settings that the worker used, read back if possible.
    pub effective: Shared<Effective>,
    /// The name of its samples, if the worker reports it. See [`Measurement::unit`].
    pub unit: Option<SampleUnit>,
    /// Metrics that the worker defines, by name.
    pub metrics: BTreeMap<String, OwnMetric>,
    /// The time of a few profiled iterations by operator, outside the window.
    pub ops: Option<Shared<OperatorProfile>>,
    /// Everything else that it reported.
    pub details: Shared<Details>,
}

/// The content of a well-formed `measurement.json`.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// A measurement.
    Measured(Box<Measurement>),
    /// A failure that the worker names.
    Failed(Failure),
}

/// A `measurement.json` is not usable.
#[derive(Debug, thiserror::Error)]
pub enum BadMeasurement {
    /// It cannot be read from the disk, for example because it is not a regular file.
    #[error("measurement.json is not readable")]
    Unreadable(#[source] io::Error),
    /// It does not exist, but a new one is in this directory, the worker's current directory.
    #[error(
        "the worker wrote measurement.json into its current directory {0} instead of to the path in \
         ${MEASUREMENT_VARIABLE}, which the placeholder {{out}} also gives"
    )]
    Elsewhere(String),
    /// It is not JSON, or does not have the expected form.
    #[error(transparent)]
    Malformed(#[from] BadForm),
    /// Its version is unknown.
    #[error("measurement.json has schema {0}: expected {MEASUREMENT_SCHEMA}")]
    UnknownSchema(u32),
    /// A required field is missing.
    #[error("measurement.json has no `{0}`")]
    Missing(&'static str),
    /// A field has an impossible value.
    #[error("measurement.json: {0}")]
    Impossible(String),
}

impl Report {
    /// Reads the text of a `measurement.json`.
    ///
    /// # Errors
    /// [`BadMeasurement`]: wrong form, unknown schema, missing field, or impossible value.
    pub fn parse(text: &str) -> Result<Report, BadMeasurement> {
        // Some languages write a byte order mark at the start of every file.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let wire: WireMeasurement = form::read(text)?;
        if wire.schema != MEASUREMENT_SCHEMA {
            return Err(BadMeasurement::UnknownSchema(wire.schema));
        }
        if let Some(failure) = wire.failure {
            return Ok(Report::Failed(failure));
        }
        Measurement::try_from(wire).map(Box::new).map(Report::Measured)
    }
}

impl TryFrom<WireMeasurement> for Measurement {
    type Error = BadMeasurement;

    fn try_from(wire: WireMeasurement) -> Result<Self, Self::Error> {
        if wire.schema != MEASUREMENT_SCHEMA {
            return Err(BadMeasurement::UnknownSchema(wire.schema));
        }
        let samples = wire.samples.ok_or(BadMeasurement::Missing("samples"))?;
        let elapsed_s = wire.elapsed_s.ok_or(BadMeasurement::Missing("elapsed_s"))?;
        let synchronized = wire.synchronized.ok_or(BadMeasurement::Missing("synchronized"))?;
        let effective = wire.effective.ok_or(BadMeasurement::Missing("effective"))?;
        let impossible = |message: String| Err(BadMeasurement::Impossible(message));
        if !(LEAST_WINDOW_S..=GREATEST_WINDOW_S).contains(&elapsed_s) {
            return impossible(format!(
                "elapsed_s is {elapsed_s}: expected {LEAST_WINDOW_S} to {GREATEST_WINDOW_S} seconds"
            ));
        }
        if effective.batch == 0 {
            return impossible("effective.batch is 0".to_owned());
        }
        let batch = u64::from(effective.batch);
        if samples == 0 || !samples.is_multiple_of(batch) {
            return impossible(format!(
                "samples is {samples}: expected a positive multiple of the batch, {batch}"
            ));
        }
        if let Some(iters) = effective.settings.whole("iters")
            && batch.checked_mul(iters) != Some(samples)
        {
            return impossible(format!("{samples} samples are not {iters} iterations of {batch}"));
        }
        let WireMeasurement { unit, metrics, ops, details, .. } = wire;
        if let Some(wrong) = wrong_metrics(&metrics) {
            return impossible(wrong);
        }
        if let Some(wrong) = ops.as_ref().and_then(|ops| ops.impossible()) {
            return impossible(wrong);
        }
        Ok(Measurement { samples, elapsed_s, synchronized, effective, unit, metrics, ops, details })
    }
}

impl From<Measurement> for WireMeasurement {
    fn from(measurement: Measurement) -> Self {
        let Measurement { samples, elapsed_s, synchronized, effective, unit, metrics, ops, details } =
            measurement;
        WireMeasurement {
            schema: MEASUREMENT_SCHEMA,
            failure: None,
            samples: Some(samples),
            elapsed_s: Some(elapsed_s),
            synchronized: Some(synchronized),
            effective: Some(effective),
            unit,
            metrics,
            ops,
            details,
        }
    }
}

impl WireMeasurement {
    /// The measurement of a worker that failed.
    pub fn failed(failure: Failure) -> Self {
        WireMeasurement {
            schema: MEASUREMENT_SCHEMA,
            failure: Some(failure),
            samples: None,
            elapsed_s: None,
            synchronized: None,
            effective: None,
            unit: None,
            metrics: BTreeMap::new(),
            ops: None,
            details: Shared::default(),
        }
    }
}

impl Measurement {
    /// The reported settings that differ from the request of `key`; empty if everything is as requested.
    ///
    /// Every parameter that is passed to the worker is compared if the worker reports it. Device, precision and batch
    /// are always compared.
    pub fn mismatches(&self, key: &Key) -> Vec<Mismatch> {
        self.effective.mismatches(self.samples, key)
    }

    /// Names of the parameters that `key` declares but the worker does not report, so that it is unknown whether the
    /// worker applied them.
    pub fn unconfirmed(&self, key: &Key) -> Vec<String> {
        self.effective.unconfirmed(self.samples, key)
    }

    /// Start and end of the window, in seconds since the Unix epoch, if the worker reports its start.
    pub fn window(&self) -> Option<(f64, f64)> {
        let from = self.details.window_started_at.filter(|second| second.is_finite())?;
        Some((from, from + self.elapsed_s))
    }

    /// The name of its samples, if it belongs to a job with `key`.
    pub fn unit(&self, key: &Key) -> SampleUnit {
        self.unit.clone().unwrap_or_else(|| SampleUnit::default_for(key))
    }

    /// Samples per second over the whole window.
    pub fn samples_per_s(&self) -> f64 {
        self.samples as f64 / self.elapsed_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str = r#"{ "schema": 1, "samples": 1600, "elapsed_s": 12.5, "synchronized": true,
        "effective": { "device": "cpu", "precision": "fp32", "batch": 16 } }"#;

    fn measured(text: &str) -> Result<Measurement, String> {
        match Report::parse(text) {
            Ok(Report::Measured(measurement)) => Ok(*measurement),
            Ok(Report::Failed(failure)) => Err(failure.message),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn a_minimal_measurement_is_enough() {
        let measurement = measured(LEAST).unwrap();
        assert_eq!(measurement.samples_per_s(), 128.0);
        let again = serde_json::to_string(&measurement).unwrap();
        assert_eq!(measured(&again).unwrap(), measurement);
    }

    #[test]
    fn an_impossible_measurement_is_refused() {
        for (from, to, message) in [
            ("1600", "0", "measurement.json: samples is 0: expected a positive multiple of the batch, 16"),
            (
                "1600",
                "1601",
                "measurement.json: samples is 1601: expected a positive multiple of the batch, 16",
            ),
            ("12.5", "-1", "measurement.json: elapsed_s is -1: expected 0.000001 to 1000000000 seconds"),
            ("\"batch\": 16", "\"batch\": 0", "measurement.json: effective.batch is 0"),
            (
                "\"batch\": 16",
                "\"batch\": 16, \"iters\": 30",
                "measurement.json: 1600 samples are not 30 iterations of 16",
            ),
            ("\"schema\": 1", "\"schema\": 2", "measurement.json has schema 2: expected 1"),
            ("\"samples\": 1600,", "", "measurement.json has no `samples`"),
            ("}", "", "measurement.json is not valid JSON"),
        ] {
            assert_eq!(measured(&LEAST.replace(from, to)), Err(message.to_owned()), "{from} -> {to}");
        }
    }

    #[test]
    fn the_former_name_startup_s_is_still_read() {
        let text = LEAST.replace("\"effective\"", "\"details\": { \"startup_s\": 0.5 }, \"effective\"");
        assert_eq!(measured(&text).unwrap().details.first_step_s, Some(0.5));
    }

    #[test]
    fn progress_lines_are_recognised() {
        let line = Progress::Measure { done: 3, of: 100 }.line();
        assert_eq!(line, r#"{"event":"measure","done":3,"of":100}"#);
        assert_eq!(Progress::parse(&line), Some(Progress::Measure { done: 3, of: 100 }));
        assert_eq!(Progress::parse("loss 6.9"), None);
        assert_eq!(Progress::parse("{\"event\":\"dance\"}"), None);
    }
}
