"""Formulas of the cells of the tables of `report.md`. The names of some of its columns identify a table."""


from . import maths, tables
from .bounds import class_of
from .brief import design, distinction, fastest, fastest_cell, glances, of_glance
from .findings import excluded, run_label
from .marks import LEAVES_OUT, disqualified
from .peaks import kind_of_ceiling
from .profiles import kernel_lines, kernel_place, time_shares
from .study import why
from .tables import middle, rates, row_energy, run_usd, usd
from .words import counted, ends, known_to, significant, word


def figure(value, digits):
    return "NA" if value is None else significant(value, digits)


def percent(share):
    return f"{100 * share:.1f} %"


def range_text(low, high, digits=3):
    texts = significant(low, digits), significant(high, digits)
    return texts[1] if texts[0] == texts[1] else " to ".join(texts)


def share_text(row):
    if row.attained is None or not row.ceiling:
        return "NA"
    share = lambda peak: range_text(*(100 * end for end in maths.shares_of(row.attained, peak)))
    nominal = share(row.ceiling)
    if row.peak_at_clock and share(row.peak_at_clock) != nominal:
        return f"{nominal} ({share(row.peak_at_clock)} at {row.clock:.0f} MHz)"
    return nominal


def interval_text(row):
    if not row.interval:
        return "n too small"
    if row.interval[1] - row.interval[0] <= 2e-12 * row.interval[1]:
        return "no scatter"
    return ends(row.interval, row.interval)


def marks_text(row):
    names = ", ".join(row.run_marks) or "none"
    out = len(row.runs) - len(row.counting)
    return f"{names} ({out} of {len(row.runs)} left out)" if out else names


def energy_text(row, kind):
    joules, n, source = row_energy(row, kind)
    return "not measured" if joules is None else f"{significant(joules, 3)} ({source}, n = {n})"


def roofs_text(row):
    shares = time_shares(row)
    if shares["compute-bound"] is None:
        return "NA"
    places = [("compute-bound", "at the compute roof"), ("memory-bound", "at the memory roof"),
              ("latency-bound", "far from both"), ("unknown", "between or above"), ("unplaced", "not placed")]
    return ", ".join(f"{shares[name]:.0f} % {where}" for name, where in places)


def throughput_text(runs):
    return "no run" if middle(runs) is None else f"{significant(middle(runs), 4)} ({len(rates(runs))})"


def network_text(row):
    optimizer = f", {row.cost.optimizer}" if row.cost.optimizer else ""
    size = row.first.setting("input_size") if row.first else row.key["params"]["input_size"]
    return f"{row.key['model']} {row.key['precision']}, {size} × {size} pixels, batch {row.key['batch']}{optimizer}"


def result_value(of):
    """A column of the results, which is empty for rows without a throughput."""
    return lambda row: of(row) if row.rates else ""


def first_value(of):
    return lambda row: of(row) if row.rates else f"no result: {row.reason}"


def model_text(row):
    return row.key["model"] + (" ({} of {})".format(*row.part) if row.part[1] > 1 else "")


RESULTS = {
    "env": lambda row: row.key["env"],
    "model": model_text,
    "precision": lambda row: row.key["precision"],
    "batch": lambda row: str(row.key["batch"]),
    "row": lambda row: row.label,
    "n": lambda row: str(len(row.rates)),
    "95 % interval": result_value(interval_text),
    "GFLOP/s": result_value(lambda row: figure(tables.giga(row.attained), 4)),
    "% of peak": result_value(share_text),
    "what limits it": result_value(lambda row: class_of(row).bound),
    "marks": marks_text,
}


def of_result(name, row):
    if name in RESULTS:
        return RESULTS[name](row)
    if name.endswith("/s"):
        return first_value(lambda row: known_to(row.rate, row.interval))(row)
    if name.startswith("USD / 10⁶"):
        return result_value(lambda row: figure(usd(row, 1e6 / row.rate), 3))(row)
    if name in row.study.varying:
        return word(row.key["params"][name]) if name in row.key["params"] else "NA"
    raise tables.NoFormula(name)


NCU = {
    "config": lambda row: row.label,
    "kernels": lambda row: f"{len(row.ncu.kernels):,}",
    "executed GFLOP / sample": lambda row: figure(row.ncu.flops / row.ncu.samples / 1e9, 4),
    "needed GFLOP / sample": lambda row: figure(row.cost and row.cost.flops / 1e9, 4),
    "DRAM MB / sample": lambda row: figure(row.ncu.bytes / row.ncu.samples / 1e6, 4),
    "FLOP / byte": lambda row: figure(row.cost and row.cost.flops / (row.ncu.bytes / row.ncu.samples), 3),
    "time in kernels without FLOPs": lambda row: percent(row.ncu.zero_flop_share),
    "kernel time by roof": roofs_text,
    "not measured": lambda row: ", ".join(sorted(row.ncu.job.record["counters"]["not_measured"])),
}


def kernel_bound(line):
    place = kernel_place(line[0], line[2])
    return "NA" if place is None else place[5]


KERNELS = {
    "config": lambda line: line[0].label,
    "kernel": lambda line: line[2][0],
    "launches": lambda line: f"{line[2][1]:,}",
    "share of kernel time": lambda line: percent(line[2][2] / 1e9 / line[0].ncu.seconds),
    "GFLOP": lambda line: figure(line[2][3] / 1e9, 4),
    "DRAM MB": lambda line: figure(line[2][4] / 1e6, 4),
    "bound": kernel_bound,
}

PRICES = {
    "config": lambda row: row.label,
    "USD / 10⁶": lambda row: figure(usd(row, 1e6 / row.rate), 3),
    "USD / run": lambda row: figure(run_usd(row), 3),
    "processor, J / sample": lambda row: energy_text(row, "cpu"),
    "GPU, J / sample": lambda row: energy_text(row, "gpu"),
}

COSTS = {
    "parameters": lambda row: f"{row.cost.parameters:,}",
    "forward GMAC / sample": lambda row: f"{row.cost.forward_macs / 1e9:.3f}",
    "training GFLOP / sample": lambda row: f"{row.cost.flops / 1e9:.3f}",
    "modelled FLOP / byte": lambda row: figure(row.cost.flops / row.cost.modelled_bytes, 3),
}

COMPLEXITY = {
    "network": lambda line: line[0],
    **{name: lambda line, cell=cell: cell(line[1]) for name, cell in COSTS.items()},
}

FAILURES = {
    "job": lambda job: job.name,
    "outcome": lambda job: job.outcome["kind"],
    "reason": why,
    "attempts": lambda job: str(job.record["attempt"]),
}

LEFT_OUT = {
    "run": lambda run: run_label(run.study, run.run),
    "rate": lambda run: figure(run.run.rate, 4),
    "why": lambda run: "; ".join(f"{name}: {text}" for name, text in run.study.marks[run.run] if name in LEAVES_OUT),
}

AUDIT = {
    "row": lambda row: row.label,
    "left out": lambda row: f"{len(excluded(row))} of {counted(len(row.runs), 'run')}",
    "replaced": lambda row: "0",
    "by": lambda row: ", ".join(tables.left_out_by(row)),
    "without": lambda row: throughput_text(row.counting),
    "of all runs": lambda row: throughput_text(row.runs),
    "ratio": lambda row: "NA" if row.rate is None else f"{row.rate / middle(row.runs):.3f}",
}


class Out:
    """A run that marks leave out."""

    def __init__(self, study, run):
        self.study, self.run = study, run


def peak_lines(study):
    """One line per env, peaks and precision."""
    seen, found = [], []
    for row in study.rows:
        if row.peaks and (row.key["env"], row.peaks["name"]) not in seen:
            seen.append((row.key["env"], row.peaks["name"]))
            found += [(row.key["env"], row.peaks, precision) for precision in row.peaks["flops"]]
    return found


def peak_text(line):
    _, peaks, precision = line
    low, high = (end / 1e9 for end in peaks["flops"][precision]["flops"])
    kind = kind_of_ceiling(peaks)
    if low < high:
        return f"{significant(low, 4)} to {significant(high, 4)} GFLOP/s; the upper end is the roof by {kind}"
    return f"{significant(high, 4)} GFLOP/s by {kind}"


PEAKS = {
    "env": lambda line: line[0],
    "precision": lambda line: f"{line[2]}, dense, accumulated in {line[1]['flops'][line[2]]['accumulate']}",
    "peak": peak_text,
    "bandwidth": lambda line: f"{range_text(*(end / 1e9 for end in line[1]['bandwidth']))} GB/s",
    "knee": lambda line: f"{significant(max(line[1]['flops'][line[2]]['flops']) / max(line[1]['bandwidth']), 3)} "
                         f"FLOP/byte",
    "origin": lambda line: f"{line[1]['origin']}, {line[1]['date']}",
    "confidence": lambda line: line[1]["confidence"],
    "source": lambda line: line[1]["source"],
    "note": lambda line: line[1].get("note") or "none",
}


def metric_lines(study):
    """The custom metrics of workers, by row."""
    names = sorted({(name, bool(found.get("per_second"))) for job in study.jobs if job.succeeded
                    for name, found in job.measured.get("metrics", {}).items()})
    found = []
    for row in study.rows:
        for name, rate in names:
            column = f"{name}_per_s" if rate else name
            if tables.of_metric(f"metric_{column}_n", row):
                found.append((row, name, column))
    return found


def metric_column(what, digits=4):
    def value(line):
        found = tables.of_metric(f"metric_{line[2]}_{what}", line[0])
        return significant(found, digits) if digits else str(found or "none")
    return value


METRICS = {
    "config": lambda line: line[0].label,
    "metric": lambda line: line[1],
    "unit": metric_column("unit", None),
    "n": metric_column("n", None),
    "median": metric_column("median"),
    "least": metric_column("min"),
    "greatest": metric_column("max"),
}


def not_run(study):
    found = {}
    for job in study.jobs:
        if not job.record:
            key = (job.key["env"], why(job))
            found[key] = found.get(key, 0) + 1
    return [(env, f"{number} × {reason}") for (env, reason), number in sorted(found.items())]


def once(lines, text):
    found = {}
    for line in lines:
        found.setdefault(text(line), line)
    return list(found.values())


def network_lines(study):
    """One line per network and costs. Lines with the same text get their varying settings, or their row, added."""
    costs = lambda row: tuple(cell(row) for cell in COSTS.values())
    varying = lambda row: f",{distinction(row)}" if distinction(row) else ""
    lines = [(network_text(row), row) for row in study.rows if row.cost]
    for addition in [varying, lambda row: f" ({row.label})"]:
        found = {}
        for text, row in lines:
            found.setdefault(text, set()).add(costs(row))
        lines = [(text + addition(row) if len(found[text]) > 1 else text, row) for text, row in lines]
    return once(lines, lambda line: (line[0], costs(line[1])))


def by_name(formulas, rename=lambda name: name):
    def formula(name, line):
        if rename(name) not in formulas:
            raise tables.NoFormula(name)
        return formulas[rename(name)](line)
    return formula


def known_tables(study):
    """Each table: some of its columns, its lines, formula of a cell."""
    rows, profiled = study.rows, [row for row in study.rows if row.ncu]
    out = [Out(study, run) for run in study.jobs if run.is_timing and run.succeeded and disqualified(study.marks[run])]
    priced = [row for row in rows if row.rates]
    has_energy = lambda row: row_energy(row, "cpu")[1] or row_energy(row, "gpu")[1]
    is_priced = lambda row: row.env["usd_per_hour"] is not None or has_energy(row)
    has_price = any(map(is_priced, priced))
    failed = [job for job in study.jobs if job.record and not job.succeeded]
    top = [line for row in profiled for line in kernel_lines(row)[:5]]
    short = lambda name: "USD / 10⁶" if name.startswith("USD / 10⁶") else name
    return [
        ({"model", "precision", "n"}, rows, of_result),
        ({"config", "kernels"}, profiled, by_name(NCU)),
        ({"config", "kernel"}, top, by_name(KERNELS)),
        ({"config", "USD / run"}, priced if has_price else [], by_name(PRICES, short)),
        ({"config", "metric"}, metric_lines(study), by_name(METRICS)),
        ({"network", "limited by"}, fastest(study.rows), fastest_cell),
        ({"network"}, network_lines(study), by_name(COMPLEXITY)),
        ({"job", "outcome"}, failed, by_name(FAILURES)),
        ({"run", "why"}, out, by_name(LEFT_OUT, lambda name: "rate" if name.endswith("/s") else name)),
        ({"row", "left out"}, [row for row in rows if excluded(row)],
         by_name(AUDIT, lambda name: "without" if name.endswith("without them") else name)),
        ({"env", "peak"}, peak_lines(study), by_name(PEAKS)),
        ({"model", "settings"}, glances(study), of_glance),
        ({"env", "repeats"}, design(study), lambda name, line: line[name]),
        ({"env", "jobs"}, not_run(study), by_name({"env": lambda line: line[0], "jobs": lambda line: line[1]})),
    ]
