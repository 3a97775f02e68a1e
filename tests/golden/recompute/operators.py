"""Profiles by operator: the time of an iteration by operator, and the limit of each operator."""

from .maths import shares_of
from .words import significant

FAR, AT = 0.3, 0.6
# Profiled iterations represent the timed ones if their durations differ by at most this factor.
SLOWDOWN = 1.5

# The classes of operators: their part of an iteration and their name in sentences, in the order of tables.
CLASSES = {
    "convolution": ("products", "convolutions"),
    "product": ("products", "matrix products"),
    "attention": ("products", "attention"),
    "normalisation": ("elementwise", "normalisation"),
    "elementwise": ("elementwise", "elementwise operators"),
    "pooling": ("elementwise", "pooling"),
    "lookup": ("elementwise", "losses and lookups"),
    "optimizer": ("optimizer", "the optimizer"),
    "copy": ("copies", "copies"),
    "communication": ("copies", "communication"),
    "data": ("data_wait", "data loading"),
    "other": ("other", "other operators"),
}


def capacity_of_caches(peaks):
    """An upper bound in bytes of the caches above the memory of any device, because the true capacity is unknown."""
    return 1.5e9 if peaks["backend"] == "cpu" else 256e6


def compute_ceiling(row, kind):
    """The ends of the compute ceiling for operands of this type, in FLOP/s."""
    if not row.peaks:
        return None
    single = "tf32" if row.key["precision"] == "tf32" else "fp32"
    precision = {"float32": single, "bfloat16": "bf16"}.get(kind)
    if kind == "float16" and row.peaks["backend"] != "cpu":
        precision = "amp"
    return row.peaks["flops"].get(precision, {}).get("flops")


def joint_share(members, share):
    """The time that a roof alone would take ÷ the time of all members; `None` if it is unknown for one of them."""
    shares = [share(operator) for operator in members]
    seconds = sum(operator.seconds for operator in members)
    if None in shares or not seconds:
        return None
    return sum(operator.seconds * one for operator, one in zip(members, shares)) / seconds


class Operator:
    """An operator of a profile. Its numbers are per iteration."""

    def __init__(self, profile, sample):
        self.profile, self.sample, self.rank = profile, sample, None
        self.kind = sample.get("class", "other")
        on_host = self.kind == "data" or not profile.on_accelerator
        self.recorded_s = sample["host_s"] if on_host else sample.get("device_s", 0.0)

    def scale(self, overlap):
        """Scales the seconds of overlapping streams, so that their sum is the time in which the device was busy."""
        row, iterations = self.profile.row, self.profile.iterations
        self.seconds = self.recorded_s * overlap / iterations
        self.share = self.recorded_s * overlap / self.profile.elapsed_s
        per_iteration = lambda amount: None if amount is None else amount * overlap / iterations
        self.flops, self.bytes = (per_iteration(self.sample.get(name)) for name in ("flops", "bytes"))
        types = [kind for kind in self.sample.get("types", []) if kind]
        ceiling = compute_ceiling(row, types[0] if types else "float32")
        self.of_compute = self.of_stream = self.of_traffic = None
        if self.flops and ceiling and self.seconds:
            self.of_compute = shares_of(self.flops / self.seconds, ceiling)
        if self.bytes is not None and self.seconds and row.peaks and row.peaks["bandwidth"]:
            self._place_below_memory(row.peaks)

    def _place_below_memory(self, peaks):
        """A stream beyond the caches crosses the memory. What fits them crosses it at most once in each direction."""
        of_call, capacity = self.sample["bytes"] / self.sample["calls"], capacity_of_caches(peaks)
        share = shares_of(self.bytes / self.seconds, peaks["bandwidth"])
        if of_call >= 2 * capacity:
            self.of_stream = share
        if of_call <= capacity:
            self.of_traffic = tuple(2 * end for end in share)

    @property
    def computes(self):
        """Its share of the compute roof, which is 0 without a FLOP."""
        return (0.0, 0.0) if self.flops == 0 else self.of_compute

    @property
    def limit(self):
        """The limit, if it is the same at the pace of the profile and at that of the timing runs."""
        return self.limit_at(sorted((1.0, self.profile.slowdown or 1.0)))

    def limit_at(self, pace):
        if self.kind == "data":
            return "host-bound"
        if self.of_stream and self.of_stream[0] * pace[0] >= AT:
            return "memory-bound"
        if self.computes and self.computes[0] * pace[0] >= AT:
            return "compute-bound"
        traffic = self.of_traffic or self.of_stream
        if not traffic or not self.computes:
            return "unknown"
        nearest = max(traffic[1], self.computes[1]) * pace[1]
        return "latency-bound" if nearest < FAR else "kernel-bound" if nearest < AT else "unknown"


class Group:
    """All operators of a class."""

    def __init__(self, kind, members):
        self.kind, self.title = kind, CLASSES[kind][1]
        self.seconds = sum(operator.seconds for operator in members)
        self.share = sum(operator.share for operator in members)
        self.of_compute = joint_share(members, lambda it: it.computes and it.computes[0]) or None
        self.of_stream = joint_share(members, lambda it: it.of_stream and it.of_stream[0])

    @property
    def of_roof(self):
        """The share of the nearer roof, and its name."""
        known = [(self.of_compute, "of the compute roof"), (self.of_stream, "of the bandwidth")]
        return max((pair for pair in known if pair[0] is not None), key=lambda pair: pair[0], default=None)

    @property
    def clause(self):
        place = f" at {100 * self.of_roof[0]:.0f} % {self.of_roof[1]}" if self.of_roof else ""
        return f"{100 * self.share:.0f} % in {self.title}{place}"


class Breakdown:
    """The time of a row's iteration."""

    def __init__(self, row, profile):
        self.row, self.iterations, self.elapsed_s = row, profile["iterations"], profile["elapsed_s"]
        self.iteration_s = self.elapsed_s / self.iterations
        self.on_accelerator = "device_busy_s" in profile
        self.operators = [Operator(self, sample) for sample in profile["operators"]]
        working = [operator for operator in self.operators if operator.kind != "data"]
        rest_s = profile.get("rest_s", 0.0)
        together = sum(operator.recorded_s for operator in working) + rest_s
        overlap = min(1.0, profile.get("device_busy_s", self.elapsed_s) / together) if together else 1.0
        for operator in self.operators:
            operator.scale(overlap)
        self.operators.sort(key=lambda operator: -operator.seconds)
        for rank, operator in enumerate(self.operators, 1):
            operator.rank = rank
        self.rest = rest_s * overlap / self.elapsed_s
        submitting = sum(operator.sample["host_s"] for operator in working)
        self.launches = self.on_accelerator and submitting >= 0.5 * self.elapsed_s
        self.parts = self._parts()
        self.limits = self._limits()

    def _parts(self):
        """The share of an iteration that each part takes. Only the wait of an idle device counts."""
        found = dict.fromkeys(["products", "elementwise", "optimizer", "copies", "data_wait", "other"], 0.0)
        for operator in self.operators:
            found[CLASSES[operator.kind][0]] += operator.share
        found["other"] += self.rest
        free = max(0.0, 1 - sum(share for part, share in found.items() if part != "data_wait"))
        found["data_wait"] = min(found["data_wait"], free)
        found["idle"] = max(0.0, free - found["data_wait"])
        return found

    def _limits(self):
        """The share of an iteration by limit. Operators that are not listed are unknown."""
        found = dict.fromkeys(["compute-bound", "memory-bound", "latency-bound", "kernel-bound", "outside"], 0.0)
        found |= {"unknown": self.rest, "data": self.parts["data_wait"]}
        for operator in self.operators:
            if operator.kind != "data":
                found[operator.limit] += operator.share
        found["latency-bound" if self.launches else "outside"] += self.parts["idle"]
        return found

    @property
    def groups(self):
        found = [(kind, [it for it in self.operators if it.kind == kind]) for kind in CLASSES]
        return sorted((Group(*one) for one in found if one[1]), key=lambda group: -group.seconds)

    @property
    def slowdown(self):
        return self.iteration_s * self.row.rate / self.row.key["batch"] if self.row.rates else None

    @property
    def is_representative(self):
        return self.slowdown is None or 1 / SLOWDOWN <= self.slowdown <= SLOWDOWN

    @property
    def slowest(self):
        """The class that takes longest, if it takes any time."""
        first = self.groups[0]
        return first if first.share > 0 else None

    @property
    def speedups(self):
        """By Amdahl's law: with the slowest class at its roof, and with that class alone."""
        if not self.slowest:
            return None, None
        share, of_roof = self.slowest.share, self.slowest.of_roof
        return of_roof and 1 / (1 - share * (1 - min(of_roof[0], 1))), 1 / share

    @property
    def text(self):
        """The clauses on the time by class and on possible gains."""
        idle = "with an idle device" if self.on_accelerator else "outside operators"
        clauses = [group.clause for group in self.groups if group.share >= 0.05 and group.kind != "data"][:3]
        for part, words in [("data_wait", "waiting for data"), ("idle", idle)]:
            if self.parts[part] >= 0.03:
                clauses.append(f"{100 * self.parts[part]:.0f} % {words}")
        text = ", ".join(clauses).replace(" % ", " % of the time ", 1)
        if not self.slowest:
            return text
        at_roof, alone = self.speedups
        free = f"{alone:.1f} × if everything else were free"
        if at_roof is None:
            return f"{text}; at most {free}, with {self.slowest.title} as they are"
        return f"{text}; at most {at_roof:.1f} × is left in {self.slowest.title}, {free}"

    @property
    def remark(self):
        """The remark that it adds to the reason of the row's class."""
        if self.is_representative:
            return self.text
        return f"its profiled iterations took {self.slowdown:.1f} × as long as the timed ones, so they decide nothing"


def shapes_of(sample):
    return ["x".join(map(str, shape)) for shape in sample.get("shapes", []) if shape is not None]


def listed(words):
    return "; ".join(words) or "none"


def rate(operator, amount):
    return None if amount is None or not operator.seconds else amount / operator.seconds / 1e9


def least(share):
    return share and 100 * share[0]


COLUMNS = {
    "rank": lambda it: it.rank,
    "operator": lambda it: it.sample["name"],
    "phase": lambda it: it.sample.get("phase"),
    "shapes": lambda it: listed(shapes_of(it.sample)),
    "types": lambda it: listed(kind for kind in it.sample.get("types", []) if kind),
    "calls": lambda it: it.sample["calls"] / it.profile.iterations,
    "class": lambda it: it.kind,
    "iteration_s": lambda it: it.seconds,
    "time_percent": lambda it: 100 * it.share,
    "gflop": lambda it: None if it.flops is None else it.flops / 1e9,
    "compulsory_bytes": lambda it: it.bytes,
    "gflop_per_s": lambda it: rate(it, it.flops),
    "gb_per_s": lambda it: rate(it, it.bytes),
    "percent_of_peak": lambda it: least(it.of_compute),
    "percent_of_bandwidth": lambda it: least(it.of_stream),
    "bandwidth_level": lambda it: it.of_stream and "memory",
    "bound": lambda it: it.limit,
}


def of_part(name):
    return lambda found: 100 * found.parts[name]


def of_limit(name):
    return lambda found: 100 * found.limits[name]


# Columns of a row, by its breakdown.
BREAKDOWN = {
    "profiled_iteration_s": lambda found: found.iteration_s,
    **{f"{part}_time_percent": of_part(part) for part in
       ["products", "elementwise", "optimizer", "copies", "data_wait", "other", "idle"]},
    "operators_at_compute_percent": of_limit("compute-bound"),
    "operators_at_memory_percent": of_limit("memory-bound"),
    "operators_far_percent": of_limit("latency-bound"),
    "operators_below_percent": of_limit("kernel-bound"),
    "operators_open_percent": of_limit("unknown"),
    "slowest_class": lambda found: found.slowest and found.slowest.kind,
    "speedup_at_roof_ratio": lambda found: found.speedups[0],
    "speedup_alone_ratio": lambda found: found.speedups[1],
}


def lines(study):
    """The operators of each row with a profile, with the row."""
    return [(row, operator) for row in study.rows if row.breakdown for operator in row.breakdown.operators]


def is_drawn(row):
    """Whether the roofline of its operators shows any of the slowest twenty."""
    if not row.breakdown or not row.ceiling or not row.peaks["bandwidth"]:
        return False
    return any(it.flops and it.bytes and it.seconds for it in row.breakdown.operators[:20])


# The table of a row on the page.


def page_rate(of):
    def value(operator):
        found = rate(operator, of(operator))
        return significant(found, 3) if found else "NA"
    return value


def page_share(of):
    return lambda operator: "NA" if of(operator) is None else f"{100 * of(operator)[0]:.0f} %"


PAGE = {
    "operator": lambda it: it.sample["name"],
    "phase": lambda it: it.sample.get("phase", "NA"),
    "inputs": lambda it: " ".join([text for text in shapes_of(it.sample) if text][:2]),
    "time": lambda it: f"{100 * it.share:.1f} %",
    "GFLOP/s": page_rate(lambda it: it.flops),
    "% of peak": page_share(lambda it: it.of_compute),
    "GB/s, compulsory": page_rate(lambda it: it.bytes),
    "% of bandwidth": page_share(lambda it: it.of_stream),
    "what limits it": lambda it: it.limit,
}


def page_lines(study):
    return [operator for row in study.rows if row.breakdown for operator in row.breakdown.operators[:10]]
