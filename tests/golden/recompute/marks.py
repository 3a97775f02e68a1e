"""Marks of runs, by the rules of docs/marks.md with their default thresholds."""

from bisect import bisect
from statistics import median

from .raw import moment
from .words import both, passed

# Marks that leave a run out by default, and those that always do.
LEAVES_OUT = {
    "contended", "unsettled", "throttled", "quota-throttled", "suspended", "spilled", "swapped", "unsynchronised",
}


class Unknown(Exception):
    """The store has a case that is not supported here."""


def foreign_limit(usable):
    return max(0.2, 0.05 * usable)


def foreign(job):
    """Processors kept busy by other processes, and taken by the hypervisor; `None` where unknown."""
    watched = max(job.span_s, job.wall_s)
    if watched < 1.0:
        return None, None
    observed, busy = job.observed, None
    if job.cpu_s is not None and observed.get("host_busy_s") is not None:
        busy = max(0.0, (observed["host_busy_s"] - job.cpu_s) / watched)
    stolen = observed.get("host_steal_s")
    return busy, None if stolen is None else stolen / watched


class Spans:
    """The spans of jobs on each host, in time since its boot."""

    def __init__(self, jobs):
        self.hosts = {}
        for job in jobs:
            if job.record:
                start, end = job.observed["since_boot_s"]
                place = self.hosts.setdefault((job.host["hostname"], job.host["boot_id"]), [])
                place.append((int(start * 1e6), int(end * 1e6), job))
        self.starts, self.longest = {}, {}
        for place, spans in self.hosts.items():
            spans.sort(key=lambda span: span[:2])
            self.starts[place] = [start for start, _, _ in spans]
            self.longest[place] = max(end - start for start, end, _ in spans)

    def beside(self, job):
        """The jobs that overlapped for more than a second, by label, each with the seconds."""
        start, end = (int(time * 1e6) for time in job.observed["since_boot_s"])
        place = (job.host["hostname"], job.host["boot_id"])
        spans = self.hosts[place]
        first = bisect(self.starts[place], start - self.longest[place])
        found = []
        for begin, stop, other in spans[max(first - 1, 0):]:
            if begin >= end:
                break
            shared = min(end, stop) - max(start, begin)
            if shared > 1e6 and other is not job and other.label not in job.observed.get("beside", []):
                found.append((other.label, shared / 1e6))
        return sorted(found)


def by_load(job):
    if job.observed.get("beside"):
        return None
    limit = foreign_limit(job.host["cpu"]["usable"])
    busy, stolen = foreign(job)
    if busy is not None and busy > limit:
        number, threshold = both(busy, limit, 3)
        return f"other processes kept {number} processors busy (threshold {threshold})"
    if stolen is not None and stolen > limit:
        number, threshold = both(stolen, limit, 3)
        return f"the hypervisor gave {number} processors to others (threshold {threshold})"
    return None


def and_more(first, count):
    return first if count == 1 else f"{first} and {count - 1} more"


def contended(job, spans):
    found = [by_load(job)]
    others = spans.beside(job)
    if others:
        label, seconds = others[0]
        first = f"{label} for {passed(seconds, 1.0, 1)} s"
        found.append(f"it ran beside {and_more(first, len(others))} (threshold 1 s)")
    processes = sorted((job.telemetry or {}).get("others", {}).items())
    if processes:
        pid, (name, size) = processes[0]
        first = f"{name} (pid {pid}, {size >> 20} MiB)"
        found.append(f"on its device there was also {and_more(first, len(processes))} (threshold 0)")
    return [("contended", text) for text in found if text]


def sensors(job):
    found = []
    asleep = job.observed.get("asleep_s") or 0.0
    summary = job.telemetry
    if asleep > 0.5:
        text = f"the host slept for {passed(asleep, 0.5, 1)} s while it ran (threshold 0.5 s)"
        found.append(("suspended", text))
    elif summary and (summary["worker_stopped_events"] or 0) > 0.5:
        found.append(("suspended", f"its worker was stopped for about {summary['worker_stopped_events']} s (threshold "
                                   f"0.5 s)"))
    if not summary:
        return found
    if job.key["device"] == "cpu":
        if (summary["cpu_throttled_s"] or {"mean": 0})["mean"] > 0.05 or (summary["cpu_throttle_events"] or 0) > 1:
            raise Unknown(f"{job.label}: heat slowed its processor")
    samples = summary["samples"]
    held = [(count, name) for name, count in sorted(summary["reasons"].items()) if count > 0.05 * samples]
    protection = [part for part in held if "thermal" in part[1] or "slowdown" in part[1] or "brake" in part[1]]
    if len(protection) > 1:
        raise Unknown(f"{job.label}: several reasons held its clocks down")
    for count, name in protection:
        share = passed(100 * count / samples, 5.0, 0)
        found.append(("throttled", f"the driver held the GPU's clocks down by {name} in {count} of {samples} samples, "
                                   f"{share} % of them (threshold 5 %)"))
    for count, name in held:
        if name == "sw_power_cap":
            share = passed(100 * count / samples, 5.0, 0)
            found.append(("power-capped", f"the board was at its power limit in {count} of {samples} samples, "
                                          f"{share} % "
                                          f"of them (threshold 5 %)"))
    if summary["cpu_quota_held_s"] and summary["cpu_quota_held_s"]["mean"] > 0.05:
        raise Unknown(f"{job.label}: a quota held it")
    moved = [(summary[name] or 0) / 2**20 for name in ("swapped_out_bytes", "swapped_in_bytes")]
    if sum(moved) > 16:
        found.append(("swapped", f"the host wrote {moved[0]:.0f} MiB to swap and read {moved[1]:.0f} MiB from it, "
                                 f"together "
                                 f"{passed(sum(moved), 16.0, 0)} MiB (threshold 16 MiB)"))
    clock = clock_readings(job)
    if clock:
        low, high = clock["middle"]
        if (high - low) / clock["mean"] > 0.10:
            raise Unknown(f"{job.label}: its clock varied within the window")
    return found


def clock_readings(job):
    """The clock of the device that computed, within the window."""
    if not job.telemetry or not job.telemetry["of_window"]:
        return None
    return job.telemetry["cpu_mhz" if job.key["device"] == "cpu" else "gpu_sm_mhz"]


def outlier_factor(others, outliers):
    """The factor by which chance puts the first iteration beyond the slowest of the others in 1 of 200 windows."""
    c, chance = 0, 1.0
    while chance > 0.005 and c < 100:
        c += 1
        chance = 1.0
        for place in range(outliers + 1, others + 1):
            chance *= place / (place + c)
    return c


def times(job):
    """Marks from single iterations. The rules for ten iterations or more are not supported."""
    seconds = job.iterations if job.is_timing else None
    if not seconds:
        return []
    if len(seconds) >= 10:
        raise Unknown(f"{job.label}: trends and periods of ten iterations or more are not recomputed")
    first, others = seconds[0], seconds[1:]
    centre = median(others)
    outliers = int(0.02 * len(others))
    slowest = sorted(others, reverse=True)[outliers]
    stands_out = first - centre > outlier_factor(len(others), outliers) * (slowest - centre)
    if len(seconds) >= 5 and stands_out and first / centre > 2:
        return [("slow-first", f"the first measured iteration took {passed(first / centre, 2.0, 1)} times as long "
                               f"as the "
                               f"median of the others (threshold 2 ×)")]
    return []


def own(job, spans):
    """The marks that follow from a run alone."""
    if not job.succeeded:
        return []
    found = contended(job, spans)
    if not job.measured["synchronized"]:
        found.append(("unsynchronised", "the device was not synchronised at both ends of the window"))
    if job.observed.get("gate"):
        raise Unknown(f"{job.label}: it waited for a quiet machine")
    found += sensors(job)
    threads, usable = job.setting("threads"), job.host["cpu"]["usable"]
    if job.key["device"] == "cpu" and threads and threads > usable:
        found.append(("oversubscribed", f"{threads} compute threads on {usable} usable processors"))
    if job.host.get("power_source") == "battery":
        found.append(("on-battery", "the host ran on its battery"))
    if "first_non_finite_iteration" in job.details:
        turn = job.details["first_non_finite_iteration"]
        found.append(("diverged", f"the loss was not finite from measured iteration {turn} on"))
    return found + times(job)


def disqualified(marks):
    return any(name in LEAVES_OUT for name, _ in marks)


def system_share(job):
    """Processor seconds, and the share of them in the kernel; `None` below one second."""
    if job.cpu_s is None or job.cpu_s < 1.0:
        return None
    return job.cpu_s, job.process["system_s"] / job.cpu_s


def level(job, value, pool, marks, least):
    """The reference of a run: the median of the other sound runs of its pool, or a single run if they are few."""
    sound = [value(other) for other in pool if other is not job and not disqualified(marks[other])]
    sound = [number for number in sound if number is not None]
    if len(sound) >= 2:
        return median(sound), "the other runs of the row"
    disturbed = [other for other in pool if other is not job and disqualified(marks[other])]
    only = [value(other) for other in disturbed
            if {name for name, _ in marks[other] if name in LEAVES_OUT} == {"contended"}]
    few = sound + [number for number in only if number is not None]
    if len(few) < 2:
        return None
    if least:
        return min(few), "the least disturbed other run of the row"
    return min(few, key=lambda number: abs(number - value(job))), "the nearest other run of the row"


def switches(job):
    if "involuntary_switches" in job.details:
        raise Unknown(f"{job.label}: its worker counts context switches")
    if "involuntary_switches" not in job.process or job.wall_s < 1.0:
        return None
    return job.process["involuntary_switches"] / job.wall_s


def traces(job, pool, marks):
    """The text of the first sign of other work that the rest of the row does not have."""
    seen = lambda value: lambda other: None if other.observed.get("beside") else value(other)
    usable = job.host["cpu"]["usable"]
    busy = seen(lambda other: foreign(other)[0])
    kernel = seen(lambda other: (system_share(other) or (0, None))[1])
    checks = [
        (busy, lambda others: others + 0.1),
        (seen(switches), lambda others: max(3 * others, 100 * usable)),
        (kernel, lambda others: others + 0.13),
    ]
    for place, (value, limit) in enumerate(checks):
        found = value(job)
        others = None if found is None else level(job, value, pool, marks, True)
        if not others or not found > limit(others[0]):
            continue
        if place == 0:
            number, threshold = both(found, limit(others[0]), 3)
            return (f"other processes kept {number} processors busy; in {others[1]} it was {others[0]:.3f} "
                    f"(threshold {threshold})")
        if place == 1:
            number, threshold = both(found, limit(others[0]), 0)
            return (f"{number} involuntary context switches per second; in {others[1]} it was {others[0]:.0f} "
                    f"(threshold {threshold})")
        number, threshold = both(100 * found, 100 * limit(others[0]), 0)
        return (f"{number} % of its processor time went to the system; in {others[1]} it was {100 * others[0]:.0f} % "
                f"(threshold {threshold} %)")
    return None


def clock_changed(job, pool, marks):
    mean = lambda other: (clock_readings(other) or {"mean": None})["mean"]
    found = mean(job)
    others = None if found is None else level(job, mean, pool, marks, False)
    if not others or not abs(found / others[0] - 1) > 0.05:
        return None
    change = found / others[0] - 1
    sign, beyond = ("+", "above") if change > 0 else ("-", "below")
    size = passed(100 * abs(change), 5.0, 0)
    number, than = both(found, others[0], 0, beyond)
    device = "processor" if job.key["device"] == "cpu" else "GPU"
    return f"the {device}'s clock was {number} MHz; in {others[1]} it was {than} MHz ({sign}{size} %, threshold 5 %)"


def spilled(job, batch, rate):
    busy = system_share(job)
    if job.rate is None or not busy:
        return None
    cliff, cores = rate / job.rate, busy[0] / job.wall_s
    if not (cliff > 4 and cores >= 0.75 and busy[1] >= 0.4):
        return None
    return (f"{passed(cliff, 4.0, 1)} times slower than batch {batch} (threshold 4 ×), with {cores:.1f} processors "
            f"busy and "
            f"{100 * busy[1]:.0f} % of that time in the system, as when device memory is paged to the host")


def cliffs(pools, marks):
    """Marks spilled runs. `pools` are those of accelerators: (batch, circumstances without the batch, runs)."""
    levels = {}
    for batch, common, pool in sorted(pools, key=lambda entry: entry[0]):
        below = levels.get(common, {})
        smaller = [known for known in below if known < batch]
        if smaller:
            for job in pool:
                text = spilled(job, max(smaller), below[max(smaller)])
                if text:
                    marks[job].append(("spilled", text))
        rates = [job.rate for job in pool if not disqualified(marks[job]) and job.rate is not None]
        if rates:
            levels.setdefault(common, {})[batch] = median(rates)


def judge(jobs, pools):
    """The marks of each job. `pools` are possible rows: (batch, circumstances without the batch, runs)."""
    spans = Spans(jobs)
    marks = {job: own(job, spans) if job.record else [] for job in jobs}
    found = []
    for _, _, pool in pools:
        for job in pool:
            if not disqualified(marks[job]):
                text = traces(job, pool, marks)
                found += [(job, ("contended", text))] if text else []
            text = clock_changed(job, pool, marks)
            found += [(job, ("clock-changed", text))] if text else []
    for job, mark in found:
        marks[job].append(mark)
    cliffs([entry for entry in pools if entry[2][0].key["device"] != "cpu"], marks)
    return marks


def started(job):
    return moment(job.record["started_at"])
