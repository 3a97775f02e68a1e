"""Measures the time that the Python package adds to an iteration, compared with an equal bare loop.

    python bench/python.py [--pairs 20000] [--rounds 30] [--check]

Two equal networks are trained with PyTorch in one process, an iteration of each in turn: one within a window, the other
in a bare loop. Without PyTorch, or with `--empty`, iterations do nothing, which shows the whole overhead. Each pair
gives the microseconds that an iteration in the window takes longer than the bare one before it. The speed of a
processor drifts by more than this, but not within a pair. `just bench-python` installs PyTorch.

Counting and profiling happen outside the window. To check that they do not affect it, windows with and without them are
compared in turn: the interval of their ratio must overlap with that of equal windows.
"""

import argparse
import contextlib
import gc
import io
import itertools
import math
import os
import statistics
import sys
import time
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "python", "src"))

import orchestrate_worker  # noqa: E402
from orchestrate_worker._beside import Beside  # noqa: E402

MOST_MICROSECONDS = 20.0
WARMUP = 2


def small_network():
    """A training step of some hundreds of microseconds, with a new network."""
    import torch

    torch.set_num_threads(1)
    network = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)

    def step(images, labels):
        loss = torch.nn.functional.cross_entropy(network(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


def small_batch():
    import torch

    return torch.randn(32, 64), torch.randint(10, (32,))


def nothing():
    return lambda *_: None


def measure(make_step, batch, pairs):
    """Seconds of a bare iteration and of one within a window, for each pair; and the measurement of the window."""
    data, clock, seconds = itertools.repeat(batch), time.perf_counter, []
    with contextlib.redirect_stdout(io.StringIO()):
        with orchestrate_worker.window(warmup=WARMUP, iters=pairs + 1, batch=32, precision="fp32") as window:
            step, items = make_step(), window.over(itertools.repeat(batch))
            for _ in range(WARMUP + 1):
                window.loss(step(*next(items)))
            # The window is open, and has found its network. This second network is not observed.
            bare_step = make_step()
            for _ in range(WARMUP):
                bare_step(*next(data))
            for _ in range(pairs):
                began = clock()
                bare_step(*next(data))
                between = clock()
                # Requesting the next items ends the previous iteration, so this is the time of one iteration.
                window.loss(step(*next(items)))
                seconds.append((between - began, clock() - between))
            next(items, None)
    return seconds, window.measurement


def window_s(batch, iters, beside):
    """Seconds of a window of the small network; with `beside`, an iteration is counted and others are profiled."""
    step = small_network()
    # A job has one window. Collect the garbage of the previous window before this one.
    gc.collect()
    changed = {} if beside else {"begin_warmup_iteration": lambda *_, **__: None, "left": lambda self: []}
    with contextlib.ExitStack() as patched:
        patched.enter_context(contextlib.redirect_stdout(io.StringIO()))
        # If nothing is profiled, the window prints a note.
        patched.enter_context(contextlib.redirect_stderr(io.StringIO()))
        for name, value in changed.items():
            patched.enter_context(mock.patch.object(Beside, name, value))
        with orchestrate_worker.window(warmup=WARMUP, iters=iters, batch=32) as window:
            for item in window.over(itertools.repeat(batch)):
                window.loss(step(*item))
    if beside and not {"ops", "schema"} <= window.measurement.keys():
        sys.exit("error: no iterations were profiled")
    return window.measurement["elapsed_s"]


def median_interval(values):
    """The median, and the order statistics around it that cover the true one with at least 95 %.

    >>> median_interval([5, 1, 4, 2, 3, 9, 8, 7, 6])
    (5, 2, 8)
    """
    values, n = sorted(values), len(values)
    outside = lambda rank: 2 * sum(math.comb(n, below) for below in range(rank)) / 2**n
    rank = max((rank for rank in range(1, n // 2 + 1) if outside(rank) <= 0.05), default=1)
    return statistics.median(values), values[rank - 1], values[n - rank]


def compare_windows(rounds, iters):
    """Prints the ratios of windows with and without counting. Returns whether they differ by less than noise."""
    os.environ["ORCHESTRATE_OPERATORS"] = "3"
    batch, kinds = small_batch(), (True, False, True)
    ratios, same = [], []
    for number in range(rounds):
        # Each place in a round is taken by each kind.
        seconds = {}
        for place in range(3):
            which = (place + number) % 3
            seconds[which] = window_s(batch, iters, kinds[which])
        ratios.append(seconds[0] / seconds[1])
        same.append(seconds[0] / seconds[2])
    (found, least, most), (_, low, high) = median_interval(ratios), median_interval(same)
    passes = least <= high and low <= most
    print(f"window with ÷ without counting and profiling: {found:.4f}, {least:.4f} to {most:.4f}; equal windows "
          f"{low:.4f} to {high:.4f} (95 %), {rounds} rounds of {iters} iterations  {'pass' if passes else 'FAIL'}")
    return passes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20000)
    parser.add_argument("--rounds", type=int, default=30, help="of windows with and without counting and profiling")
    parser.add_argument("--empty", action="store_true", help="iterations that do nothing")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a verdict is FAIL")
    options = parser.parse_args()
    name, make_step, batch = "empty", nothing, ((), ())
    if not options.empty:
        with contextlib.suppress(ImportError):
            name, make_step, batch = "small network", small_network, small_batch()
    seconds, measurement = measure(make_step, batch, options.pairs)
    if make_step is small_network and measurement["details"].get("repeated"):
        sys.exit(f"error: the window did not observe all settings, but repeats {measurement['details']['repeated']}")
    bare, own = (statistics.median(side) * 1e6 for side in zip(*seconds))
    low, added, high = (number * 1e6 for number in statistics.quantiles((own - bare for bare, own in seconds), n=4))
    passes = added < MOST_MICROSECONDS
    headings = f"{'bare µs':>10}{'ours µs':>10}{'added µs':>10}{'quartiles':>18}{'ratio':>8}"
    print(f"{'iteration':<16}{headings}  verdict")
    numbers = f"{bare:>10.2f}{own:>10.2f}{added:>10.2f}{f'{low:.2f} to {high:.2f}':>18}{own / bare:>8.3f}"
    print(f"{name:<16}{numbers}  {'pass' if passes else 'FAIL'}")
    print(f"added per iteration, median of {options.pairs} pairs: must be less than {MOST_MICROSECONDS:g} µs")
    if make_step is small_network:
        passes &= compare_windows(options.rounds, 500)
    if options.check and not passes:
        sys.exit(1)


if __name__ == "__main__":
    main()
