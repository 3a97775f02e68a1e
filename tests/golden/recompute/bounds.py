"""Places below the roofs, and the class of a row: its bound with the evidence for it."""

from dataclasses import dataclass
from statistics import median

from .maths import shares_of
from .operators import AT, FAR
from .words import passed

FULL = 0.9
# The share of the time from which a limit is the row's, and from which a mixture names it.
MOST, NAMED = 0.6, 0.1


def place_of(compute, memory):
    """The class by the shares of both roofs."""
    highest = max(compute, memory)
    if highest > 1:
        return "above its roof"
    if highest < FAR:
        return "latency-bound"
    if highest < AT:
        return "between its roofs"
    return "compute-bound" if compute >= memory else "memory-bound"


def attained_ends(row):
    """FLOP/s at the ends of the interval of the geometric mean, or of the runs if they are too few."""
    low, high = row.interval or (min(row.rates), max(row.rates))
    return min(low, row.rate) * row.cost.flops, max(high, row.rate) * row.cost.flops


def regions(row, intensity):
    """The classes that are possible within all intervals and ranges. The lower roof limits."""
    low, high = attained_ends(row)
    peak, allowed = sorted(row.ceiling), sorted(end * intensity for end in row.peaks["bandwidth"])
    least, most = shares_of((low, high), [min(ends) for ends in zip(peak, allowed)])
    touched = {
        "latency-bound": least < FAR,
        "between its roofs": least < AT and most >= FAR,
        "memory-bound": max(allowed[0], low) < peak[1] and low <= allowed[1] and high / allowed[0] >= AT,
        "compute-bound": peak[0] <= allowed[1] and low <= min(peak[1], allowed[1]) and high / peak[0] >= AT,
        "above its roof": most > 1,
    }
    return [region for region, is_touched in touched.items() if is_touched]


def percent(share):
    """A share in percent, with enough decimals to show on which side of every limit it is."""
    for decimals in range(13):
        text = f"{100 * share:.{decimals}f}"
        printed = float(text)
        sides = [(share >= FAR) == (printed >= 100 * FAR), (share >= AT) == (printed >= 100 * AT),
                 (share > 1) == (printed > 100)]
        if all(sides):
            return text
    return f"{100 * share:.0f}"


def range_text(ends):
    words = [percent(end) for end in ends]
    return words[1] if words[0] == words[1] else " to ".join(words)


def share_of_compute(row):
    """The ends of the attained share of the compute roof."""
    return shares_of(attained_ends(row), row.ceiling)


def shares_text(row, intensity):
    allowed = [end * intensity for end in row.peaks["bandwidth"]]
    memory = range_text(shares_of(attained_ends(row), allowed))
    return f"{range_text(share_of_compute(row))} % of the compute roof and {memory} % of the memory roof"


def waits(row):
    """The median share of the window spent waiting for data, and the number of runs that report it."""
    reporting = [run for run in row.counting if "data_wait_s" in run.details]
    shares = [run.details["data_wait_s"] / run.measured["elapsed_s"] for run in reporting]
    return (median(shares), len(shares)) if shares else (None, 0)


def obstacle(row):
    """An obstacle outside of the device: its bound and the reason, or `None`."""
    if not row.runs:
        return None
    share, n = waits(row)
    if share is not None and share > 0.1:
        return "host-bound", (f"it waited for data during {passed(100 * share, 10.0, 0)} % of its window, median of "
                              f"n = {n} (threshold 10 %)")
    looked_at = row.counting or row.runs
    spilled = sum("spilled" in [name for name, _ in row.study.marks[run]] for run in looked_at)
    if spilled and 2 * spilled >= len(looked_at):
        return "spilled", f"{spilled} of {len(looked_at)} runs are marked spilled"
    usable = row.first.host["cpu"]["usable"]
    if row.key["device"] != "cpu" and usable > 1 and row.counting:
        busy = [run.cpu_s / run.wall_s for run in row.counting if run.cpu_s is not None]
        if busy and median(busy) >= FULL * usable:
            share = passed(100 * median(busy) / usable, 100 * FULL, 0, "from")
            return "host-bound", (f"its process kept {median(busy):.2f} of {usable} usable processors busy beside the "
                                  f"device, {share} % of them (threshold 90 %)")
    return None


def counted_intensity(row):
    """FLOPs that the network needs per counted byte."""
    if row.ncu and row.ncu.bytes and row.cost:
        return row.cost.flops / (row.ncu.bytes / row.ncu.samples)
    return None


def has_roofs(row):
    return row.attained is not None and bool(row.ceiling) and bool(row.peaks["bandwidth"])


@dataclass
class Class:
    """The class of a row: the bound, the reason, the kind of evidence, and an experiment to decide an unknown one."""

    bound: str
    reason: str
    evidence: str
    remark: str | None = None
    experiment: str | None = None

    @property
    def why(self):
        return f"{self.reason}: {self.remark}" if self.remark else self.reason

    @property
    def is_open(self):
        return self.bound == "unknown"


def placed(row):
    """The class by the counted bytes."""
    intensity = counted_intensity(row)
    found = regions(row, intensity)
    reached = f"with the bytes that ncu counted it reaches {shares_text(row, intensity)}"
    if len(found) == 1:
        if found[0].endswith("bound"):
            return Class(found[0], reached, "counters")
        return Class("unknown", f"it is {found[0]}: {reached}", "none")
    wide = row.ceiling[0] != row.ceiling[1] or row.peaks["bandwidth"][0] != row.peaks["bandwidth"][1]
    scatters = attained_ends(row)[0] < attained_ends(row)[1]
    vague = ("a roof and the throughput are only known as ranges" if wide and scatters else
             "the throughput scatters" if scatters else "a roof is only known as a range")
    return Class("unknown", f"{vague}, and it could be {' or '.join(found)}: {reached}", "none")


def by_throughput(row):
    """The class by the throughput alone; `None` if it is too low to decide."""
    if row.attained is None or not row.ceiling:
        return None
    shares = share_of_compute(row)
    reached = f"it attains {range_text(shares)} % of the compute roof"
    if shares[0] > 1:
        return Class("unknown", f"{reached}, which is above the roof", "none")
    if has_roofs(row):
        allowed = [end * row.cost.flops / row.cost.modelled_bytes for end in row.peaks["bandwidth"]]
        moved = shares_of(attained_ends(row), allowed)
        if moved[1] >= AT:
            reached += (f", and may be at the memory roof as well: if data moved once per layer, that would be "
                     f"{range_text(moved)} % of it")
    return Class("compute-bound", reached, "throughput") if shares[0] >= AT else None


def by_activity(row):
    """The class of a row far from the compute roof whose memory is hardly used; `None` if that is not known."""
    if not has_roofs(row) or counted_intensity(row) or row.peaks["bandwidth"][0] != row.peaks["bandwidth"][1]:
        return None
    # A sample covers at least a sixth of a second, and must span four iterations.
    if row.key["batch"] * row.cost.flops / attained_ends(row)[0] * 4 > 1 / 6:
        return None
    shown = [run.telemetry for run in row.counting]
    if not all(it and it["of_window"] and it["samples"] >= 3 and it["gpu_memory_busy_percent"] for it in shown):
        return None
    most = max(it["gpu_memory_busy_percent"]["max"] + 1 for it in shown)
    shares = share_of_compute(row)
    if shares[1] >= FAR or most >= 16 or most <= 1:
        return None
    text = (f"it attains {range_text(shares)} % of the compute roof, and its memory was in use for at most "
            f"{passed(most, 16.0, 0, 'below')} % of the time (threshold 16 %)")
    return Class("latency-bound", text, "activity")


def unplaced(row):
    """The reason why neither counters nor the throughput decide the class."""
    if not row.rates:
        return "no run counts"
    if row.breakdown and row.breakdown.is_representative:
        return f"{100 * row.breakdown.limits['unknown']:.0f} % of its time is in operators whose limit is unknown"
    if row.cost is None:
        return "its FLOPs are unknown"
    if not row.peaks:
        return "its device has no peaks"
    if not row.ceiling:
        return "the peaks have no figure for its precision"
    return "its bytes were not counted"


def dominant(limits):
    """The limit that takes most of the time: its bound, its share, and a clause on where that time is spent."""
    latency, outside, data = limits["latency-bound"], limits["outside"], limits["data"]
    if latency >= outside:
        overhead = "latency-bound", latency + outside, "in operators far from both roofs, or outside of them"
    else:
        overhead = ("host-bound", latency + outside + data,
                    "outside of operators, or in those far from both roofs")
    candidates = [
        ("compute-bound", limits["compute-bound"], "in operators at the compute roof"),
        ("memory-bound", limits["memory-bound"], "in operators at the memory roof"),
        ("host-bound", data, "waiting for data"),
        ("host-bound", outside, "outside of all operators"),
        ("latency-bound", latency, "in operators far from both roofs, or between kernels"),
        overhead,
        ("kernel-bound", limits["kernel-bound"] + latency, "in operators that are at neither roof"),
    ]
    return next((one for one in candidates if one[1] >= MOST), None)


def by_operators(row):
    """The class by the time of the operators; `None` if they do not decide it."""
    if not row.breakdown or not row.breakdown.is_representative:
        return None
    limits = row.breakdown.limits
    found = dominant(limits)
    if found:
        bound, share, where = found
        text = passed(100 * share, 100 * MOST, 0, "from")
        return Class(bound, f"{text} % of the time is {where} (threshold 60 %)", "operators")
    if 1 - limits["unknown"] < MOST:
        return None
    places = {
        "compute-bound": "at the compute roof", "memory-bound": "at the memory roof",
        "latency-bound": "far from both roofs", "kernel-bound": "at neither roof", "data": "waiting for data",
        "outside": "outside of operators", "unknown": "in operators whose limit is unknown",
    }
    named = sorted((limit for limit in places if limits[limit] >= NAMED), key=lambda limit: -limits[limit])
    clauses = [f"{100 * limits[limit]:.0f} % {places[limit]}" for limit in named]
    return Class("mixed", f"of the time, {', '.join(clauses)}", "operators")


def experiment(row):
    """The cheapest experiment that would decide the class of a row."""
    device, run = row.key["device"], f"`orchestrate run {row.study.plan['matrix']['path']} --profile"
    if not row.rates:
        return None
    if not row.peaks:
        return f"measure the ceilings: `orchestrate peaks measure --device {device}`"
    if not row.breakdown:
        return f"profile it by operator: {run} ops`"
    counting = device != "cpu" and not counted_intensity(row) and f"count its bytes: {run} ncu`"
    if not row.breakdown.is_representative:
        return counting or "profile a larger batch, whose operators take longer"
    first = next((it for it in row.breakdown.operators if it.limit == "unknown"), None)
    if first is None:
        return counting or "report more operators: those in `rest_s` decide it"
    name = first.sample["name"]
    if first.flops is None or first.bytes is None:
        return counting or f"report `flops` and `bytes` of the operator `{name}`, whose work is unknown"
    if first.flops and not first.of_compute:
        return f"measure the ceilings at its precision: `orchestrate peaks measure --device {device}`"
    if first.limit_at((1.0, 1.0)) != "unknown":
        again = run.removesuffix(" --profile")
        return counting or (f"measure it again when nothing else uses the machine, in a new store: {again} --store "
                            f"DIR`")
    return counting or f"run a larger batch: the data of `{name}` then exceed the caches"


def decided(row):
    """The class by the first evidence that decides it."""
    if counted_intensity(row) and has_roofs(row):
        found = placed(row)
    else:
        found = by_throughput(row) or Class("unknown", unplaced(row), "none")
    if found.is_open:
        found = by_operators(row) or by_activity(row) or found
    if found.is_open:
        found.experiment = experiment(row)
    found.remark = row.breakdown and row.breakdown.remark
    return found


def class_of(row):
    """The class of a row: by an obstacle, else by evidence."""
    keeps = obstacle(row)
    return Class(*keeps, "process") if keeps else decided(row)


def points(row, number):
    """The points of a row: by counted bytes, by modelled ones, and on the memory roof."""
    if not has_roofs(row):
        return []
    bound = class_of(row).bound
    found = []
    bandwidth = max(row.peaks["bandwidth"])
    for source, intensity in [
        ("measured", counted_intensity(row)), ("modelled", row.cost.flops / row.cost.modelled_bytes),
        ("estimated", row.attained / bandwidth),
    ]:
        if intensity is not None:
            found.append({"number": number, "source": source, "intensity": intensity, "attained": attained_ends(row),
                          "attainable": min(max(row.ceiling), bandwidth * intensity), "bound": bound})
    return found


def rooflines(rows):
    """The points of each env and device, numbered within it."""
    found = {}
    for row in rows:
        if has_roofs(row):
            place = found.setdefault((row.key["env"], row.peaks["name"]), [])
            number = place[-1][1]["number"] + 1 if place else 1
            place.extend((row, point) for point in points(row, number))
    return found
