"""The findings of a report. One function per kind yields its sentences from the raw files if its condition is true."""

import re
from datetime import datetime, timezone
from math import expm1, floor, log, log10
from statistics import mean, median

from . import maths
from .axes import blocks, started
from .bounds import AT, FAR, class_of, counted_intensity, has_roofs, obstacle, rooflines, shares_text, waits
from .marks import LEAVES_OUT, Unknown, disqualified, foreign
from .networks import NETWORKS
from .raw import moment
from .study import config
from .tables import excluded, over, middle
from .words import both, counted, digit_of_interval, fixed, passed, ratio_texts, word


def findings(study):
    """The sentences of a page. Similar ones are merged into the first, with the names of the others."""
    for kind in KINDS:
        found = list(kind(study))
        yield from alike(study, found) if kind in ABOUT_ONE else found


def alike(study, texts):
    """Merges sentences of one kind that differ only in their subject and in numbers."""
    names = {name for row in study.rows for name in (row.label, row.label.rsplit(" (", 1)[0], row.key["model"])}
    names |= {job.label for job in study.jobs}
    groups = {}
    for text in texts:
        subject = max((name for name in names if name in text), key=len)
        frame = text.replace(subject, "…")
        groups.setdefault(re.sub(r"[0-9]+(\.[0-9]+)*", "#", frame), []).append((text, subject, frame))
    for (text, _, frame), *others in groups.values():
        if others:
            numbers = "" if all(other == frame for _, _, other in others) else ", with other numbers,"
            subjects = first_of([subject for _, subject, _ in others])
            text = f"{text} The same{numbers} is true of {len(others)} more: {subjects}."
        yield text


def first_of(texts, most=4, joint=", "):
    """The first few, and the number of the others."""
    more = len(texts) - most
    return joint.join(texts[:most]) + (f" and {more} more" if more > 0 else "")


def undone(study):
    """Counts of the jobs without a result, by cause."""
    found = {"failed": 0, "interrupted": 0, "not run": 0}
    for job in study.jobs:
        if not job.record:
            found["not run"] += 1
        elif not job.succeeded:
            found["interrupted" if job.outcome["kind"] == "interrupted" else "failed"] += 1
    were = lambda number: "was" if number == 1 else "were"
    others = [(found[name], f"{were(found[name])} {name}") for name in ("interrupted", "not run")]
    texts = [(found["failed"], "failed"), *others]
    return [f"{number} {text}" for number, text in texts if number]


def completeness(study):
    done = sum(job.succeeded for job in study.jobs)
    if done < len(study.jobs):
        have = "has" if len(study.jobs) == 1 else "have"
        yield f"{done} of {counted(len(study.jobs), 'job')} {have} a result; {', '.join(undone(study))}."


def splits(study):
    """Rows of one config that were not pooled. Only the differences that occur in these stores are supported."""
    firsts = {}
    for row in study.rows:
        if row.part[1] > 1:
            first = firsts.setdefault(config(row.key), row)
            if row is not first:
                one, other = (it.first.host.get("power_source") for it in (first, row))
                if one == other or first.first.measured["effective"] != row.first.measured["effective"]:
                    raise Unknown(f"{row.label}: unsupported differences between its rows")
                label = row.label.rsplit(" (", 1)[0]
                yield (f"Runs of {label} are not pooled: row {row.part[0]} of {row.part[1]} differs from row 1 in "
                       f"power "
                       f"source {one} / {other}.")


def undeclared(study):
    found = {}
    for row in study.rows:
        for name, text in row.doubts:
            if name == "settings-differ":
                env, differences = text.removeprefix("against ").split(": ", 1)
                if row.key["env"] < env:
                    key = (row.key["env"], env, differences)
                    found[key] = found.get(key, 0) + 1
    for (one, other, differences), number in sorted(found.items()):
        rows = counted(number, "row")
        yield f"{one} and {other} have undeclared differences (settings-differ, {rows}): {differences}."


def mixed(study):
    """Undeclared settings that differ between rows without the mark settings-differ."""
    from .jobs import SETTINGS
    said = {part.split(" ")[0] for row in study.rows for name, text in row.doubts if name == "settings-differ"
            for part in text.split(": ", 1)[1].split(", ")}
    for name in sorted(SETTINGS):
        values = {}
        for row in study.rows:
            found = row.runs and row.first.measured["effective"].get(name)
            if row.runs and found is not None and name not in row.key["params"]:
                values.setdefault(word(found), set()).add(row.key["env"])
        if len(values) > 1 and name not in said:
            texts = ", ".join(f"{value} ({', '.join(sorted(envs))})" for value, envs in sorted(values.items()))
            yield f"The setting `{name}` is not declared and has {len(values)} values: {texts}."


def unconfirmed(study):
    """Declared parameters that no worker reported."""
    found = {}
    for row in study.rows:
        missing = {tuple(name for name in sorted(run.key["params"]) if name not in run.measured["effective"])
                   for run in row.runs}
        for names in missing - {()}:
            found[names] = found.get(names, 0) + 1
    for names, number in sorted(found.items()):
        quoted = [f"`{name}`" for name in names]
        listed = quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"
        are, them = ("is", "it") if len(names) == 1 else ("are", "them")
        yield (f"Not confirmed: {listed} {are} declared, but the record has no effective value for {them} "
               f"({counted(number, 'row')}).")


def batch_unconfirmed(study):
    """Workers that repeat the batch from their flags instead of observing it."""
    number = sum(any("batch" in run.details.get("repeated", []) for run in row.counting) for row in study.rows)
    if number:
        yield ("Not confirmed: the worker repeats `batch` without checking the inputs of the network, so the "
               f"throughput would be too high if a part of each batch were left out ({counted(number, 'row')}).")


def disturbed(study):
    """Profiled jobs whose counters are left out."""
    for job in study.jobs:
        texts = [f"{name}: {text}" for name, text in study.marks[job] if name in LEAVES_OUT]
        if texts and not job.is_timing:
            yield f"The profile of {job.label} is left out: {'; '.join(texts)}."


def left_out(study):
    for row in study.rows:
        out = excluded(row)
        if out:
            texts = sorted({f"{name}: {text}" for run in out for name, text in study.marks[run] if name in LEAVES_OUT})
            runs = counted(len(row.runs), "run")
            yield f"{len(out)} of {runs} of {row.label} left out of the statistics: {first_of(texts)}."


def bias_of(study):
    """The throughput of the runs left out ÷ that of the others of their rows, and the effect of leaving them out."""
    with_result = [row for row in study.rows if row.runs]
    both_kinds = [(over(middle(excluded(row)), row.rate), over(row.rate, middle(row.runs))) for row in with_result]
    both_kinds = [pair for pair in both_kinds if None not in pair]
    if not both_kinds:
        return None
    ratios = [ratio for ratio, _ in both_kinds]
    return len(ratios), maths.geometric_mean(ratios), maths.geometric_interval(ratios), maths.geometric_mean(
        [ratio for _, ratio in both_kinds])


def bias_text(found, size, ends, threshold=""):
    number, ratio, _, table = found
    than = "as fast as" if size == "0.0" else f"{size} % {'slower' if ratio < 1 else 'faster'} than"
    by = f"{100 * abs(table - 1):.1f}"
    changes = f"{'lowers' if table < 1 else 'raises'} their throughput by {by} %"
    effect = "hardly changes their throughput" if by == "0.0" else changes
    interval = f"95 % interval of the ratio {ends[0]} to {ends[1]}" if ends else "too few rows for an interval"
    return (f"The runs that marks leave out were {than} the others of their rows (geometric mean over "
            f"{counted(number, 'row')}, "
            f"{interval}{threshold}). Leaving them out {effect}.")


def bias(study):
    found = bias_of(study)
    if not found or not found[2]:
        return
    number, ratio, (low, high), _ = found
    if (low > 1 or high < 1) and abs(ratio - 1) > 0.02:
        for decimals in range(3, 13):
            ends = [fixed(end, decimals) for end in (low, high)]
            if all(float(end) != 1 and (float(end) < 1) == (ratio < 1) for end in ends):
                break
        yield bias_text(found, passed(100 * abs(ratio - 1), 2.0, 1), ends, "; threshold 2 %")


def bias_words(study):
    """The sentence below the table of exclusions, which is there whether or not the bias is significant."""
    found = bias_of(study)
    if not found:
        return ""
    ends = found[2] and ratio_texts(found[1], *found[2])[1:]
    return bias_text(found, f"{100 * abs(found[1] - 1):.1f}", ends)


def scatter(study):
    for row in study.rows:
        for name, text in row.doubts:
            if name == "high-variation":
                yield f"{row.label}: {name}: {text}."


def run_label(study, run):
    params = run.key["params"]
    return run.label + "".join(f" {name}={word(params[name])}" for name in study.varying if name in params)


def kept(study):
    """Marks that leave no run out."""
    found = {}
    for run in study.jobs:
        if run.succeeded and run.is_timing and not disqualified(study.marks[run]):
            for name, text in study.marks[run]:
                found.setdefault(name, []).append((run_label(study, run), text))
    for name, marks in sorted(found.items()):
        number = counted(len(marks), "run")
        if len({text for _, text in marks}) == 1:
            yield f"{number} marked but counted: {name}: {marks[0][1]}."
        else:
            more = f"; and {len(marks) - 3} more" if len(marks) > 3 else ""
            shown = "; ".join(f"{label}, {text}" for label, text in marks[:3])
            yield f"{number} marked {name} but counted: {shown}{more}."


def load_unknown(study):
    runs = [run for run in study.jobs if run.is_timing and run.succeeded and foreign(run)[0] is None]
    short = [run for run in runs if max(run.span_s, run.wall_s) < 1]
    checked = "so only overlap with other runs of the store could be checked."
    if short:
        yield f"{counted(len(short), 'run')} took less than one second, too short to judge the host's load, {checked}"
    if len(runs) > len(short):
        yield f"The host's load during {counted(len(runs) - len(short), 'run')} is not known, {checked}"


def waiting(study):
    for row in study.rows:
        share, n = waits(row)
        if share is not None and share > 0.1:
            yield (f"{row.label} waited for data during {passed(100 * share, 10.0, 0)} % of its window, median of n "
                   f"= {n} "
                   f"(threshold 10 %).")


def evaluating(study):
    for row in study.rows:
        shares = [run.details.get("evaluation_share", 0) for run in row.counting]
        if shares and median(shares) > 0:
            yield (f"{row.label} called its network without gradients during {passed(100 * median(shares), 0.0, 1)} % "
                   f"of its window, as in evaluation (median of n = {len(shares)}): its throughput is that of training "
                   f"and evaluation together.")


# Blocks that were slower or faster than the others of their machine.


def effects_of(cells):
    """The deviation of each block from the mean of all, as an estimate by least squares on the logs."""
    numbers = sorted({block for _, block, _ in cells})
    rows = {}
    for row, block, value in cells:
        rows.setdefault(row, []).append((numbers.index(block), value))
    n = len(numbers)
    matrix, right = [[1.0 / n] * n for _ in range(n)], [0.0] * n
    for row in rows.values():
        centre = mean(value for _, value in row)
        for block, value in row:
            right[block] += value - centre
            matrix[block][block] += 1.0
            for other, _ in row:
                matrix[block][other] -= 1.0 / len(row)
    identity = [[float(one == other) for other in range(n)] for one in range(n)]
    inverse = maths.solved(matrix, identity)
    values = [sum(a * b for a, b in zip(line, right)) for line in inverse]
    rest = 0.0
    for row in rows.values():
        left = [value - values[block] for block, value in row]
        rest += sum((value - mean(left)) ** 2 for value in left)
    freedom = len(cells) + 1 - len(rows) - n
    errors = [(rest / freedom * max(0.0, inverse[place][place] - 1 / n)) ** 0.5 for place in range(n)]
    return {block: maths.Estimate(values[place], errors[place], freedom) for place, block in enumerate(numbers)}


def comparable(cells):
    """The cells of blocks with at least three rows, and of rows in at least two such blocks."""
    while True:
        rows, columns = {}, {}
        for row, block, _ in cells:
            rows[row], columns[block] = rows.get(row, 0) + 1, columns.get(block, 0) + 1
        left = [cell for cell in cells if rows[cell[0]] > 1 and columns[cell[1]] >= 3]
        if len(left) == len(cells):
            return left
        cells = left


def connected(cells):
    """Parts that share no row."""
    parts = []
    for cell in cells:
        touching = [part for part in parts if any(cell[0] == it[0] or cell[1] == it[1] for it in part)]
        parts = [part for part in parts if part not in touching]
        parts.append([it for part in touching for it in part] + [cell])
    return parts


def furthest(cells):
    """The most significant outlier: its block, its change against the others, the number of rows that agree."""
    numbers = {block for _, block, _ in cells}
    if not 3 <= len(numbers) <= 100:
        return None
    others, found = len(numbers) - 1, []
    for block, effect in effects_of(cells).items():
        scale = len(numbers) / others
        estimate = maths.Estimate(scale * effect.value, scale * effect.error, effect.freedom)
        low, high = estimate.interval(1 - 0.05 / len(numbers))
        moved = []
        for row in {row for row, its, _ in cells if its == block}:
            own = [value for it, its, value in cells if it == row and its == block]
            rest = [value for it, its, value in cells if it == row and its != block]
            moved += [mean(own) - mean(rest)] if rest else []
        agree = sum((by > 0) == (effect.value > 0) and by != 0 for by in moved)
        change = expm1(estimate.value)
        if abs(change) > 0.01 and (low > 0 or high < 0) and agree >= 0.75 * len(moved):
            distance = abs(estimate.value / estimate.error)
            found.append((distance, block, change, expm1(low), expm1(high), others, agree, len(moved)))
    return max(found) if found else None


def shifted(study):
    runs = [(place, run) for place, row in enumerate(study.rows) for run in row.counting if run.rate is not None]
    of_block = blocks([run for _, run in runs])
    left = [[(place, of_block[run], log(run.rate)) for place, run in runs]]
    outliers = []
    while left:
        for part in connected(comparable(left.pop())):
            found = furthest(part)
            if found:
                outliers.append(found)
                left.append([cell for cell in part if cell[1] != found[1]])
    clock = lambda text: datetime.fromtimestamp(int(moment(text)), timezone.utc)
    texts = []
    for _, block, change, low, high, others, agree, rows in outliers:
        own = [run for _, run in runs if of_block[run] == block]
        first = min(own, key=started)
        start, end = clock(first.record["started_at"]), clock(max(run.record["ended_at"] for run in own))
        day = "%H:%M UTC" if start.date() == end.date() else "%Y-%m-%d %H:%M UTC"
        sizes = [-change, -high, -low] if change < 0 else [change, low, high]
        digit = digit_of_interval(100 * sizes[1], 100 * sizes[2])
        for decimals in range(max(digit, 0), 13):
            words = [fixed(100 * size, decimals) for size in sizes]
            if float(words[0]) > 1 and float(words[1]) > 0 and float(words[2]) > 0:
                break
        texts.append((started(first), (
            f"On {first.host['hostname']}, the block of repeat {first.key['repeat']} ({start:%Y-%m-%d %H:%M} to "
            f"{end.strftime(day)}) was {words[0]} % {'slower' if change < 0 else 'faster'} than {others} others, in "
            f"{agree} of "
            f"{rows} rows (95 % interval {words[1]} to {words[2]} %, threshold 1 %).")))
    return [text for _, text in sorted(texts)]


# Roofs.


def bounds(study):
    for row in study.rows:
        is_placed = counted_intensity(row) and has_roofs(row)
        keeps = obstacle(row)
        if keeps and is_placed:
            yield (f"{row.label} is {keeps[0]}: {keeps[1]}. It reaches {shares_text(row, counted_intensity(row))} "
                   f"with the bytes that ncu counted, which is no evidence in this case.")
        elif keeps and "waited for data" not in keeps[1]:
            yield f"{row.label} is {keeps[0]}: {keeps[1]}."
        if keeps:
            continue
        its = class_of(row)
        if its.evidence in ("throughput", "activity", "operators"):
            yield f"{row.label} is {its.bound}: {its.why}."
        elif is_placed:
            verdict = f"What limits {row.label} is unknown" if its.is_open else f"{row.label} is {its.bound}"
            yield (f"{verdict}: {its.reason} (at a roof from {100 * AT:.0f} %, far from both below {100 * FAR:.0f} %). "
                   f"Each kernel was "
                   f"counted with empty caches, so the run itself might have moved fewer bytes.")


def executed(study):
    """Devices that executed more or fewer operations than the network has, by more than 5 %."""
    for row in study.rows:
        if not row.ncu or not row.cost:
            continue
        apart = distance(row.ncu.flops / row.ncu.samples, row.cost.flops, 5.0)
        if apart:
            one, other, size = apart
            yield (f"Per sample of {row.label}, the device executed {one} GFLOP and the network has {other} "
                   f"({size}; threshold 5 %). Algorithms such as Winograd's need fewer. Padding needs more, and so do "
                   f"undescribed operations.")


def distance(one, other, limit):
    """Two numbers of FLOPs in GFLOP, and their difference; `None` if it is within the limit in percent."""
    one, other = one / 1e9, other / 1e9
    share = one / other - 1
    if abs(100 * share) <= limit:
        return None
    decimals = min(max(3 - floor(log10(max(one, other))), 0), 12)
    texts = both(one, other, decimals, "above" if share > 0 else "below")
    return *texts, f"{'+' if share > 0 else '-'}{passed(100 * abs(share), limit, 0)} %"


def counted_otherwise(study):
    """Libraries that counted other FLOPs than the description has, by more than 1 %."""
    for row in study.rows:
        found = {run.details["counted_flops_per_sample"] for run in row.counting
                 if "counted_flops_per_sample" in run.details}
        if len(found) > 1:
            raise Unknown(f"{row.label}: which of several counts of FLOPs is compared")
        apart = found and row.cost and distance(*found, row.cost.flops, 1.0)
        if apart:
            one, other, size = apart
            yield (f"Per sample of {row.label}, the worker's library counted {one} GFLOP in an iteration, and "
                   f"orchestrate's description has {other} ({size}; threshold 1 %): one of them counts another network "
                   f"or other operations. The latter is used.")


def per_row(texts, tail):
    found = {}
    for text in texts:
        found[text] = found.get(text, 0) + 1
    return [f"{text[0].upper()}{text[1:]} ({counted(number, 'row')} {tail})." for text, number in sorted(found.items())]


def no_cost(study):
    texts = []
    for row in study.rows:
        if row.cost is None and row.runs:
            model = row.key["model"]
            if model in NETWORKS:
                raise Unknown(f"{row.label}: why its FLOPs are unknown")
            texts.append(f"orchestrate has no description of the network `{model}`: `{model}` is not a network of "
                         f"the shipped "
                         f"worker; a custom worker can report `details.flops_per_sample`")
    return per_row(texts, "without FLOP/s")


def no_peaks(study):
    texts = []
    for row in study.rows:
        if row.runs and not row.peaks:
            if row.env["peaks"] or row.first.details.get("device_name"):
                raise Unknown(f"{row.label}: why it has no peaks")
            texts.append(f"the worker on {row.host} did not report its device's name (`details.device_name`), so no "
                         f"peaks match it")
    return per_row(texts, "without a share of the peak and without a roofline")


def doubtful(study):
    found = []
    for row in study.rows:
        if row.peaks and row.peaks["confidence"] in ("low", "estimate"):
            name = row.peaks["name"]
            found.append(f"the peaks `{name}` are of low confidence" if row.peaks["confidence"] == "low" else
                         f"the peaks `{name}` are an estimate, computed from clocks")
    return per_row(found, "compared with them")


def above(study):
    for lines in rooflines(study.rows).values():
        for row, point in lines:
            if point["source"] != "estimated" and row.attained > point["attainable"] * (1 + 1e-9):
                texts = both(row.attained / 1e9, point["attainable"] / 1e9, 0)
                yield (f"{row.label} is above its roof: {texts[0]} GFLOP/s attained, {texts[1]} attainable at "
                       f"{point['intensity']:.1f} FLOP/byte ({point['source']} bytes). The roof is too low, or its "
                       f"bytes or "
                       f"FLOPs are too many.")


KINDS = [completeness, splits, undeclared, mixed, unconfirmed, batch_unconfirmed, disturbed, left_out, bias, scatter, kept,
         load_unknown, waiting, evaluating, shifted, bounds, executed, counted_otherwise, no_cost, no_peaks, doubtful, above]

# Those whose sentences are each about one row, one job or one network.
ABOUT_ONE = [splits, disturbed, left_out, scatter, waiting, evaluating, bounds, executed, counted_otherwise, no_cost, above]
