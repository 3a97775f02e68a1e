"""Measures what the Python package adds to an iteration, beside a bare loop that does the same.

    python bench/python.py [--pairs 20000] [--check]

Two equal networks are trained with PyTorch in one process, an iteration of each in turn: one within a window, the other
as in a bare loop. Without PyTorch, or with `--empty`, iterations do nothing, which shows the whole of what is added.
Pairs count: each gives the microseconds that an iteration of ours takes longer than the bare one right before it. A
processor's speed drifts by more than what is to be seen, but not within a pair. `just bench-python` has PyTorch.
"""

import argparse
import contextlib
import io
import itertools
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "python", "src"))

import orchestrate_worker  # noqa: E402

MOST_MICROSECONDS = 20.0
WARMUP = 2


def small_network():
    """A training step of some hundreds of microseconds, with a network of its own."""
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
    """Seconds of a bare iteration and of one within a window, for each pair; and what the window measured."""
    data, clock, seconds = itertools.repeat(batch), time.perf_counter, []
    with contextlib.redirect_stdout(io.StringIO()):
        with orchestrate_worker.window(warmup=WARMUP, iters=pairs + 1, batch=32, precision="fp32") as window:
            step, items = make_step(), window.over(itertools.repeat(batch))
            for _ in range(WARMUP + 1):
                window.loss(step(*next(items)))
            # The window is open, and has found its network. Nothing watches this one.
            bare_step = make_step()
            for _ in range(WARMUP):
                bare_step(*next(data))
            for _ in range(pairs):
                began = clock()
                bare_step(*next(data))
                between = clock()
                # To ask for the next items ends the iteration before: in all, that is one iteration.
                window.loss(step(*next(items)))
                seconds.append((between - began, clock() - between))
            next(items, None)
    return seconds, window.measurement


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20000)
    parser.add_argument("--empty", action="store_true", help="iterations that do nothing")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a verdict is FAIL")
    options = parser.parse_args()
    name, make_step, batch = "empty", nothing, ((), ())
    if not options.empty:
        with contextlib.suppress(ImportError):
            name, make_step, batch = "small network", small_network, small_batch()
    seconds, measurement = measure(make_step, batch, options.pairs)
    if make_step is small_network and measurement["details"].get("repeated"):
        sys.exit(f"error: the window did not see all that it has to see, but repeats {measurement['details']['repeated']}")
    bare, own = (statistics.median(side) * 1e6 for side in zip(*seconds))
    low, added, high = (number * 1e6 for number in statistics.quantiles((own - bare for bare, own in seconds), n=4))
    holds = added < MOST_MICROSECONDS
    headings = f"{'bare µs':>10}{'ours µs':>10}{'added µs':>10}{'quartiles':>18}{'ratio':>8}"
    print(f"{'iteration':<16}{headings}  verdict")
    numbers = f"{bare:>10.2f}{own:>10.2f}{added:>10.2f}{f'{low:.2f} to {high:.2f}':>18}{own / bare:>8.3f}"
    print(f"{name:<16}{numbers}  {'pass' if holds else 'FAIL'}")
    print(f"added per iteration, median of {options.pairs} pairs: to be less than {MOST_MICROSECONDS:g} µs")
    if options.check and not holds:
        sys.exit(1)


if __name__ == "__main__":
    main()
