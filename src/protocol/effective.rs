//! What the worker really did, held against what its job asked for.

use serde::{Deserialize, Serialize};

use super::setting::{Setting, Settings};
use crate::job::{Device, Key, Precision};

/// What the worker really did, read back where that is possible. Compared with what the job asked for.
///
/// Parameters have no fields of their own: `settings` holds whatever the worker reports, by name. So a parameter that
/// is added to [`crate::job::PARAMETERS`] is compared, splits rows and has its column as soon as a worker reports it.
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
    /// Everything else that the worker reports, as it said it.
    #[serde(flatten)]
    pub settings: Settings,
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
    /// The settings that the worker reports and that are not what `key` asks for; empty if all is as requested. It
    /// trained on `samples` images.
    ///
    /// Every parameter that the worker is told ([`Key::told`]) is compared, by [`Setting::agrees_with`]. A parameter
    /// that the worker does not report cannot be compared: see [`Effective::unconfirmed`].
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
            compare("model", key.model.to_string(), model.clone());
        }
        if let Some(tf32) = effective.tf32
            && matches!(key.precision, Precision::Fp32 | Precision::Tf32)
        {
            compare("tf32", (key.precision == Precision::Tf32).to_string(), tf32.to_string());
        }
        for (name, requested) in key.told() {
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

    /// Names of the parameters that `key` declares and the worker does not report: nobody knows whether it did as told.
    pub(super) fn unconfirmed(&self, samples: u64, key: &Key) -> Vec<String> {
        let told = key.told().into_iter().map(|(name, _)| name);
        told.filter(|name| key.declares(name) && self.reported(samples, name).is_none()).collect()
    }

    /// What the worker reports of the parameter `name`. One iteration is one batch, so the `samples` tell the iterations
    /// if the worker does not. A parameter of an external worker may be called `tf32`, too.
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
