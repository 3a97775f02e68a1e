//! `counters.csv` and `kernels.csv`.

use super::{NcuRun, PerfRun};
use crate::analysis::Analysis;
use crate::analysis::group::Row;
use crate::analysis::line::{Line, Table};
use crate::record::ncu::NcuTotals;
use crate::record::perf::{Count, PerfEvent};

/// `counters.csv`: what profilers counted, a row a config and counter. What was not measured is there, with its reason.
pub fn counters(analysis: &Analysis<'_>) -> Table {
    let mut table = Table::like(counter_line(None, None));
    for row in &analysis.rows {
        let of_ncu = row.counted.ncu.iter().flat_map(ncu_counters);
        let of_perf = row.counted.perf.iter().flat_map(perf_counters);
        for counter in of_ncu.chain(of_perf) {
            table.push(counter_line(Some(row), Some(&counter)));
        }
    }
    table
}

/// A number that a profiler gave, or why it gave none.
struct Counter {
    profiler: &'static str,
    name: String,
    value: Option<f64>,
    unit: String,
    /// Images that the value is of; `None` where it is none that adds up.
    images: Option<u64>,
    note: Option<String>,
}

fn counter_line(row: Option<&Row<'_>>, counter: Option<&Counter>) -> Line {
    let mut line = Line::default();
    line.config(row.map(|row| &row.config));
    line.maybe("host", row.and_then(|row| row.circumstances.as_ref()).map(|found| &found.host));
    line.maybe("part", row.map(|row| format!("{} of {}", row.part.0, row.part.1)));
    line.maybe("profiler", counter.map(|counter| counter.profiler));
    line.maybe("counter", counter.map(|counter| &counter.name));
    line.maybe("value", counter.and_then(|counter| counter.value));
    line.maybe("unit", counter.map(|counter| &counter.unit));
    let per_image = counter.and_then(|counter| Some(counter.value? / counter.images? as f64));
    line.maybe("per_image", per_image);
    line.maybe("note", counter.map(|counter| counter.note.as_deref().unwrap_or("none")));
    line
}

/// The sums first, then the metrics that they are made of, then what was not measured.
fn ncu_counters(run: &NcuRun<'_>) -> Vec<Counter> {
    let bound = || run.counters.unproven.then(|| "a lower bound: the table may have been cut".to_owned());
    let counter = |name: &str, value: Option<f64>, unit: &str, note: Option<String>| Counter {
        profiler: "ncu",
        name: name.to_owned(),
        value,
        unit: unit.to_owned(),
        images: Some(run.images),
        note: note.or_else(bound),
    };
    let sums = sums(&run.totals).map(|(name, value, unit)| counter(name, value, unit, None));
    let paths = run.totals.tensor_flops.iter();
    let paths =
        paths.map(|(path, flops)| counter(&format!("tensor_{path}"), Some(*flops as f64), "FLOP", None));
    let whole = |name: &str, value: Option<f64>, unit: &str| Counter {
        images: None,
        ..counter(name, value, unit, None)
    };
    let share = run.counters.zero_flop_share().map(|share| 100.0 * share);
    let kernels = [
        counter("kernels", Some(run.counters.kernels as f64), "launches", None),
        whole("zero_flop_time", share, "% of the kernels' time"),
    ];
    let metrics = run.counters.metrics.iter();
    let metrics = metrics.map(|(name, value)| counter(name, Some(*value as f64), metric_unit(name), None));
    let missing = run.counters.not_measured.iter();
    let missing = missing
        .map(|(name, why)| counter(name, None, metric_unit(name), Some(format!("not measured: {why}"))));
    sums.into_iter().chain(paths).chain(kernels).chain(metrics).chain(missing).collect()
}

fn sums(totals: &NcuTotals) -> [(&'static str, Option<f64>, &'static str); 10] {
    let number = |value: Option<u64>| value.map(|value| value as f64);
    [
        ("executed", number(totals.flops), "FLOP"),
        ("executed_fp32", number(totals.fp32_flops), "FLOP"),
        ("executed_fp16", number(totals.fp16_flops), "FLOP"),
        ("executed_fp64", number(totals.fp64_flops), "FLOP"),
        ("dram", number(totals.dram_bytes), "byte"),
        ("dram_read", number(totals.dram_read_bytes), "byte"),
        ("dram_write", number(totals.dram_write_bytes), "byte"),
        ("pcie_read_of_the_device", number(totals.pcie_read_bytes), "byte"),
        ("pcie_write_of_the_device", number(totals.pcie_write_bytes), "byte"),
        ("kernel_time_under_the_profiler", totals.seconds, "s"),
    ]
}

/// What a metric's sum counts.
fn metric_unit(name: &str) -> &'static str {
    match name {
        _ if name.contains("bytes") => "byte",
        _ if name.contains("time_duration") => "ns",
        _ => "events",
    }
}

fn perf_counters(run: &PerfRun<'_>) -> Vec<Counter> {
    let events = run.counters.events.iter().map(|event| Counter {
        profiler: "perf",
        name: event_name(event),
        value: event.count.value(),
        unit: event.unit.clone().unwrap_or_else(|| "events".to_owned()),
        images: None,
        note: event_note(event),
    });
    let ratio = |name: &str, value: Option<f64>, unit: &str| Counter {
        profiler: "perf",
        name: name.to_owned(),
        value,
        unit: unit.to_owned(),
        images: None,
        note: value.is_none().then(|| "not measured".to_owned()),
    };
    let percent = |share: Option<f64>| share.map(|share| 100.0 * share);
    let ratios = [
        ratio("ipc", run.counters.ipc(), "instructions a cycle"),
        ratio("cache_miss_rate", percent(run.counters.cache_miss_rate()), "%"),
        ratio("branch_miss_rate", percent(run.counters.branch_miss_rate()), "%"),
    ];
    ratios.into_iter().chain(events).collect()
}

/// `cycles`, `cpu_core/cycles/`, `cycles:u`.
fn event_name(event: &PerfEvent) -> String {
    let modifiers = event.modifiers.as_ref().map(|modifiers| format!(":{modifiers}")).unwrap_or_default();
    match &event.pmu {
        Some(pmu) => format!("{pmu}/{}/{modifiers}", event.name),
        None => format!("{}{modifiers}", event.name),
    }
}

fn event_note(event: &PerfEvent) -> Option<String> {
    match event.count {
        Count::NotSupported => Some("not measured: this host does not count it".to_owned()),
        Count::NotCounted => Some("not measured: it never got a counter".to_owned()),
        Count::Counted { share, .. } if share < 1.0 => {
            Some(format!("counted during {:.0} % of the time and scaled up", 100.0 * share))
        }
        Count::Counted { .. } => None,
    }
}

/// `kernels.csv`: the kernels that took longest under Nsight Compute, a row a config and kernel.
pub fn kernels(analysis: &Analysis<'_>) -> Table {
    let mut table = Table::like(kernel_line(None));
    for row in &analysis.rows {
        let Some(run) = &row.counted.ncu else { continue };
        for index in 0..run.counters.top_kernels.len() {
            table.push(kernel_line(Some((row, run, index))));
        }
    }
    table
}

fn kernel_line(place: Option<(&Row<'_>, &NcuRun<'_>, usize)>) -> Line {
    let mut line = Line::default();
    let (row, run) = (place.map(|(row, ..)| row), place.map(|(_, run, _)| run));
    let kernel = place.map(|(_, run, index)| &run.counters.top_kernels[index]);
    let seconds = kernel.and_then(|kernel| kernel.seconds);
    let whole = run.and_then(|run| run.totals.seconds).filter(|seconds| *seconds > 0.0);
    line.config(row.map(|row| &row.config));
    line.maybe("host", row.and_then(|row| row.circumstances.as_ref()).map(|found| &found.host));
    line.maybe("part", row.map(|row| format!("{} of {}", row.part.0, row.part.1)));
    line.maybe("rank", place.map(|(.., index)| index + 1));
    line.maybe("kernel", kernel.map(|kernel| &kernel.name));
    line.maybe("launches", kernel.map(|kernel| kernel.launches));
    line.maybe("seconds_under_the_profiler", seconds);
    line.maybe("time_percent", seconds.zip(whole).map(|(seconds, whole)| 100.0 * seconds / whole));
    line.maybe("gflop", kernel.and_then(|kernel| kernel.flops).map(|flops| flops as f64 / 1e9));
    line.maybe("dram_bytes", kernel.and_then(|kernel| kernel.dram_bytes));
    line
}
