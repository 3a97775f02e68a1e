"""Enumerates the crash points of orchestrate: kills it before each of its system calls, resumes, and judges.

    python3 crash_points.py ORCHESTRATE [--scenario NAME] [--sample K | --seconds N] [--seed S] [--jobs 2]

A scenario is a small matrix. It runs once under `strace`, which lists the system calls of orchestrate's main thread
that can have an effect. Then it runs again for each of them:

| point | fault |
|---|---|
| crash | SIGKILL before the call |
| power cut | the same, and every file below the store that was not synced is empty or full of zeros |
| error | the call fails with ENOSPC, EIO, EINTR or another possible error, without an effect |
| short | no file may grow beyond the middle of this write, so it is cut short, and larger ones later fail (EFBIG) |

Afterwards `resume` must complete every job, and `judge.py` checks the files. Calls are counted from the start of the
program, so the N-th call can be another one in the next run. Other threads are not interrupted, because strace counts
the calls of each thread and each worker separately. For the same reason, files that they synced count as lost in a
power cut. If not all points are tried, calls with an effect come first; most points only read files.

Exits with 1 if a promise was broken, and with 2 if strace cannot trace here. `--expect-failure SWITCH` is as in
`campaign.py`.
"""

import argparse
import collections
import concurrent.futures
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import typing

# Python does not add this directory if PYTHONSAFEPATH is set.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import judge
from field import Field, add_options, check, code, is_caught

OPENS = ("open", "openat", "openat2")
RENAMES = ("rename", "renameat", "renameat2")
MKDIRS = ("mkdir", "mkdirat")
UNLINKS = ("unlink", "unlinkat", "rmdir")
WRITES = ("write", "pwrite64", "writev")
SYNCS = ("fsync", "fdatasync")
LINKS = ("link", "linkat", "symlink", "symlinkat")
FORKS = ("clone", "clone3", "fork", "vfork")
KILLS = ("kill", "tgkill", "tkill", "pidfd_send_signal")
LOCKS = ("flock",)
CUTS = ("ftruncate", "truncate")
ALL = OPENS + RENAMES + MKDIRS + UNLINKS + WRITES + SYNCS + LINKS + FORKS + KILLS + LOCKS + CUTS + ("execve",)

# The errors that each call can have. An open that creates nothing needs no space.
ERRORS = {
    **dict.fromkeys(OPENS, ("EIO", "EINTR", "EMFILE")),
    **dict.fromkeys(WRITES + SYNCS, ("ENOSPC", "EIO", "EINTR")),
    **dict.fromkeys(RENAMES + MKDIRS + LINKS, ("ENOSPC", "EIO")),
    **dict.fromkeys(UNLINKS + CUTS, ("EIO",)),
    **dict.fromkeys(LOCKS, ("EINTR", "ENOLCK")),
    **dict.fromkeys(FORKS, ("EAGAIN",)),
}

# Runs a command with a limit of file sizes: a write is cut there, and the next one fails.
LIMITED = """
import os, resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
os.execv(sys.argv[2], sys.argv[2:])
"""

CALL = re.compile(r"^(\w+)\((.*)")


class Scenario(typing.NamedTuple):
    """A matrix, as the words of each batch; the calls that are points; whether an earlier run was killed."""

    behaviours: typing.Dict[str, typing.List[str]]
    calls: typing.Tuple[str, ...] = ALL
    timeout: str = "6s"
    killed_before: bool = False


SCENARIOS = {
    "plain": Scenario({"4": ["ok"], "8": ["fail"]}),
    "timeout": Scenario({"4": ["child", "hang"]}, KILLS + RENAMES + SYNCS, "1s"),
    "adopt": Scenario({"4": ["slow", "ok"]}, killed_before=True),
}


class Point(typing.NamedTuple):
    """The N-th call of this name, and its fault: `kill`, `power`, the name of an error, or a limit in bytes."""

    scenario: str
    call: str
    number: int
    fault: str
    # Whether the call can change a file.
    matters: bool = True

    def __str__(self):
        return f"{self.scenario}: {self.fault} at {self.call} {self.number}"


def points_of(scenario, log):
    """The points of a scenario, from the lines of strace's log.

    >>> log = ['openat(AT_FDCWD, "a", O_RDONLY) = 3', 'flock(3, LOCK_EX) = 0', '+++ exited with 0 +++']
    >>> [str(point) for point in points_of("plain", log)][:4]
    ['plain: kill at openat 1', 'plain: EIO at openat 1', 'plain: EINTR at openat 1', 'plain: EMFILE at openat 1']
    >>> [point.fault for point in points_of("plain", ['openat(AT_FDCWD, "a", O_WRONLY|O_CREAT, 0666) = 3'])]
    ['kill', 'power', 'EIO', 'EINTR', 'EMFILE', 'ENOSPC']
    """
    seen, points = collections.Counter(), []
    for line in log:
        call = CALL.match(line)
        if not call:
            continue
        name = call[1]
        seen[name] += 1
        creates = name in OPENS and "O_CREAT" in call[2]
        matters = creates or name not in OPENS
        faults = ("kill", *(("power",) if matters else ()), *ERRORS.get(name, ()), *(("ENOSPC",) if creates else ()))
        points += [Point(scenario, name, seen[name], fault, matters) for fault in faults]
    return points


def limits_of(log):
    """Limits in bytes that cut a write in the middle: the middle of each write to each file.

    >>> limits_of(['write(3</a/x>, ""..., 10) = 10', 'write(3</a/x>, ""..., 4) = 4', 'write(2</dev/tty>, "", 8) = 8'])
    [5, 12]
    """
    ends, limits = collections.Counter(), set()
    for line in log:
        write = re.match(r"^write\(\d+<(/[^>]*)>.* = (\d+)$", line)
        if write and not write[1].startswith(("/dev/", "/proc/")):
            length = int(write[2])
            limits.add(ends[write[1]] + length // 2)
            ends[write[1]] += length
    return sorted(limits - {0})


def synced(log):
    """The files whose contents would survive a power cut, according to the calls of the main thread.

    >>> synced(['write(3</a/t>, ""..., 9) = 9', 'fsync(3</a/t>) = 0', 'rename("/a/t", "/a/r") = 0'])
    {'/a/r'}
    >>> synced(['fsync(3</a/t>) = 0', 'write(3</a/t>, ""..., 9) = 9'])
    set()
    """
    files = set()
    for line in log:
        call = re.match(r'^(\w+)\((?:\d+<(/[^>]*)>)?(?:[^"]*"([^"]*)"[^"]*"([^"]*)")?', line)
        if not call:
            continue
        name, path, source, target = call.groups()
        if name in SYNCS and line.endswith("= 0"):
            files.add(path)
        elif name in WRITES:
            files.discard(path)
        elif name in RENAMES and line.endswith("= 0"):
            # Only the contents count; a lost name is not simulated.
            (files.add if source in files else files.discard)(target)
            files.discard(source)
    return files


def cut_power(field, log):
    """Empties every file below the store that is not synced, or fills it with zeros: only its name is on the disk."""
    kept = synced(log)
    for folder, _, names in os.walk(field.path("runs")):
        for path in (os.path.join(folder, name) for name in names):
            if path in kept or os.path.basename(path) == "lock":
                continue
            size = os.path.getsize(path)
            with open(path, "wb") as file:
                file.write(bytes(size if size % 2 else 0))


def field_of(scenario, options):
    """A new field, in which a run was killed while its worker runs if the scenario has `killed_before`."""
    field = Field(options.orchestrate, scenario.behaviours, timeout=scenario.timeout, broken=options.expect_failure)
    if scenario.killed_before:
        process = field.start("runs")
        while not field.running() and process.poll() is None:
            time.sleep(0.002)
        process.kill()
        process.wait()
    return field


def traced(field, calls, *more):
    """Runs orchestrate under strace, and returns strace's log."""
    log = field.path("strace.log")
    names = ",".join("?" + call for call in calls)
    words = ["strace", "-y", "-s", "0", "-o", log, "-e", f"trace={names}", *more]
    field.wait(field.start("runs", before=words))
    with open(log, errors="replace") as file:
        return file.read().splitlines()


def all_points(name, options):
    """Every point of a scenario."""
    scenario = SCENARIOS[name]
    field = field_of(scenario, options)
    try:
        log = traced(field, scenario.calls)
        if not field.trace():
            sys.exit(f"{name}: orchestrate starts no worker:\n{field.said('runs')}")
    finally:
        field.clear()
    points = points_of(name, log) + [Point(name, "write", 0, str(limit)) for limit in limits_of(log)]
    # The files that the earlier run synced are not known.
    return [point for point in points if point.fault != "power" or not scenario.killed_before]


def try_point(point, options):
    """Whether the point was hit, and the breaches. The directory of a breach is kept."""
    field = field_of(SCENARIOS[point.scenario], options)
    breaches, hit = [], True
    try:
        if point.fault.isdigit():
            field.note("error")
            limited = [sys.executable, "-I", "-S", "-c", LIMITED, point.fault]
            field.wait(field.start("runs", before=limited))
        else:
            killed = point.fault in ("kill", "power")
            what = "signal=KILL" if killed else f"error={point.fault}"
            if point.fault != "kill":
                field.note("power" if killed else "error")
            inject = f"inject={point.call}:{what}:when={point.number}"
            log = traced(field, {point.call, *WRITES, *SYNCS, *RENAMES}, "-e", inject)
            hit = any("(INJECTED)" in line or "killed by SIGKILL" in line for line in log)
            if point.fault == "power" and hit:
                field.settle()
                cut_power(field, log)
        field.finish()
        breaches = field.judged()
    finally:
        field.clear(keep=bool(judge.broken(breaches)) and not options.expect_failure)
    return point, hit, breaches


def cannot_trace():
    """The reason why strace cannot trace here; None if it can."""
    if not shutil.which("strace"):
        return "it is not installed"
    with tempfile.NamedTemporaryFile("r") as log:
        inject = ["-e", "trace=?open,?openat", "-e", "inject=?openat:error=EIO:when=9999"]
        words = ["strace", "-o", log.name, *inject, "true"]
        tried = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if tried.returncode == 0 and "exited with 0" in log.read():
            return None
    return tried.stdout.strip().splitlines()[-1] if tried.stdout.strip() else f"exit code {tried.returncode}"


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--scenario", action="append", choices=SCENARIOS, help="only this one; can be repeated")
    parser.add_argument("--kills", action="store_true", help="only crashes")
    parser.add_argument("--sample", type=int, help="number of points, drawn with the seed")
    parser.add_argument("--seconds", type=float, help="begin no point after this time, in a random order by the seed")
    parser.add_argument("--jobs", type=int, default=2, help="points at the same time")
    return parser.parse_args()


def chosen(options):
    points = [point for name in options.scenario or SCENARIOS for point in all_points(name, options)]
    if options.kills:
        points = [point for point in points if point.fault == "kill"]
    kinds = collections.Counter(kind_of(point) for point in points)
    words = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    print(f"{len(points)} points: {words}", flush=True)
    if options.sample or options.seconds:
        random.Random(options.seed).shuffle(points)
        points.sort(key=lambda point: not point.matters)
    return points[: options.sample]


def try_all(points, options):
    """The result of each point, until the time is over, or a broken orchestrate is caught."""
    deadline = time.monotonic() + options.seconds if options.seconds else float("inf")
    over = threading.Event()

    def one(point):
        if over.is_set() or time.monotonic() > deadline:
            return None
        result = try_point(point, options)
        if is_caught(result[2], options):
            over.set()
        return result

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        yield from filter(None, pool.map(one, points))


def kind_of(point):
    """
    >>> [kind_of(Point("plain", "write", 1, fault)) for fault in ("kill", "power", "EIO", "33")]
    ['crashes', 'power cuts', 'errors', 'short writes']
    """
    otherwise = "short writes" if point.fault.isdigit() else "errors"
    return {"kill": "crashes", "power": "power cuts"}.get(point.fault, otherwise)


def main():
    options = parse()
    check(options.orchestrate)
    why = cannot_trace()
    if why:
        print(f"strace cannot trace here: {why}", file=sys.stderr)
        sys.exit(2)
    points = chosen(options)
    total, tried = [], collections.Counter()
    for point, hit, breaches in try_all(points, options):
        tried[kind_of(point) if hit else "not reached"] += 1
        total += breaches
        for breach in judge.broken(breaches):
            print(f"{point}: {breach.kind}: {breach.where}: {breach.what}", flush=True)
    words = ", ".join(f"{count} {kind}" for kind, count in sorted(tried.items()))
    print(f"tried {sum(tried.values())} points: {words}")
    print(judge.counted(total))
    sys.exit(code(total, options))


if __name__ == "__main__":
    main()
