"""Runs the worker and PyTorch with torchvision in turn, at the same settings, and prints the ratios of their speeds and
of their start-up times.

    python bench/pytorch.py [target/release/worker] [--networks resnet18,resnet50] [--precisions fp32,bf16] [--compile] …

Each round runs all sides one after the other, and begins with another side than the previous round, so that a drift of
the machine affects all of them. It gives one ratio for each of PyTorch's modes, and the median over the rounds is the
result. All sides train with channels-last on the CPU: forward, cross-entropy, backward, SGD with momentum, on one
random batch. Each does the same warm-up in a separate process, and is timed over one whole window.

PyTorch runs eagerly, and with `--compile` also with torch.compile. The worker is compared with the mode with the lower
median ratio; choosing the faster mode in each round would select by noise. Start-up is the time from the start of the
process to the beginning of its first iteration: loading libraries, initialising weights. It is compared with that of
eager PyTorch, which compiles nothing.

The machine must be otherwise idle: OpenMP's threads spin while they wait, and any other process slows all sides many
times. `just bench-pytorch` installs PyTorch into `.venv-pytorch`.
"""

import argparse
import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

# Iterations before the window and inside it, on all sides; fewer where each of them takes seconds.
ITERATIONS = {
    "resnet18": (1, 5), "resnet50": (1, 3), "vgg16": (1, 2), "mobilenet_v2": (1, 6), "vit_b_16": (1, 2),
    "densenet121": (1, 3), "efficientnet_b0": (1, 4), "convnext_tiny": (1, 3),
}
OTHERS = (2, 5)
# The targets: as fast as the faster mode of PyTorch, and ready to train in a fifth of the time.
LEAST_RATIO, MOST_STARTUP = 1.0, 0.2
WORKER = "target/release/worker"
# The variable in which the parent passes the wall clock at the child's start, in seconds.
SPAWNED = "BENCH_SPAWNED_AT"

LEARNING_RATE, MOMENTUM, WEIGHT_DECAY = 0.01, 0.9, 1e-4


def train_pytorch(network, precision, compiles, options):
    """Images per second of PyTorch's loop; printed as JSON by the child process."""
    import torch
    import torchvision

    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    size = options.input_size
    # Only vision transformers are made for one size of image.
    made_for = {"image_size": size} if network.startswith("vit") else {}
    model = getattr(torchvision.models, network)(**made_for).to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(
        model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY, fused=options.fused or None
    )
    criterion = torch.nn.CrossEntropyLoss()
    images = torch.randn(options.batch, 3, size, size).to(memory_format=torch.channels_last)
    labels = torch.randint(1000, (options.batch,))
    forward = torch.compile(model) if compiles else model
    autocast = contextlib.nullcontext if precision == "fp32" else lambda: torch.autocast("cpu", torch.bfloat16)

    def iteration():
        optimizer.zero_grad(set_to_none=True)
        with autocast():
            loss = criterion(forward(images), labels)
        loss.backward()
        optimizer.step()

    startup = time.time() - float(os.environ[SPAWNED])
    for _ in range(options.warmup):
        iteration()
    start = time.perf_counter()
    for _ in range(options.iters):
        iteration()
    elapsed = time.perf_counter() - start
    parameters = sum(p.numel() for p in model.parameters())
    result = {"rate": options.batch * options.iters / elapsed, "startup": startup}
    print(json.dumps(result | {"parameters": parameters, "threads": torch.get_num_threads()}))


class Failed(Exception):
    """A side failed. The message is a sentence."""


def output_of(side, words, **options):
    """The standard output of a process. Its standard error is shown, directly or in the exception."""
    try:
        return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, **options).stdout
    except subprocess.CalledProcessError as error:
        said = (error.stderr or "").strip()
        raise Failed(f"{side} ended with exit code {error.returncode}{': ' if said else ''}{said}") from error


def iterations(network, options):
    """Iterations of warm-up and window: those of the command line, else those for this network."""
    warmup, iters = ITERATIONS.get(network, OTHERS)
    return (warmup if options.warmup is None else options.warmup), (iters if options.iters is None else options.iters)


def run_pytorch(network, precision, compiles, options):
    warmup, iters = iterations(network, options)
    words = [sys.executable, __file__, "--child", network, "--warmup", str(warmup), "--iters", str(iters)]
    for name in ("batch", "threads", "input_size"):
        words += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    words += ["--precisions", precision]
    words += ["--fused"] if options.fused else []
    words += ["--compile"] if compiles else []
    environment = os.environ | {SPAWNED: repr(time.time())}
    side = "PyTorch, compiled," if compiles else "PyTorch"
    return json.loads(output_of(side, words, env=environment).splitlines()[-1])


def run_worker(network, precision, options):
    with tempfile.TemporaryDirectory() as directory:
        out = os.path.join(directory, "measurement.json")
        words = [options.worker, "--arch", network, "--backend", "cpu", "--channels-last", "--synthetic", "--out", out]
        warmup, iters = iterations(network, options)
        words += ["--batch-size", str(options.batch), "--warmup-iters", str(warmup), "--precision", precision]
        words += ["--iters", str(iters), "--threads", str(options.threads)]
        words += ["--input-size", str(options.input_size)]
        output_of("the worker", words, stderr=subprocess.PIPE)
        with open(out) as file:
            measurement = json.load(file)
    details = measurement["details"]
    result = {"rate": measurement["samples"] / measurement["elapsed_s"], "startup": details["first_step_s"]}
    return result | {"parameters": details["parameters"], "threads": measurement["effective"]["threads"]}


def compare(network, precision, options):
    """The results of all sides by round: the worker's first, then those of PyTorch's modes."""
    modes = [lambda: run_worker(network, precision, options), lambda: run_pytorch(network, precision, False, options)]
    modes += [lambda: run_pytorch(network, precision, True, options)] if options.compile else []
    rounds = []
    for number in range(1, options.pairs + 1):
        sides = [None] * len(modes)
        for turn in range(len(modes)):
            side = (number - 1 + turn) % len(modes)
            sides[side] = modes[side]()
        for fact in ("parameters", "threads"):
            if any(side[fact] != sides[0][fact] for side in sides):
                sys.exit(f"{network}: {fact} differ: {[side[fact] for side in sides]}")
        rounds.append(sides)
        rates, startups = (" / ".join(f"{side[quantity]:.2f}" for side in sides) for quantity in ("rate", "startup"))
        said = f"{network} {precision} round {number}: images/s {rates}, start-up {startups} s"
        print(said, file=sys.stderr, flush=True)
    return rounds


def speeds(rounds):
    """The worker's speed ÷ that of PyTorch in each round, for the mode with the lower median."""
    modes = zip(*([sides[0]["rate"] / side["rate"] for side in sides[1:]] for sides in rounds))
    return min(modes, key=statistics.median)


def startups(rounds):
    """The worker's start-up ÷ that of eager PyTorch in each round."""
    return [sides[0]["startup"] / sides[1]["startup"] for sides in rounds]


def row(name, rounds, quantity, ratios_of, is_met):
    """One line of the table, and whether the median ratio meets the target, as decided by `is_met`."""
    ratios = ratios_of(rounds)
    median = statistics.median(ratios)
    verdict = "pass" if is_met(median) else "FAIL"
    columns = "".join(f"{statistics.median(side[quantity] for side in column):>10.2f}" for column in zip(*rounds))
    columns += f"{median:>8.3f}{min(ratios):>8.3f}{max(ratios):>8.3f}{len(ratios):>8}  {verdict}"
    print(f"{name:<22}{columns}", flush=True)
    return is_met(median)


def table(title, results, quantity, ratios_of, is_met):
    sides = len(next(iter(results.values()))[0])
    headings = "".join(f"{heading:>10}" for heading in ("worker", "eager", "compiled")[:sides])
    print(f"\n{title}")
    print(f"{'network':<22}{headings}{'ratio':>8}{'least':>8}{'most':>8}{'rounds':>8}")
    return [row(name, rounds, quantity, ratios_of, is_met) for name, rounds in results.items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("worker", nargs="?", default=WORKER, help=f"the worker's binary [default: {WORKER}]")
    parser.add_argument("--networks", default=",".join(ITERATIONS), help="separated by commas")
    parser.add_argument("--precisions", default="fp32", help="fp32, bf16 or both, separated by commas")
    parser.add_argument("--compile", action="store_true", help="PyTorch with torch.compile, too")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--warmup", type=int, help="iterations before the window; by default few, by the network")
    parser.add_argument("--iters", type=int, help="iterations inside the window; by default few, by the network")
    parser.add_argument("--pairs", type=int, default=5, help="rounds")
    parser.add_argument("--input-size", type=int, default=224)
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parser.add_argument("--threads", type=int, default=usable)
    parser.add_argument("--fused", action="store_true", help="PyTorch with its fused optimizer instead of its default")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a verdict is FAIL")
    parser.add_argument("--child", metavar="NETWORK", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return train_pytorch(options.child, options.precisions, options.compile, options)
    if not os.path.exists(options.worker):
        parser.error(f"there is no worker at {options.worker}: build it with `just build`, or name its path")
    precisions = options.precisions.split(",")
    if not set(precisions) <= {"fp32", "bf16"}:
        parser.error(f"--precisions {options.precisions}: expected fp32, bf16 or both")
    results, failed = {}, []
    for precision, network in itertools.product(precisions, options.networks.split(",")):
        try:
            results[f"{network} {precision}"] = compare(network, precision, options)
        except Failed as reason:
            failed.append(f"{network} {precision} has no ratio: {reason}")
            print(f"error: {failed[-1]}", file=sys.stderr, flush=True)
    settings = f"batch {options.batch}, channels-last, {options.threads} threads"
    rates = f"images/s: {settings}; the median ratio to PyTorch's faster mode must be {LEAST_RATIO:.2f} or more"
    starts = f"seconds from start to first iteration: {settings}; the median ratio must be {MOST_STARTUP:.2f} or less"
    verdicts = []
    if results:
        verdicts += table(rates, results, "rate", speeds, lambda ratio: ratio >= LEAST_RATIO)
        verdicts += table(starts, results, "startup", startups, lambda ratio: ratio <= MOST_STARTUP)
    if failed:
        sys.exit("\n" + "\n".join(f"error: {reason}" for reason in failed))
    if options.check and not all(verdicts):
        sys.exit(1)


if __name__ == "__main__":
    main()
