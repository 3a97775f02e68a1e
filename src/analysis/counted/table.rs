//! The tables `counters.csv` and `kernels.csv`.

use super::{KernelPlace, NcuRun, PlacedKernel, placed_kernels};
use crate::analysis::Analysis;
use crate::analysis::column::{Column, Columns, Rows, Sourced, of};
use crate::analysis::columns::{OfRow, config_columns, host_column, part_column};
use crate::analysis::group::Row;
use crate::analysis::own::Own;
use crate::analysis::source::Source;
use crate::record::ncu::NcuTotals;
use crate::record::perf::{Count, PerfCounters, PerfEvent};

const NOT_MEASURED: &str = "it was not measured";

/// `counters.csv`: the counters of profilers, one line per config and counter. Missing counters are listed with the
/// reason.
pub(in crate::analysis) fn counters<'a>(analysis: &'a Analysis<'_>) -> Rows<'a> {
    let lines = analysis.rows.iter().flat_map(|row| {
        let of_ncu = row.counted.ncu.iter().flat_map(ncu_counters);
        let of_perf = row.counted.perf.iter().copied().flat_map(perf_counters);
        of_ncu.chain(of_perf).map(move |counter| CounterLine { row, counter })
    });
    counter_columns(&analysis.own).rows(lines)
}

/// A line of `counters.csv`.
pub(in crate::analysis) struct CounterLine<'a> {
    row: &'a Row<'a>,
    counter: Counter,
}

/// A number from a profiler, or why it is missing.
struct Counter {
    profiler: &'static str,
    name: String,
    value: Option<f64>,
    unit: String,
    /// How many samples the value covers; `None` if it is not a sum.
    samples: Option<u64>,
    note: Option<String>,
}

impl OfRow for CounterLine<'_> {
    fn row(&self) -> &Row<'_> {
        self.row
    }
}

/// Every column of `counters.csv`.
pub(in crate::analysis) fn counter_columns<'a>(own: &Own) -> Columns<CounterLine<'a>> {
    let mut columns: Vec<Sourced<CounterLine<'a>>> = config_columns(own);
    columns.extend([host_column(), part_column()]);
    columns.extend(counter_values());
    Columns::plain(columns)
}

/// The columns of the counter and its profiler.
fn counter_values<'a>() -> Vec<Sourced<CounterLine<'a>>> {
    type Of<'a> = Column<CounterLine<'a>>;
    let columns = [
        Of::known("profiler", "`ncu` or `perf`.", |line| line.counter.profiler),
        Of::known("counter", "A sum such as `executed`, or the name of a metric or event.", |line| {
            line.counter.name.clone()
        }),
        Of::maybe("value", "Its value, over the whole job.", NOT_MEASURED, |line| line.counter.value),
        Of::known("unit", "The unit of the value.", |line| line.counter.unit.clone()),
        Of::maybe("per_sample", "The value ÷ samples.", "it was not measured, or does not add up", |line| {
            Some(line.counter.value? / line.counter.samples? as f64)
        }),
        Of::known("note", "Why it was not measured, or that it is a lower bound; else `none`.", |line| {
            line.counter.note.clone().unwrap_or_else(|| "none".to_owned())
        }),
    ];
    of(Source::Profiler, columns)
}

/// The sums, then the metrics they are made of, then the missing metrics.
fn ncu_counters(run: &NcuRun<'_>) -> Vec<Counter> {
    let bound = || run.counters.unproven.then(|| "a lower bound: the table might be cut off".to_owned());
    let counter = |name: &str, value: Option<f64>, unit: &str, note: Option<String>| Counter {
        profiler: "ncu",
        name: name.to_owned(),
        value,
        unit: unit.to_owned(),
        samples: Some(run.samples),
        note: note.or_else(|| value.is_none().then(|| "not measured".to_owned())).or_else(bound),
    };
    let sums = sums(&run.totals).map(|(name, value, unit)| counter(name, value, unit, None));
    let paths = run.totals.tensor_flops.iter();
    let paths =
        paths.map(|(path, flops)| counter(&format!("tensor_{path}"), Some(*flops as f64), "FLOP", None));
    let whole = |name: &str, value: Option<f64>, unit: &str| Counter {
        samples: None,
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

/// The unit of a metric's sum.
fn metric_unit(name: &str) -> &'static str {
    match name {
        _ if name.contains("bytes") => "byte",
        _ if name.contains("time_duration") => "ns",
        _ => "events",
    }
}

fn perf_counters(counters: &PerfCounters) -> Vec<Counter> {
    let events = counters.events.iter().map(|event| Counter {
        profiler: "perf",
        name: event_name(event),
        value: event.count.value(),
        unit: event.unit.clone().unwrap_or_else(|| "events".to_owned()),
        samples: None,
        note: event_note(event),
    });
    let ratio = |name: &str, value: Option<f64>, unit: &str| Counter {
        profiler: "perf",
        name: name.to_owned(),
        value,
        unit: unit.to_owned(),
        samples: None,
        note: value.is_none().then(|| "not measured".to_owned()),
    };
    let percent = |share: Option<f64>| share.map(|share| 100.0 * share);
    let ratios = [
        ratio("ipc", counters.ipc(), "instructions per cycle"),
        ratio("cache_miss_rate", percent(counters.cache_miss_rate()), "%"),
        ratio("branch_miss_rate", percent(counters.branch_miss_rate()), "%"),
    ];
    ratios.into_iter().chain(events).collect()
}

/// As `perf` writes it: `cycles`, `cycles:u`, `cpu_core/cycles/` or `cpu_core/cycles/u`.
fn event_name(event: &PerfEvent) -> String {
    let PerfEvent { name, pmu, modifiers, .. } = event;
    match (pmu, modifiers) {
        (Some(pmu), modifiers) => format!("{pmu}/{name}/{}", modifiers.as_deref().unwrap_or_default()),
        (None, Some(modifiers)) => format!("{name}:{modifiers}"),
        (None, None) => name.clone(),
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

/// `kernels.csv`: the slowest kernels under Nsight Compute, one line per config and kernel.
pub(in crate::analysis) fn kernels<'a>(analysis: &'a Analysis<'_>) -> Rows<'a> {
    kernel_columns(&analysis.own).rows(analysis.rows.iter().flat_map(kernel_lines))
}

/// Those of one row.
pub(in crate::analysis) fn kernel_lines<'a>(row: &'a Row<'_>) -> Vec<KernelLine<'a>> {
    let kernels = row.counted.ncu.iter().flat_map(|run| placed_kernels(row, run));
    kernels.map(|placed| KernelLine { row, placed }).collect()
}

/// A line of `kernels.csv`.
pub(in crate::analysis) struct KernelLine<'a> {
    row: &'a Row<'a>,
    placed: PlacedKernel<'a>,
}

impl OfRow for KernelLine<'_> {
    fn row(&self) -> &Row<'_> {
        self.row
    }
}

/// Every column of `kernels.csv`.
pub(in crate::analysis) fn kernel_columns<'a>(own: &Own) -> Columns<KernelLine<'a>> {
    let mut columns: Vec<Sourced<KernelLine<'a>>> = config_columns(own);
    columns.extend([host_column(), part_column()]);
    columns.extend(of(Source::Ncu, kernel_counts()));
    columns.extend(of(Source::Computed, kernel_places()));
    Columns::plain(columns)
}

/// The columns of the counts of a kernel.
fn kernel_counts<'a>() -> Vec<Column<KernelLine<'a>>> {
    type Of<'a> = Column<KernelLine<'a>>;
    vec![
        Of::known("rank", "From 1, the slowest.", |line| line.placed.rank),
        Of::known("kernel", "The name of the kernel.", |line| line.placed.kernel.name.clone()),
        Of::known("launches", "The number of launches.", |line| line.placed.kernel.launches),
        Of::maybe(
            "seconds_under_the_profiler",
            "Its time, which the profiler lengthens.",
            NOT_MEASURED,
            |line| line.placed.kernel.seconds,
        ),
        Of::maybe(
            "time_percent",
            "Its share of the time of all kernels.",
            "it was not measured, or the table might be cut off",
            |line| Some(100.0 * line.placed.time_share?),
        ),
        Of::maybe("gflop", "FLOPs that it executed.", NOT_MEASURED, |line| {
            Some(line.placed.kernel.flops? as f64 / 1e9)
        }),
        Of::maybe("dram_bytes", "Bytes between the device and its memory.", NOT_MEASURED, |line| {
            line.placed.kernel.dram_bytes
        }),
    ]
}

/// The columns of the place of a kernel below the roofs of its device.
fn kernel_places<'a>() -> Vec<Column<KernelLine<'a>>> {
    type Of<'a> = Column<KernelLine<'a>>;
    const NO_PLACE: &str = "its FLOPs, bytes or time were not measured, or a roof is unknown";
    let place = |name, meaning, value: fn(KernelPlace) -> f64| {
        Of::maybe(name, meaning, NO_PLACE, move |line: &KernelLine<'a>| Some(value(line.placed.place?)))
    };
    vec![
        place("gflop_per_s", "`gflop` ÷ `seconds_under_the_profiler`.", |place| place.flops_per_s / 1e9),
        place("gb_per_s", "`dram_bytes` ÷ `seconds_under_the_profiler`.", |place| place.bytes_per_s / 1e9),
        Of::maybe(
            "flop_per_byte",
            "Its arithmetic intensity.",
            "it moved no byte, or has no place",
            |line| line.placed.place?.intensity,
        ),
        place(
            "percent_of_peak",
            "Its share of the peak at the config's precision; of the upper end if that is a range.",
            |place| 100.0 * place.of_compute.low,
        ),
        place(
            "percent_of_bandwidth",
            "Its share of the bandwidth; of the upper end if that is a range.",
            |place| 100.0 * place.of_memory.low,
        ),
        Of::maybe(
            "bound",
            "`compute-bound` or `memory-bound` from 60 to 100 % of that roof, `latency-bound` below 30 % of both, \
             else `unknown`.",
            NO_PLACE,
            |line| Some(line.placed.place?.bound.to_string()),
        ),
    ]
}
