"""The five lines at the top of a page, its table of the design, and its tables of results at a glance."""

import re
from statistics import median

from . import maths
from .bounds import class_of
from .findings import bias_words, completeness, excluded
from .marks import LEAVES_OUT
from .raw import moment
from .study import any_batch, config
from .words import counted, ends, known_to, significant, word


# Ends the reason of a row whose profile shows no limit.
OPEN_OPERATORS = "of its time is in operators whose limit is unknown"


def distinct(words):
    return list(dict.fromkeys(words))


def few(words, most=5):
    more = len(words) - most
    return ", ".join(words[:most]) + (f" and {more} more" if more > 0 else "")


def some_of(number, all_of, noun):
    if number == all_of:
        return f"the only {noun}" if number == 1 else f"all {number} {noun}s"
    return f"{number} of {counted(all_of, noun)}"


def capital(text):
    return text[0].upper() + text[1:]


def minute(text):
    from datetime import datetime, timezone
    return datetime.fromtimestamp(int(moment(text)), timezone.utc)


def measured(study):
    rows = study.rows
    configs = sum(row.part[0] == 1 for row in rows)
    batches = [str(batch) for batch in sorted({row.key["batch"] for row in rows})]
    places = []
    for env in distinct(row.key["env"] for row in rows):
        its = distinct(place(row) for row in rows if row.key["env"] == env and row.runs)
        places.append(f"{env}: {few(its)}" if its else env)
    names = [few(distinct(row.key[name] for row in rows)) for name in ("model", "precision")]
    yield f"{counted(configs, 'config')} of {names[0]} ({names[1]}; batch {few(batches)}), on {few(places)}."
    runs = [job for job in study.jobs if job.is_timing and job.succeeded]
    if not runs:
        yield "No timing job has a result."
        return
    start = minute(min(run.record["started_at"] for run in runs))
    end = minute(max(run.record["ended_at"] for run in runs))
    until = "%H:%M" if start.date() == end.date() else "%Y-%m-%d %H:%M"
    yield f"{counted(len(runs), 'run')} from {start:%Y-%m-%d %H:%M} to {end.strftime(until)} UTC."


def place(row):
    device = row.first.details.get("device_name")
    return f"{device} of {row.host}" if device else row.host


def distinction(row):
    params = row.key["params"]
    return "".join(f" {name}={word(params[name])}" for name in row.study.varying if name in params)


def best(row, rows):
    """The clauses of the answer about the fastest row of a network: its throughput, its settings, its bound."""
    scatter = interval_text(row) if row.interval else f"n = {len(row.rates)}"
    rate = f"{known_to(row.rate, row.interval)} {row.unit}/s ({scatter})"
    part = " ({} of {})".format(*row.part) if row.part[1] > 1 else ""
    hosts = {other.host for other in rows if other.key["env"] == row.key["env"]}
    places = [row.key["env"]] if len({other.key["env"] for other in rows}) > 1 else []
    places += [row.host] if len(hosts) > 1 or part else []
    where = f", on {' of '.join(places)}" if places else ""
    bound = class_of(row).bound
    limit = {"unknown": "", "mixed": ", limits mixed"}.get(bound, f", {bound}")
    settings = f", {row.key['precision']}{distinction(row)}{part}{where}"
    return f"{row.key['model']} {rate} at batch {row.key['batch']}", settings, limit


def interval_text(row):
    return ends(row.interval, row.interval) if row.interval[0] < row.interval[1] else "no scatter"


def answer(study):
    rows = [row for row in study.rows if row.rates]
    models = distinct(row.key["model"] for row in rows)
    if not models:
        yield "No config has a throughput."
        return
    its = [max((row for row in rows if row.key["model"] == model), key=lambda row: row.rate) for model in models[:3]]
    more = f"; {len(models) - 3} more in the table" if len(models) > 3 else ""
    parts = [best(row, rows) for row in its]
    common = parts[0][1] if len({settings for _, settings, _ in parts}) == 1 else ""
    clauses = [f"{rate}{'' if common else settings}{limit}" for rate, settings, limit in parts]
    yield f"Fastest (95 % interval){common}: {'; '.join(clauses)}{more}."
    found = {}
    for row in rows:
        bound = class_of(row).bound
        if bound != "unknown":
            found[bound] = found.get(bound, 0) + 1
    if found:
        clauses = [f"{bound} in {some_of(number, len(rows), 'row')}" for bound, number in sorted(found.items())]
        yield f"Limits: {'; '.join(clauses)}."


def have(number, all_of):
    return f"{some_of(number, all_of, 'row')} {'has' if number == 1 else 'have'}"


def certainty(study):
    rows = [row for row in study.rows if row.rates]
    if not rows:
        yield "No row has a throughput."
        return
    half = lambda row: 50 * (row.interval[1] - row.interval[0]) / maths.geometric_mean(row.rates)
    halves = [(half(row), row) for row in rows if row.interval]
    wide, exact = [it for it in halves if it[0] != 0], [it for it in halves if it[0] == 0]
    if wide:
        most, widest = max(wide, key=lambda it: it[0])
        if len(wide) == 1:
            yield capital(f"{have(1, len(rows))} a 95 % interval: ± {significant(most, 2)} % ({widest.label}).")
        else:
            size, limit = both_up_to(median(it for it, _ in wide), most)
            yield capital(f"{have(len(wide), len(rows))} a 95 % interval: ± {size} % in the median, ± {limit} % at "
                          f"most "
                          f"({widest.label}).")
    if len(rows) > len(halves):
        yield capital(f"{have(len(rows) - len(halves), len(rows))} too few runs for an interval (n < 3).")
    if exact:
        yield capital(f"{have(len(exact), len(rows))} runs of identical throughput.")


def both_up_to(value, limit):
    for decimals in range(1, 13):
        texts = f"{value:.{decimals}f}", f"{limit:.{decimals}f}"
        if float(texts[0]) <= float(texts[1]):
            return texts
    return texts


def left_out(study):
    runs = sum(len(row.runs) for row in study.rows)
    out = sum(len(excluded(row)) for row in study.rows)
    if not out:
        yield "No run with a result is left out."
        return
    yield f"{out} of {counted(runs, 'run')} with a result, by their marks."
    found = {}
    for row in study.rows:
        for run in excluded(row):
            for name in {name for name, _ in study.marks[run] if name in LEAVES_OUT}:
                found[name] = found.get(name, 0) + 1
    yield f"Marks: {', '.join(f'{number} × {name}' for name, number in sorted(found.items()))}."
    words = bias_words(study)
    if words:
        yield words


def missing(study):
    done = list(completeness(study))
    number = len(study.jobs)
    yield done[0] if done else "The only job has a result." if number == 1 else f"All {number} jobs have a result."
    rows = [row for row in study.rows if row.rates]
    found, experiments = {}, set()
    for row in rows:
        its = class_of(row)
        if its.is_open:
            why = "its place below the roofs is inconclusive" if "% of the" in its.reason else its.reason
            if why.endswith(OPEN_OPERATORS):
                why = f"too much {OPEN_OPERATORS}"
            found[why] = found.get(why, 0) + 1
            experiments |= {its.experiment} - {None}
    if found:
        their = lambda why, number: why if number == 1 else why.replace("its ", "their ", 1)
        reasons = sorted(found.items(), key=lambda it: (-it[1], it[0]))
        clauses = ([their(*reasons[0])] if len(reasons) == 1 else
                   [f"{their(why, number)} ({counted(number, 'row')})" for why, number in reasons])
        yield f"What limits {some_of(sum(found.values()), len(rows), 'row')} is unknown: {'; '.join(clauses)}."
        if experiments:
            yield f"To decide it, {'; for others, '.join(sorted(experiments))}."


LINES = {
    "Measured": measured,
    "Answer": answer,
    "Certainty": certainty,
    "Left out": left_out,
    "Missing": missing,
}


# Results at a glance: one line per network and settings, one column per batch.


class Glance:
    """A line: rows that differ only in the batch. A row without a result joins the first line without its batch."""

    def __init__(self, row, family):
        self.key, self.settings, self.family = row.key, distinction(row), family
        self.circumstances, self.cells = None, {}

    def admits(self, row):
        seen = {self.circumstances, row.first and any_batch(row.first)} - {None}
        return len(seen) < 2 and row.key["batch"] not in self.cells

    def add(self, row):
        self.cells[row.key["batch"]] = row
        self.circumstances = self.circumstances or (row.first and any_batch(row.first))

    @property
    def host(self):
        return next((row.host for row in self.cells.values() if row.host), None)

    @property
    def suffix(self):
        """The text that distinguishes lines of the same settings: the host if all hosts differ, else a number."""
        if len(self.family) == 1:
            return ""
        if self.host and len({line.host for line in self.family}) == len(self.family):
            return f" on {self.host}"
        return f" ({self.family.index(self) + 1} of {len(self.family)})"


def glances(study):
    found, families = [], {}
    for row in study.rows:
        family = families.setdefault(config({**row.key, "batch": 0}), [])
        line = next((line for line in family if line.admits(row)), None)
        if line is None:
            line = Glance(row, family)
            family.append(line)
            found.append(line)
        line.add(row)
    return found


def glance_cell(glance, batch):
    row = glance.cells.get(batch)
    if row is None:
        return "no run here" if any(batch in line.cells for line in glance.family) else ""
    if not row.rates:
        return why_none(row)
    scatter = interval_text(row) if row.interval else f"n = {len(row.rates)}"
    return f"{known_to(row.rate, row.interval)}{'*' if row.run_marks else ''} ({scatter})"


def why_none(row):
    """The reason why a row has no throughput, in one or two words."""
    if any(job.succeeded for job in row.members):
        return "left out"
    failed = [job.outcome["kind"] for job in row.members if job.record]
    return "not run" if not failed else "OOM" if set(failed) == {"out_of_memory"} else "failed"


def fastest(rows):
    """The fastest row of each network and env, or the first row if none has a throughput."""
    found = {}
    for row in rows:
        place = row.key["env"], row.key["model"]
        best = found.setdefault(place, row)
        if row.rates and (not best.rates or row.rate > best.rate):
            found[place] = row
    return list(found.values())


def fastest_cell(name, row):
    """A cell of the table of the fastest rows."""
    line = next(line for line in glances(row.study) if row in line.cells.values())
    settings = f"{row.key['precision']} {line.settings.strip()}{line.suffix}".strip()
    bound = class_of(row).bound if row.rates else ""
    scatter = interval_text(row) if row.interval else f"n = {len(row.rates)}"
    return {
        "network": lambda: row.key["model"], "env": lambda: row.key["env"], "settings": lambda: settings,
        "batch": lambda: str(row.key["batch"]),
        "rate": lambda: f"{known_to(row.rate, row.interval)}{'*' if row.run_marks else ''}" if row.rates else "",
        "95 % interval": lambda: scatter if row.rates else why_none(row),
        "% of peak": lambda: share_of_peak(row, 2) or "",
        "limited by": lambda: bound,
    }["rate" if name.endswith("/s") else name]()


def share_of_peak(row, digits):
    """The share of the peak in percent, if it is known."""
    if row.attained is None or not row.ceiling:
        return None
    low, high = (significant(100 * end, digits) for end in maths.shares_of(row.attained, row.ceiling))
    return high if low == high else f"{low} to {high}"


def of_glance(name, glance):
    batch = re.fullmatch(r"batch (\d+)", name)
    if batch:
        return glance_cell(glance, int(batch[1]))
    settings = f"{glance.settings}{glance.suffix}".strip()
    limits = {class_of(row).bound for row in glance.cells.values() if row.rates}
    return {
        "model": lambda: glance.key["model"], "env": lambda: glance.key["env"],
        "settings": lambda: f"{glance.key['precision']} {settings}".strip(),
        "what limits it": lambda: ", ".join(sorted(limits)),
    }[name]()


# The design, from the matrix.


def design(study):
    def line(env):
        jobs = [job for job in study.jobs if job.is_timing and job.key["env"] == env]
        listed = lambda name: few(distinct(job.key[name] for job in jobs))
        sizes = [len(row.members) for row in study.rows if row.key["env"] == env and row.part[0] == 1]
        repeats = str(max(sizes)) if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
        return {"env": env, "device": listed("device"), "models": listed("model"), "precisions": listed("precision"),
                "batches": ", ".join(str(batch) for batch in sorted({job.key["batch"] for job in jobs})),
                "configs": str(len(sizes)), "repeats": repeats, "jobs": str(len(jobs))}
    return [line(env) for env in distinct(row.key["env"] for row in study.rows)]


def shared_settings(study):
    """The parameters that all timing jobs share, and the worker."""
    jobs = [job for job in study.jobs if job.is_timing]
    first = jobs[0].key["params"]
    shared = lambda name: all(job.key["params"].get(name) == first[name] for job in jobs)
    found = {name: word(value) for name, value in first.items() if shared(name)}
    found["worker"] = "; ".join(sorted({" ".join(job.key["worker"]["command"]) for job in jobs}))
    return found
