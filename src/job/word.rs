//! The closed vocabularies of a key: device, precision, optimizer, kind. Each word has one spelling in YAML, JSON, CSV,
//! labels and flags.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A word outside a closed vocabulary.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is not {what}: expected {expected}")]
pub struct UnknownWord {
    /// The vocabulary, with its article: `a device`, `a precision`, `an optimizer`, `a kind`.
    pub what: &'static str,
    /// The word as written.
    pub word: String,
    /// The valid words, as a phrase.
    pub expected: &'static str,
}

/// The device of the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Device {
    /// The host's processor.
    Cpu,
    /// Apple's GPU through Metal Performance Shaders.
    Mps,
    /// An NVIDIA GPU, by its index among those that `orchestrate` may see: the entries of `CUDA_VISIBLE_DEVICES`,
    /// otherwise all, in the order of `nvidia-smi`. The worker sees only this device, as its device 0.
    Cuda(u32),
}

impl Device {
    /// The value of the worker's `--backend` flag.
    pub fn backend(self) -> &'static str {
        match self {
            Device::Cpu => "cpu",
            Device::Mps => "mps",
            Device::Cuda(_) => "cuda",
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cuda(index) if *index != 0 => write!(f, "cuda:{index}"),
            other => f.write_str(other.backend()),
        }
    }
}

impl FromStr for Device {
    type Err = UnknownWord;

    /// `cuda` and `cuda:0` are the same device.
    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "cpu" => Ok(Device::Cpu),
            "mps" => Ok(Device::Mps),
            "cuda" => Ok(Device::Cuda(0)),
            _ => {
                word.strip_prefix("cuda:").and_then(|index| index.parse().ok()).map(Device::Cuda).ok_or_else(
                    || UnknownWord {
                        what: "a device",
                        word: word.to_owned(),
                        expected: "`cpu`, `mps`, `cuda` or `cuda:<index>`",
                    },
                )
            }
        }
    }
}

/// The precision of a training step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Precision {
    /// IEEE single precision throughout, TF32 off.
    Fp32,
    /// Single precision whose matrix products and convolutions round their inputs to TF32.
    Tf32,
    /// Automatic mixed precision: fp16 on CUDA and MPS, bf16 on the CPU.
    Amp,
    /// Automatic mixed precision with bf16.
    Bf16,
}

impl Precision {
    /// Every precision, in the order of tables.
    pub const ALL: [Precision; 4] = [Precision::Fp32, Precision::Tf32, Precision::Amp, Precision::Bf16];

    /// Its word, everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Precision::Fp32 => "fp32",
            Precision::Tf32 => "tf32",
            Precision::Amp => "amp",
            Precision::Bf16 => "bf16",
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Precision {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Precision::ALL.into_iter().find(|precision| precision.as_str() == word).ok_or_else(|| UnknownWord {
            what: "a precision",
            word: word.to_owned(),
            expected: "`fp32`, `tf32`, `amp` or `bf16`",
        })
    }
}

/// The rule that updates the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Optimizer {
    /// Stochastic gradient descent with momentum.
    Sgd,
    /// Adam with decoupled weight decay.
    AdamW,
}

impl Optimizer {
    /// The words for all optimizers, in the order of the enum.
    pub const WORDS: &'static [&'static str] = &["sgd", "adamw"];

    /// Its word, everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Optimizer::Sgd => "sgd",
            Optimizer::AdamW => "adamw",
        }
    }
}

impl fmt::Display for Optimizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Optimizer {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        [Optimizer::Sgd, Optimizer::AdamW]
            .into_iter()
            .find(|optimizer| optimizer.as_str() == word)
            .ok_or_else(|| UnknownWord {
                what: "an optimizer",
                word: word.to_owned(),
                expected: "`sgd` or `adamw`",
            })
    }
}

/// The purpose of a job. A profiled run never enters a timing statistic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// An undisturbed run whose seconds count.
    Timing,
    /// A run under Nsight Compute, for its operations and bytes, not its seconds.
    Ncu,
    /// A run under `perf stat`, for its counters, not its seconds.
    Perf,
    /// A run whose worker profiles itself after a short window, for the time of each operator.
    Ops,
}

impl Kind {
    /// Every kind, in the order of tables.
    pub const ALL: [Kind; 4] = [Kind::Timing, Kind::Ncu, Kind::Perf, Kind::Ops];

    /// Its word, everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Timing => "timing",
            Kind::Ncu => "ncu",
            Kind::Perf => "perf",
            Kind::Ops => "ops",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Kind {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Kind::ALL.into_iter().find(|kind| kind.as_str() == word).ok_or_else(|| UnknownWord {
            what: "a kind",
            word: word.to_owned(),
            expected: "`timing`, `ncu`, `perf` or `ops`",
        })
    }
}

/// Serialises through `Display` and parses through `FromStr`, so a word has one spelling everywhere.
macro_rules! serde_as_word {
    ($($word:ty),*) => {$(
        impl Serialize for $word {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $word {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

serde_as_word!(Device, Precision, Optimizer, Kind);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_one_spelling() {
        for kind in Kind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
        let error = "op".parse::<Kind>().unwrap_err();
        assert_eq!(error.to_string(), "`op` is not a kind: expected `timing`, `ncu`, `perf` or `ops`");
    }

    #[test]
    fn an_optimizer_has_one_spelling() {
        for word in Optimizer::WORDS {
            let optimizer: Optimizer = word.parse().unwrap();
            assert_eq!(optimizer.to_string(), *word);
            assert_eq!(serde_json::to_value(optimizer).unwrap(), *word);
        }
        let error = "adam".parse::<Optimizer>().unwrap_err();
        assert_eq!(error.to_string(), "`adam` is not an optimizer: expected `sgd` or `adamw`");
    }
}
