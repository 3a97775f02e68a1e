//! What passes between `orchestrate` and a worker: variables, exit codes, `measurement.json`, `iterations.csv`, progress.
//! Everybody may call it, the workers included; a worker is any process that speaks this, and the README shows one.
//! It never reads a file and never judges whether a measurement is fast, only whether it is sound and what was asked for.
//!
//! Files a worker writes mirror as [`WireMeasurement`] and become a [`Measurement`], which cannot be wrong in itself.
//! Whether it is what the job asked for is another question: see [`Measurement::mismatches`].

mod effective;
mod exit;
mod iterations;
mod peaks;
mod setting;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::job::Key;

pub use effective::{Effective, Mismatch};
pub use exit::WorkerExit;
pub use iterations::{BadIterations, Iterations};
pub use peaks::{Clocks, GemmSample, Layout, LeftOut, MeasuredPeaks, Operands, StreamSample};
pub use setting::{Setting, Settings};

/// The version of `measurement.json`.
///
/// Changelog: 1, the first.
pub const MEASUREMENT_SCHEMA: u32 = 1;

/// Names the file the worker writes its measurement to; `--out` says the same to the shipped worker.
pub const MEASUREMENT_VARIABLE: &str = "ORCHESTRATE_MEASUREMENT";

/// Names the file the worker may write its per-iteration times to.
pub const ITERATIONS_VARIABLE: &str = "ORCHESTRATE_ITERATIONS";

/// The header of `iterations.csv`: the iteration within the window from 0, its seconds, the seconds of them spent
/// waiting for data, the loss (empty where it was not read back), and the [`IterationClock`] that told the seconds.
pub const ITERATIONS_HEADER: [&str; 5] = ["iteration", "elapsed_s", "data_wait_s", "loss", "clock"];

/// The NVTX range around the measured window: what a profiler is told to look at.
pub const NVTX_RANGE: &str = "orchestrate";

/// What told the seconds of single iterations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IterationClock {
    /// The host's clock, where a call returns when its work is done: each iteration is synchronised.
    Host,
    /// Events that the device records when it comes to them: each iteration is synchronised.
    DeviceEvents,
    /// The host's clock, where a call returns when its work is handed out: no iteration is synchronised, and only their
    /// sum means anything.
    Submission,
}

impl IterationClock {
    /// The word for it, as `iterations.csv` and `measurement.json` have it.
    pub fn as_str(self) -> &'static str {
        match self {
            IterationClock::Host => "host",
            IterationClock::DeviceEvents => "device_events",
            IterationClock::Submission => "submission",
        }
    }

    /// The clock that `word` names.
    pub fn of_word(word: &str) -> Option<IterationClock> {
        let all = [IterationClock::Host, IterationClock::DeviceEvents, IterationClock::Submission];
        all.into_iter().find(|clock| clock.as_str() == word)
    }
}

/// A line of JSON on the worker's standard output that says how far it is. Other lines are only kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Progress {
    /// Libraries, network and data are being made ready.
    Preparing,
    /// `done` of `of` warm-up iterations are over.
    Warmup {
        /// Iterations finished.
        done: u32,
        /// Iterations in all.
        of: u32,
    },
    /// `done` of `of` measured iterations are over.
    Measure {
        /// Iterations finished.
        done: u32,
        /// Iterations in all.
        of: u32,
    },
}

impl Progress {
    /// The progress that `line` tells, if it is such a line.
    pub fn parse(line: &str) -> Option<Progress> {
        let line = line.trim();
        if !line.starts_with('{') {
            return None;
        }
        serde_json::from_str(line).ok()
    }

    /// The line, without its end.
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("a progress line is a flat record of numbers")
    }
}

/// `measurement.json` as it stands in the file. Unknown fields are ignored, so that a newer worker can say more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WireMeasurement {
    /// [`MEASUREMENT_SCHEMA`].
    pub schema: u32,
    /// Instead of everything below: why there is no measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Images trained on within the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// Seconds of the window, by a monotonic clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_s: Option<f64>,
    /// Whether the device was synchronised at both ends of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synchronized: Option<bool>,
    /// What the worker really did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective: Option<Effective>,
    /// Everything a worker may add.
    #[serde(default)]
    pub details: Details,
}

/// Why a worker has no measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The class.
    pub kind: FailureKind,
    /// One sentence, with the numbers where there are any.
    pub message: String,
    /// Out of memory: the bytes that were asked for and not had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed_bytes: Option<u64>,
    /// Out of memory: the bytes that were free then.
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
    /// Any other word: the message and the exit code tell.
    #[serde(other)]
    Other,
}

/// What a worker may add to its measurement. Every field is optional; sizes are bytes, durations seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Details {
    /// Seconds of the window in which training waited for images, or decoded them itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_wait_s: Option<f64>,
    /// Seconds from the process's start, as the kernel counts, to the beginning of the first training step: libraries,
    /// network and data are ready then, and the first batch is at hand. Called `startup_s` at first.
    #[serde(alias = "startup_s", skip_serializing_if = "Option::is_none")]
    pub first_step_s: Option<f64>,
    /// Seconds since the Unix epoch at the window's start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_started_at: Option<f64>,
    /// Loss of the first warm-up iteration (of the first measured one without warm-up).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_loss: Option<f64>,
    /// Loss of the last measured iteration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_loss: Option<f64>,
    /// The first measured iteration, counted from 0, whose loss is infinite or not a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_non_finite_iteration: Option<u64>,
    /// Optimizer steps within the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer_steps: Option<u64>,
    /// What the loss was multiplied by at the window's end, with fp16.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_scale: Option<f64>,
    /// What told the seconds of single iterations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration_clock: Option<IterationClock>,
    /// The type that automatic mixed precision computed in, as libtorch had it during the last forward pass:
    /// `float16`, `bfloat16`, or `off`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autocast: Option<String>,
    /// What libtorch may compute single precision with (`ieee`, `tf32`, `bf16`), by library and operation:
    /// `cuda_matmul`, `cuda_conv`, `onednn_matmul`, `onednn_conv`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub float32: BTreeMap<String, String>,
    /// Trainable parameters of the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<u64>,
    /// The most the device's allocator held within the window: what tensors took, and what it kept for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_device_memory_bytes: Option<u64>,
    /// The most that tensors took of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_device_allocated_bytes: Option<u64>,
    /// The most of the host's memory that the process held since its start (resident set).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_host_memory_bytes: Option<u64>,
    /// Images found in the folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataset_images: Option<u64>,
    /// Images that could not be decoded and were left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable_images: Option<u64>,
    /// The device's own name: the processor's or GPU's model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
    /// The device's UUID, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_uuid: Option<String>,
    /// The compute capability of a CUDA device: `9.0`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute_capability: Option<String>,
    /// Optimizer, learning rate and the like, as one phrase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer: Option<String>,
    /// Versions of libraries by name: `libtorch`, `cudnn`, …
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, String>,
}

/// The shortest window that a clock can measure, in seconds. Whatever is shorter was not measured.
const LEAST_WINDOW_S: f64 = 1e-6;

/// The longest window that anybody has waited for, in seconds: some thirty years.
const GREATEST_WINDOW_S: f64 = 1e9;

/// A measurement that is sound in itself: known schema, seconds that a clock can measure, positive samples that are a
/// whole number of batches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "WireMeasurement", into = "WireMeasurement")]
pub struct Measurement {
    /// Images trained on within the window.
    pub samples: u64,
    /// Seconds of the window.
    pub elapsed_s: f64,
    /// Whether the device was synchronised at both ends of the window. If not, nothing may be published of it.
    pub synchronized: bool,
    /// What the worker really did.
    pub effective: Effective,
    /// Everything else it said.
    pub details: Details,
}

/// What a well-formed `measurement.json` says.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// A measurement.
    Measured(Box<Measurement>),
    /// A failure that the worker names.
    Failed(Failure),
}

/// A `measurement.json` that says nothing usable.
#[derive(Debug, thiserror::Error)]
pub enum BadMeasurement {
    /// Not JSON, or not of the form.
    #[error("measurement.json is not readable")]
    Unreadable(#[source] serde_json::Error),
    /// Of a version we do not know.
    #[error("measurement.json has schema {0}: expected {MEASUREMENT_SCHEMA}")]
    UnknownSchema(u32),
    /// A field that every measurement has is missing.
    #[error("measurement.json has no `{0}`")]
    Missing(&'static str),
    /// A field has a value that cannot be.
    #[error("measurement.json: {0}")]
    Impossible(String),
}

impl Report {
    /// Reads the text of a `measurement.json`.
    ///
    /// # Errors
    /// Text that is not JSON of the form, an unknown schema, a missing field, or an impossible value.
    pub fn parse(text: &str) -> Result<Report, BadMeasurement> {
        // Some languages put a byte-order mark before everything they write.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let wire: WireMeasurement = serde_json::from_str(text).map_err(BadMeasurement::Unreadable)?;
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
            return impossible(format!("{samples} samples are not a positive number of batches of {batch}"));
        }
        if let Some(iters) = effective.settings.whole("iters")
            && batch.checked_mul(iters) != Some(samples)
        {
            return impossible(format!("{samples} samples are not {iters} iterations of {batch} images"));
        }
        Ok(Measurement { samples, elapsed_s, synchronized, effective, details: wire.details })
    }
}

impl From<Measurement> for WireMeasurement {
    fn from(measurement: Measurement) -> Self {
        let Measurement { samples, elapsed_s, synchronized, effective, details } = measurement;
        WireMeasurement {
            schema: MEASUREMENT_SCHEMA,
            failure: None,
            samples: Some(samples),
            elapsed_s: Some(elapsed_s),
            synchronized: Some(synchronized),
            effective: Some(effective),
            details,
        }
    }
}

impl WireMeasurement {
    /// What a worker writes that has nothing but a reason.
    pub fn failed(failure: Failure) -> Self {
        WireMeasurement {
            schema: MEASUREMENT_SCHEMA,
            failure: Some(failure),
            samples: None,
            elapsed_s: None,
            synchronized: None,
            effective: None,
            details: Details::default(),
        }
    }
}

impl Measurement {
    /// The settings that the worker reports and that are not what `key` asks for; empty if all is as requested.
    ///
    /// Every parameter that the worker is told is compared if the worker reports it. Device, precision and batch are
    /// always compared.
    pub fn mismatches(&self, key: &Key) -> Vec<Mismatch> {
        self.effective.mismatches(self.samples, key)
    }

    /// Names of the parameters that `key` declares and the worker does not report: nobody knows whether it did as told.
    pub fn unconfirmed(&self, key: &Key) -> Vec<String> {
        self.effective.unconfirmed(self.samples, key)
    }

    /// The beginning and the end of the window in seconds since the Unix epoch, where the worker says when it was.
    pub fn window(&self) -> Option<(f64, f64)> {
        let from = self.details.window_started_at.filter(|second| second.is_finite())?;
        Some((from, from + self.elapsed_s))
    }

    /// Images a second over the whole window.
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
    fn the_least_a_worker_writes_is_enough() {
        let measurement = measured(LEAST).unwrap();
        assert_eq!(measurement.samples_per_s(), 128.0);
        let again = serde_json::to_string(&measurement).unwrap();
        assert_eq!(measured(&again).unwrap(), measurement);
    }

    #[test]
    fn an_impossible_measurement_is_refused() {
        for (from, to, message) in [
            ("1600", "0", "measurement.json: 0 samples are not a positive number of batches of 16"),
            ("1600", "1601", "measurement.json: 1601 samples are not a positive number of batches of 16"),
            ("12.5", "-1", "measurement.json: elapsed_s is -1: expected 0.000001 to 1000000000 seconds"),
            ("\"batch\": 16", "\"batch\": 0", "measurement.json: effective.batch is 0"),
            (
                "\"batch\": 16",
                "\"batch\": 16, \"iters\": 30",
                "measurement.json: 1600 samples are not 30 iterations of 16 images",
            ),
            ("\"schema\": 1", "\"schema\": 2", "measurement.json has schema 2: expected 1"),
            ("\"samples\": 1600,", "", "measurement.json has no `samples`"),
            ("}", "", "measurement.json is not readable"),
        ] {
            assert_eq!(measured(&LEAST.replace(from, to)), Err(message.to_owned()), "{from} -> {to}");
        }
    }

    #[test]
    fn what_was_called_startup_is_still_read() {
        let text = LEAST.replace("\"effective\"", "\"details\": { \"startup_s\": 0.5 }, \"effective\"");
        assert_eq!(measured(&text).unwrap().details.first_step_s, Some(0.5));
    }

    #[test]
    fn a_clock_has_one_spelling() {
        use IterationClock::{DeviceEvents, Host, Submission};
        for clock in [Host, DeviceEvents, Submission] {
            assert_eq!(serde_json::to_value(clock).unwrap(), clock.as_str());
            assert_eq!(IterationClock::of_word(clock.as_str()), Some(clock));
        }
    }

    #[test]
    fn progress_lines_are_told_from_other_lines() {
        let line = Progress::Measure { done: 3, of: 100 }.line();
        assert_eq!(line, r#"{"event":"measure","done":3,"of":100}"#);
        assert_eq!(Progress::parse(&line), Some(Progress::Measure { done: 3, of: 100 }));
        assert_eq!(Progress::parse("loss 6.9"), None);
        assert_eq!(Progress::parse("{\"event\":\"dance\"}"), None);
    }
}
