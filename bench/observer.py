"""Measures the overhead of `orchestrate run` on a worker: it stops orchestrate in every other turn, and prints the
ratio of the worker's speed with orchestrate watching to its speed without, and the processor time of orchestrate.

    python bench/observer.py target/release/orchestrate target/release/worker [--network squeezenet1_1] [--pairs 10] …

Two processes that run the same command differ by more than the half percent of interest, and one process differs from
itself half a minute later, because memory and caches are shared. So both sides are the same process, which is never
stopped: in the bare turns of half a second, orchestrate is stopped (SIGSTOP). The order of two turns is random, so that
periodic effects do not affect only one side. Only iterations within one turn count, as timed by the worker. A run of
the worker of some 100 s gives one pair of rates, and the median over the pairs is the result. Its interval makes no
assumptions about the noise (binomial, at least 95 %).

When a stopped orchestrate continues, it is late and samples the sensors immediately. So it samples up to twice per
second of the watched turns, and the result is an upper bound.

With `--serve`, `orchestrate serve` runs on the same store, and three viewers open its pages: the index, the report of
the plan and the running job. It is stopped in the same turns, and its processor time is added to orchestrate's. The
turns begin when all three pages are open; the processor time for opening them is printed with each pair. The viewers
are threads of this program at the lowest priority (`SCHED_IDLE`), because most viewers are on another machine.

The processor time is that of all threads of orchestrate in the watched turns, without the worker, as the kernel counts
it in `/proc/<pid>/task/*/schedstat`. The machine must be otherwise idle. Needs only Python. `just bench-observer`
builds the programs.
"""

import argparse
import csv
import glob
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import typing
import urllib.request

# A worker that is watched is at least this fast, and watching takes at most this much of one processor.
LEAST_RATIO, MOST_PROCESSOR = 0.995, 0.002

MATRIX = """\
name: observer
models: [{network}]
batches: [{batch}]
repeats: {pairs}
params: {{ warmup: {warmup}, iters: {iters}, data: {{ synthetic: true }}, channels_last: true }}
envs:
  here: {{ device: {device} }}
order: sequential
limits: {{ retries: 0 }}
profile: {{ ops: false }}
"""


class Turn(typing.NamedTuple):
    """Part of a run, in seconds of the system's clock."""

    watched: bool
    began: float
    ended: float
    # Processor time of orchestrate in it; None if the system does not report it.
    processor_s: float | None


class Pair(typing.NamedTuple):
    """The result of one run of the worker: images per second, and orchestrate's share of a processor while watching."""

    watched: float
    bare: float
    processor: float | None
    # Processor time in which the server made the pages, in seconds; None without a server.
    opening: float | None


def processor_s(pid):
    """Seconds that all threads of the process ran; None if the system does not report it."""
    total = None
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        try:
            with open(path) as file:
                total = (total or 0) + int(file.read().split()[0]) / 1e9
        except (OSError, IndexError, ValueError):
            pass  # The thread has ended.
    return total


def processors_s(processes):
    """The sum of `processor_s` over these processes."""
    each = [processor_s(process.pid) for process in processes]
    return None if None in each else sum(each)


def take_turn(watchers, watched, seconds):
    """One turn, in which the watchers run or are stopped. Both kinds are measured in the same way."""
    if not watched:
        for process in watchers:
            process.send_signal(signal.SIGSTOP)
    try:
        before, began = processors_s(watchers), time.time()
        time.sleep(seconds)
        ended, after = time.time(), processors_s(watchers)
    finally:
        if not watched:
            for process in watchers:
                process.send_signal(signal.SIGCONT)
    known = before is not None and after is not None
    return Turn(watched, began, ended, after - before if known else None)


def follow(url, target, opened):
    """Views a page as a browser does: reads its events, and fetches the page after each change. Sets `opened` after the
    first time."""
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))  # On Linux, 0 is the calling thread.
    try:
        with urllib.request.urlopen(f"{url}{target}events") as events:
            for line in events:
                if line.startswith(b"event: change"):
                    with urllib.request.urlopen(f"{url}{target}") as page:
                        page.read()
                    opened.set()
    except OSError:
        pass  # The server has ended.


class Viewed:
    """`orchestrate serve` on a store, with three viewers."""

    def __init__(self, orchestrate, store, job, plan):
        words = [orchestrate, "serve", "-q", "--store", store]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        url = self.process.stdout.readline().strip()
        for target in ("", f"plan/{plan}/", f"job/{job}/"):
            opened = threading.Event()
            threading.Thread(target=follow, args=(url, target, opened), daemon=True).start()
            if not opened.wait(60):
                sys.exit(f"{url}{target} did not open")
        self.opening = processor_s(self.process.pid)

    def end(self):
        self.process.terminate()
        self.process.wait()


def take_turns(words, environment, attempt, seconds, serve):
    """Runs orchestrate to its end, in turns for as long as its worker runs; `attempt` is a pattern of the directory.
    `serve` starts a server on its store, or is None. Returns the turns and `Pair.opening`."""
    there = lambda name: bool(glob.glob(f"{attempt}/{name}"))
    # To a file, because a pipe would have to be read while it runs.
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        turns = []
        # After the first sample of the sensors, the worker runs.
        while process.poll() is None and not there("telemetry.csv"):
            time.sleep(0.1)
        viewed = serve() if serve else None
        watchers = [process] + ([viewed.process] if viewed else [])
        while process.poll() is None and not there("measurement.json"):
            turns += [take_turn(watchers, watched, seconds) for watched in random.sample((True, False), 2)]
        if viewed:
            viewed.end()
        if process.wait() != 0:
            output.seek(0)
            sys.exit(f"{' '.join(words)} failed with {process.returncode}:\n{output.read()}")
    return turns, viewed.opening if viewed else None


def iterations_of(directory):
    """Start and end of each iteration of the job's only attempt, in seconds of the system's clock, and its images."""
    with open(f"{directory}/record.json") as file:
        record = json.load(file)
    measurement = record["measurement"]
    if not record["observed"].get("telemetry", {}).get("samples"):
        sys.exit(f"{directory}: no sensor was sampled")
    if not measurement["synchronized"]:
        sys.exit(f"{directory}: the window was not synchronised")
    with open(f"{directory}/attempts/{record['attempt']:02}/iterations.csv") as file:
        seconds = [float(row["elapsed_s"]) for row in csv.DictReader(file)]
    ends = [measurement["details"]["window_started_at"]]
    for elapsed in seconds:
        ends.append(ends[-1] + elapsed)
    return list(zip(ends, ends[1:])), measurement["samples"] / len(seconds)


def within(turns, iterations):
    """The seconds of the iterations that are completely within a turn: those of watched turns, those of bare ones.

    >>> turns = [Turn(True, 0.0, 1.0, None), Turn(False, 1.0, 2.0, None)]
    >>> within(turns, [(0.0, 0.25), (0.25, 0.75), (0.75, 1.25), (1.25, 2.0), (2.0, 2.5)])
    ([0.25, 0.5], [0.75])
    >>> within(turns, [(0.5, 1.5)])
    ([], [])
    """
    watched, bare = [], []
    for turn in turns:
        whole = [end - start for start, end in iterations if turn.began <= start and end <= turn.ended]
        (watched if turn.watched else bare).extend(whole)
    return watched, bare


def processor_share(turns):
    """The share of a processor that orchestrate took in the watched turns.

    >>> processor_share([Turn(True, 0.0, 1.0, 0.25), Turn(False, 1.0, 2.0, 0.0), Turn(True, 2.0, 3.0, 0.75)])
    0.5
    >>> processor_share([Turn(True, 0.0, 1.0, None)]) is None
    True
    """
    known = [turn for turn in turns if turn.watched and turn.processor_s is not None]
    seconds = sum(turn.ended - turn.began for turn in known)
    return sum(turn.processor_s for turn in known) / seconds if known else None


def compare_once(repeat, matrix, store, options):
    job = f"{store}/*_run{repeat}-*"
    words = [os.path.abspath(options.orchestrate), "run", matrix, "--store", store, "--only", f"repeat=={repeat}"]
    environment = dict(os.environ, ORCHESTRATE_WORKER=os.path.abspath(options.worker))
    name = lambda pattern: os.path.basename(glob.glob(pattern)[0])
    serve = lambda: Viewed(words[0], store, name(job), name(f"{store}/.plans/*.json").removesuffix(".json"))
    turns, opening = take_turns(words, environment, f"{job}/attempts/01", options.turn, serve if options.serve else None)
    directories = glob.glob(job)
    if len(directories) != 1:
        sys.exit(f"{matrix} must have one config and {options.pairs} repeats; of repeat {repeat} there are {directories}")
    iterations, images = iterations_of(directories[0])
    watched, bare = within(turns, iterations)
    if not watched or not bare:
        sys.exit(f"no iteration is completely within a turn of {options.turn} s: use longer turns or a smaller batch")
    return Pair(images / statistics.fmean(watched), images / statistics.fmean(bare), processor_share(turns), opening)


def compare(matrix, place, options):
    pairs = []
    for repeat in range(1, options.pairs + 1):
        pair = compare_once(repeat, matrix, f"{place}/runs", options)
        pairs.append(pair)
        share = "NA" if pair.processor is None else f"{100 * pair.processor:.3f} %"
        ratio = f"{pair.watched:.2f} / {pair.bare:.2f} = {pair.watched / pair.bare:.4f}"
        opening = "" if pair.opening is None else f"; opening three pages took {pair.opening:.3f} s of one"
        print(f"pair {repeat}: {ratio}, orchestrate {share} of a processor{opening}", file=sys.stderr, flush=True)
    return pairs


def median_interval(values):
    """From the k-th least to the k-th greatest, with the greatest k whose interval covers the median in at least 95 %.
    None if there are too few.

    >>> median_interval([9, 8, 7, 6, 5, 4, 3, 2, 1, 0])
    (1, 8)
    >>> median_interval([6, 5, 4, 3, 2, 1])
    (1, 6)
    >>> median_interval([1, 2, 3, 4, 5]) is None
    True
    """
    n, values = len(values), sorted(values)
    beyond = [2 * sum(math.comb(n, below) for below in range(k)) / 2**n for k in range(1, n // 2 + 1)]
    k = sum(chance <= 0.05 for chance in beyond)
    return (values[k - 1], values[n - k]) if k else None


def verdict(median, interval):
    """
    >>> verdict(0.999, (0.996, 1.002)), verdict(0.990, (0.98, 0.994)), verdict(0.999, None)
    ('pass', 'FAIL', 'pass')
    >>> verdict(0.999, (0.99, 1.01))
    'pass, but the interval has less'
    >>> verdict(0.990, (0.98, 1.01))
    'FAIL, but the interval has more'
    """
    passes = median >= LEAST_RATIO
    word = "pass" if passes else "FAIL"
    if interval is None or (interval[0] >= LEAST_RATIO if passes else interval[1] < LEAST_RATIO):
        return word
    return f"{word}, but the interval has {'less' if passes else 'more'}"


def table(what, pairs):
    """Prints both verdicts. Returns whether both pass."""
    ratios = [pair.watched / pair.bare for pair in pairs]
    median, interval = statistics.median(ratios), median_interval(ratios)
    print(f"images/s: {what}; the median ratio must be {LEAST_RATIO} or more")
    print(f"{'watched':>10}{'bare':>10}{'ratio':>8}{'least':>8}{'most':>8}{'interval':>18}{'pairs':>7}")
    rates = [statistics.median(pair.watched for pair in pairs), statistics.median(pair.bare for pair in pairs)]
    columns = "".join(f"{rate:>10.2f}" for rate in rates)
    between = "NA" if interval is None else "{:.4f}–{:.4f}".format(*interval)
    columns += f"{median:>8.4f}{min(ratios):>8.4f}{max(ratios):>8.4f}{between:>18}{len(ratios):>7}"
    print(f"{columns}  {verdict(median, interval)}")
    print(f"\norchestrate's own processor time, % of one; the median must be {100 * MOST_PROCESSOR} or less")
    shares = [pair.processor for pair in pairs if pair.processor is not None]
    if not shares:
        print("NA: this system does not report it")
        return median >= LEAST_RATIO
    middle = statistics.median(shares)
    print(f"{'median':>10}{'least':>10}{'most':>10}{'runs':>7}")
    columns = "".join(f"{100 * share:>10.3f}" for share in (middle, min(shares), max(shares)))
    print(f"{columns}{len(shares):>7}  {'pass' if middle <= MOST_PROCESSOR else 'FAIL'}")
    return median >= LEAST_RATIO and middle <= MOST_PROCESSOR


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("orchestrate", help="orchestrate's binary")
    parser.add_argument("worker", help="the worker's binary")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--network", default="squeezenet1_1")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--warmup", type=int, default=5, help="iterations before the window")
    parser.add_argument("--iters", type=int, default=2000, help="iterations inside a window")
    parser.add_argument("--pairs", type=int, default=10, help="runs of the worker")
    parser.add_argument("--turn", type=float, default=0.5, help="seconds of a turn")
    parser.add_argument("--serve", action="store_true", help="with live pages of the store, open in three viewers")
    parser.add_argument("--matrix", help="a matrix of one config with a repeat per pair, instead of the built-in one")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a verdict is FAIL")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        matrix, what = options.matrix, options.matrix
        if matrix is None:
            matrix = f"{place}/observer.yaml"
            what = f"{options.network}, batch {options.batch}, {options.iters} iterations on {options.device}"
            with open(matrix, "w") as file:
                file.write(MATRIX.format(**vars(options)))
        pairs = compare(matrix, place, options)
    if not table(what, pairs) and options.check:
        sys.exit(1)


if __name__ == "__main__":
    main()
