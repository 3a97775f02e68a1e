"""Runs the worker and PyTorch with torchvision in turn, at the same settings, and prints the ratio of their speeds and
that of the times that both need until they train.

    python bench/pytorch.py target/release/worker [--networks resnet18,resnet50] [--batch 16] [--pairs 5] …

Pairs are run one after the other (A B A B …), so that a drift of the machine falls on both; each pair gives one ratio,
and the median over the pairs is what counts. Both sides train with channels-last fp32 on the CPU: forward,
cross-entropy, backward, SGD with momentum, on one random batch; both do the same warm-up in a process of their own and
are timed over one whole window. Start-up is the time from the process's start to the beginning of its first iteration:
the loading of libraries, the drawing of weights. The machine has to be otherwise idle: OpenMP's threads spin while they
wait, and any other process slows both sides many times. `just bench-pytorch` installs what this needs into
`.venv-pytorch`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

# Iterations before the window and inside it, on both sides; fewer where each of them takes seconds.
ITERATIONS = {"resnet18": (1, 5), "resnet50": (1, 3), "vgg16": (1, 2), "mobilenet_v2": (1, 6), "vit_b_16": (1, 2)}
OTHERS = (2, 5)
# A worker as fast as PyTorch that is ready to train in a fifth of the time.
LEAST_RATIO, MOST_STARTUP = 1.0, 0.2
# The wall clock at the child's start, in seconds, handed to it by its parent.
SPAWNED = "BENCH_SPAWNED_AT"

LEARNING_RATE, MOMENTUM, WEIGHT_DECAY = 0.01, 0.9, 1e-4


def train_pytorch(network, batch, warmup, iters, threads, input_size, fused):
    """Images a second of PyTorch's eager loop; printed as JSON by the child process."""
    import torch
    import torchvision

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = getattr(torchvision.models, network)().to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(
        model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY, fused=fused or None
    )
    criterion = torch.nn.CrossEntropyLoss()
    images = torch.randn(batch, 3, input_size, input_size).to(memory_format=torch.channels_last)
    labels = torch.randint(1000, (batch,))

    def iteration():
        optimizer.zero_grad(set_to_none=True)
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()

    startup = time.time() - float(os.environ[SPAWNED])
    for _ in range(warmup):
        iteration()
    start = time.perf_counter()
    for _ in range(iters):
        iteration()
    elapsed = time.perf_counter() - start
    parameters = sum(p.numel() for p in model.parameters())
    result = {"rate": batch * iters / elapsed, "startup": startup}
    print(json.dumps(result | {"parameters": parameters, "threads": torch.get_num_threads()}))


def iterations(network, options):
    """Warm-up and window of this network: what the command line says, else a fit number."""
    warmup, iters = ITERATIONS.get(network, OTHERS)
    return (warmup if options.warmup is None else options.warmup), (iters if options.iters is None else options.iters)


def run_pytorch(network, options):
    warmup, iters = iterations(network, options)
    words = [sys.executable, __file__, "--child", network, "--warmup", str(warmup), "--iters", str(iters)]
    for name in ("batch", "threads", "input_size"):
        words += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    words += ["--fused"] if options.fused else []
    environment = os.environ | {SPAWNED: repr(time.time())}
    output = subprocess.run(words, check=True, capture_output=True, text=True, env=environment).stdout
    return json.loads(output.splitlines()[-1])


def run_worker(network, options):
    with tempfile.TemporaryDirectory() as directory:
        out = os.path.join(directory, "measurement.json")
        words = [options.worker, "--arch", network, "--backend", "cpu", "--channels-last", "--synthetic", "--out", out]
        warmup, iters = iterations(network, options)
        words += ["--batch-size", str(options.batch), "--warmup-iters", str(warmup)]
        words += ["--iters", str(iters), "--threads", str(options.threads)]
        words += ["--input-size", str(options.input_size)]
        subprocess.run(words, check=True, capture_output=True)
        with open(out) as file:
            measurement = json.load(file)
    details = measurement["details"]
    result = {"rate": measurement["samples"] / measurement["elapsed_s"], "startup": details["first_step_s"]}
    return result | {"parameters": details["parameters"], "threads": measurement["effective"]["threads"]}


def compare(network, options):
    """What both sides measured, a list of pairs (worker, PyTorch)."""
    pairs = []
    for pair in range(options.pairs):
        ours, theirs = run_worker(network, options), run_pytorch(network, options)
        for fact in ("parameters", "threads"):
            if ours[fact] != theirs[fact]:
                sys.exit(f"{network}: {fact} differ: worker {ours[fact]}, PyTorch {theirs[fact]}")
        pairs.append((ours, theirs))
        rates = f"{ours['rate']:.2f} / {theirs['rate']:.2f} = {ours['rate'] / theirs['rate']:.3f}"
        startups = f"{ours['startup']:.2f} / {theirs['startup']:.2f} s = {ours['startup'] / theirs['startup']:.3f}"
        print(f"{network} pair {pair + 1}: images/s {rates}, start-up {startups}", file=sys.stderr, flush=True)
    return pairs


def row(network, pairs, quantity, holds):
    """One line of the table and whether the median ratio does what `holds` asks."""
    ours, theirs = ([side[quantity] for side in sides] for sides in zip(*pairs))
    ratios = [one / other for one, other in zip(ours, theirs)]
    median = statistics.median(ratios)
    verdict = "pass" if holds(median) else "FAIL"
    columns = f"{statistics.median(ours):>10.2f}{statistics.median(theirs):>10.2f}"
    columns += f"{median:>8.3f}{min(ratios):>8.3f}{max(ratios):>8.3f}{len(ratios):>7}  {verdict}"
    print(f"{network:<14}{columns}", flush=True)
    return holds(median)


def table(title, results, quantity, holds):
    print(f"\n{title}")
    print(f"{'network':<14}{'worker':>10}{'PyTorch':>10}{'ratio':>8}{'least':>8}{'most':>8}{'pairs':>7}")
    return [row(network, pairs, quantity, holds) for network, pairs in results.items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("worker", nargs="?", help="the worker's binary")
    parser.add_argument("--networks", default=",".join(ITERATIONS), help="separated by commas")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--warmup", type=int, help="iterations before the window; by default few, by the network")
    parser.add_argument("--iters", type=int, help="iterations inside the window; by default few, by the network")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--input-size", type=int, default=224)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())
    parser.add_argument("--fused", action="store_true", help="PyTorch with its fused optimizer instead of its default")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a verdict is FAIL")
    parser.add_argument("--child", metavar="NETWORK", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return train_pytorch(
            options.child, options.batch, options.warmup, options.iters, options.threads, options.input_size,
            options.fused,
        )
    if options.worker is None:
        parser.error("the path of the worker is missing: build it with `just build`")
    results = {network: compare(network, options) for network in options.networks.split(",")}
    settings = f"batch {options.batch}, fp32, channels-last, {options.threads} threads"
    rates = f"images/s: {settings}; the median ratio is to be {LEAST_RATIO:.2f} or more"
    startups = f"seconds from start to first iteration: {settings}; the median ratio is to be {MOST_STARTUP:.2f} or less"
    verdicts = table(rates, results, "rate", lambda ratio: ratio >= LEAST_RATIO)
    verdicts += table(startups, results, "startup", lambda ratio: ratio <= MOST_STARTUP)
    if options.check and not all(verdicts):
        sys.exit(1)


if __name__ == "__main__":
    main()
