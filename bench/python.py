"""Measures what the Python package adds to an iteration, beside a bare loop that does the same.

    python bench/python.py [--pairs 151] [--check]

Both loops train the same small network with PyTorch, in turn, in one process. Without PyTorch, or with `--empty`, they
do nothing, which shows the whole of what is added. Pairs count: each gives the microseconds that an iteration of ours
takes longer, and the ratio of both; the medians are what counts. They are many and short, because a processor's speed
drifts by more than what is to be seen. `just bench-python` has PyTorch.
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


def small_network():
    """A training step of some hundreds of microseconds, with what it is called with."""
    import torch

    torch.set_num_threads(1)
    network = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    batch = torch.randn(32, 64), torch.randint(10, (32,))

    def step(images, labels):
        loss = torch.nn.functional.cross_entropy(network(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step, batch


def bare(step, batch, iters):
    """Microseconds of an iteration of the bare loop, which fetches its data as ours does."""
    data = itertools.repeat(batch)
    began = time.perf_counter()
    for _ in range(iters):
        step(*next(data))
    return (time.perf_counter() - began) / iters * 1e6


def ours(step, batch, iters):
    """Microseconds of an iteration within a window."""
    with contextlib.redirect_stdout(io.StringIO()):
        with orchestrate_worker.window(warmup=2, iters=iters, batch=32, precision="fp32") as window:
            for items in window.over(itertools.repeat(batch)):
                window.loss(step(*items))
    return window.measurement["elapsed_s"] / iters * 1e6


def one_pair(step, batch, iters, ours_first):
    """Microseconds of both loops. They take turns in being first, because the second finds the processor warmer."""
    if ours_first:
        own = ours(step, batch, iters)
        return bare(step, batch, iters), own
    return bare(step, batch, iters), ours(step, batch, iters)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=151)
    parser.add_argument("--iters", type=int, default=300)
    parser.add_argument("--empty", action="store_true", help="iterations that do nothing")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a verdict is FAIL")
    options = parser.parse_args()
    kinds = {"empty": ((lambda *_: None), ((), ()))}
    if not options.empty:
        with contextlib.suppress(ImportError):
            kinds["small network"] = small_network()
    headings = f"{'bare µs':>10}{'ours µs':>10}{'added µs':>10}{'quartiles':>18}{'ratio':>8}"
    print(f"{'iteration':<16}{headings}  verdict")
    holds = []
    for name, (step, batch) in kinds.items():
        bare(step, batch, options.iters), ours(step, batch, options.iters)
        pairs = [one_pair(step, batch, options.iters, number % 2 == 1) for number in range(options.pairs)]
        added = [own - other for other, own in pairs]
        low, middle, high = statistics.quantiles(added, n=4)
        ratio = statistics.median(own / other for other, own in pairs)
        columns = [statistics.median(other for other, _ in pairs), statistics.median(own for _, own in pairs), middle]
        holds.append(middle < MOST_MICROSECONDS)
        numbers = "".join(f"{number:>10.2f}" for number in columns)
        numbers += f"{f'{low:.2f} to {high:.2f}':>18}{ratio:>8.3f}"
        print(f"{name:<16}{numbers}  {'pass' if holds[-1] else 'FAIL'}")
    print(f"added per iteration, median of {options.pairs} pairs: to be less than {MOST_MICROSECONDS:g} µs")
    if options.check and not all(holds):
        sys.exit(1)


if __name__ == "__main__":
    main()
