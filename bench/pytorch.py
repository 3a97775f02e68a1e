"""Runs the worker and PyTorch with torchvision in turn, at the same settings, and prints the ratio of their speeds.

    python bench/pytorch.py target/release/worker [--networks resnet18,resnet50] [--batch 16] [--pairs 5] …

Pairs are run one after the other (A B A B …), so that a drift of the machine falls on both; each pair gives one ratio,
and the median over the pairs is what counts. Both sides train with channels-last fp32 on the CPU: forward,
cross-entropy, backward, SGD with momentum, on one random batch; both do the same warm-up in a process of their own and
are timed over one whole window. The machine has to be otherwise idle: OpenMP's threads spin while they wait, and any other
process slows both sides many times. `just bench-pytorch` installs what this needs into `.venv-pytorch`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

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

    for _ in range(warmup):
        iteration()
    start = time.perf_counter()
    for _ in range(iters):
        iteration()
    elapsed = time.perf_counter() - start
    parameters = sum(p.numel() for p in model.parameters())
    print(json.dumps({"rate": batch * iters / elapsed, "parameters": parameters, "threads": torch.get_num_threads()}))


def run_pytorch(network, options):
    words = [sys.executable, __file__, "--child", network]
    for name in ("batch", "warmup", "iters", "threads", "input_size"):
        words += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    words += ["--fused"] if options.fused else []
    output = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    result = json.loads(output.splitlines()[-1])
    return result["rate"], result["parameters"], result["threads"]


def run_worker(network, options):
    with tempfile.TemporaryDirectory() as directory:
        out = os.path.join(directory, "measurement.json")
        words = [options.worker, "--arch", network, "--backend", "cpu", "--channels-last", "--synthetic", "--out", out]
        words += ["--batch-size", str(options.batch), "--warmup-iters", str(options.warmup)]
        words += ["--iters", str(options.iters), "--threads", str(options.threads)]
        words += ["--input-size", str(options.input_size)]
        subprocess.run(words, check=True, capture_output=True)
        with open(out) as file:
            measurement = json.load(file)
    rate = measurement["samples"] / measurement["elapsed_s"]
    return rate, measurement["details"]["parameters"], measurement["effective"]["threads"]


def compare(network, options):
    worker, pytorch = [], []
    for pair in range(options.pairs):
        ours, theirs = run_worker(network, options), run_pytorch(network, options)
        if ours[1:] != theirs[1:]:
            sys.exit(f"{network}: parameters and threads differ: worker {ours[1:]}, PyTorch {theirs[1:]}")
        worker.append(ours[0])
        pytorch.append(theirs[0])
        ratio = ours[0] / theirs[0]
        print(f"{network} pair {pair + 1}: {ours[0]:.2f} / {theirs[0]:.2f} = {ratio:.3f}", file=sys.stderr, flush=True)
    return worker, pytorch


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("worker", nargs="?", help="the worker's binary")
    parser.add_argument("--networks", default="resnet18,resnet50,mobilenet_v2", help="separated by commas")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--iters", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--input-size", type=int, default=224)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())
    parser.add_argument("--fused", action="store_true", help="PyTorch with its fused optimizer instead of its default")
    parser.add_argument("--least", type=float, help="exit with 1 if a median ratio is below this")
    parser.add_argument("--child", metavar="NETWORK", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return train_pytorch(
            options.child, options.batch, options.warmup, options.iters, options.threads, options.input_size,
            options.fused,
        )
    if options.worker is None:
        parser.error("the path of the worker is missing: build it with `just build`")
    print(f"batch {options.batch}, fp32, channels-last, {options.threads} threads, {options.iters} iterations, images/s")
    print(f"{'network':<14}{'worker':>10}{'PyTorch':>10}{'ratio':>8}{'least':>8}{'most':>8}{'pairs':>7}")
    medians = []
    for network in options.networks.split(","):
        worker, pytorch = compare(network, options)
        ratios = [ours / theirs for ours, theirs in zip(worker, pytorch)]
        medians.append(statistics.median(ratios))
        columns = f"{statistics.median(worker):>10.2f}{statistics.median(pytorch):>10.2f}"
        columns += f"{medians[-1]:>8.3f}{min(ratios):>8.3f}{max(ratios):>8.3f}{len(ratios):>7}"
        print(f"{network:<14}{columns}", flush=True)
    if options.least is not None and min(medians) < options.least:
        sys.exit(f"a median ratio is below {options.least}")


if __name__ == "__main__":
    main()
