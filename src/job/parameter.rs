//! The parameters of the shipped worker.
//!
//! This table is read by the matrix's checks, the key, the worker's call, the comparison of requested and effective
//! settings, the circumstances of a row and the columns of the tables. The worker's own command line and the settings
//! that it reads back are written by hand; tests compare them with the table.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Serialize};

use super::{Finite, Optimizer};

/// A job's parameters by name. Names are those of [`PARAMETERS`], or of placeholders in an external worker's command.
pub type Params = BTreeMap<String, ParamValue>;

/// The value of one worker parameter. In JSON it is a scalar, or the object of a [`DataSource`]; the form tells the
/// variant, so `1`, `1.0` and `"1"` are three values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum ParamValue {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number with a fraction; only external workers have such parameters.
    Float(Finite),
    /// A word.
    Text(String),
    /// Where the images come from.
    Data(DataSource),
}

impl<'de> Deserialize<'de> for ParamValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ParamVisitor)
    }
}

/// Takes every number as it is written or not at all: no whole number becomes a float.
struct ParamVisitor;

impl<'de> Visitor<'de> for ParamVisitor {
    type Value = ParamValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a word, a finite number, a whole number of 64 bits, `true`, `false`, or a source of data",
        )
    }

    fn visit_bool<E>(self, value: bool) -> Result<ParamValue, E> {
        Ok(ParamValue::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<ParamValue, E> {
        Ok(ParamValue::Int(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<ParamValue, E> {
        let value = i64::try_from(value).map_err(|_| E::invalid_value(Unexpected::Unsigned(value), &self))?;
        Ok(ParamValue::Int(value))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<ParamValue, E> {
        let finite = Finite::new(value).ok_or_else(|| E::invalid_value(Unexpected::Float(value), &self))?;
        Ok(ParamValue::Float(finite))
    }

    fn visit_str<E>(self, value: &str) -> Result<ParamValue, E> {
        Ok(ParamValue::Text(value.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ParamValue, A::Error> {
        DataSource::deserialize(MapAccessDeserializer::new(map)).map(ParamValue::Data)
    }
}

/// Where a worker's images come from. In YAML and JSON: `{ synthetic: true }` or `{ folder: path/to/imagefolder }`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "DataSourceFile", into = "DataSourceFile")]
pub enum DataSource {
    /// Random tensors made once: no decoding, no disk.
    Synthetic,
    /// An ImageFolder: `<folder>/train/<class>/*.jpg`, or `<folder>/<class>/*.jpg`.
    Folder(String),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DataSourceFile {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    folder: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    synthetic: Option<bool>,
}

impl TryFrom<DataSourceFile> for DataSource {
    type Error = &'static str;

    fn try_from(file: DataSourceFile) -> Result<Self, Self::Error> {
        match file {
            DataSourceFile { folder: Some(folder), synthetic: None } => Ok(DataSource::Folder(folder)),
            DataSourceFile { folder: None, synthetic: Some(true) } => Ok(DataSource::Synthetic),
            _ => Err("expected `{ synthetic: true }` or `{ folder: <path> }`"),
        }
    }
}

impl From<DataSource> for DataSourceFile {
    fn from(source: DataSource) -> Self {
        match source {
            DataSource::Synthetic => DataSourceFile { folder: None, synthetic: Some(true) },
            DataSource::Folder(folder) => DataSourceFile { folder: Some(folder), synthetic: None },
        }
    }
}

impl fmt::Display for DataSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataSource::Synthetic => f.write_str("synthetic"),
            DataSource::Folder(folder) => f.write_str(folder),
        }
    }
}

impl fmt::Display for ParamValue {
    /// As a placeholder is filled and a table shows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParamValue::Bool(value) => value.fmt(f),
            ParamValue::Int(value) => value.fmt(f),
            ParamValue::Float(value) => value.fmt(f),
            ParamValue::Text(value) => value.fmt(f),
            ParamValue::Data(value) => value.fmt(f),
        }
    }
}

/// What values a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterType {
    /// `true` or `false`.
    Bool,
    /// A whole number within `min ..= max`.
    Int {
        /// The least value that makes sense.
        min: i64,
        /// The greatest value that makes sense.
        max: i64,
    },
    /// One of these words.
    Word(&'static [&'static str]),
    /// A [`DataSource`].
    Data,
}

/// What a parameter takes by default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ParameterDefault {
    /// A switch's default.
    Bool(bool),
    /// A number's default.
    Int(i64),
    /// A word's default.
    Word(&'static str),
    /// Synthetic data.
    Synthetic,
    /// The worker chooses and reports what it chose.
    WorkerChooses,
}

/// One parameter of the shipped worker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter {
    /// Its name in a matrix, in a key and in placeholders.
    pub name: &'static str,
    /// What values it takes.
    pub kind: ParameterType,
    /// What it is when the matrix does not say.
    pub default: ParameterDefault,
    /// One sentence for the schema and the documentation.
    pub help: &'static str,
}

const fn switch(name: &'static str, default: bool, help: &'static str) -> Parameter {
    Parameter { name, kind: ParameterType::Bool, default: ParameterDefault::Bool(default), help }
}

const fn number(name: &'static str, default: i64, min: i64, max: i64, help: &'static str) -> Parameter {
    Parameter { name, kind: ParameterType::Int { min, max }, default: ParameterDefault::Int(default), help }
}

/// The parameters that say how an ImageFolder is read. They mean nothing for synthetic data, and a worker is not told
/// them then.
pub const LOADER_PARAMETERS: &[&str] =
    &["loader_workers", "prefetch_factor", "pin_memory", "augment", "strict"];

/// Every parameter of the shipped worker, in the order its command line shows them.
///
/// A default is part of every key ever hashed: the hash leaves out parameters that have their default. So never
/// change a default. The default of a new parameter is what was done before, for every value of the other parameters.
/// For example, AdamW has always decayed weights by 0.01 and SGD by nothing, so no number can be the default of a new
/// `weight_decay`: it has to be [`ParameterDefault::WorkerChooses`].
///
/// What a record does not say is not known. Never read a default into a record: it may be older than the parameter.
pub const PARAMETERS: &[Parameter] = &[
    number("warmup", 10, 0, 1_000_000, "Training iterations before the measured window."),
    number("iters", 100, 1, 10_000_000, "Training iterations inside the measured window."),
    Parameter {
        name: "data",
        kind: ParameterType::Data,
        default: ParameterDefault::Synthetic,
        help: "Where the images come from: `{ synthetic: true }` or `{ folder: path }`, an ImageFolder.",
    },
    number("loader_workers", 2, 0, 256, "Threads that decode images; 0 decodes in the training thread."),
    number("prefetch_factor", 2, 1, 256, "Batches each loader thread prepares ahead."),
    switch("pin_memory", false, "Copy batches through page-locked host memory (CUDA)."),
    switch("augment", true, "RandomResizedCrop and flip instead of Resize and CenterCrop."),
    switch(
        "strict",
        false,
        "An image that cannot be decoded is an error; otherwise it is left out and counted.",
    ),
    switch("channels_last", false, "Keep activations and weights in NHWC order."),
    number(
        "grad_accum_steps",
        1,
        1,
        1024,
        "Iterations (forward and backward of one batch) for each optimizer step.",
    ),
    Parameter {
        name: "optimizer",
        kind: ParameterType::Word(Optimizer::WORDS),
        default: ParameterDefault::Word(Optimizer::WORDS[0]),
        help: "`sgd` (with momentum) or `adamw`, each in one fused call.",
    },
    switch("nvtx", false, "Mark the measured window with an NVTX range."),
    switch("deterministic", false, "Only deterministic algorithms."),
    switch("cudnn_benchmark", false, "Let cuDNN time its algorithms and keep the fastest."),
    Parameter {
        name: "threads",
        kind: ParameterType::Int { min: 1, max: 4096 },
        default: ParameterDefault::WorkerChooses,
        help: "Compute threads; by default the processors that the process may run on.",
    },
    number("seed", 0, 0, i64::MAX, "Seed of weights, data order and augmentation."),
    number("input_size", 224, 1, 4096, "Height and width of the images, in pixels."),
    number("classes", 1000, 1, 1_000_000, "Number of classes of the last layer."),
];

/// The parameter called `name`, if the shipped worker has one.
pub fn parameter(name: &str) -> Option<&'static Parameter> {
    PARAMETERS.iter().find(|parameter| parameter.name == name)
}

/// A value that a parameter does not take.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{name} is `{value}`: expected {expected}")]
pub struct WrongParameter {
    /// The parameter.
    pub name: &'static str,
    /// The value as it stood.
    pub value: String,
    /// What would have been accepted, as a phrase.
    pub expected: String,
}

impl Parameter {
    /// The default as a value; `None` where the worker chooses.
    pub fn default_value(&self) -> Option<ParamValue> {
        match self.default {
            ParameterDefault::Bool(value) => Some(ParamValue::Bool(value)),
            ParameterDefault::Int(value) => Some(ParamValue::Int(value)),
            ParameterDefault::Word(word) => Some(ParamValue::Text(word.to_owned())),
            ParameterDefault::Synthetic => Some(ParamValue::Data(DataSource::Synthetic)),
            ParameterDefault::WorkerChooses => None,
        }
    }

    /// What the parameter takes, as a phrase that completes "expected …".
    pub fn expected(&self) -> String {
        match self.kind {
            ParameterType::Bool => "`true` or `false`".to_owned(),
            ParameterType::Int { min, max: i64::MAX } => format!("a whole number of at least {min}"),
            ParameterType::Int { min, max } => format!("a whole number from {min} to {max}"),
            ParameterType::Word(words) => {
                let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
                words.join(" or ")
            }
            ParameterType::Data => "`{ synthetic: true }` or `{ folder: <path> }`".to_owned(),
        }
    }

    /// Whether `value` is one the parameter takes.
    ///
    /// # Errors
    /// [`WrongParameter`] names the parameter, the value and what was expected.
    pub fn check(&self, value: &ParamValue) -> Result<(), WrongParameter> {
        let fits = match (self.kind, value) {
            (ParameterType::Bool, ParamValue::Bool(_)) | (ParameterType::Data, ParamValue::Data(_)) => true,
            (ParameterType::Int { min, max }, ParamValue::Int(value)) => (min..=max).contains(value),
            (ParameterType::Word(words), ParamValue::Text(word)) => words.contains(&word.as_str()),
            _ => false,
        };
        if fits {
            return Ok(());
        }
        Err(WrongParameter { name: self.name, value: value.to_string(), expected: self.expected() })
    }
}
