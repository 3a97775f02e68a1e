"""The CSV files beside the figures. A figure may have several files, which together must contain each line once, in any
order: some columns identify a line."""

from math import log2
from statistics import median

from . import axes, operators, profiles, tables
from .axes import blocks, started
from .bounds import rooflines
from .brief import fastest, glances
from .study import circumstances
from .tables import listed, row_energy, summary, usd

OF_ROW = ["env", "device", "model", "precision", "batch", "params", "part"]


# Single runs.


class Placed:
    """A run with its place among those of its machine."""

    def __init__(self, row, run, place=None, block=None):
        self.row, self.run, self.place, self.block = row, run, place, block

    @property
    def change(self):
        """The deviation from the throughput of its row in percent, `None` if fewer than two runs count."""
        if self.run.rate is None or len(self.row.rates) < 2:
            return None
        return 100 * (self.run.rate / self.row.rate - 1)


def placed(study):
    """The runs with a result, by row."""
    runs = [(row, run) for row in study.rows for run in row.runs]
    timed = [run for _, run in runs if run.rate is not None]
    of_block, places, numbers = blocks(timed), {}, {}
    for run in sorted(timed, key=lambda run: (started(run), run.record["id"])):
        machine = (run.host["hostname"], run.host["boot_id"])
        known = numbers.setdefault(machine, {})
        block = known.setdefault(of_block[run], len(known) + 1)
        places.setdefault(machine, []).append(run)
        places[run] = (len(places[machine]), block)
    return [Placed(row, run, *places.get(run, ())) for row, run in runs]


RUNS = {
    "repeat": lambda line: line.run.key["repeat"],
    "samples_per_s": lambda line: line.run.rate,
    "in_statistics": lambda line: line.run in line.row.counting,
    "started_at": lambda line: tables.time_text(line.run.record["started_at"]),
    "place": lambda line: line.place,
    "block": lambda line: line.block,
    "change_percent": lambda line: line.change,
    "marks": lambda line: listed(name for name, _ in line.row.study.marks[line.run]),
}


def of_run(name, line):
    return RUNS[name](line) if name in RUNS else summary(name, line.row)


# Batch scaling.


class Step:
    """A row on its curve."""

    def __init__(self, row, first, before):
        self.row, self.is_knee = row, False
        self.gain = row.rate / first.rate
        self.efficiency = 100 * self.gain * first.key["batch"] / row.key["batch"]
        self.growth = None
        if before:
            doublings = log2(row.key["batch"] / before.key["batch"])
            self.growth = 100 * ((row.rate / before.rate) ** (1 / doublings) - 1)


def curves(study):
    """Curves of rows that differ only in the batch. After the knee, all growth per doubling is below 10 %."""
    found = {}
    for row in study.rows:
        if row.rates:
            params = tuple((name, str(value)) for name, value in sorted(row.key["params"].items()))
            key = (row.key["env"], row.key["model"], row.key["precision"], params)
            rest = circumstances(row.first).replace(f'"batch": {row.key["batch"]},', "")
            found.setdefault((key, rest), []).append(row)
    steps = []
    for members in found.values():
        members.sort(key=lambda row: row.key["batch"])
        if len(members) > 1:
            curve = [Step(row, members[0], before) for row, before in zip(members, [None, *members])]
            flat = 0
            while flat < len(curve) - 1 and curve[-1 - flat].growth < 10:
                flat += 1
            if flat:
                curve[-1 - flat].is_knee = True
            steps += curve
    return steps


STEPS = {
    "gain_ratio": lambda line: line.gain,
    "efficiency_percent": lambda line: line.efficiency,
    "growth_percent": lambda line: line.growth,
    "is_knee": lambda line: line.is_knee,
}


def of_step(name, line):
    return STEPS[name](line) if name in STEPS else summary(name, line.row)


# Cost of a sample against throughput.


class Offer:
    def __init__(self, row, paid, price):
        self.row, self.paid, self.price, self.is_on_front = row, paid, price, False

    def beats(self, other):
        ours, theirs = (self.row.rate, -self.price), (other.row.rate, -other.price)
        return ours != theirs and ours[0] >= theirs[0] and ours[1] >= theirs[1]


PRICES = {
    "dollars": lambda row: usd(row, 1e6 / row.rate),
    "processor_energy": lambda row: row_energy(row, "cpu")[0],
    "gpu_energy": lambda row: row_energy(row, "gpu")[0],
}


def offers(study):
    """The rows of each network with a price. There are none in dollars if all have the same price per hour."""
    found = []
    for paid, price in PRICES.items():
        for model in {row.key["model"] for row in study.rows}:
            rows = [row for row in study.rows if row.key["model"] == model and row.rates and price(row)]
            hours = {row.env["usd_per_hour"] for row in rows}
            if len(rows) > 1 and not (paid == "dollars" and len(hours) == 1):
                its = [Offer(row, paid, price(row)) for row in rows]
                for offer in its:
                    offer.is_on_front = not any(other.beats(offer) for other in its)
                found += its
    return found


OFFERS = {
    "paid": lambda line: line.paid,
    "usd_per_million_samples": lambda line: line.price if line.paid == "dollars" else None,
    "joules_per_sample": lambda line: None if line.paid == "dollars" else line.price,
    "is_on_front": lambda line: line.is_on_front,
}


def of_offer(name, line):
    return OFFERS[name](line) if name in OFFERS else summary(name, line.row)


# Single iterations, in at most sixty parts per window.


class Part:
    def __init__(self, row, run, first, seconds):
        self.row, self.run, self.first, self.seconds = row, run, first, seconds


def parts(study):
    found = []
    for row in study.rows:
        for run in row.runs:
            seconds = run.elapsed if run.rate is not None else None
            number = min(len(seconds or []), 60)
            for place in range(number):
                start, end = place * len(seconds) // number, (place + 1) * len(seconds) // number
                found.append(Part(row, run, start + 1, seconds[start:end]))
    return found


PARTS = {
    "repeat": RUNS["repeat"],
    "in_statistics": RUNS["in_statistics"],
    "marks": RUNS["marks"],
    "first_iteration": lambda line: line.first,
    "last_iteration": lambda line: line.first + len(line.seconds) - 1,
    "least_s": lambda line: min(line.seconds),
    "median_s": lambda line: median(line.seconds),
    "greatest_s": lambda line: max(line.seconds),
}


def of_part(name, line):
    return PARTS[name](line) if name in PARTS else summary(name, line.row)


def of_the_fastest(study, best, drawn):
    """The runs of the lines of the fastest rows: the first seven networks of each env."""
    lines = [line for line in glances(study) if any(row in best for row in line.cells.values())
             and any(row.rates or any(run.rate is not None for run in row.runs) for row in line.cells.values())]
    of_env = lambda env: [line for line in lines if line.key["env"] == env][:7]
    rows = [row for env in {line.key["env"] for line in lines} for line in of_env(env) for row in line.cells.values()]
    return [run for run in drawn if run.row in rows]


def known(study):
    """Each figure: prefix of its files, whether it is required, its lines, formula of a cell, identifying columns."""
    runs = placed(study)
    apart = [line for line in runs if len(line.row.rates) > 1 and any(run.rate is not None for run in line.row.runs)]
    points = [line for lines in rooflines(study.rows).values() for line in lines if line[1]["source"] != "estimated"]
    named = [(effect, line) for effect in axes.effects(study) if effect.compared for line in effect.lines()]
    counted = [line for row in study.rows for line in profiles.kernel_lines(row)]
    placed_kernels = [line for line in counted if any(profiles.kernel_place(line[0], it[2])
                                                      for it in profiles.kernel_lines(line[0]))]
    timed = [line for line in runs if line.run.rate is not None]
    drawn = [line for line in runs if any(run.rate is not None for run in line.row.runs)]
    profiled = [row for row in study.rows if row.breakdown]
    drawn_operators = [line for line in operators.lines(study) if operators.is_drawn(line[0])]
    best, fast = fastest(study.rows), fastest(profiled)[:12]
    return [
        ("fastest_", True, of_the_fastest(study, best, drawn), of_run, [*OF_ROW, "repeat"]),
        ("limits_", True, fast, summary, OF_ROW),
        ("throughput_", True, drawn, of_run, [*OF_ROW, "repeat"]),
        ("roofline_", True, points, tables.roofline_points, [*OF_ROW, "bytes_source"]),
        ("rooflines_", False, points, tables.roofline_points, [*OF_ROW, "bytes_source"]),
        ("kernels_", True, placed_kernels, tables.kernels, [*OF_ROW, "rank"]),
        ("time_", True, profiled, summary, OF_ROW),
        ("operators_", True, drawn_operators, tables.operators, [*OF_ROW, "rank"]),
        ("axes_", True, named, axes.effect_line, ["axis", "value", "config", "reason"]),
        ("scaling_", False, curves(study), of_step, OF_ROW),
        ("scatter_", False, apart, of_run, [*OF_ROW, "repeat"]),
        ("order_", False, timed, of_run, [*OF_ROW, "repeat"]),
        ("tradeoff_", False, offers(study), of_offer, [*OF_ROW, "paid"]),
        ("iterations_", False, parts(study), of_part, [*OF_ROW, "repeat", "first_iteration"]),
    ]
