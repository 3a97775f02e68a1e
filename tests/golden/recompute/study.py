"""Rows: the runs of a config in the same circumstances, with their statistics. Only runs that count enter them."""

import json
from statistics import mean, median, stdev

from . import maths, raw
from .marks import LEAVES_OUT, Unknown, disqualified, judge
from .networks import NETWORKS, Cost
from .operators import Breakdown
from .words import word

PRECISIONS = ["fp32", "tf32", "amp", "bf16"]
KINDS = ["timing", "ncu", "perf", "ops"]

# Facts of a host that must be equal within a row.
FACTS = ["hostname", "boot_id", "os", "cpu", "memory_bytes", "governor", "power_source", "nvidia_driver", "gpus"]


def place(declared, value):
    """The index of a value in the list of the matrix, or the length of the list if it is not in it."""
    return declared.index(value) if value in declared else len(declared)


def order(job, declared):
    """The order of tables: that of the matrix, then by value."""
    key = job.key
    env = place([env["name"] for env in declared], key["env"])
    own = declared[env] if env < len(declared) else {}
    places = [env, *(place(own.get(f"{axis}s" if axis != "batch" else "batches", []), key[axis])
                     for axis in ("model", "precision", "batch"))]
    of_params = [place(values, key["params"].get(name)) for name, values in sorted(own.get("params", {}).items())]
    rank = [(name, value if isinstance(value, (int, float)) and not isinstance(value, bool) else -1, word(value))
            for name, value in sorted(key["params"].items())]
    rank.append(("worker", -1, " ".join(key.get("worker", {}).get("command", []))))
    return (places[0], key["env"], places[1], key["model"], places[2], PRECISIONS.index(key["precision"]), of_params,
            rank, places[3], key["batch"], key["repeat"], KINDS.index(key["kind"]), key["device"])


def config(key):
    """The config of a job: its key without the repeat and without the fields of profiled jobs."""
    return json.dumps({**key, "repeat": 1, "kind": "timing", "profile": None}, sort_keys=True)


def circumstances(job, profiled=False):
    """The circumstances that the runs of a row share. Those of profiled jobs leave out the number of iterations."""
    effective = dict(job.measured["effective"])
    if profiled:
        for name in ("iters", "nvtx"):
            effective.pop(name, None)
    host = {name: job.host.get(name) for name in FACTS}
    details = {name: job.details.get(name) for name in ("device_name", "device_uuid", "versions")}
    unit = job.measured.get("unit")
    return json.dumps([host, details, effective, unit, job.record["provenance"]["worker"]["sha256"]], sort_keys=True)


def any_batch(job):
    effective = {name: value for name, value in job.measured["effective"].items() if name not in ("batch", "model")}
    rest = {**job.key, "repeat": 1, "batch": 0}
    host = {name: job.host.get(name) for name in FACTS}
    return json.dumps([rest, host, effective, job.details.get("versions")], sort_keys=True)


class Row:
    """One line of the summary."""

    def __init__(self, study, members, runs, part):
        self.study, self.members, self.runs, self.part = study, members, runs, part
        self.key, self.env = members[0].key, members[0].env
        self.first = runs[0] if runs else None
        self.host = self.first.host["hostname"] if runs else None
        self.counting = [run for run in runs if not disqualified(study.marks[run])]
        self.rates = [run.rate for run in self.counting if run.rate is not None]
        self.doubts = []
        self.cost = self._cost()
        self.peaks = study.peaks_of(self)
        self.ncu = self.breakdown = None

    def _cost(self):
        job = self.first or self.members[0]
        if self.key["model"] not in NETWORKS:
            return None
        size, classes = job.setting("input_size"), job.setting("classes")
        if not size or not classes:
            return None
        model, batch, precision = (self.key[name] for name in ("model", "batch", "precision"))
        return Cost(model, size, classes, batch, precision, job.setting("optimizer"))

    @property
    def reason(self):
        """The reason for a missing result; `None` if there is a result."""
        if self.rates:
            return None
        if self.runs:
            names = sorted({name for run in self.runs for name, _ in self.study.marks[run] if name in LEAVES_OUT})
            if len(self.runs) == 1:
                return f"its only run is {' and '.join(names)}"
            return f"all {len(self.runs)} runs are {' or '.join(names)}"
        reasons = [f"{reason} ({number} jobs)" if number > 1 else reason for reason, number in self.reasons]
        return "; ".join(reasons)

    @property
    def reasons(self):
        """The reasons why jobs of the config have no result, each with the number of jobs."""
        found = {}
        for job in self.members:
            if not job.succeeded:
                found[why(job)] = found.get(why(job), 0) + 1
        return sorted(found.items())

    @property
    def unit(self):
        if self.runs:
            return self.first.measured.get("unit", "samples")
        return "samples"

    def statistic(self, of, needs=1):
        return of(self.rates) if len(self.rates) >= needs else None

    @property
    def median(self):
        return self.statistic(median)

    @property
    def rate(self):
        """Its throughput."""
        return self.statistic(maths.geometric_mean)

    @property
    def interval(self):
        return maths.geometric_interval(self.rates)

    @property
    def label(self):
        key = self.key
        text = f"{key['env']}_{key['model']}_{key['precision']}_bs{key['batch']}"
        text += "".join(f" {name}={word(key['params'][name])}" for name in self.study.varying if name in key["params"])
        return text + (f" ({self.part[0]} of {self.part[1]})" if self.part[1] > 1 else "")

    @property
    def attained(self):
        return None if self.cost is None or self.rate is None else self.cost.flops * self.rate

    @property
    def ceiling(self):
        """The ends of the peak at its precision, in FLOP/s."""
        return self.peaks and self.peaks["flops"].get(self.key["precision"], {}).get("flops")

    @property
    def clock(self):
        """The median clock of the counted runs, in MHz. A processor has one only if all its cores compute."""
        from .marks import clock_readings
        if not self.runs:
            return None
        if self.key["device"] == "cpu" and (self.first.setting("threads") or 0) < self.first.host["cpu"]["usable"]:
            return None
        found = [clock_readings(run) for run in self.counting]
        found = [readings["mean"] for readings in found if readings and readings["mean"] > 0]
        return median(found) if found else None

    @property
    def peak_at_clock(self):
        if not self.ceiling or not self.clock:
            return None
        clocks = self.peaks["flops"][self.key["precision"]]["clock"]
        if not clocks:
            return None
        ends = sorted(flops / mhz for flops, mhz in zip(self.ceiling, clocks))
        return [end * self.clock for end in ends]

    @property
    def run_marks(self):
        of_runs = {name for run in self.runs for name, _ in self.study.marks[run]}
        return sorted(of_runs | {name for name, _ in self.doubts})


def why(job):
    """The reason why a job has no result, as a clause."""
    if not job.record:
        place = job.env["place"]["host"]
        if place and place not in job.hosts:
            return f"it never ran: the env `{job.key['env']}` belongs on the host {place}"
        return "it never ran"
    found = job.outcome
    signals = {11: "SIGSEGV, a segmentation fault"}
    texts = {
        "exited": lambda: f"exited with code {found['code']}" + (
            f": {found['message']}" if found["message"] else " and wrote nothing to stderr"),
        "signalled": lambda: f"was killed by signal {found['signal']} ({signals[found['signal']]})",
        "timed_out": lambda: f"was stopped at its time limit of {found['after_s']:g} s",
        "out_of_memory": lambda: f"ran out of memory: {found['message']}",
        "interrupted": lambda: f"was interrupted: {found['message']}",
        "not_profiled": lambda: f"was not profiled: {found['message']}; {found['remedy']}",
        "setting_mismatch": lambda: "did not run as requested:" + ",".join(
            f" {one['setting']} {one['effective']} instead of {one['requested']}" for one in found["mismatches"]),
    }
    if found["kind"] not in texts:
        raise Unknown(f"{job.label}: the outcome {found['kind']}")
    return texts[found["kind"]]()


def wanted(jobs):
    """All jobs, except outstanding profiles by operator for which no worker of the config has reported support."""
    able = {config(job.key) for job in jobs
            if job.is_timing and job.succeeded and "ops" in job.details.get("profiles", [])}
    is_left = lambda job: (job.key["kind"] == "ops" and job.env.get("ops_if_reported") and not job.record
                           and config(job.key) not in able)
    return [job for job in jobs if not is_left(job)]


class Study:
    """A plan with its jobs, their marks and their rows."""

    def __init__(self, store, name, peaks):
        self.plan, self.jobs = raw.load(store, name)
        self.jobs = sorted(wanted(self.jobs), key=lambda job: order(job, self.plan.get("declared", [])))
        self.peaks, self.places, self.of_config = peaks, None, None
        self.name = name
        self.marks = judge(self.jobs, self._pools())
        self.varying = self._varying()
        self.rows = [row for members in self._configs() for row in self._rows(members)]
        self._join_profiles()
        for row in self.rows:
            row.doubts = self._doubts(row)

    def _configs(self):
        found = {}
        for job in self.jobs:
            if job.is_timing:
                found.setdefault(config(job.key), []).append(job)
        return found.values()

    def _pools(self):
        pools = {}
        for job in self.jobs:
            if job.is_timing and job.succeeded:
                pools.setdefault((config(job.key), circumstances(job)), []).append(job)
        return [(pool[0].key["batch"], any_batch(pool[0]), pool) for pool in pools.values()]

    def _varying(self):
        """The parameters that differ between configs. An undeclared parameter counts as absent, not as its default."""
        names = sorted({name for job in self.jobs for name in job.key["params"]})
        value = lambda job, name: json.dumps(job.key["params"].get(name), sort_keys=True)
        return [name for name in names if len({value(job, name) for job in self.jobs}) > 1]

    def _rows(self, members):
        parts = {}
        for job in members:
            if job.succeeded:
                parts.setdefault(circumstances(job), []).append(job)
        if not parts:
            return [Row(self, members, [], (1, 1))]
        return [Row(self, members, runs, (place, len(parts))) for place, runs in enumerate(parts.values(), 1)]

    def _join_profiles(self):
        rows = {}
        for row in self.rows:
            if row.runs:
                rows[config(row.key), circumstances(row.first, True)] = row
        for job in self.jobs:
            if not job.is_timing and job.succeeded and not disqualified(self.marks[job]):
                row = rows.get((config(job.key), circumstances(job, True)))
                if row and job.key["kind"] == "ncu":
                    row.ncu = Profile(job)
                elif row:
                    row.breakdown = Breakdown(row, job.measured["ops"])
        for row in self.rows:
            beside = [run.measured["ops"] for run in row.counting if "ops" in run.measured]
            if beside and not row.breakdown:
                row.breakdown = Breakdown(row, beside[0])

    def peaks_of(self, row):
        """The peaks that the env names, if they are for the device of the runs, else `None`."""
        found = self.peaks.get(row.env["peaks"])
        if not row.runs or not found:
            return None
        fits = row.first.details.get("device_name") in found["names"]
        return found if fits and found["backend"] == row.key["device"].split(":")[0] else None

    def row_of(self, job):
        """The row of a run, or `None`."""
        if self.places is None:
            self.places = {run: row for row in self.rows for run in row.runs}
        return self.places.get(job)

    def any_row(self, job):
        """A row of the config of a job without a run, or `None` if the rows differ in the cost of a sample."""
        if self.of_config is None:
            self.of_config = {}
            for row in self.rows:
                self.of_config.setdefault(config(row.key), []).append(row)
        found = self.of_config[config(job.key)]
        costs = {row.cost and (row.cost.flops, row.cost.modelled_bytes) for row in found}
        return found[0] if len(costs) == 1 else None

    def _doubts(self, row):
        found = []
        if len(row.rates) >= maths.NEEDS and stdev(row.rates) > 0:
            least = 100 * maths.least_variation(row.rates)
            if least > 5:
                cv = 100 * stdev(row.rates) / mean(row.rates)
                for decimals in range(1, 13):
                    texts = f"{cv:.{decimals}f}", f"{least:.{decimals}f}"
                    if float(texts[0]) >= least and float(texts[1]) > 5:
                        break
                found.append(("high-variation", f"the coefficient of variation over n = {len(row.rates)} is "
                                                f"{texts[0]} %, "
                                                f"and at least {texts[1]} % at 95 % confidence (threshold 5 %)"))
        return found + self._undeclared(row)

    def _undeclared(self, row):
        """Differences from the nearest row of each other env with the same network, batch and precision."""
        if not row.runs:
            return []
        same = lambda other: all(other.key[name] == row.key[name] for name in ("model", "batch", "precision"))
        envs = {}
        for other in self.rows:
            if other.runs and other.key["env"] != row.key["env"] and same(other):
                differences = self._differ(row, other)
                nearest = envs.setdefault(other.key["env"], differences)
                if len(differences) < len(nearest):
                    envs[other.key["env"]] = differences
        return [("settings-differ", f"against {env}: {', '.join(differences)}")
                for env, differences in sorted(envs.items()) if differences]

    def comparable(self, row):
        """The settings that should be equal in a comparison of machines."""
        known = {"device", "precision", "batch", "model"}
        found = {name: word(value) for name, value in row.first.measured["effective"].items() if name not in known}
        for name, version in row.first.details.get("versions", {}).items():
            found["PyTorch" if name in ("torch", "libtorch") else name] = version
        if row.first.host.get("power_source"):
            found["power source"] = row.first.host["power_source"]
        phrases = [run.details["optimizer"] for run in row.runs if run.details.get("optimizer")]
        if phrases and phrases[0] != "SGD":
            raise Unknown(f"{row.label}: the constants of its optimizer")
        return {name: value for name, value in sorted(found.items()) if name not in self.varying}

    def _differ(self, row, other):
        ours, theirs = self.comparable(row), self.comparable(other)
        both_compute = row.key["device"] == other.key["device"] == "cpu"
        return [f"{name} {value} / {theirs[name]}" for name, value in ours.items()
                if name in theirs and theirs[name] != value and (name != "threads" or both_compute)]


class Profile:
    """The counters of Nsight Compute for a config."""

    def __init__(self, job):
        self.job, self.samples = job, job.measured["samples"]
        self.kernels = job.ncu
        self.metrics = {}
        for _, metrics in job.ncu:
            for name, value in metrics.items():
                self.metrics[name] = self.metrics.get(name, 0) + value
        self.groups = raw.kernel_groups(job.ncu)
        self.seconds = self.metrics["gpu__time_duration.sum"] / 1e9
        self.flops = raw.flops(self.metrics)
        self.bytes = self.metrics["dram__bytes.sum"]
        idle = sum(metrics["gpu__time_duration.sum"] for _, metrics in job.ncu if not raw.flops(metrics))
        self.zero_flop_share = idle / 1e9 / self.seconds
