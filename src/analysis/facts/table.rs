//! The table of all facts, and the comparison of runs by it.

use super::fact::{Effect, Fact, Seen};
use super::gpu::{GPU, VISIBLE};
use super::host::{CGROUP, HOST, PROCESSOR};
use super::rest::{CALL, WORKER};
use crate::job::Device;
use crate::protocol::Measurement;
use crate::record::{GpuFacts, HostFacts, Provenance, Record};
use crate::shared::Shared;

/// Every fact of a record's provenance.
pub(super) fn facts() -> impl Iterator<Item = &'static Fact> {
    [HOST, CGROUP, PROCESSOR, GPU, VISIBLE, WORKER, CALL].into_iter().flatten()
}

/// The facts that are read and have this effect on jobs on `device`.
fn compared(effect: Effect, device: Device) -> impl Iterator<Item = &'static Fact> {
    facts().filter(move |fact| fact.read.is_some() && fact.effect(device) == effect)
}

/// The facts of a run that are compared. Two are equal if all facts that split are equal. Machines are compared by
/// [`HostFacts::is_machine_of`], the worker and its settings by the circumstances.
#[derive(Clone, Debug)]
pub(in crate::analysis) struct ComparedFacts {
    device: Device,
    provenance: Shared<Provenance>,
    gpu: Option<GpuFacts>,
}

impl ComparedFacts {
    /// Those of the run with this `record` and `measurement`.
    pub(in crate::analysis) fn of(record: &Record, measurement: &Measurement) -> Self {
        ComparedFacts {
            device: record.key.device,
            provenance: record.provenance.clone(),
            gpu: gpu(record, measurement).cloned(),
        }
    }

    /// The host.
    pub(in crate::analysis) fn host(&self) -> &HostFacts {
        &self.provenance.host
    }

    /// Whether they are those of the run with this `record` and `measurement`, apart from the machine. Does not copy
    /// facts about hosts.
    pub(in crate::analysis) fn are_of(&self, record: &Record, measurement: &Measurement) -> bool {
        let other = Seen { provenance: &record.provenance, gpu: gpu(record, measurement) };
        self.device == record.key.device && self.is_like(&other)
    }

    fn is_like(&self, other: &Seen<'_>) -> bool {
        let own = self.seen();
        let is_one = std::ptr::eq(own.provenance, other.provenance) && own.gpu == other.gpu;
        is_one
            || compared(Effect::Splits, self.device)
                .filter_map(|fact| fact.read)
                .all(|read| read(&own) == read(other))
    }

    fn seen(&self) -> Seen<'_> {
        Seen { provenance: &self.provenance, gpu: self.gpu.as_ref() }
    }

    /// The facts that split, each as a name and a text.
    pub(in crate::analysis) fn facts(&self) -> impl Iterator<Item = (&'static str, String)> {
        compared(Effect::Splits, self.device).filter_map(|fact| {
            Some((fact.name, fact.read?(&self.seen()).map_or_else(not_reported, Into::into)))
        })
    }
}

impl PartialEq for ComparedFacts {
    fn eq(&self, other: &Self) -> bool {
        self.device == other.device && self.host().is_machine_of(other.host()) && self.is_like(&other.seen())
    }
}

fn not_reported() -> String {
    "not reported".to_owned()
}

/// The GPU of the run: the one whose UUID the worker reports, else the requested one.
fn gpu<'a>(record: &'a Record, measurement: &Measurement) -> Option<&'a GpuFacts> {
    let host = &*record.provenance.host;
    let uuid = measurement.details.device_uuid.as_ref();
    match record.key.device {
        Device::Cpu => None,
        Device::Mps => host.gpus.first(),
        Device::Cuda(_) => {
            let reported = host.gpus.iter().find(|gpu| uuid.is_some() && gpu.uuid.as_ref() == uuid);
            reported.or_else(|| host.gpu(record.key.device))
        }
    }
}

/// The reported facts in which `runs` of one row differ, with their values as `name a / b`.
pub(in crate::analysis) fn differences_within<'a>(
    runs: impl Iterator<Item = (&'a Record, &'a Measurement)>,
) -> Vec<String> {
    let seen: Vec<(Device, Seen<'_>)> = runs
        .map(|(record, measurement)| {
            (record.key.device, Seen { provenance: &record.provenance, gpu: gpu(record, measurement) })
        })
        .collect();
    let Some((device, first)) = seen.first() else { return Vec::new() };
    let difference = |fact: &Fact| {
        let read = fact.read?;
        let known = read(first);
        if seen.iter().all(|(_, other)| read(other) == known) {
            return None;
        }
        Some(format!("{} {}", fact.name, values(seen.iter().map(|(_, other)| read(other)))))
    };
    compared(Effect::Reported, *device).filter_map(difference).collect()
}

/// The different values, sorted, so that two rows with the same ones have equal texts: `a / b`, `a / b / c / d and 3
/// more`.
fn values<S: Into<String>>(all: impl Iterator<Item = Option<S>>) -> String {
    const SHOWN: usize = 4;
    let mut found: Vec<String> = Vec::new();
    for value in all {
        let value = value.map_or_else(not_reported, Into::into);
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found.sort_unstable();
    match found.len().saturating_sub(SHOWN) {
        0 => found.join(" / "),
        more => format!("{} and {more} more", found[..SHOWN].join(" / ")),
    }
}

/// The table as Markdown: one row per fact.
pub fn circumstances_table() -> String {
    let row = |fact: &Fact| {
        let words: Vec<&str> = fact.effects.iter().map(|effect| effect.word()).collect();
        format!("| `{}` | {} | {} |\n", fact.place, words.join(" | "), fact.why)
    };
    let rows: String = facts().map(row).collect();
    format!("| fact | CPU | CUDA | MPS | why |\n|---|---|---|---|---|\n{rows}")
}
