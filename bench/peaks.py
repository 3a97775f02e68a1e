"""Runs `worker peaks` and a plain sweep of PyTorch's `torch.mm` in turn, and prints the best of each and their ratio.

    python bench/peaks.py [target/release/worker] [--pairs 3] [--seconds 16] [--threads N] [--least 0.95]

The sweep multiplies square matrices of random numbers, in the worker's sizes and others between them. Each product is
timed separately, and the fastest one counts. A ceiling below it would be wrong. Pairs run one after the other
(A B A B …), so that a drift of the machine affects both sides. bf16 is compared if the worker found an instruction for
it. The machine must be otherwise idle. `just bench-peaks` installs PyTorch into `.venv-pytorch`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

SIZES = (256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 8192, 12288, 16384)
WORKER = "target/release/worker"
TYPES = {"fp32": "float32", "bf16": "bfloat16"}


def sweep(precision, threads, seconds):
    """FLOP/s of the fastest product and its size; printed as JSON by the child process."""
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    dtype = getattr(torch, TYPES[precision])
    best, best_size = 0.0, None
    began = time.perf_counter()
    for index, size in enumerate(SIZES):
        flops = 2.0 * size**3
        share = (seconds - (time.perf_counter() - began)) / (len(SIZES) - index)
        # At least three products; then only products that fit into the remaining time.
        if best and 3 * flops / best > max(seconds - (time.perf_counter() - began), 0):
            break
        left, right = torch.randn(size, size).to(dtype), torch.randn(size, size).to(dtype)
        out = torch.empty(size, size, dtype=dtype)
        torch.mm(left, right, out=out)
        spent, n = 0.0, 0
        while n < 2 or spent < share:
            start = time.perf_counter()
            torch.mm(left, right, out=out)
            elapsed = time.perf_counter() - start
            spent, n = spent + elapsed, n + 1
            if flops / elapsed > best:
                best, best_size = flops / elapsed, size
    print(json.dumps({"best": best, "size": best_size, "threads": torch.get_num_threads()}))


def run_sweep(precision, options):
    words = [sys.executable, __file__, "--child", precision]
    words += ["--threads", str(options.threads), "--seconds", str(options.seconds)]
    output = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    result = json.loads(output.splitlines()[-1])
    if result["threads"] != options.threads:
        sys.exit(f"PyTorch computed with {result['threads']} threads instead of {options.threads}")
    return result["best"], f"{result['size']}"


def run_worker(options):
    """The best product of each precision in hardware: FLOP/s, and its size and layout."""
    words = [options.worker, "peaks", "--device", "cpu", "--threads", str(options.threads)]
    words += ["--quick"] if options.quick else []
    start = time.perf_counter()
    output = subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    elapsed = time.perf_counter() - start
    peaks = json.loads(output)
    if peaks["threads"] != options.threads:
        sys.exit(f"the worker computed with {peaks['threads']} threads instead of {options.threads}")
    best = {}
    for sample in peaks["gemm"]:
        found = max(sample["flops_per_s"]), f"{sample['size']} {sample['layout']}"
        if not sample.get("emulated") and found > best.get(sample["precision"], (0, "")):
            best[sample["precision"]] = found
    return best, elapsed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("worker", nargs="?", default=WORKER, help=f"the worker's binary [default: {WORKER}]")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=16, help="of PyTorch's sweep of each precision")
    parser.add_argument("--quick", action="store_true", help="the worker's quick measurement")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())
    parser.add_argument("--least", type=float, help="exit with 1 if a median ratio is below this")
    parser.add_argument("--child", metavar="PRECISION", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return sweep(options.child, options.threads, options.seconds)
    if not os.path.exists(options.worker):
        parser.error(f"there is no worker at {options.worker}: build it with `just build`, or name its path")
    rows = {}
    for pair in range(options.pairs):
        ours, elapsed = run_worker(options)
        print(f"pair {pair + 1}: the worker took {elapsed:.1f} s", file=sys.stderr, flush=True)
        for precision in (precision for precision in TYPES if precision in ours):
            (rate, where), (theirs, size) = ours[precision], run_sweep(precision, options)
            rows.setdefault(precision, []).append((rate, theirs))
            line = f"{rate / 1e9:.1f} ({where}) / {theirs / 1e9:.1f} ({size}) = {rate / theirs:.3f}"
            print(f"{precision} pair {pair + 1}: {line}", file=sys.stderr, flush=True)
    print(f"best product on {options.threads} threads, GFLOP/s")
    print(f"{'precision':<10}{'worker':>10}{'PyTorch':>10}{'ratio':>8}{'least':>8}{'most':>8}{'pairs':>7}")
    medians = []
    for precision, pairs in rows.items():
        ratios = [ours / theirs for ours, theirs in pairs]
        medians.append(statistics.median(ratios))
        worker, pytorch = (max(pair[side] for pair in pairs) / 1e9 for side in (0, 1))
        columns = f"{worker:>10.1f}{pytorch:>10.1f}{medians[-1]:>8.3f}{min(ratios):>8.3f}{max(ratios):>8.3f}{len(pairs):>7}"
        print(f"{precision:<10}{columns}", flush=True)
    if options.least is not None and min(medians) < options.least:
        sys.exit(f"a median ratio is below {options.least}")


if __name__ == "__main__":
    main()
