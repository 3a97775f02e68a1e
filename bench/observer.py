"""Runs the worker under `orchestrate run`, which watches it, and bare in turn, and prints the ratio of their speeds and
what the watching costs the processor.

    python bench/observer.py target/release/orchestrate target/release/worker [--network resnet18] [--pairs 10] …

Each pair has several windows of either side in a mirrored order (A B B A …), so that a drift of the machine falls on
both alike; it gives one ratio, and the median over the pairs is what counts. Both sides are the same command with the same
environment: the bare one is `command.sh`, which orchestrate left in the job's directory. Both are timed by the worker,
over whole windows: their images by their seconds. The interval is that of the median, free of assumptions about the noise
(binomial, 95 % or more): a machine whose interval is wider than the half percent asked for cannot tell.

The processor time is orchestrate's own, all threads of it and none of the worker's, as the kernel counts it in
`/proc/<pid>/task/*/schedstat`, from the job's first sample of the sensors to the end. The machine has to be otherwise
idle. Needs Python alone. `just bench-observer` builds what this needs.
"""

import argparse
import glob
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import typing

# A worker that is watched is at least this fast, and watching takes at most this much of one processor.
LEAST_RATIO, MOST_PROCESSOR = 0.995, 0.002
# Processor time within less than this is mostly that of starting up.
LEAST_WATCHED_S = 3.0

MATRIX = """\
name: observer
models: [{network}]
batches: [{batch}]
repeats: {repeats}
params: {{ warmup: {warmup}, iters: {iters}, data: {{ synthetic: true }}, channels_last: true }}
envs:
  here: {{ device: {device} }}
order: sequential
limits: {{ retries: 0 }}
"""


def processor_ns(pid):
    """Nanoseconds that all threads of the process ran; None if the system does not tell."""
    total = None
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        try:
            with open(path) as file:
                total = (total or 0) + int(file.read().split()[0])
        except (OSError, IndexError, ValueError):
            pass  # The thread has ended.
    return total


def run(words, environment, is_watching):
    """Runs the command; its own processor time a second once `is_watching` holds, or None."""
    # To files, not pipes: nobody reads while it runs.
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        looks = []
        while process.poll() is None:
            # Both sides are looked at alike, so that looking costs both the same.
            look = time.monotonic(), processor_ns(process.pid)
            if look[1] is not None and is_watching():
                looks = [*looks[:1], look]
            time.sleep(0.25)
        if process.returncode != 0:
            output.seek(0)
            sys.exit(f"{' '.join(words)} failed with {process.returncode}:\n{output.read()}")
    if len(looks) < 2 or looks[1][0] - looks[0][0] < LEAST_WATCHED_S:
        return None
    (began, before), (ended, after) = looks
    return (after - before) / 1e9 / (ended - began)


class Window(typing.NamedTuple):
    images: int
    seconds: float


def window_of(measurement):
    if not measurement["synchronized"]:
        sys.exit("the window was not synchronised")
    return Window(measurement["samples"], measurement["elapsed_s"])


def run_watched(repeat, matrix, store, options):
    """The window under orchestrate, its processor time a second, and the job's directory."""
    watched = lambda: bool(glob.glob(f"{store}/*_run{repeat}-*/attempts/01/telemetry.csv"))
    words = [os.path.abspath(options.orchestrate), "run", matrix, "--store", store, "--only", f"repeat=={repeat}"]
    environment = dict(os.environ, ORCHESTRATE_WORKER=os.path.abspath(options.worker))
    processor = run(words, environment, watched)
    directories = glob.glob(f"{store}/*_run{repeat}-*")
    if len(directories) != 1:
        least = options.pairs * options.windows
        sys.exit(f"{matrix} has to have one config and {least} repeats; of repeat {repeat} there are {directories}")
    with open(f"{directories[0]}/record.json") as file:
        record = json.load(file)
    if not record["observed"].get("telemetry", {}).get("samples"):
        sys.exit(f"{directories[0]}: no sensor was looked at")
    return window_of(record["measurement"]), processor, directories[0]


def run_bare(directory, place):
    out = tempfile.mkdtemp(prefix="bare-", dir=place)
    run(["sh", f"{directory}/command.sh", out], dict(os.environ), lambda: False)
    with open(f"{out}/measurement.json") as file:
        return window_of(json.load(file))


def rate(windows):
    return sum(window.images for window in windows) / sum(window.seconds for window in windows)


def compare_once(pair, matrix, place, options):
    """Images a second of the pair's windows, watched and bare, and what watching each took."""
    watched, bare, processors = [], [], []
    directory = None

    def watch():
        nonlocal directory
        repeat = pair * options.windows + len(watched) + 1
        window, processor, directory = run_watched(repeat, matrix, f"{place}/runs", options)
        watched.append(window)
        processors.extend([] if processor is None else [processor])

    # The command of the bare side is that of a watched one, so the first window of a pair is a watched one.
    for index in range(options.windows):
        turns = [watch, lambda: bare.append(run_bare(directory, place))]
        for turn in turns if index % 2 == 0 else reversed(turns):
            turn()
    return (rate(watched), rate(bare)), processors


def compare(matrix, place, options):
    pairs, processors = [], []
    for pair in range(options.pairs):
        (watched, bare), shares = compare_once(pair, matrix, place, options)
        pairs.append((watched, bare))
        processors += shares
        share = f"{100 * statistics.median(shares):.3f} %" if shares else "NA"
        line = f"pair {pair + 1}: {watched:.2f} / {bare:.2f} = {watched / bare:.4f}, orchestrate {share} of a processor"
        print(line, file=sys.stderr, flush=True)
    return pairs, processors


def median_interval(values):
    """From the k-th least to the k-th greatest, with the greatest k that has the median in between in 95 % or more."""
    n, values = len(values), sorted(values)
    beyond = [2 * sum(math.comb(n, below) for below in range(k)) / 2**n for k in range(1, n // 2 + 1)]
    k = sum(chance <= 0.05 for chance in beyond)
    return (values[k - 1], values[n - k]) if k else None


def table(what, pairs, processors):
    """Prints both verdicts and says whether they are good."""
    ratios = [watched / bare for watched, bare in pairs]
    median = statistics.median(ratios)
    verdicts = [median >= LEAST_RATIO]
    print(f"images/s: {what}; the median ratio is to be {LEAST_RATIO} or more")
    print(f"{'watched':>10}{'bare':>10}{'ratio':>8}{'least':>8}{'most':>8}{'interval':>18}{'pairs':>7}")
    columns = "".join(f"{statistics.median(side):>10.2f}" for side in zip(*pairs))
    interval = median_interval(ratios)
    interval = "NA" if interval is None else "{:.4f}–{:.4f}".format(*interval)
    columns += f"{median:>8.4f}{min(ratios):>8.4f}{max(ratios):>8.4f}{interval:>18}{len(ratios):>7}"
    print(f"{columns}  {'pass' if verdicts[0] else 'FAIL'}")
    print(f"\norchestrate's own processor time, % of one; the median is to be {100 * MOST_PROCESSOR} or less")
    if not processors:
        print(f"NA: this system does not tell, or no run was watched for {LEAST_WATCHED_S:g} s")
        return verdicts[0]
    middle = statistics.median(processors)
    verdicts.append(middle <= MOST_PROCESSOR)
    print(f"{'median':>10}{'least':>10}{'most':>10}{'runs':>7}")
    columns = "".join(f"{100 * share:>10.3f}" for share in (middle, min(processors), max(processors)))
    print(f"{columns}{len(processors):>7}  {'pass' if verdicts[1] else 'FAIL'}")
    return all(verdicts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("orchestrate", help="orchestrate's binary")
    parser.add_argument("worker", help="the worker's binary")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--network", default="resnet18")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--warmup", type=int, default=2, help="iterations before the window")
    parser.add_argument("--iters", type=int, default=8, help="iterations inside a window")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--windows", type=int, default=2, help="windows of either side in a pair")
    parser.add_argument("--matrix", help="a matrix of one config and pairs × windows repeats, instead of these")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a verdict is FAIL")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        matrix, what = options.matrix, options.matrix
        if matrix is None:
            matrix = f"{place}/observer.yaml"
            what = f"{options.network}, batch {options.batch}, {options.iters} iterations on {options.device}"
            with open(matrix, "w") as file:
                file.write(MATRIX.format(**vars(options), repeats=options.pairs * options.windows))
        pairs, processors = compare(matrix, place, options)
    if not table(what, pairs, processors) and options.check:
        sys.exit(1)


if __name__ == "__main__":
    main()
