//! The counts of Nsight Compute, summed over kernels: [`NcuCounters`].

use std::borrow::Borrow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::select::{Selection, counts_flops, tabled_paths};
use super::table::Kernel;
use crate::clean::clean_text;
use crate::metric::{Capability, CoreFormat, CoreOperation, Meaning, TensorPath, core_bases, disjoint_paths};

/// The maximum number of kernels that are listed by name.
const TOP_KERNELS: usize = 20;

/// The counts of Nsight Compute in the profiled window, over all processes.
///
/// These are raw sums; [`NcuCounters::totals`] converts them to operations and bytes. A metric that is missing in
/// `metrics` was not measured. Durations are at the clocks of the profiled job and do not measure speed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NcuCounters {
    /// The version of Nsight Compute, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The device's compute capability, if the table has it and all kernels agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capability: Option<Capability>,
    /// The number of profiled kernel launches.
    pub kernels: u64,
    /// The number of different kernel names.
    pub kernel_names: u64,
    /// Sums over all kernels by name of the metric, in bytes, nanoseconds or events. Only metrics that have a value for
    /// every kernel.
    pub metrics: BTreeMap<String, u64>,
    /// Metrics that should have been measured, and why they were not.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub not_measured: BTreeMap<String, String>,
    /// Seconds in kernels without floating-point operations; absent unless all operations and durations were measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zero_flop_s: Option<f64>,
    /// The kernels that took longest, by name; at most 20.
    pub top_kernels: Vec<KernelGroup>,
    /// The profiler's warnings, at most 20 sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The table may be incomplete, and its sums lower bounds. The log announced no kernels, and the table lacks ids,
    /// ends at the end of a disk block, or is of a profiler whose end was not observed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unproven: bool,
}

/// All launches of kernels with the same name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelGroup {
    /// The name with template and function arguments, as Nsight Compute prints it.
    pub name: String,
    /// The number of launches.
    pub launches: u64,
    /// Their total duration in seconds, at the clocks of the profiled job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Floating-point operations on CUDA and tensor cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flops: Option<u64>,
    /// Bytes read from and written to device memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dram_bytes: Option<u64>,
}

/// Operations, bytes and seconds. Absent values were not measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NcuTotals {
    /// Floating-point operations of the CUDA cores in FP32; a fused multiply-add counts as two.
    pub fp32_flops: Option<u64>,
    /// The same in FP16.
    pub fp16_flops: Option<u64>,
    /// The same in FP64.
    pub fp64_flops: Option<u64>,
    /// Floating-point operations of the tensor cores, by path; the paths do not overlap.
    pub tensor_flops: BTreeMap<String, u64>,
    /// The sum of all of these; absent unless all were measured.
    pub flops: Option<u64>,
    /// Bytes read from device memory.
    pub dram_read_bytes: Option<u64>,
    /// Bytes written to device memory.
    pub dram_write_bytes: Option<u64>,
    /// Bytes read and written, as counted; if there is no such count, the sum of the two above.
    pub dram_bytes: Option<u64>,
    /// Bytes read over PCIe by the whole device.
    pub pcie_read_bytes: Option<u64>,
    /// Bytes written over PCIe by the whole device.
    pub pcie_write_bytes: Option<u64>,
    /// Seconds in kernels, at the clocks of the profiled job.
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
            warnings: Vec::new(),
            unproven,
        }
    }

    /// Converts the sums to operations, bytes and seconds.
    pub fn totals(&self) -> NcuTotals {
        let is_complete = !self.not_measured.keys().any(|name| counts_flops(name));
        Counting { capability: self.capability, is_complete }.totals(&self.metrics)
    }

    /// The share of the kernels' time in kernels without floating-point operations, 0 to 1.
    pub fn zero_flop_share(&self) -> Option<f64> {
        let seconds = self.totals().seconds.filter(|seconds| *seconds > 0.0)?;
        Some(self.zero_flop_s? / seconds)
    }
}

/// The sum of each metric that has a value for every kernel, and why the others have no sum.
fn sums(kernels: &[Kernel]) -> (BTreeMap<String, u64>, BTreeMap<String, String>) {
    let mut all: BTreeMap<&str, (usize, Option<u64>)> = BTreeMap::new();
    for (name, value) in kernels.iter().flat_map(|kernel| &kernel.metrics) {
        let (count, sum) = all.entry(&**name).or_insert((0, Some(0)));
        *count += 1;
        *sum = sum.and_then(|sum| sum.checked_add(*value));
    }
    let (mut metrics, mut gaps) = (BTreeMap::new(), BTreeMap::new());
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
                gaps.insert(name.to_owned(), "its sum exceeds 64 bits".to_owned());
            }
        }
    }
    (metrics, gaps)
}

fn common_capability(kernels: &[Kernel]) -> Option<Capability> {
    let first = kernels.first()?.capability?;
    kernels.iter().all(|kernel| kernel.capability == Some(first)).then_some(first)
}

/// How to convert metrics to operations.
struct Counting {
    capability: Option<Capability>,
    /// All metrics that count floating-point operations were measured.
    is_complete: bool,
}

impl Counting {
    fn totals<K: Borrow<str> + Ord>(&self, metrics: &BTreeMap<K, u64>) -> NcuTotals {
        let base = |base: &str| metrics.get(format!("{base}.sum").as_str()).copied();
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

    /// The operations of the tensor paths that can be added without double counting.
    fn tensor_flops<K: Borrow<str> + Ord>(&self, metrics: &BTreeMap<K, u64>) -> BTreeMap<String, u64> {
        let present = metrics.keys().filter_map(|name| match Meaning::of(name.borrow()) {
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
            let value = *metrics.get(format!("{}.sum", path.base()).as_str())?;
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

/// The operations of the CUDA cores in one format.
fn core_flops<K: Borrow<str> + Ord>(metrics: &BTreeMap<K, u64>, format: CoreFormat) -> Option<u64> {
    CoreOperation::ALL.into_iter().try_fold(0u64, |sum, operation| {
        let instructions = core_bases(format, operation)
            .iter()
            .find_map(|base| metrics.get(format!("{base}.sum").as_str()).copied())?;
        sum.checked_add(instructions.checked_mul(operation.flops())?)
    })
}

/// The kernels by name, with their total duration in nanoseconds.
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
            name: clean_text(name).into_owned(),
            launches: launches.len() as u64,
            seconds: nanoseconds.map(|nanoseconds| nanoseconds as f64 / 1e9),
            flops: sum(|totals| totals.flops),
            dram_bytes: sum(|totals| totals.dram_bytes),
        };
        (group, nanoseconds.unwrap_or(0))
    };
    names.into_iter().map(group).collect()
}

/// The kernels that took longest. `groups` are sorted by name and the sort is stable, so ties stay in that order.
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
    /// Its duration, if it was measured.
    fn nanoseconds(&self) -> Option<u64> {
        self.metrics.get("gpu__time_duration.sum").copied()
    }
}
