"""Places below the roofs, and what limits a row."""

from statistics import median

from .words import passed

FAR, AT, FULL = 0.3, 0.6, 0.9


def place_of(compute, memory):
    """What shares of both roofs show."""
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
    return min(low, row.median) * row.cost.flops, max(high, row.median) * row.cost.flops


def regions(row, intensity):
    """What all that is uncertain could show, from the least shares to the most. The lower roof limits."""
    low, high = attained_ends(row)
    peak, allowed = sorted(row.ceiling), sorted(end * intensity for end in row.peaks["bandwidth"])
    least, most = low / min(peak[1], allowed[1]), high / min(peak[0], allowed[0])
    touched = {
        "latency-bound": least < FAR,
        "between its roofs": least < AT and most >= FAR,
        "memory-bound": max(allowed[0], low) < peak[1] and low <= allowed[1] and high / allowed[0] >= AT,
        "compute-bound": peak[0] <= allowed[1] and low <= min(peak[1], allowed[1]) and high / peak[0] >= AT,
        "above its roof": most > 1,
    }
    return [region for region, is_touched in touched.items() if is_touched]


def percent(share):
    """With as many decimals as show on which side of every limit it lies."""
    for decimals in range(13):
        text = f"{100 * share:.{decimals}f}"
        printed = float(text)
        sides = [(share >= FAR) == (printed >= 100 * FAR), (share >= AT) == (printed >= 100 * AT),
                 (share > 1) == (printed > 100)]
        if all(sides):
            return text
    return f"{100 * share:.0f}"


def shares_text(row, intensity):
    low, high = attained_ends(row)
    bandwidth = [end * intensity for end in row.peaks["bandwidth"]]

    def text(ends):
        words = percent(low / max(ends)), percent(high / min(ends))
        return words[1] if words[0] == words[1] else " to ".join(words)

    return f"{text(row.ceiling)} % of the compute roof and {text(bandwidth)} % of the memory roof"


def waits(row):
    """The median share of the window in which it waited for data, and over how many runs."""
    told = [run for run in row.counting if "data_wait_s" in run.details]
    shares = [run.details["data_wait_s"] / run.measured["elapsed_s"] for run in told]
    return (median(shares), len(shares)) if shares else (None, 0)


def obstacle(row):
    """What keeps a row from its roofs, and the reason."""
    if not row.runs:
        return None
    share, n = waits(row)
    if share is not None and share > 0.1:
        return "host-bound", (f"it waited for data during {passed(100 * share, 10.0, 0)} % of its window, median of "
                              f"n = {n} (threshold 10 %)")
    usable = row.first.host["cpu"]["usable"]
    if row.key["device"] != "cpu" and usable > 1 and row.counting:
        busy = [run.cpu_s / run.wall_s for run in row.counting if run.cpu_s is not None]
        if busy and median(busy) >= FULL * usable:
            share = passed(100 * median(busy) / usable, 100 * FULL, 0, "from")
            return "host-bound", (f"its process kept {median(busy):.2f} of {usable} usable processors busy beside the "
                                  f"device, {share} % of them (threshold 90 %)")
    looked_at = row.counting or row.runs
    spilled = sum("spilled" in [name for name, _ in row.study.marks[run]] for run in looked_at)
    if spilled and 2 * spilled >= len(looked_at):
        return "spilled", f"{spilled} of {len(looked_at)} runs are marked spilled"
    return None


def counted_intensity(row):
    """FLOPs that the network needs per byte that was counted."""
    if row.ncu and row.ncu.bytes and row.cost:
        return row.cost.flops / (row.ncu.bytes / row.ncu.samples)
    return None


def has_roofs(row):
    return row.attained is not None and bool(row.ceiling) and bool(row.peaks["bandwidth"])


def placed(row):
    """What the counted bytes show, and the sentence about it."""
    intensity = counted_intensity(row)
    found = regions(row, intensity)
    told = f"with the bytes that ncu counted it reaches {shares_text(row, intensity)}"
    if len(found) == 1:
        return (found[0], told) if found[0].endswith("bound") else ("unknown", f"it is {found[0]}: {told}")
    wide = row.ceiling[0] != row.ceiling[1] or row.peaks["bandwidth"][0] != row.peaks["bandwidth"][1]
    scatters = attained_ends(row)[0] < attained_ends(row)[1]
    vague = ("a roof and the throughput are only known as ranges" if wide and scatters else
             "the throughput scatters" if scatters else "a roof is only known as a range")
    return "unknown", f"{vague}, and it could be {' or '.join(found)}: {told}"


def class_of(row):
    """What limits a row, and why."""
    keeps = obstacle(row)
    if keeps:
        return keeps
    if counted_intensity(row) and has_roofs(row):
        return placed(row)
    if not row.rates:
        return "unknown", "no run counts"
    if row.cost is None:
        return "unknown", "its FLOPs are unknown"
    if not row.peaks:
        return "unknown", "its device has no peaks"
    if not row.ceiling:
        return "unknown", "the peaks have no figure for its precision"
    return "unknown", "its bytes were not counted"


def points(row, number):
    """The points of a row: by counted bytes, by modelled ones, and on the memory roof."""
    if not has_roofs(row):
        return []
    keeps = obstacle(row)
    found = []
    bandwidth = max(row.peaks["bandwidth"])
    for source, intensity in [
        ("measured", counted_intensity(row)), ("modelled", row.cost.flops / row.cost.modelled_bytes),
        ("estimated", row.attained / bandwidth),
    ]:
        if intensity is not None:
            bound = keeps[0] if keeps else placed(row)[0] if source == "measured" else "unknown"
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
