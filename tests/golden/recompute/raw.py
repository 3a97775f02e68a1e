"""The raw files of a store, read without orchestrate: plan, records and the files of their attempts."""

import csv
import hashlib
import io
import json
import re
from datetime import datetime
from pathlib import Path

SEAL = re.compile(rb',\n  "seal": "sha256:([0-9a-f]{64})"\n}\n\Z')
TIME_TEXT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|\+00:00)")


class Broken(Exception):
    """A file was changed after it was written."""


def unsealed(path):
    """The JSON in a sealed file. Raises `Broken` if the seal does not match."""
    text = path.read_bytes()
    seal = SEAL.search(text)
    if not seal or hashlib.sha256(text[: seal.start()]).hexdigest() != seal[1].decode():
        raise Broken(f"{path}: its seal does not match")
    return json.loads(text)


def sealed(value):
    """`value` as the bytes of a sealed file."""
    body = json.dumps(value, indent=2, ensure_ascii=False).encode().removesuffix(b"\n}")
    return body + b',\n  "seal": "sha256:' + hashlib.sha256(body).hexdigest().encode() + b'"\n}\n'


# Parameters that do not enter the id of a job at their default, so that older ids stay valid.
DEFAULTS = {
    "warmup": 10, "iters": 100, "data": {"synthetic": True}, "channels_last": False, "optimizer": "sgd",
    "input_size": 224, "classes": 1000,
}


def identity(key):
    """The id of a job: the hash of its key."""
    params = {name: value for name, value in key["params"].items() if DEFAULTS.get(name) != value}
    key = {**key, "params": params}
    text = json.dumps(key, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def label(key):
    """The label of a job."""
    last = f"run{key['repeat']}" if key["kind"] == "timing" else key["kind"]
    return f"{key['env']}_{key['model']}_{key['precision']}_bs{key['batch']}_{last}"


def nanoseconds(text):
    """A time in whole nanoseconds since 1970."""
    whole, fraction = TIME_TEXT.fullmatch(text).groups()
    return int(datetime.fromisoformat(whole + "+00:00").timestamp()) * 10**9 + int((fraction or "0").ljust(9, "0"))


def moment(text):
    """A time in seconds since 1970."""
    return nanoseconds(text) / 1e9


class Job:
    """A job of a plan with the record and the files of its last attempt."""

    def __init__(self, key, env, store):
        self.key, self.env, self.label = key, env, label(key)
        self.name = f"{self.label}-{identity(key)[:12]}"
        directory = Path(store) / self.name
        self.is_timing = key["kind"] == "timing"
        path = directory / "record.json"
        self.record = unsealed(path) if path.exists() else None
        # Every host with a record of the plan, filled in by `load`.
        self.hosts = set()
        if self.record:
            self._read(directory / "attempts" / f"{self.record['attempt']:02}")

    def _read(self, attempt):
        for name, evidence in self.record["evidence"].items():
            found = (attempt / name).read_bytes()
            if evidence != {"bytes": len(found), "sha256": hashlib.sha256(found).hexdigest()}:
                raise Broken(f"{attempt / name} differs from the hash in its record")
        text = lambda name: (attempt / name).read_text() if name in self.record["evidence"] else None
        self.outcome = self.record["outcome"]
        self.observed = self.record["observed"]
        self.host = self.record["provenance"]["host"]
        self.process = gnu_time(text("time.txt"))
        file = text("measurement.json")
        self.measured = None
        if file:
            found = json.loads(file)
            self.measured = None if "failure" in found else found
        self.details = (self.measured or {}).get("details", {})
        window = None
        if self.measured and "window_started_at" in self.details:
            start = self.details["window_started_at"]
            window = (start, start + self.measured["elapsed_s"])
        self.telemetry = telemetry(text("telemetry.csv"), window)
        self.iterations, self.elapsed = iterations(text("iterations.csv"))
        self.ncu = ncu(text("ncu.csv"))

    @property
    def succeeded(self):
        return bool(self.record) and self.outcome["kind"] == "succeeded"

    @property
    def rate(self):
        """Samples per second of a synchronised window."""
        if self.succeeded and self.measured["synchronized"]:
            return self.measured["samples"] / self.measured["elapsed_s"]
        return None

    @property
    def span_s(self):
        return (nanoseconds(self.record["ended_at"]) - nanoseconds(self.record["started_at"])) / 1e9

    @property
    def wall_s(self):
        """The wall time that `time` reports, unless the attempt was too short for its resolution of 0.01 s."""
        return self.process.get("wall_s") or self.span_s

    @property
    def cpu_s(self):
        if "user_s" in self.process:
            return self.process["user_s"] + self.process["system_s"]
        return None

    def setting(self, name):
        """The value that the worker reports, else the declared one."""
        found = (self.measured or {}).get("effective", {}).get(name)
        if found is None:
            found = self.key["params"].get(name)
        return found


def load(store, name):
    """The plan's file and its jobs."""
    plan = unsealed(Path(store) / ".plans" / f"{name}.json")
    configs = plan["jobs"]["configs"]
    keys = [{**configs[place], "repeat": repeat} for place, repeat in plan["jobs"]["order"]]
    jobs = [Job(key, plan["envs"][key["env"]], store) for key in keys]
    hosts = {job.host["hostname"] for job in jobs if job.record}
    for job in jobs:
        job.hosts = hosts
    return plan, jobs


# Names of GNU time, each with the name in a record and the conversion.
TIME = {
    "User time (seconds)": ("user_s", float),
    "System time (seconds)": ("system_s", float),
    "Maximum resident set size (kbytes)": ("max_rss_bytes", lambda text: 1024 * int(text)),
    "Major (requiring I/O) page faults": ("major_faults", int),
    "Minor (reclaiming a frame) page faults": ("minor_faults", int),
    "Voluntary context switches": ("voluntary_switches", int),
    "Involuntary context switches": ("involuntary_switches", int),
}


def gnu_time(text):
    """The output of `/usr/bin/time -v`, by the names of a record."""
    found = {}
    for line in (text or "").splitlines():
        name, _, value = line.strip().rpartition(": ")
        if name in TIME:
            word, read = TIME[name]
            found[word] = read(value)
        elif name.startswith("Elapsed"):
            seconds = 0.0
            for part in value.split(":"):
                seconds = 60 * seconds + float(part)
            found["wall_s"] = seconds
    return found


def iterations(text):
    """The seconds of single iterations timed by the host's clock, without the wait for data and with it."""
    rows = list(csv.DictReader(io.StringIO(text or "")))
    if not rows or any(row["clock"] != "host" for row in rows):
        return None, None
    elapsed = [float(row["elapsed_s"]) for row in rows]
    return [seconds - float(row["data_wait_s"] or 0) for seconds, row in zip(elapsed, rows)], elapsed


GAUGES = [
    "cpu_mhz", "cpu_temperature_c", "memory_available_bytes", "gpu_sm_mhz", "gpu_memory_mhz", "gpu_power_w",
    "gpu_temperature_c", "gpu_memory_used_bytes", "gpu_memory_busy_percent",
]
RATES = ["cpu_busy_s", "cpu_throttled_s", "cpu_quota_held_s"]
GROWTHS = ["cpu_throttle_events", "worker_stopped_events", "swapped_in_bytes", "swapped_out_bytes"]
ENERGIES = ["cpu_energy_j", "gpu_energy_j"]


def telemetry(text, window):
    """A summary of `telemetry.csv`: of the samples within the window, or of all if none is within it."""
    rows = list(csv.DictReader(io.StringIO(text or "")))
    if not rows:
        return None
    for row in rows:
        for name in row:
            if name.startswith(("time", "cpu", "memory", "swapped", "worker")) or name in GAUGES + ENERGIES:
                row[name] = None if row[name] == "NA" else float(row[name])
    inside = [row for row in rows if window and window[0] <= row["time_unix_s"] <= window[1]]
    used = inside or rows
    found = {"samples": len(used), "of_window": bool(inside)}
    for name in GAUGES:
        found[name] = readings([row[name] for row in used])
    for name in RATES:
        found[name] = readings([rate(name, *pair) for pair in zip(used, used[1:])])
    for name in GROWTHS:
        values = [row[name] for row in rows if row[name] is not None]
        found[name] = int(values[-1] - values[0]) if len(values) > 1 and values == sorted(values) else None
    for name in ENERGIES:
        found[name] = energy(name, rows, window)
    found["gpu"] = any(row[name] is not None for row in rows for name in row if name in GAUGES and name[0] == "g")
    found["reasons"], found["others"] = {}, {}
    for row in used:
        for reason in row["gpu_throttle_reasons"].split(";"):
            if reason not in ("NA", "none"):
                found["reasons"][reason] = found["reasons"].get(reason, 0) + 1
    for row in rows:
        for process in row["gpu_foreign_processes"].split(";"):
            if process not in ("NA", "none"):
                pid, memory, name = process.split(":", 2)
                found["others"][int(pid)] = (name, max(int(memory), found["others"].get(int(pid), ("", 0))[1]))
    return found


def rate(name, before, after):
    """Growth per second; `None` if it is unknown or the time is too short."""
    seconds = after["time_unix_s"] - before["time_unix_s"]
    if before[name] is None or after[name] is None or seconds < 0.5:
        return None
    grown = (after[name] - before[name]) / seconds
    return grown if grown >= 0 else None


def quantile(values, share):
    """The quantile between the order statistics, linearly."""
    values = sorted(values)
    place = share * (len(values) - 1)
    below = int(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (place - below)


def readings(values):
    """The summary of the readings of a sensor."""
    values = [value for value in values if value is not None]
    if not values:
        return None
    return {
        "first": values[0], "min": min(values), "mean": sum(values) / len(values), "max": max(values),
        "last": values[-1], "middle": [quantile(values, 0.1), quantile(values, 0.9)],
    }


def energy(name, rows, window):
    """The growth of an energy counter between the ends of a window of five seconds or more."""
    if not window or window[1] - window[0] < 5.0:
        return None
    known = [(row["time_unix_s"], row[name]) for row in rows if row[name] is not None]

    def at(time):
        for (before, low), (after, high) in zip(known, known[1:]):
            if before <= time <= after and after - before <= 3.0:
                return low + (high - low) * (time - before) / (after - before)
        return None

    start, end = at(window[0]), at(window[1])
    return None if start is None or end is None else end - start


def ncu(text):
    """The kernels of a table of Nsight Compute, one column per metric: name and values."""
    if text is None:
        return None
    lines = [line for line in text.splitlines() if line.startswith('"')]
    if not lines:
        return None
    header, _, *rows = csv.reader(lines)
    first = header.index("CC") + 1
    number = lambda text: int(text.replace(",", ""))
    return [
        (row[header.index("Kernel Name")], {name: number(cell) for name, cell in zip(header[first:], row[first:])})
        for row in rows
    ]


def flops(metrics):
    """Floating-point operations of CUDA cores, a fused multiply-add being two, and of tensor cores."""
    total = 0
    for name, value in metrics.items():
        if "_inst_executed_op_" in name:
            total += value * (2 if name.split("_op_")[1][1:4] == "fma" else 1)
        elif "_ops_path_tensor_" in name:
            total += value
    return total


def kernel_groups(kernels):
    """Kernels by name, the slowest first: name, launches, nanoseconds, FLOPs, bytes."""
    groups = {}
    for name, metrics in kernels:
        group = groups.setdefault(name, [name, 0, 0, 0, 0])
        group[1] += 1
        group[2] += metrics["gpu__time_duration.sum"]
        group[3] += flops(metrics)
        group[4] += metrics["dram__bytes.sum"]
    return sorted(groups.values(), key=lambda group: (-group[2], group[0]))
