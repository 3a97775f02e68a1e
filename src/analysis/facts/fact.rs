//! A line of the table: a fact, and the effect of a difference in it on rows.

use std::borrow::{Borrow, Cow};

use crate::job::Device;
use crate::record::{GpuFacts, HostFacts, Provenance};

/// The effect on runs of one config that differ in a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// They are in different rows.
    Splits,
    /// They are in one row, and a finding reports the difference.
    Reported,
    /// They are in one row.
    Pools,
}

impl Effect {
    /// Its name in the manual.
    pub(super) fn word(self) -> &'static str {
        match self {
            Effect::Splits => "splits",
            Effect::Reported => "is reported",
            Effect::Pools => "pools",
        }
    }
}

/// The effects for jobs on the processor, on NVIDIA GPUs and on Apple's GPUs, in this order.
pub(super) type Effects = [Effect; 3];

/// Splits rows on every device.
pub(super) const SPLITS: Effects = [Effect::Splits; 3];
/// Reported on every device.
pub(super) const REPORTED: Effects = [Effect::Reported; 3];
/// Pools on every device.
pub(super) const POOLS: Effects = [Effect::Pools; 3];
/// Splits jobs on the processor; reported for jobs on a GPU, which the processor feeds.
pub(super) const OF_PROCESSOR: Effects = [Effect::Splits, Effect::Reported, Effect::Reported];
/// Splits only jobs on NVIDIA GPUs.
pub(super) const OF_CUDA: Effects = [Effect::Pools, Effect::Splits, Effect::Pools];
/// Splits only jobs on Apple's GPUs.
pub(super) const OF_MPS: Effects = [Effect::Pools, Effect::Pools, Effect::Splits];
/// Splits jobs on any GPU.
pub(super) const OF_GPUS: Effects = [Effect::Pools, Effect::Splits, Effect::Splits];

/// Reads a fact. `None` is unknown, which differs from all known values.
pub(super) type Read = for<'a> fn(&Seen<'a>) -> Option<Cow<'a, str>>;

/// A fact of a record's provenance.
pub(super) struct Fact {
    /// Its place below `provenance` in `record.json`.
    pub(super) place: &'static str,
    /// Its name in sentences.
    pub(super) name: &'static str,
    /// Its effects by device.
    pub(super) effects: Effects,
    /// The reason for them, as a sentence.
    pub(super) why: &'static str,
    /// Reads it for comparison; `None` if it pools, or is compared together with others.
    pub(super) read: Option<Read>,
}

impl Fact {
    /// Its effect on a job on `device`.
    pub(super) fn effect(&self, device: Device) -> Effect {
        let [cpu, cuda, mps] = self.effects;
        match device {
            Device::Cpu => cpu,
            Device::Cuda(_) => cuda,
            Device::Mps => mps,
        }
    }
}

/// A fact that is compared.
pub(super) const fn fact(
    effects: Effects,
    place: &'static str,
    name: &'static str,
    why: &'static str,
    read: Read,
) -> Fact {
    Fact { place, name, effects, why, read: Some(read) }
}

/// A fact that pools, or that is compared together with others.
pub(super) const fn apart(effects: Effects, place: &'static str, why: &'static str) -> Fact {
    Fact { place, name: "", effects, why, read: None }
}

/// The facts of one run.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) provenance: &'a Provenance,
    /// The GPU of the job, as its driver reports it.
    pub(super) gpu: Option<&'a GpuFacts>,
}

impl<'a> Seen<'a> {
    pub(super) fn host(&self) -> &'a HostFacts {
        &self.provenance.host
    }
}

pub(super) fn text(value: &str) -> Option<Cow<'_, str>> {
    Some(Cow::Borrowed(value)).filter(|value| !value.is_empty())
}

pub(super) fn maybe_text(value: &Option<String>) -> Option<Cow<'_, str>> {
    value.as_deref().map(Cow::Borrowed)
}

pub(super) fn joined<'a>(values: &[impl Borrow<str>], between: &str) -> Option<Cow<'a, str>> {
    (!values.is_empty()).then(|| Cow::Owned(values.join(between)))
}

pub(super) fn number<'a>(value: impl ToString) -> Option<Cow<'a, str>> {
    Some(Cow::Owned(value.to_string()))
}

pub(super) fn switch<'a>(value: Option<bool>) -> Option<Cow<'a, str>> {
    value.map(|is_on| Cow::Borrowed(if is_on { "on" } else { "off" }))
}

/// A value with a unit, rounded to a whole number.
pub(super) fn whole<'a>(value: Option<f64>, unit: &str) -> Option<Cow<'a, str>> {
    value.map(|value| Cow::Owned(format!("{value:.0} {unit}")))
}
