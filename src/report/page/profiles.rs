//! The counts of profilers.

use serde::Serialize;

use crate::analysis::Analysis;
use crate::analysis::cost::Cost;
use crate::analysis::counted::{NcuRun, PlacedKernel, TimeShares, placed_kernels};
use crate::analysis::group::Row;
use crate::analysis::table::NOT_KNOWN;
use crate::record::perf::{Count, PerfCounters};
use crate::text::{grouped, significant};

/// The most kernels that a page lists per config; `kernels.csv` has more.
const KERNELS: usize = 5;

/// The section about profiled jobs.
#[derive(Debug, Serialize)]
pub(super) struct Profiles {
    ncu: Vec<NcuView>,
    kernels: Vec<KernelView>,
    perf: Vec<PerfView>,
}

/// The counts of Nsight Compute for a config, per sample.
#[derive(Debug, Serialize)]
struct NcuView {
    label: String,
    kernels: String,
    executed: String,
    needed: String,
    dram: String,
    intensity: String,
    zero_flop: String,
    /// The division of the kernel time among the roofs.
    roofs: String,
    /// Metrics that were not measured; can be empty.
    missing: String,
}

/// One of the kernels that took longest.
#[derive(Debug, Serialize)]
struct KernelView {
    label: String,
    kernel: String,
    launches: String,
    share: String,
    gflop: String,
    dram: String,
    bound: String,
}

/// The counts of `perf stat` for a config.
#[derive(Debug, Serialize)]
struct PerfView {
    label: String,
    ipc: String,
    cache_miss: String,
    branch_miss: String,
    /// Events that were not measured; can be empty.
    missing: String,
}

/// The section about profiled jobs.
pub(super) fn profiles(analysis: &Analysis<'_>) -> Profiles {
    let ncu = || analysis.rows.iter().filter_map(|row| Some((row, row.counted.ncu.as_ref()?)));
    let perf = analysis.rows.iter().filter_map(|row| Some((row, row.counted.perf?)));
    Profiles {
        ncu: ncu().map(|(row, run)| ncu_view(row, run)).collect(),
        kernels: ncu().flat_map(|(row, run)| kernel_views(row, run)).collect(),
        perf: perf.map(|(row, counters)| perf_view(row, counters)).collect(),
    }
}

fn known(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| NOT_KNOWN.to_owned(), |value| significant(value, digits))
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| NOT_KNOWN.to_owned(), |share| format!("{:.1} %", 100.0 * share))
}

fn ncu_view(row: &Row<'_>, run: &NcuRun<'_>) -> NcuView {
    let needed = row.cost.as_ref().ok().map(Cost::needed_flops);
    let bytes = run.dram_bytes_per_sample();
    let intensity = needed.zip(bytes).map(|(flops, bytes)| flops / bytes);
    let missing: Vec<&str> = run.counters.not_measured.keys().map(String::as_str).collect();
    NcuView {
        label: row.label(),
        kernels: grouped(run.counters.kernels),
        executed: known(run.flops_per_sample().map(|flops| flops / 1e9), 4),
        needed: known(needed.map(|flops| flops / 1e9), 4),
        dram: known(bytes.map(|bytes| bytes / 1e6), 4),
        intensity: known(intensity, 3),
        zero_flop: percent(run.counters.zero_flop_share()),
        roofs: roofs_text(row, run),
        missing: missing.join(", "),
    }
}

/// `40 % at the compute roof, 30 % at the memory roof, 10 % far from both, 5 % between or above, 15 % not placed`
fn roofs_text(row: &Row<'_>, run: &NcuRun<'_>) -> String {
    let Some(shares) = TimeShares::of(&placed_kernels(row, run)) else { return NOT_KNOWN.to_owned() };
    let TimeShares { compute, memory, latency, between, unplaced } = shares;
    let parts = [
        (compute, "at the compute roof"),
        (memory, "at the memory roof"),
        (latency, "far from both"),
        (between, "between or above"),
        (unplaced, "not placed"),
    ];
    let parts = parts.map(|(share, place)| format!("{:.0} % {place}", 100.0 * share));
    parts.join(", ")
}

fn kernel_views(row: &Row<'_>, run: &NcuRun<'_>) -> Vec<KernelView> {
    let view = |PlacedKernel { kernel, time_share, place, .. }: PlacedKernel<'_>| KernelView {
        label: row.label(),
        kernel: kernel.name.clone(),
        launches: grouped(kernel.launches),
        share: percent(time_share),
        gflop: known(kernel.flops.map(|flops| flops as f64 / 1e9), 4),
        dram: known(kernel.dram_bytes.map(|bytes| bytes as f64 / 1e6), 4),
        bound: place.map_or(NOT_KNOWN.to_owned(), |place| place.bound.to_string()),
    };
    placed_kernels(row, run).into_iter().take(KERNELS).map(view).collect()
}

fn perf_view(row: &Row<'_>, counters: &PerfCounters) -> PerfView {
    let missing = counters.events.iter().filter(|event| !matches!(event.count, Count::Counted { .. }));
    let missing: Vec<&str> = missing.map(|event| event.name.as_str()).collect();
    PerfView {
        label: row.label(),
        ipc: known(counters.ipc(), 3),
        cache_miss: percent(counters.cache_miss_rate()),
        branch_miss: percent(counters.branch_miss_rate()),
        missing: missing.join(", "),
    }
}
