//! The settings that the worker used, and their comparison with the settings that its job requests.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::setting::{Setting, Settings};
use super::words;
use crate::clean::clean_text;
use crate::job::{Device, Key, Precision};

/// The settings that the worker used, read back if possible. They are compared with the request of the job.
///
/// Parameters have no fields here: `settings` has everything that the worker reports, by name. So a parameter that is
/// added to [`crate::job::PARAMETERS`] is compared, splits rows and gets a column as soon as a worker reports it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effective {
    /// The device that computed.
    #[schemars(schema_with = "words::device")]
    pub device: Device,
    /// The precision.
    #[schemars(schema_with = "words::precision")]
    pub precision: Precision,
    /// Samples per iteration.
    pub batch: u32,
    /// The network, if the worker reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether matrix products were allowed to round to TF32.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tf32: Option<bool>,
    /// Everything else that the worker reports, cleaned but otherwise unchanged.
    #[serde(flatten)]
    pub settings: Settings,
}

/// A setting that differs from the request of the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// The setting's name.
    pub setting: String,
    /// The value that the key declares.
    pub requested: String,
    /// The value that the worker reports.
    pub effective: String,
}

impl Effective {
    /// The reported settings that differ from the request of `key`; empty if everything is as requested. `samples` is
    /// the number of images that the worker trained on.
    ///
    /// Every parameter passed to the worker ([`Key::passed`]) is compared, by [`Setting::agrees_with`]. A parameter
    /// that the worker does not report cannot be compared: see [`Effective::unconfirmed`].
    pub(super) fn mismatches(&self, samples: u64, key: &Key) -> Vec<Mismatch> {
        let effective = self;
        let mut found = Vec::new();
        let mut compare = |setting: &str, requested: String, effective: String| {
            if requested != effective {
                found.push(Mismatch { setting: setting.to_owned(), requested, effective });
            }
        };
        // A worker sees its one CUDA device as device 0, so the index cannot be compared.
        compare("device", key.device.backend().to_owned(), effective.device.backend().to_owned());
        compare("precision", key.precision.to_string(), effective.precision.to_string());
        compare("batch", key.batch.to_string(), effective.batch.to_string());
        if let Some(model) = &effective.model {
            compare("model", clean_text(&key.model).into_owned(), model.clone());
        }
        if let Some(tf32) = effective.tf32
            && matches!(key.precision, Precision::Fp32 | Precision::Tf32)
        {
            compare("tf32", (key.precision == Precision::Tf32).to_string(), tf32.to_string());
        }
        for (name, requested) in key.passed() {
            match self.reported(samples, &name) {
                Some(setting) if !setting.agrees_with(&requested) => {
                    let (requested, effective) = (requested.to_string(), setting.to_string());
                    found.push(Mismatch { setting: name, requested, effective });
                }
                Some(_) | None => {}
            }
        }
        found
    }

    /// Names of the parameters that `key` declares but the worker does not report, so that it is unknown whether the
    /// worker applied them.
    pub(super) fn unconfirmed(&self, samples: u64, key: &Key) -> Vec<String> {
        let passed = key.passed().into_iter().map(|(name, _)| name);
        passed.filter(|name| key.declares(name) && self.reported(samples, name).is_none()).collect()
    }

    /// What the worker reports about the parameter `name`. If it does not report `iters`, they follow from `samples`,
    /// because one iteration is one batch. A parameter of an external worker can also be called `tf32`.
    fn reported(&self, samples: u64, name: &str) -> Option<Setting> {
        match name {
            "tf32" => self.tf32.map(Setting::from),
            "iters" => {
                let derived = || (samples / u64::from(self.batch)).into();
                Some(self.settings.get(name).cloned().unwrap_or_else(derived))
            }
            _ => self.settings.get(name).cloned(),
        }
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
    fn a_minimal_report_has_no_mismatch() {
        assert_eq!(measured(LEAST).mismatches(&key()), []);
    }

    #[test]
    fn reported_settings_are_compared_with_requested_ones() {
        let text =
            LEAST.replace("\"batch\": 16", "\"batch\": 16, \"tf32\": true, \"warmup\": 3, \"threads\": 2");
        let names = |key: &Key| -> Vec<String> {
            measured(&text).mismatches(key).into_iter().map(|mismatch| mismatch.setting).collect()
        };
        assert_eq!(names(&key()), ["tf32", "warmup"]);
        let external = Key {
            worker: crate::job::WorkerTemplate::Command(["python3".into()].into()),
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
