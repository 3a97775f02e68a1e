//! The possible meanings of a ledger's column, the known names of such columns, and mappings of others.

use strum::{EnumIter, IntoEnumIterator};

use crate::text::did_you_mean;

/// The meaning of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EnumIter)]
#[expect(missing_docs, reason = "`Field::facts` describes each, and the manual prints that")]
pub enum Field {
    Env,
    Host,
    Device,
    Backend,
    Model,
    Precision,
    Label,
    Setting,
    Batch,
    Runs,
    Throughput,
    ThroughputSd,
    Iterations,
    Samples,
    Elapsed,
    IterationSeconds,
    Iteration,
    Accumulation,
    StartedAt,
    EndedAt,
    Attained,
    Intensity,
    PeakFlops,
    PeakBandwidth,
}

/// The type of a column's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Text.
    Text,
    /// A number.
    Number,
    /// A time: RFC 3339, or seconds since 1970.
    Time,
}

/// The declaration of a field.
#[derive(Clone, Copy, Debug)]
pub struct FieldFacts {
    /// Its meaning, in a few words.
    pub meaning: &'static str,
    /// The type of its cells.
    pub reading: Reading,
    /// The names of its columns, each with the factor for its cells. The first one is the name in messages.
    pub columns: &'static [(&'static str, f64)],
}

impl Field {
    /// The table of fields: meaning, type and names.
    pub const fn facts(self) -> FieldFacts {
        use Reading::{Number, Text, Time};
        let (meaning, reading, columns): (_, _, &'static [(&'static str, f64)]) = match self {
            Field::Env => ("the environment", Text, &[("env", 1.0), ("environment", 1.0), ("env_key", 1.0)]),
            Field::Host => ("the machine", Text, &[("host", 1.0), ("hostname", 1.0), ("machine", 1.0)]),
            Field::Device => (
                "the device, by the name that its driver reports",
                Text,
                &[("device_name", 1.0), ("gpu_name", 1.0), ("gpu", 1.0)],
            ),
            Field::Backend => ("the kind of device", Text, &[("backend", 1.0), ("device", 1.0)]),
            Field::Model => (
                "the network",
                Text,
                &[("model", 1.0), ("arch", 1.0), ("network", 1.0), ("architecture", 1.0)],
            ),
            Field::Precision => ("the precision", Text, &[("precision", 1.0), ("dtype", 1.0)]),
            Field::Label => ("the name of a run", Text, &[("label", 1.0), ("run_name", 1.0), ("run", 1.0)]),
            Field::Setting => (
                "a setting that makes another config",
                Text,
                &[
                    ("setting", 1.0),
                    ("channels_last", 1.0),
                    ("deterministic", 1.0),
                    ("cudnn_benchmark", 1.0),
                    ("compile", 1.0),
                    ("workers", 1.0),
                    ("synthetic", 1.0),
                    ("data_root", 1.0),
                    ("torch_version", 1.0),
                    ("input_size", 1.0),
                ],
            ),
            Field::Batch => {
                ("samples per iteration", Number, &[("batch", 1.0), ("batch_size", 1.0), ("bs", 1.0)])
            }
            Field::Runs => (
                "the number of runs that a line is the mean of",
                Number,
                &[("runs", 1.0), ("n", 1.0), ("repeats", 1.0), ("n_runs", 1.0), ("num_runs", 1.0)],
            ),
            Field::Throughput => (
                "samples per second",
                Number,
                &[
                    ("samples_per_s", 1.0),
                    ("samples_per_sec", 1.0),
                    ("images_per_s", 1.0),
                    ("images_per_sec", 1.0),
                    ("images_per_second", 1.0),
                    ("images_per_sec_mean", 1.0),
                    ("imgs_per_sec", 1.0),
                    ("throughput", 1.0),
                    ("avg_throughput", 1.0),
                    ("throughput_imgs_per_sec", 1.0),
                ],
            ),
            Field::ThroughputSd => (
                "the standard deviation of the throughput",
                Number,
                &[
                    ("samples_per_s_sd", 1.0),
                    ("images_per_sec_std", 1.0),
                    ("images_per_sec_sd", 1.0),
                    ("throughput_std", 1.0),
                    ("std_throughput", 1.0),
                    ("throughput_sd", 1.0),
                ],
            ),
            Field::Iterations => (
                "measured iterations",
                Number,
                &[
                    ("iterations", 1.0),
                    ("measured_iters", 1.0),
                    ("iters", 1.0),
                    ("measured_iterations", 1.0),
                    ("num_iterations", 1.0),
                ],
            ),
            Field::Samples => (
                "samples of the measured window",
                Number,
                &[("samples", 1.0), ("images_processed", 1.0), ("images", 1.0)],
            ),
            Field::Elapsed => (
                "the measured window",
                Number,
                &[
                    ("elapsed_s", 1.0),
                    ("elapsed_ms", 1e-3),
                    ("elapsed_sec", 1.0),
                    ("elapsed_seconds", 1.0),
                    ("measured_sec", 1.0),
                    ("elapsed", 1.0),
                ],
            ),
            Field::IterationSeconds => (
                "one iteration, or their mean",
                Number,
                &[
                    ("seconds_per_iteration", 1.0),
                    ("iteration_ms", 1e-3),
                    ("iter_time_ms", 1e-3),
                    ("iter_time_s", 1.0),
                    ("avg_time_ms", 1e-3),
                    ("mean_iteration_s", 1.0),
                    ("step_time_ms", 1e-3),
                    ("step_time_s", 1.0),
                ],
            ),
            Field::Iteration => (
                "the index of the iteration of a line",
                Number,
                &[("iteration", 1.0), ("iter_idx", 1.0), ("iter", 1.0), ("step", 1.0)],
            ),
            Field::Accumulation => (
                "batches per step of the optimizer",
                Number,
                &[("accumulation", 1.0), ("grad_accum_steps", 1.0)],
            ),
            Field::StartedAt => (
                "the beginning of the measured window",
                Time,
                &[("started_at", 1.0), ("start_time", 1.0), ("start", 1.0)],
            ),
            Field::EndedAt => (
                "the end of the measured window",
                Time,
                &[("ended_at", 1.0), ("timestamp", 1.0), ("end_time", 1.0), ("end", 1.0)],
            ),
            Field::Attained => (
                "attained FLOP/s",
                Number,
                &[
                    ("attained_gflops", 1e9),
                    ("attained_tflops", 1e12),
                    ("attained_flops", 1.0),
                    ("achieved_gflops", 1e9),
                    ("achieved_tflops", 1e12),
                    ("achieved_tflops_per_sec", 1e12),
                    ("gflops_per_s", 1e9),
                    ("tflops_per_s", 1e12),
                ],
            ),
            Field::Intensity => (
                "FLOPs per byte",
                Number,
                &[("arithmetic_intensity", 1.0), ("ai", 1.0), ("intensity", 1.0), ("flops_per_byte", 1.0)],
            ),
            Field::PeakFlops => (
                "the compute roof, FLOP/s",
                Number,
                &[
                    ("peak_gflops", 1e9),
                    ("peak_tflops", 1e12),
                    ("peak_tflops_per_sec", 1e12),
                    ("peak_flops", 1.0),
                ],
            ),
            Field::PeakBandwidth => (
                "the memory roof, bytes per second",
                Number,
                &[("peak_gbps", 1e9), ("peak_gb_per_s", 1e9), ("peak_tb_per_s", 1e12)],
            ),
        };
        FieldFacts { meaning, reading, columns }
    }

    /// Its name in messages: that of its first column.
    pub fn name(self) -> &'static str {
        self.facts().columns[0].0
    }

    /// Its name in records, where every number is in its base unit.
    pub(super) fn unit_name(self) -> &'static str {
        match self {
            Field::Attained => "attained_flops",
            Field::PeakFlops => "peak_flops",
            Field::PeakBandwidth => "peak_bytes_per_s",
            other => other.name(),
        }
    }

    /// The field of a column called `header`, and the factor for its cells. Case, spaces and punctuation are ignored.
    pub fn of_column(header: &str) -> Option<(Field, f64)> {
        let wanted = plain(header);
        let known = Field::iter().flat_map(|field| field.facts().columns.iter().map(move |it| (field, it)));
        known
            .into_iter()
            .find(|(_, (name, _))| plain(name) == wanted)
            .map(|(field, (_, factor))| (field, *factor))
    }

    /// Whether it identifies a line, unlike a measured value.
    pub(super) fn identifies(self) -> bool {
        use Field::{Backend, Batch, Device, Env, Host, Label, Model, Precision, Setting};
        [Env, Host, Device, Backend, Model, Precision, Label, Setting, Batch].contains(&self)
    }

    /// The names of all known columns.
    pub fn columns() -> impl Iterator<Item = &'static str> {
        Field::iter().flat_map(|field| field.facts().columns.iter().map(|(name, _)| *name))
    }
}

/// The letters and digits of `name`, in lower case.
pub(super) fn plain(name: &str) -> String {
    name.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// `COLUMN=NAME`: a column of the ledger is read as `NAME`, or ignored without a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Mapping {
    /// The column, as in the ledger.
    pub column: String,
    /// Its field, and the factor for its cells. `None` ignores the column.
    pub field: Option<(Field, f64)>,
}

/// Why a mapping cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MappingError {
    /// There is no `=`.
    #[error("`{0}` is not a mapping: expected COLUMN=NAME, such as `speed=images_per_s`")]
    NoEquals(String),
    /// The name is unknown.
    #[error("`{name}` is not a column that the audit knows{}", nearest.as_deref().unwrap_or_default())]
    Unknown {
        /// The name.
        name: String,
        /// A question that names the closest ones.
        nearest: Option<String>,
    },
}

impl std::str::FromStr for Mapping {
    type Err = MappingError;

    fn from_str(text: &str) -> Result<Self, MappingError> {
        // A column can have an equals sign in its name, and a field cannot.
        let (column, name) = text.rsplit_once('=').ok_or_else(|| MappingError::NoEquals(text.to_owned()))?;
        if name.trim().is_empty() {
            return Ok(Mapping { column: column.to_owned(), field: None });
        }
        let field = Field::of_column(name).ok_or_else(|| MappingError::Unknown {
            name: name.to_owned(),
            nearest: did_you_mean(name, Field::columns()).map(|question| format!("; {question}")),
        })?;
        Ok(Mapping { column: column.to_owned(), field: Some(field) })
    }
}

/// The manual's table: one row per field, with the names of its columns.
pub fn fields_table() -> String {
    let row = |field: Field| {
        let FieldFacts { meaning, columns, .. } = field.facts();
        let names: Vec<String> = columns.iter().map(|(name, _)| format!("`{name}`")).collect();
        format!("| {meaning} | {} |\n", names.join(", "))
    };
    format!("| meaning | columns |\n|---|---|\n{}", Field::iter().map(row).collect::<String>())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn column_names_are_unambiguous() {
        let mut seen = BTreeSet::new();
        for name in Field::columns() {
            assert!(seen.insert(plain(name)), "{name}");
        }
    }

    #[test]
    fn column_names_ignore_case_and_punctuation() {
        for header in ["Images/sec", "images_per_sec", "Images per sec"] {
            let expected = (header != "Images/sec").then_some(Field::Throughput);
            assert_eq!(Field::of_column(header).map(|(field, _)| field), expected, "{header}");
        }
        assert_eq!(Field::of_column("Batch Size"), Some((Field::Batch, 1.0)));
        assert_eq!(Field::of_column("iter_time_ms"), Some((Field::IterationSeconds, 1e-3)));
        assert_eq!(Field::of_column("colour"), None);
    }

    #[test]
    fn parses_mappings() {
        let parse = |text: &str| text.parse::<Mapping>();
        assert_eq!(
            parse("speed=images_per_s"),
            Ok(Mapping { column: "speed".into(), field: Some((Field::Throughput, 1.0)) })
        );
        assert_eq!(parse("a=b=attained_tflops").unwrap().column, "a=b");
        assert_eq!(parse("timestamp="), Ok(Mapping { column: "timestamp".into(), field: None }));
        assert_eq!(parse("speed"), Err(MappingError::NoEquals("speed".into())));
        let error = parse("speed=image_per_sec").unwrap_err().to_string();
        assert!(error.contains("did you mean") && error.contains("images_per_sec"), "{error}");
    }
}
