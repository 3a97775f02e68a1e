//! What Nsight Compute counted, summed up over kernels.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::output::Metrics;
use super::select::{Selection, tabled_paths};
use super::table::Kernel;
use crate::metric::{Capability, CoreFormat, CoreOperation, Meaning, TensorPath, core_bases, disjoint_paths};

/// How many kernels are listed by name.
const TOP_KERNELS: usize = 20;

/// What Nsight Compute counted in the profiled window, over all processes.
///
/// Sums as they were counted; [`NcuCounters::totals`] makes operations and bytes of them. A metric that is not among
/// `metrics` was not measured. Durations are at the clocks of the profiled run and say nothing about speed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NcuCounters {
    /// Of Nsight Compute, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Of the device, where the table says and all kernels agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capability: Option<Capability>,
    /// Kernels that were launched and profiled.
    pub kernels: u64,
    /// How many names they have among them.
    pub kernel_names: u64,
    /// Sums over all kernels by the metric's name, in bytes, nanoseconds, or events. Only metrics that have a value for
    /// every kernel.
    pub metrics: BTreeMap<String, u64>,
    /// What was to be measured or should have been, with why it was not.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub not_measured: BTreeMap<String, String>,
    /// Seconds in kernels that did no floating-point operation; absent where not all of the operations or durations
    /// were measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zero_flop_s: Option<f64>,
    /// The kernels that took longest, by name; at most 20.
    pub top_kernels: Vec<KernelGroup>,
    /// Nothing says that the table is whole: the profiler's exit was not seen, and its log announced no kernels. The
    /// sums are then lower bounds.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unproven: bool,
}

/// All launches of kernels of one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelGroup {
    /// With template and function arguments, as Nsight Compute prints it.
    pub name: String,
    /// How often it ran.
    pub launches: u64,
    /// How long, in seconds at the clocks of the profiled run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Floating-point operations, on CUDA and tensor cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flops: Option<u64>,
    /// Bytes between the chip and its memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dram_bytes: Option<u64>,
}

/// Operations, bytes and seconds. Absent is not measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NcuTotals {
    /// Floating-point operations of the CUDA cores in 32 bits; a fused multiply-add is two.
    pub fp32_flops: Option<u64>,
    /// In 16 bits.
    pub fp16_flops: Option<u64>,
    /// In 64 bits.
    pub fp64_flops: Option<u64>,
    /// Floating-point operations of the tensor cores by path; the paths do not overlap.
    pub tensor_flops: BTreeMap<String, u64>,
    /// All of these; absent unless every one of them was measured.
    pub flops: Option<u64>,
    /// Bytes read from the chip's memory.
    pub dram_read_bytes: Option<u64>,
    /// Bytes written to it.
    pub dram_write_bytes: Option<u64>,
    /// Both, as counted; where that was not, the sum of the two.
    pub dram_bytes: Option<u64>,
    /// Bytes read over PCIe by the whole device.
    pub pcie_read_bytes: Option<u64>,
    /// Bytes written over PCIe by the whole device.
    pub pcie_write_bytes: Option<u64>,
    /// Seconds in kernels, at the clocks of the profiled run.
    pub seconds: Option<f64>,
}

impl NcuCounters {
    /// Sums up the kernels of a table. `unproven` is the field of that name.
    pub(super) fn of(kernels: &[Kernel], selection: &Selection, unproven: bool) -> NcuCounters {
        let (metrics, gaps) = sums(kernels);
        let mut not_measured = selection.missing.clone();
        for name in &selection.metrics {
            if !metrics.contains_key(name) {
                not_measured.insert(name.clone(), "no kernel has a value for it".to_owned());
            }
        }
        not_measured.extend(gaps);
        let capability = common_capability(kernels);
        let counting =
            Counting { capability, is_complete: !not_measured.keys().any(|name| counts_flops(name)) };
        let groups = group_by_name(kernels, &counting);
        NcuCounters {
            version: None,
            capability,
            kernels: kernels.len() as u64,
            kernel_names: groups.len() as u64,
            metrics,
            not_measured,
            zero_flop_s: zero_flop_seconds(kernels, &counting),
            top_kernels: top(groups),
            unproven,
        }
    }

    /// Operations, bytes and seconds of all kernels.
    pub fn totals(&self) -> NcuTotals {
        let is_complete = !self.not_measured.keys().any(|name| counts_flops(name));
        Counting { capability: self.capability, is_complete }.totals(&self.metrics)
    }

    /// The share of the kernels' time in kernels that did no floating-point operation, 0 to 1.
    pub fn zero_flop_share(&self) -> Option<f64> {
        let seconds = self.totals().seconds.filter(|seconds| *seconds > 0.0)?;
        Some(self.zero_flop_s? / seconds)
    }
}

fn counts_flops(name: &str) -> bool {
    Meaning::of(name).is_some_and(|meaning| meaning.counts_flops())
}

/// The sum of each metric that has a value for every kernel, and why the others have none.
fn sums(kernels: &[Kernel]) -> (Metrics, BTreeMap<String, String>) {
    let mut all: BTreeMap<&str, (usize, Option<u64>)> = BTreeMap::new();
    for (name, value) in kernels.iter().flat_map(|kernel| &kernel.metrics) {
        let (count, sum) = all.entry(name).or_insert((0, Some(0)));
        *count += 1;
        *sum = sum.and_then(|sum| sum.checked_add(*value));
    }
    let (mut metrics, mut gaps) = (Metrics::new(), BTreeMap::new());
    for (name, (count, sum)) in all {
        match sum {
            Some(sum) if count == kernels.len() => {
                metrics.insert(name.to_owned(), sum);
            }
            Some(_) => {
                let without = kernels.len() - count;
                gaps.insert(name.to_owned(), format!("{without} of {} kernels have no value", kernels.len()));
            }
            None => {
                gaps.insert(name.to_owned(), "its sum is beyond 64 bits".to_owned());
            }
        }
    }
    (metrics, gaps)
}

fn common_capability(kernels: &[Kernel]) -> Option<Capability> {
    let first = kernels.first()?.capability?;
    kernels.iter().all(|kernel| kernel.capability == Some(first)).then_some(first)
}

/// How metrics become operations.
struct Counting {
    capability: Option<Capability>,
    /// No metric that counts floating-point operations is missing.
    is_complete: bool,
}

impl Counting {
    fn totals(&self, metrics: &Metrics) -> NcuTotals {
        let base = |base: &str| metrics.get(&format!("{base}.sum")).copied();
        let either = |one: &str, other: &str| base(one).or_else(|| base(other));
        let (read, write) = (
            either("dram__bytes_read", "dram__bytes_op_read"),
            either("dram__bytes_write", "dram__bytes_op_write"),
        );
        let mut totals = NcuTotals {
            fp32_flops: core_flops(metrics, CoreFormat::Fp32),
            fp16_flops: core_flops(metrics, CoreFormat::Fp16),
            fp64_flops: core_flops(metrics, CoreFormat::Fp64),
            tensor_flops: self.tensor_flops(metrics),
            flops: None,
            dram_read_bytes: read,
            dram_write_bytes: write,
            dram_bytes: base("dram__bytes").or_else(|| read?.checked_add(write?)),
            pcie_read_bytes: base("pcie__read_bytes"),
            pcie_write_bytes: base("pcie__write_bytes"),
            seconds: base("gpu__time_duration").map(|nanoseconds| nanoseconds as f64 / 1e9),
        };
        totals.flops = self.flops(&totals);
        totals
    }

    /// The operations of every path through the tensor cores that may be added.
    fn tensor_flops(&self, metrics: &Metrics) -> BTreeMap<String, u64> {
        let present = metrics.keys().filter_map(|name| match Meaning::of(name) {
            Some(Meaning::Tensor(path)) => Some(path),
            _ => None,
        });
        let tabled = tabled_paths(self.capability);
        let paths: Vec<TensorPath> = if tabled.is_empty() {
            disjoint_paths(present).0
        } else {
            present.filter(|path| tabled.contains(path)).collect()
        };
        let value = |path: TensorPath| {
            let value = *metrics.get(&format!("{}.sum", path.base()))?;
            Some((path.name().to_owned(), value))
        };
        paths.into_iter().filter_map(value).collect()
    }

    fn flops(&self, totals: &NcuTotals) -> Option<u64> {
        if !self.is_complete || totals.tensor_flops.is_empty() {
            return None;
        }
        let cores = [totals.fp32_flops?, totals.fp16_flops?, totals.fp64_flops?];
        cores.iter().chain(totals.tensor_flops.values()).try_fold(0u64, |sum, flops| sum.checked_add(*flops))
    }
}

/// The operations of the CUDA cores in a format.
fn core_flops(metrics: &Metrics, format: CoreFormat) -> Option<u64> {
    CoreOperation::ALL.into_iter().try_fold(0u64, |sum, operation| {
        let instructions = core_bases(format, operation)
            .iter()
            .find_map(|base| metrics.get(&format!("{base}.sum")).copied())?;
        sum.checked_add(instructions.checked_mul(operation.flops())?)
    })
}

/// Kernels by name, each with how long they ran in nanoseconds.
fn group_by_name<'a>(kernels: &'a [Kernel], counting: &Counting) -> Vec<(KernelGroup, u64)> {
    let mut names: BTreeMap<&'a str, Vec<&Kernel>> = BTreeMap::new();
    for kernel in kernels {
        names.entry(&kernel.name).or_default().push(kernel);
    }
    let group = |(name, launches): (&str, Vec<&Kernel>)| {
        let totals: Vec<NcuTotals> = launches.iter().map(|kernel| counting.totals(&kernel.metrics)).collect();
        let sum = |value: fn(&NcuTotals) -> Option<u64>| {
            totals.iter().try_fold(0u64, |sum, totals| sum.checked_add(value(totals)?))
        };
        let nanoseconds =
            launches.iter().try_fold(0u64, |sum, kernel| sum.checked_add(kernel.nanoseconds()?));
        let group = KernelGroup {
            name: name.to_owned(),
            launches: launches.len() as u64,
            seconds: nanoseconds.map(|nanoseconds| nanoseconds as f64 / 1e9),
            flops: sum(|totals| totals.flops),
            dram_bytes: sum(|totals| totals.dram_bytes),
        };
        (group, nanoseconds.unwrap_or(0))
    };
    names.into_iter().map(group).collect()
}

/// The kernels that took longest. Names are in order, so equal times stay in the order of their names.
fn top(mut groups: Vec<(KernelGroup, u64)>) -> Vec<KernelGroup> {
    groups.sort_by_key(|(_, nanoseconds)| std::cmp::Reverse(*nanoseconds));
    groups.into_iter().take(TOP_KERNELS).map(|(group, _)| group).collect()
}

fn zero_flop_seconds(kernels: &[Kernel], counting: &Counting) -> Option<f64> {
    let nanoseconds = kernels.iter().try_fold(0u64, |sum, kernel| {
        let flops = counting.totals(&kernel.metrics).flops?;
        let own = kernel.nanoseconds()?;
        sum.checked_add(if flops == 0 { own } else { 0 })
    });
    nanoseconds.map(|nanoseconds| nanoseconds as f64 / 1e9)
}

impl Kernel {
    /// How long it ran, where that was measured.
    fn nanoseconds(&self) -> Option<u64> {
        self.metrics.get("gpu__time_duration.sum").copied()
    }
}
