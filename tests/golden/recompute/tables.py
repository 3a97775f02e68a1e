"""Formulas of the columns of the CSV files. A column without a formula raises `NoFormula`."""

from datetime import datetime
from statistics import mean, median, stdev

from . import maths
from .bounds import class_of
from .marks import LEAVES_OUT, disqualified
from .operators import BREAKDOWN, COLUMNS as OPERATORS, listed
from .peaks import kind_of_ceiling
from .profiles import COUNTERS, KERNELS, time_shares
from .study import why
from .words import word


class NoFormula(Exception):
    """A column without a formula."""


def names(marks):
    return list(dict.fromkeys(name for name, _ in marks))


def percent(share):
    return None if share is None else 100 * share


def giga(value):
    return None if value is None else value / 1e9


def params_text(key):
    texts = [f"{name}={word(value)}" for name, value in sorted(key["params"].items())]
    if "worker" in key:
        texts.append(f"worker={' '.join(key['worker']['command'])}")
    return "; ".join(texts) or "defaults"


def time_text(text):
    """RFC 3339 with the least of 0, 3, 6 or 9 digits of the fraction that loses nothing."""
    moment = datetime.fromisoformat(text[:26].rstrip("Z") + "+00:00")
    digits = (text.split(".")[1] if "." in text else "").rstrip("Z").ljust(9, "0")
    fraction = next((digits[:n] for n in (0, 3, 6, 9) if not digits[n:].strip("0")), digits)
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + (f".{fraction}" if fraction else "") + "+00:00"


CONFIG = {
    "env": lambda key: key["env"],
    "device": lambda key: key["device"],
    "model": lambda key: key["model"],
    "precision": lambda key: key["precision"],
    "batch": lambda key: key["batch"],
    "params": params_text,
}


def of_config(name, key):
    """A column that identifies the config."""
    if name in CONFIG:
        return CONFIG[name](key)
    if name.startswith("param_"):
        value = key["params"].get(name.removeprefix("param_"))
        return None if value is None else word(value)
    raise NoFormula(name)


def part(row):
    return "{} of {}".format(*row.part)


OF_ROW = {
    "host": lambda row: row.host,
    "part": part,
    "unit": lambda row: row.unit,
}


# Costs of a row, in dollars and joules.


def usd(row, seconds):
    hour = row.env["usd_per_hour"]
    return None if hour is None or seconds is None else hour * seconds / 3600


def run_usd(row):
    return usd(row, median(run.wall_s for run in row.counting)) if row.counting else None


def power(job, kind):
    """Mean power within the window in W, and its source: a counter, or at least five samples."""
    sensors = job.telemetry
    if not sensors or not job.is_timing or not job.succeeded or not job.measured["synchronized"]:
        return None
    joules = sensors[f"{kind}_energy_j"]
    if joules is not None:
        return joules / job.measured["elapsed_s"], "counter"
    if kind == "gpu" and sensors["of_window"] and sensors["samples"] >= 5 and sensors["gpu_power_w"]:
        return sensors["gpu_power_w"]["mean"], "sampled"
    return None


def joules(job, kind):
    found = power(job, kind)
    return found and found[0] * job.measured["elapsed_s"] / job.measured["samples"]


def row_energy(row, kind):
    """The median joules per sample, the number of runs, and the source. Runs with a counter are preferred."""
    measured = [(joules(run, kind), power(run, kind)[1]) for run in row.counting if power(run, kind)]
    source = "counter" if any(source == "counter" for _, source in measured) else "sampled"
    values = [value for value, its in measured if its == source]
    return (median(values), len(values), source) if values else (None, 0, "not measured")


def share_of(row, ends, place):
    """The least (0) or the greatest (1) share that the attained FLOP/s are of a ceiling, in percent."""
    if row.attained is None or not ends:
        return None
    return 100 * maths.shares_of(row.attained, ends)[place]


def per_sample(value):
    return lambda row: value(row.ncu) / row.ncu.samples if row.ncu else None


SUMMARY = {
    **OF_ROW,
    "device_name": lambda row: row.first and row.first.details.get("device_name"),
    "status": lambda row: "measured" if row.rates else "no_result",
    "reason": lambda row: row.reason or "none",
    "config_planned": lambda row: len(row.members),
    "config_failed": lambda row: sum(bool(job.record) and not job.succeeded for job in row.members),
    "config_not_run": lambda row: sum(not job.record for job in row.members),
    "config_reasons": lambda row: listed(f"{number} × {reason}" for reason, number in row.reasons),
    "runs": lambda row: len(row.runs),
    "left_out": lambda row: len(row.runs) - len(row.counting),
    "included_marked": lambda row: 0,
    "marks": lambda row: listed(row.run_marks),
    "row_marks_why": lambda row: listed(f"{name}: {text}" for name, text in row.doubts),
    "n": lambda row: len(row.rates),
    "median_samples_per_s": lambda row: row.statistic(median),
    "mad_samples_per_s": lambda row: row.statistic(maths.mad, 2),
    "geometric_mean_samples_per_s": lambda row: row.rate,
    "mean_samples_per_s": lambda row: row.statistic(mean),
    "sd_samples_per_s": lambda row: row.statistic(stdev, 2),
    "cv_percent": lambda row: row.statistic(lambda rates: 100 * stdev(rates) / mean(rates), 2),
    "min_samples_per_s": lambda row: row.statistic(min),
    "max_samples_per_s": lambda row: row.statistic(max),
    "median_ci_low_samples_per_s": lambda row: (maths.median_interval(row.rates) or [None])[0],
    "median_ci_high_samples_per_s": lambda row: (maths.median_interval(row.rates) or [None] * 2)[1],
    "median_ci_coverage_percent": lambda row: percent((maths.median_interval(row.rates) or [None] * 3)[2]),
    "median_ci_reason": lambda row: too_few(row, maths.median_needs()),
    "geometric_mean_ci_low_samples_per_s": lambda row: (row.interval or [None])[0],
    "geometric_mean_ci_high_samples_per_s": lambda row: (row.interval or [None] * 2)[1],
    "geometric_mean_ci_coverage_percent": lambda row: 95 if row.interval else None,
    "geometric_mean_ci_reason": lambda row: too_few(row, maths.NEEDS),
    "parameters": lambda row: row.cost and row.cost.parameters,
    "forward_gmac_per_sample": lambda row: row.cost and row.cost.forward_macs / 1e9,
    "training_gflop_per_sample": lambda row: row.cost and row.cost.flops / 1e9,
    "flops_convention": lambda row: row.cost and "layer-by-layer",
    "flops_source": lambda row: row.cost and "described",
    "attained_gflop_per_s": lambda row: giga(row.attained),
    "percent_of_peak": lambda row: share_of(row, row.ceiling, 0),
    "percent_of_peak_most": lambda row: share_of(row, row.ceiling, 1),
    "peak_gflop_per_s": lambda row: row.ceiling and max(row.ceiling) / 1e9,
    "peak_kind": lambda row: row.ceiling and kind_of_ceiling(row.peaks),
    # Only measured peaks have an attainable throughput, and these stores have none.
    "attainable_gflop_per_s": lambda row: None,
    "clock_mhz": lambda row: row.clock,
    "peak_at_clock_gflop_per_s": lambda row: row.peak_at_clock and max(row.peak_at_clock) / 1e9,
    "percent_of_peak_at_clock": lambda row: share_of(row, row.peak_at_clock, 0),
    "percent_of_peak_at_clock_most": lambda row: share_of(row, row.peak_at_clock, 1),
    "peaks": lambda row: row.peaks and row.peaks["name"],
    "peaks_origin": lambda row: row.peaks and row.peaks["origin"],
    "peaks_confidence": lambda row: row.peaks and row.peaks["confidence"],
    "usd_per_million_samples": lambda row: row.rate and usd(row, 1e6 / row.rate),
    "median_run_usd": run_usd,
    "cpu_joules_per_sample": lambda row: row_energy(row, "cpu")[0],
    "cpu_energy_n": lambda row: row_energy(row, "cpu")[1],
    "cpu_energy_source": lambda row: row_energy(row, "cpu")[2],
    "gpu_joules_per_sample": lambda row: row_energy(row, "gpu")[0],
    "gpu_energy_n": lambda row: row_energy(row, "gpu")[1],
    "gpu_energy_source": lambda row: row_energy(row, "gpu")[2],
    "executed_gflop_per_sample": per_sample(lambda ncu: ncu.flops / 1e9),
    "dram_bytes_per_sample": per_sample(lambda ncu: ncu.bytes),
    "zero_flop_time_percent": lambda row: row.ncu and 100 * row.ncu.zero_flop_share,
    "compute_bound_time_percent": lambda row: time_shares(row)["compute-bound"],
    "memory_bound_time_percent": lambda row: time_shares(row)["memory-bound"],
    "latency_bound_time_percent": lambda row: time_shares(row)["latency-bound"],
    "between_roofs_time_percent": lambda row: time_shares(row)["unknown"],
    "unplaced_time_percent": lambda row: time_shares(row)["unplaced"],
    "ipc": lambda row: None,
    "cache_miss_percent": lambda row: None,
    "branch_miss_percent": lambda row: None,
    "worker_sha256": lambda row: row.first and row.first.record["provenance"]["worker"]["sha256"],
    "libtorch": lambda row: row.first and row.first.details.get("versions", {}).get("libtorch"),
    "bound": lambda row: class_of(row).bound,
    "bound_why": lambda row: class_of(row).why,
    "bound_evidence": lambda row: class_of(row).evidence,
    "bound_experiment": lambda row: class_of(row).experiment,
}


def too_few(row, needs):
    if not row.rates:
        return None
    return "none" if len(row.rates) >= needs else f"n too small ({len(row.rates)} of at least {needs})"


def metric(job, name):
    """A custom metric of the worker in the form that is compared, with its unit."""
    rate = name.endswith("_per_s")
    reported = job.measured.get("metrics", {}) if job.succeeded and job.is_timing else {}
    found = reported.get(name.removesuffix("_per_s"))
    if not found or bool(found.get("per_second")) != rate:
        return None, None
    value, unit = found["value"], found.get("unit")
    if rate:
        value = value / job.measured["elapsed_s"] if job.measured["synchronized"] else None
        unit = f"{unit or name.removesuffix('_per_s')}/s"
    return value, unit if value is not None else None


def of_metric(name, row):
    metric_name, _, what = name.removeprefix("metric_").rpartition("_")
    metrics = [metric(run, metric_name) for run in row.counting]
    values = [value for value, _ in metrics if value is not None]
    if not values:
        return None
    of = {"n": len, "median": median, "min": min, "max": max, "unit": lambda _: metrics[0][1]}
    return of[what](values)


def summary(name, row):
    if name.startswith("metric_"):
        return of_metric(name, row)
    if name in BREAKDOWN:
        return row.breakdown and BREAKDOWN[name](row.breakdown)
    return SUMMARY[name](row) if name in SUMMARY else of_config(name, row.key)


# Counts of profilers.


def kernels(name, line):
    if name in KERNELS:
        return KERNELS[name](line)
    return OF_ROW[name](line[0]) if name in OF_ROW else of_config(name, line[0].key)


def counters(name, line):
    if name in COUNTERS:
        return COUNTERS[name](line)
    return OF_ROW[name](line[0]) if name in OF_ROW else of_config(name, line[0].key)


def operators(name, line):
    row, operator = line
    if name in OPERATORS:
        return OPERATORS[name](operator)
    return OF_ROW[name](row) if name in OF_ROW else of_config(name, row.key)


# Points of rooflines.


def point_columns(of):
    return lambda line: of(*line)


POINTS = {
    "number": lambda row, point: point["number"],
    "n": lambda row, point: len(row.rates),
    "geometric_mean_samples_per_s": lambda row, point: row.rate,
    "bytes_source": lambda row, point: point["source"],
    "optimizer_in_bytes": lambda row, point: row.cost.optimizer if point["source"] == "modelled" else None,
    "intensity_flop_per_byte": lambda row, point: point["intensity"],
    "attained_gflop_per_s": lambda row, point: row.attained / 1e9,
    "attained_least_gflop_per_s": lambda row, point: point["attained"][0] / 1e9,
    "attained_most_gflop_per_s": lambda row, point: point["attained"][1] / 1e9,
    "flops_convention": lambda row, point: "layer-by-layer",
    "attainable_gflop_per_s": lambda row, point: point["attainable"] / 1e9,
    "bound": lambda row, point: point["bound"],
    "above_roof": lambda row, point: row.attained > point["attainable"] * (1 + 1e-9),
    "peak_least_gflop_per_s": lambda row, point: min(row.ceiling) / 1e9,
    "bandwidth_gb_per_s": lambda row, point: max(row.peaks["bandwidth"]) / 1e9,
    "bandwidth_least_gb_per_s": lambda row, point: min(row.peaks["bandwidth"]) / 1e9,
    "knee_flop_per_byte": lambda row, point: max(row.ceiling) / max(row.peaks["bandwidth"]),
}
AS_IN_SUMMARY = [
    "clock_mhz", "peak_gflop_per_s", "peak_at_clock_gflop_per_s", "peaks", "peaks_origin", "peaks_confidence",
]


def roofline_points(name, line):
    row, point = line
    if name in POINTS:
        return POINTS[name](row, point)
    return summary(name, row) if name in AS_IN_SUMMARY or name in OF_ROW else of_config(name, row.key)


# Exclusions.


def excluded(row):
    return [run for run in row.runs if disqualified(row.study.marks[run])]


def rates(runs):
    return [run.rate for run in runs if run.rate is not None]


def middle(runs):
    return maths.geometric_mean(rates(runs)) if rates(runs) else None


def over(one, other):
    return None if one is None or other is None else one / other


def left_out_by(row):
    found = {}
    for run in excluded(row):
        for name in {name for name, _ in row.study.marks[run] if name in LEAVES_OUT}:
            found[name] = found.get(name, 0) + 1
    return [f"{number} × {name}" for name, number in sorted(found.items())]


EXCLUSIONS = {
    "runs": lambda row: len(row.runs),
    "left_out": lambda row: len(excluded(row)),
    "replaced": lambda row: 0,
    "left_out_by": lambda row: listed(left_out_by(row)),
    "left_out_without_throughput": lambda row: len(excluded(row)) - len(rates(excluded(row))),
    "without_n": lambda row: len(row.rates),
    "without_geometric_mean_samples_per_s": lambda row: row.rate,
    "with_n": lambda row: len(rates(row.runs)),
    "with_geometric_mean_samples_per_s": lambda row: middle(row.runs),
    "left_out_n": lambda row: len(rates(excluded(row))),
    "left_out_geometric_mean_samples_per_s": lambda row: middle(excluded(row)),
    "ratio": lambda row: over(row.rate, middle(row.runs)),
    "left_out_ratio": lambda row: over(middle(excluded(row)), row.rate),
}


def exclusions(name, row):
    if name in EXCLUSIONS:
        return EXCLUSIONS[name](row)
    return OF_ROW[name](row) if name in OF_ROW else of_config(name, row.key)


FAILURES = {
    "job": lambda job: job.name,
    "kind": lambda job: job.key["kind"],
    "repeat": lambda job: job.key["repeat"],
    "outcome": lambda job: job.outcome["kind"],
    "reason": why,
    "attempts": lambda job: job.record["attempt"],
    "started_at": lambda job: time_text(job.record["started_at"]),
    "wall_s": lambda job: job.wall_s,
    "host": lambda job: job.host["hostname"],
}


def failures(name, job):
    return FAILURES[name](job) if name in FAILURES else of_config(name, job.key)
