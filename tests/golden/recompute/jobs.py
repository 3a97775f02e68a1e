"""Formulas of the columns of metrics.csv."""

from .marks import disqualified, foreign
from .study import why
from .tables import joules, listed, metric, names, of_config, power, time_text, usd
from .words import word


class Line:
    """A job with its row. A job without a run has a row only if the rows of its config share their cost."""

    def __init__(self, study, job):
        self.study, self.job, self.marks = study, job, study.marks[job]
        self.row = study.row_of(job) or study.any_row(job)

    @property
    def counts(self):
        return self.job.is_timing and self.job.succeeded and not disqualified(self.marks)

    @property
    def rate(self):
        return self.job.rate if self.job.is_timing else None


def part(line):
    """The part of the row. A profiled job has one if it can only belong to one row."""
    if not line.job.succeeded or not line.row:
        return None
    if line.job not in line.row.runs and line.row.part[1] > 1:
        return None
    return "{} of {}".format(*line.row.part)


def iterations(job):
    """The iterations that the worker reports, else computed from its samples."""
    if not job.succeeded:
        return None
    reported = job.measured["effective"].get("iters")
    return reported if reported is not None else job.measured["samples"] // job.measured["effective"]["batch"]


def measured(name):
    return lambda line: line.job.measured[name] if line.job.succeeded else None


def detail(name):
    return lambda line: line.job.details.get(name) if line.job.succeeded else None


def recorded(value):
    return lambda line: value(line.job) if line.job.record else None


def process(name):
    return recorded(lambda job: job.process.get(name))


def observed(name):
    return recorded(lambda job: job.observed.get(name))


def sensor(name, statistic=None):
    """A sensor's summary."""
    def value(job):
        found = job.telemetry and job.telemetry[name]
        return found[statistic] if found and statistic else found
    return recorded(value)


def gpu(value):
    return recorded(lambda job: value(job.telemetry) if job.telemetry and job.telemetry["gpu"] else None)


def draw(kind, place):
    def value(job):
        found = power(job, kind)
        return [found and found[0], joules(job, kind), found[1] if found else "not measured"][place]
    return lambda line: value(line.job) if line.job.record else [None, None, "not measured"][place]


def host(*path):
    def value(job):
        found = job.host
        for name in path:
            found = (found or {}).get(name)
        return found
    return recorded(value)


def provenance(*path):
    def value(job):
        found = job.record["provenance"]
        for name in path:
            found = (found or {}).get(name)
        return found
    return recorded(value)


def versions(line):
    reported = line.job.details.get("versions", {}) if line.job.succeeded else {}
    return "; ".join(f"{name} {it}" for name, it in sorted(reported.items())) or None


JOBS = {
    "job": lambda line: line.job.name,
    "label": lambda line: line.job.label,
    "kind": lambda line: line.job.key["kind"],
    "repeat": lambda line: line.job.key["repeat"],
    "part": part,
    "status": lambda line: "succeeded" if line.job.succeeded else "failed" if line.job.record else "not_run",
    "outcome": recorded(lambda job: job.outcome["kind"]),
    "reason": lambda line: "none" if line.job.succeeded else why(line.job),
    "in_statistics": lambda line: line.counts,
    "marks": lambda line: listed(names(line.marks)),
    "marks_why": lambda line: listed(f"{name}: {text}" for name, text in line.marks),
    "attempt": recorded(lambda job: job.record["attempt"]),
    "started_at": recorded(lambda job: time_text(job.record["started_at"])),
    "ended_at": recorded(lambda job: time_text(job.record["ended_at"])),
    "unit": lambda line: line.job.measured.get("unit", "samples") if line.job.succeeded else "samples",
    "samples": measured("samples"),
    "window_s": measured("elapsed_s"),
    "synchronized": measured("synchronized"),
    "samples_per_s": lambda line: line.rate,
    "iterations": lambda line: iterations(line.job),
    "mean_iteration_s": lambda line: line.job.measured["elapsed_s"] / iterations(line.job) if line.job.rate else None,
    "training_gflop_per_sample": lambda line: line.row and line.row.cost and line.row.cost.flops / 1e9,
    "flops_convention": lambda line: line.row and line.row.cost and "layer-by-layer",
    "attained_gflop_per_s": lambda line: line.row.cost.flops * line.rate / 1e9
        if line.row and line.row.cost and line.rate is not None else None,
    "usd_per_million_samples": lambda line: usd(line.job, 1e6 / line.rate) if line.rate is not None else None,
    "run_usd": recorded(lambda job: usd(job, job.wall_s)),
    **{name: detail(name) for name in [
        "data_wait_s", "copy_s", "first_step_s", "first_loss", "last_loss", "first_non_finite_iteration",
        "optimizer_steps", "parameters", "peak_device_memory_bytes", "peak_device_allocated_bytes",
        "peak_host_memory_bytes", "dataset_images", "unreadable_images", "device_name", "device_uuid",
        "compute_capability",
    ]},
    "window_involuntary_switches": detail("involuntary_switches"),
    "optimizer_settings": detail("optimizer"),
    "versions": versions,
    "tf32": lambda line: line.job.measured["effective"].get("tf32") if line.job.succeeded else None,
    "wall_s": recorded(lambda job: job.wall_s),
    **{name: process(name) for name in [
        "user_s", "system_s", "max_rss_bytes", "peak_footprint_bytes", "voluntary_switches", "involuntary_switches",
        "major_faults", "minor_faults", "instructions", "cycles",
    ]},
    **{name: observed(name) for name in ["load_before", "host_busy_s", "host_steal_s", "adopted"]},
    "foreign_processors": recorded(lambda job: foreign(job)[0]),
    "stolen_processors": recorded(lambda job: foreign(job)[1]),
    "beside": recorded(lambda job: listed(job.observed.get("beside", []))),
    "telemetry_samples": recorded(lambda job: job.telemetry and job.telemetry["samples"]),
    "telemetry_of_window": recorded(lambda job: job.telemetry and job.telemetry["of_window"]),
    "cpu_mean_busy": sensor("cpu_busy_s", "mean"),
    "cpu_max_busy": sensor("cpu_busy_s", "max"),
    "cpu_mean_mhz": sensor("cpu_mhz", "mean"),
    "cpu_min_mhz": sensor("cpu_mhz", "min"),
    "cpu_max_temperature_c": sensor("cpu_temperature_c", "max"),
    "cpu_throttle_events": sensor("cpu_throttle_events"),
    "cpu_mean_throttled": sensor("cpu_throttled_s", "mean"),
    "cpu_mean_quota_held": sensor("cpu_quota_held_s", "mean"),
    "worker_stopped_events": sensor("worker_stopped_events"),
    "cpu_energy_j": sensor("cpu_energy_j"),
    "cpu_mean_power_w": draw("cpu", 0),
    "cpu_joules_per_sample": draw("cpu", 1),
    "cpu_energy_source": draw("cpu", 2),
    "memory_min_available_bytes": sensor("memory_available_bytes", "min"),
    "swapped_in_bytes": sensor("swapped_in_bytes"),
    "swapped_out_bytes": sensor("swapped_out_bytes"),
    "gpu_mean_sm_mhz": sensor("gpu_sm_mhz", "mean"),
    "gpu_min_sm_mhz": sensor("gpu_sm_mhz", "min"),
    "gpu_mean_memory_mhz": sensor("gpu_memory_mhz", "mean"),
    "gpu_max_temperature_c": sensor("gpu_temperature_c", "max"),
    "gpu_max_memory_used_bytes": sensor("gpu_memory_used_bytes", "max"),
    "gpu_mean_memory_busy_percent": sensor("gpu_memory_busy_percent", "mean"),
    "gpu_max_memory_busy_percent": sensor("gpu_memory_busy_percent", "max"),
    "gpu_energy_j": sensor("gpu_energy_j"),
    "gpu_mean_power_w": draw("gpu", 0),
    "gpu_joules_per_sample": draw("gpu", 1),
    "gpu_energy_source": draw("gpu", 2),
    "gpu_throttle_reasons": gpu(
        lambda it: listed(f"{number} × {name}" for name, number in sorted(it["reasons"].items()))),
    "gpu_foreign_processes": gpu(
        lambda it: listed(f"{pid} {name}" for pid, (name, _) in sorted(it["others"].items()))),
    "gate_waited_s": lambda line: None,
    "gate_gave_up": lambda line: None,
    "host": host("hostname"),
    "node": provenance("slurm", "node"),
    "os": recorded(lambda job: f"{job.host['os']['name']} {job.host['os'].get('version') or ''}"),
    "kernel": host("os", "kernel"),
    "cpu": host("cpu", "model"),
    "usable_processors": host("cpu", "usable"),
    **{name: host(name) for name in ["memory_bytes", "nvidia_driver", "virtualisation", "governor", "power_source"]},
    "worker_sha256": provenance("worker", "sha256"),
    "matrix_sha256": provenance("matrix", "sha256"),
    "git_revision": provenance("git", "revision"),
    "git_dirty": provenance("git", "dirty"),
    "orchestrate": provenance("orchestrate"),
}

# Parameters of the shipped worker: as the worker reports them, else as declared.
SETTINGS = [
    "warmup", "iters", "data", "loader_workers", "prefetch_factor", "pin_memory", "copy_stream", "uint8_images",
    "augment", "strict", "channels_last", "grad_accum_steps", "optimizer", "nvtx", "deterministic", "cudnn_benchmark",
    "cuda_graph", "threads", "seed", "input_size", "classes",
]


def setting(name, job):
    reported = job.measured["effective"].get(name) if job.succeeded else None
    declared = job.key["params"].get(name)
    # In profiled jobs, one iteration is requested.
    if name == "iters" and declared is not None:
        declared = min(declared, {"ncu": 1, "ops": 1}.get(job.key["kind"], declared))
    found = declared if reported is None else reported
    return None if found is None else word(found)


def metrics(name, line):
    if name in JOBS:
        return JOBS[name](line)
    if name in SETTINGS:
        return setting(name, line.job)
    if name.startswith("metric_"):
        wanted = name.removeprefix("metric_").removesuffix("_unit")
        return metric(line.job, wanted)[1 if name.endswith("_unit") else 0]
    return of_config(name, line.job.key)
