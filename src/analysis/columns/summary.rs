//! The columns of `summary.csv`.

use super::own::row_metric_columns;
use super::price::price_columns;
use super::shared::{
    CONFIDENCE, CONVENTION, NO_CLOCK, PEAK_AT_CLOCK, config_columns, host_column, part_column, unit_column,
};
use crate::analysis::circumstances::Circumstances;
use crate::analysis::column::{Column, Columns, Sourced, list, of};
use crate::analysis::counted::{NcuRun, TimeShares, placed_kernels};
use crate::analysis::group::{Row, Statistics};
use crate::analysis::own::Own;
use crate::analysis::role::Role;
use crate::analysis::source::Source;
use crate::record::PerfCounters;
use crate::stats::{Interval, TooFew};

const NO_RESULT: &str = "the row has no result";
const NO_STATISTICS: &str = "no run counts";
const ONE_RUN: &str = "fewer than two runs count";
const TOO_FEW: &str = "too few runs count";
const NO_COST: &str = "the FLOPs of the network are unknown";
const NO_PEAKS: &str = "no peaks file is for the device";
const NO_NCU: &str = "no `ncu` job of the config counted it";
const NO_TIME: &str = "no `ncu` job counted the kernels' FLOPs, bytes and time in full, or a roof is unknown";
const NO_PERF: &str = "no `perf` job of the config counted it";

type Of<'a> = Column<&'a Row<'a>>;

/// Every column of `summary.csv`.
pub(in crate::analysis) fn summary_columns<'a>(own: &Own) -> Columns<&'a Row<'a>> {
    let parts = [
        config_columns(own),
        circumstances(),
        counts(),
        statistics(),
        intervals(),
        cost(),
        price_columns(),
        counted(),
        worker(),
        row_metric_columns(own),
    ];
    Columns::plain(parts.into_iter().flatten().collect())
}

fn found<'a>(row: &'a Row<'a>) -> Option<&'a Circumstances> {
    row.circumstances.as_ref()
}

fn circumstances<'a>() -> Vec<Sourced<&'a Row<'a>>> {
    vec![
        host_column(),
        Of::maybe(
            "device_name",
            "The model of the processor or GPU.",
            "the worker does not report it",
            |row| found(row)?.device_name.as_ref(),
        )
        .from(Source::Worker),
        part_column(),
        unit_column(),
    ]
}

fn counts<'a>() -> Vec<Sourced<&'a Row<'a>>> {
    let columns = [
        Of::known("status", "`measured` or `no_result`.", |row| {
            if row.statistics.is_ok() { "measured" } else { "no_result" }
        }),
        Of::known("reason", "Why there is no result; `none` if there is one.", |row| {
            row.statistics.as_ref().err().map_or("none", String::as_str)
        }),
        Of::known("config_planned", "Timing jobs of the config, over all of its rows.", |row| {
            row.counts.planned
        }),
        Of::known("config_failed", "Those whose last attempt failed.", |row| row.counts.failed),
        Of::known("config_not_run", "Those without a record.", |row| row.counts.not_run),
        Of::known("config_reasons", "Why those have no result, each reason with its number.", |row| {
            list(row.counts.reasons.iter().map(|(reason, n)| format!("{n} × {reason}")))
        }),
        Of::known("runs", "Runs of this row with a result.", |row| row.runs.len()),
        Of::known("left_out", "Those that marks leave out.", |row| row.left_out()),
        Of::known("included_marked", "Those that count only because of `--include-marked`.", |row| {
            row.included()
        }),
        Of::known("marks", "Names of the row's own [marks](../marks.md) and of those of its runs.", |row| {
            list(row.marks())
        }),
        Of::known("row_marks_why", "The row's own marks, with numbers and thresholds.", |row| {
            list(row.doubts.iter().map(ToString::to_string))
        }),
    ];
    of(Source::Computed, columns)
}

/// A column that shows one of the [`Statistics`].
fn statistic<'a>(
    name: &'static str,
    meaning: &'static str,
    absent: &'static str,
    value: fn(&Statistics) -> Option<f64>,
) -> Of<'a> {
    Of::maybe(name, meaning, absent, move |row: &&Row<'_>| value(row.statistics.as_ref().ok()?))
}

fn statistics<'a>() -> Vec<Sourced<&'a Row<'a>>> {
    let columns = [
        Of::known("n", "Runs that count.", |row| {
            row.statistics.as_ref().map_or(0, |statistics| statistics.n)
        })
        .with_role(Role::Runs),
        statistic(
            "geometric_mean_samples_per_s",
            "The throughput: the geometric mean of these runs. See [Statistics](../method.md#statistics).",
            NO_STATISTICS,
            |it| Some(it.geometric_mean),
        )
        .with_role(Role::Throughput),
        statistic("median_samples_per_s", "Their median.", NO_STATISTICS, |it| Some(it.median)),
        statistic("mad_samples_per_s", "Their median absolute deviation.", ONE_RUN, |it| it.mad.ok()),
        statistic("mean_samples_per_s", "Their mean.", NO_STATISTICS, |it| Some(it.mean)),
        statistic("sd_samples_per_s", "Their standard deviation.", ONE_RUN, |it| it.sd.ok())
            .with_role(Role::ThroughputSd),
        statistic("cv_percent", "Standard deviation ÷ mean.", ONE_RUN, |it| it.cv.ok().map(|cv| 100.0 * cv)),
        statistic("min_samples_per_s", "The slowest of them.", NO_STATISTICS, |it| Some(it.min)),
        statistic("max_samples_per_s", "The fastest of them.", NO_STATISTICS, |it| Some(it.max)),
    ];
    of(Source::Computed, columns)
}

fn intervals<'a>() -> Vec<Sourced<&'a Row<'a>>> {
    let geometric_mean = interval(
        "geometric_mean",
        "Student's confidence interval of the geometric mean",
        "n too small (2 of at least 3)",
        |it| it.interval,
    );
    let median = interval(
        "median",
        "the distribution-free confidence interval of the median",
        "n too small (3 of at least 6)",
        |it| it.median_interval,
    );
    of(Source::Computed, geometric_mean.into_iter().chain(median))
}

/// The columns of one interval: `what` it is, and an example of why there can be none.
fn interval<'a>(
    name: &'static str,
    what: &'static str,
    example: &'static str,
    of: fn(&Statistics) -> Result<Interval, TooFew>,
) -> [Of<'a>; 4] {
    let known = move |row: &Row<'_>| of(row.statistics.as_ref().ok()?).ok();
    let low = format!("{name}_ci_low_samples_per_s");
    let high = format!("{name}_ci_high_samples_per_s");
    let reason = format!("Why there is none, such as `{example}`; `none` if there is one.");
    [
        Of::maybe(low, format!("The lower end of {what}."), TOO_FEW, move |row| Some(known(row)?.low)),
        Of::maybe(high, "Its upper end.", TOO_FEW, move |row| Some(known(row)?.high)),
        Of::maybe(format!("{name}_ci_coverage_percent"), "Its coverage.", TOO_FEW, move |row| {
            Some(100.0 * known(row)?.coverage)
        }),
        Of::maybe(format!("{name}_ci_reason"), reason, NO_STATISTICS, move |row| {
            let interval = of(row.statistics.as_ref().ok()?);
            Some(interval.map_or_else(|too_few| too_few.to_string(), |_| "none".to_owned()))
        }),
    ]
}

fn cost<'a>() -> Vec<Sourced<&'a Row<'a>>> {
    vec![
        Of::maybe(
            "parameters",
            "Trainable parameters, from the source of the FLOPs.",
            "the FLOPs are unknown, or the worker does not report it",
            |row| row.cost.as_ref().ok()?.parameters(),
        )
        .from(Source::Computed),
        Of::maybe(
            "forward_gmac_per_sample",
            "Multiply-accumulates of the forward pass, from the description.",
            "the network or the size of its images is unknown",
            |row| Some(row.cost.as_ref().ok()?.described()?.forward_macs as f64 / 1e9),
        )
        .from(Source::Computed),
        Of::maybe(
            "training_gflop_per_sample",
            "FLOPs of a training step for one sample. See [FLOPs](../method.md#flops).",
            NO_COST,
            |row| Some(row.cost.as_ref().ok()?.training_flops() / 1e9),
        )
        .from(Source::Computed),
        Of::maybe("flops_convention", CONVENTION, NO_COST, |row| Some(row.cost.as_ref().ok()?.convention()))
            .from(Source::Computed),
        Of::maybe(
            "flops_source",
            "`described` by orchestrate, `reported` by the worker, or `counted` by the worker's library in an iteration.",
            NO_COST,
            |row| Some(row.cost.as_ref().ok()?.source()),
        )
        .from(Source::Computed),
        Of::maybe(
            "attained_gflop_per_s",
            "`training_gflop_per_sample` × `geometric_mean_samples_per_s`.",
            "either of the two is",
            |row| Some(row.attained()? / 1e9),
        )
        .with_role(Role::Attained)
        .from(Source::Computed),
        Of::maybe(
            "percent_of_peak",
            "`attained_gflop_per_s` ÷ `peak_gflop_per_s`, whose base is `peak_kind`.",
            "either of the two is",
            |row| Some(100.0 * row.share_of_peak()?.low),
        )
        .from(Source::Computed),
        Of::maybe(
            "percent_of_peak_most",
            "The same with the lower end of the peak, if that is a range; else `percent_of_peak`.",
            "`percent_of_peak` is",
            |row| Some(100.0 * row.share_of_peak()?.high),
        )
        .from(Source::Computed),
        Of::maybe(
            "peak_gflop_per_s",
            "The device's peak at this precision; the upper end if it is a range.",
            "no peaks file for the device has it",
            |row| Some(row.ceilings()?.ceiling(row.config.precision)?.flops_per_s.high / 1e9),
        )
        .with_role(Role::Peak)
        .from(Source::Peaks),
        Of::maybe(
            "peak_kind",
            "What that peak rests on: the instructions of a processor, a theoretical figure from units × clock, or the \
             fastest product that was measured.",
            "no peaks file for the device has it",
            |row| Some(row.ceilings()?.ceiling(row.config.precision)?.kind.to_string()),
        )
        .from(Source::Peaks),
        Of::maybe(
            "attainable_gflop_per_s",
            "The best that a matrix product or a convolution attained when the peaks were measured.",
            "the peaks were not measured here",
            |row| Some(row.ceilings()?.ceiling(row.config.precision)?.attainable.best()? / 1e9),
        )
        .from(Source::Peaks),
        Of::maybe(
            "clock_mhz",
            "The median over the runs that count of the device's mean clock within the window.",
            "it was not read within the window",
            |row| row.clock_mhz(),
        )
        .from(Source::Computed),
        Of::maybe("peak_at_clock_gflop_per_s", PEAK_AT_CLOCK, NO_CLOCK, |row| {
            Some(row.peak_at_clock()?.high / 1e9)
        })
        .from(Source::Computed),
        Of::maybe(
            "percent_of_peak_at_clock",
            "`attained_gflop_per_s` ÷ `peak_at_clock_gflop_per_s`.",
            "either of the two is",
            |row| Some(100.0 * row.share_of_peak_at_clock()?.low),
        )
        .from(Source::Computed),
        Of::maybe(
            "percent_of_peak_at_clock_most",
            "The same with the lower end of that peak, if it is a range; else `percent_of_peak_at_clock`.",
            "`percent_of_peak_at_clock` is",
            |row| Some(100.0 * row.share_of_peak_at_clock()?.high),
        )
        .from(Source::Computed),
        Of::maybe("peaks", "The name of the peaks file.", NO_PEAKS, |row| Some(&row.ceilings()?.name))
            .from(Source::Peaks),
        Of::maybe("peaks_origin", "Vendor, published, or measured where and how.", NO_PEAKS, |row| {
            Some(row.ceilings()?.origin.to_string())
        })
        .from(Source::Peaks),
        Of::maybe("peaks_confidence", CONFIDENCE, NO_PEAKS, |row| {
            Some(row.ceilings()?.confidence.to_string())
        })
        .from(Source::Peaks),
    ]
}

fn counted<'a>() -> Vec<Sourced<&'a Row<'a>>> {
    let ncu = |name, meaning, value: fn(&NcuRun<'_>) -> Option<f64>| {
        Of::maybe(name, meaning, NO_NCU, move |row: &&Row<'_>| value(row.counted.ncu.as_ref()?))
    };
    let perf = |name, meaning, value: fn(&PerfCounters) -> Option<f64>| {
        Of::maybe(name, meaning, NO_PERF, move |row: &&Row<'_>| value(row.counted.perf?))
    };
    let time = |name, meaning, share: fn(TimeShares) -> f64| {
        Of::maybe(name, meaning, NO_TIME, move |row: &&Row<'_>| {
            let shares = TimeShares::of(&placed_kernels(row, row.counted.ncu.as_ref()?))?;
            Some(100.0 * share(shares))
        })
    };
    vec![
        ncu("executed_gflop_per_sample", "FLOPs that the device executed.", |it| {
            Some(it.flops_per_sample()? / 1e9)
        })
        .from(Source::Ncu),
        ncu("dram_bytes_per_sample", "Bytes between the device and its memory.", |it| {
            it.dram_bytes_per_sample()
        })
        .from(Source::Ncu),
        ncu("zero_flop_time_percent", "Time in kernels without a FLOP.", |it| {
            Some(100.0 * it.counters.zero_flop_share()?)
        })
        .from(Source::Ncu),
        time("compute_bound_time_percent", "Time in kernels at the compute roof.", |it| it.compute)
            .from(Source::Computed),
        time("memory_bound_time_percent", "Time in kernels at the memory roof.", |it| it.memory)
            .from(Source::Computed),
        time("latency_bound_time_percent", "Time in kernels far from both roofs.", |it| it.latency)
            .from(Source::Computed),
        time("between_roofs_time_percent", "Time in kernels between these, or above a roof.", |it| {
            it.between
        })
        .from(Source::Computed),
        time("unplaced_time_percent", "Time in kernels that are not listed, or have no place.", |it| {
            it.unplaced
        })
        .from(Source::Computed),
        perf("ipc", "Instructions per cycle.", PerfCounters::ipc).from(Source::Perf),
        perf("cache_miss_percent", "Cache misses per reference.", |it| Some(100.0 * it.cache_miss_rate()?))
            .from(Source::Perf),
        perf("branch_miss_percent", "Mispredicted branches.", |it| Some(100.0 * it.branch_miss_rate()?))
            .from(Source::Perf),
    ]
}

fn worker<'a>() -> Vec<Sourced<&'a Row<'a>>> {
    vec![
        Of::maybe("worker_sha256", "The hash of the worker's program.", NO_RESULT, |row| {
            found(row)?.worker_sha256.as_ref()
        })
        .from(Source::Orchestrate),
        Of::maybe(
            "libtorch",
            "The version of PyTorch that the worker reports, as `libtorch` or, in Python, as `torch`.",
            "the worker does not report it",
            |row| found(row)?.pytorch(),
        )
        .from(Source::Worker),
    ]
}
