//! A line of the table: a fact, and what a difference in it does to a row.

use std::borrow::{Borrow, Cow};

use crate::job::Device;
use crate::record::{GpuFacts, HostFacts, Provenance};

/// What becomes of runs of one config that differ in a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// They are in different rows.
    Splits,
    /// They are in one row, and a finding says what differs.
    Said,
    /// They are in one row.
    Pools,
}

impl Effect {
    /// What the manual calls it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Effect::Splits => "splits",
            Effect::Said => "is said",
            Effect::Pools => "pools",
        }
    }
}

/// The effect for jobs on the processor, on NVIDIA GPUs and on Apple's, in this order.
pub(super) type Effects = [Effect; 3];

/// It splits every row.
pub(super) const SPLITS: Effects = [Effect::Splits; 3];
/// It is said of every row.
pub(super) const SAID: Effects = [Effect::Said; 3];
/// It does nothing.
pub(super) const POOLS: Effects = [Effect::Pools; 3];
/// It matters to the processor that computes, and may matter to one that feeds a GPU.
pub(super) const OF_PROCESSOR: Effects = [Effect::Splits, Effect::Said, Effect::Said];
/// It matters to jobs on NVIDIA GPUs alone.
pub(super) const OF_CUDA: Effects = [Effect::Pools, Effect::Splits, Effect::Pools];
/// It matters to jobs on Apple's GPUs alone.
pub(super) const OF_MPS: Effects = [Effect::Pools, Effect::Pools, Effect::Splits];
/// It matters to jobs on any GPU.
pub(super) const OF_GPUS: Effects = [Effect::Pools, Effect::Splits, Effect::Splits];

/// How a fact is read. `None` is unknown, which differs from everything that is known.
pub(super) type Read = for<'a> fn(&Seen<'a>) -> Option<Cow<'a, str>>;

/// A fact of a record's provenance.
pub(super) struct Fact {
    /// Its place below `provenance` in `record.json`.
    pub(super) place: &'static str,
    /// What sentences call it.
    pub(super) name: &'static str,
    /// What it does.
    pub(super) effects: Effects,
    /// Why, as a sentence.
    pub(super) why: &'static str,
    /// How it is read, for comparison; `None` if it pools, or is compared together with others.
    pub(super) read: Option<Read>,
}

impl Fact {
    /// What it does to a job on `device`.
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

/// What was seen of one run.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) provenance: &'a Provenance,
    /// The GPU of the job, as its driver tells.
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

/// A value with a unit, without decimals that mean nothing.
pub(super) fn whole<'a>(value: Option<f64>, unit: &str) -> Option<Cow<'a, str>> {
    value.map(|value| Cow::Owned(format!("{value:.0} {unit}")))
}
