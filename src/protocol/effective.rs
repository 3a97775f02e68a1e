//! What the worker really did, held against what its job asked for.

use serde::{Deserialize, Serialize};

use crate::job::{DataSource, Device, Key, Optimizer, ParamValue, Precision};

/// What the worker really did, read back where that is possible. Compared with what the job asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effective {
    /// The device computed on.
    pub device: Device,
    /// The arithmetic.
    pub precision: Precision,
    /// Images an iteration.
    pub batch: u32,
    /// The network, where the worker says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether matrix products may round to TF32.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tf32: Option<bool>,
    /// Measured iterations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iters: Option<u32>,
    /// Warm-up iterations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup: Option<u32>,
    /// Where the images came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<DataSource>,
    /// Threads that decoded images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loader_workers: Option<u32>,
    /// Batches each loader thread prepared ahead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetch_factor: Option<u32>,
    /// Whether batches went through page-locked memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin_memory: Option<bool>,
    /// Whether images were augmented.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub augment: Option<bool>,
    /// Whether an image that cannot be decoded would have been an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
    /// Whether activations and weights were in NHWC order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels_last: Option<bool>,
    /// Passes for each optimizer step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grad_accum_steps: Option<u32>,
    /// The rule by which a step changes the weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optimizer: Option<Optimizer>,
    /// Whether an NVTX range marked the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvtx: Option<bool>,
    /// Whether only deterministic algorithms were allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deterministic: Option<bool>,
    /// Whether cuDNN timed its algorithms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cudnn_benchmark: Option<bool>,
    /// Compute threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// The seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Height and width of the images, in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_size: Option<u32>,
    /// Classes of the last layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<u32>,
}

/// A setting that is not what the job asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// The setting's name.
    pub setting: String,
    /// What the key declares.
    pub requested: String,
    /// What the worker reports.
    pub effective: String,
}

impl Effective {
    /// The parameters of [`crate::job::PARAMETERS`] that the worker reports, by name.
    pub fn parameters(&self) -> Vec<(&'static str, ParamValue)> {
        fn int<N: Into<i64>>(value: Option<N>) -> Option<ParamValue> {
            value.map(|value| ParamValue::Int(value.into()))
        }
        let switch = |value: Option<bool>| value.map(ParamValue::Bool);
        let seed = self.seed.map(|seed| ParamValue::Int(i64::try_from(seed).unwrap_or(i64::MAX)));
        [
            ("warmup", int(self.warmup)),
            ("iters", int(self.iters)),
            ("data", self.data.clone().map(ParamValue::Data)),
            ("loader_workers", int(self.loader_workers)),
            ("prefetch_factor", int(self.prefetch_factor)),
            ("pin_memory", switch(self.pin_memory)),
            ("augment", switch(self.augment)),
            ("strict", switch(self.strict)),
            ("channels_last", switch(self.channels_last)),
            ("grad_accum_steps", int(self.grad_accum_steps)),
            ("optimizer", self.optimizer.map(|optimizer| ParamValue::Text(optimizer.to_string()))),
            ("nvtx", switch(self.nvtx)),
            ("deterministic", switch(self.deterministic)),
            ("cudnn_benchmark", switch(self.cudnn_benchmark)),
            ("threads", int(self.threads)),
            ("seed", seed),
            ("input_size", int(self.input_size)),
            ("classes", int(self.classes)),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }
}

impl Effective {
    /// The settings that the worker reports and that are not what `key` asks for; empty if all is as requested. It
    /// trained on `samples` images.
    ///
    /// A setting that the worker does not report cannot be compared, except device, precision and batch, which every
    /// worker reports. A parameter that an external worker was never told (it is neither declared in the key nor at
    /// a default the worker has to know) is compared only if the key declares it.
    pub(super) fn mismatches(&self, samples: u64, key: &Key) -> Vec<Mismatch> {
        let effective = self;
        let mut found = Vec::new();
        let mut compare = |setting: &str, requested: String, effective: String| {
            if requested != effective {
                found.push(Mismatch { setting: setting.to_owned(), requested, effective });
            }
        };
        // A worker sees the one CUDA device it was given as its device 0, so the index cannot be compared.
        compare("device", key.device.backend().to_owned(), effective.device.backend().to_owned());
        compare("precision", key.precision.to_string(), effective.precision.to_string());
        compare("batch", key.batch.to_string(), effective.batch.to_string());
        if let Some(model) = &effective.model {
            compare("model", key.model.clone(), model.clone());
        }
        if let Some(tf32) = effective.tf32
            && matches!(key.precision, Precision::Fp32 | Precision::Tf32)
        {
            compare("tf32", (key.precision == Precision::Tf32).to_string(), tf32.to_string());
        }
        let mut reported = effective.parameters();
        if effective.iters.is_none() {
            // One iteration is one batch, so a worker that does not say tells by its samples.
            let derived = samples / u64::from(effective.batch);
            reported.push(("iters", ParamValue::Int(i64::try_from(derived).unwrap_or(i64::MAX))));
        }
        for (name, value) in reported {
            let was_told = key.worker.is_shipped() || key.params.contains_key(name);
            let requested = if was_told { key.asked(name) } else { None };
            if let Some(requested) = requested {
                compare(name, requested.to_string(), value.to_string());
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Measurement, Report};
    use super::*;

    const LEAST: &str = r#"{ "schema": 1, "samples": 1600, "elapsed_s": 12.5, "synchronized": true,
        "effective": { "device": "cpu", "precision": "fp32", "batch": 16 } }"#;

    fn measured(text: &str) -> Measurement {
        match Report::parse(text) {
            Ok(Report::Measured(measurement)) => *measurement,
            other => panic!("{other:?}"),
        }
    }

    fn key() -> Key {
        Key { batch: 16, ..Key::example() }
    }

    #[test]
    fn the_least_that_a_worker_reports_is_what_was_asked() {
        assert_eq!(measured(LEAST).mismatches(&key()), []);
    }

    #[test]
    fn what_was_done_is_held_against_what_was_asked() {
        let text =
            LEAST.replace("\"batch\": 16", "\"batch\": 16, \"tf32\": true, \"warmup\": 3, \"threads\": 2");
        let names = |key: &Key| -> Vec<String> {
            measured(&text).mismatches(key).into_iter().map(|mismatch| mismatch.setting).collect()
        };
        assert_eq!(names(&key()), ["tf32", "warmup"]);
        let external = Key {
            worker: crate::job::WorkerTemplate::Command(vec!["python3".into()]),
            precision: Precision::Tf32,
            ..key()
        };
        assert_eq!(names(&external), ["precision"]);
    }

    #[test]
    fn another_optimizer_is_a_mismatch() {
        let text = LEAST.replace("\"batch\": 16", "\"batch\": 16, \"optimizer\": \"adamw\"");
        let mismatches = measured(&text).mismatches(&key());
        let [Mismatch { setting, requested, effective }] = &mismatches[..] else { panic!("{mismatches:?}") };
        assert_eq!([setting, requested, effective], ["optimizer", "sgd", "adamw"]);
    }
}
