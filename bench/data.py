"""Runs the worker's data path and torchvision's DataLoader in turn, on the same JPEGs, and prints their speed ratio.

    python bench/data.py target/release/worker data/bench [--images 2000] [--workers 2] [--pairs 5] …

Pairs run one after the other (A B A B …), so that a drift of the machine affects both sides. Each pair gives one ratio,
and the median over the pairs is the result. Both sides decode, crop, resize and normalise into batches of single
precision, in separate processes. They use as many workers (threads in the worker, processes in PyTorch) as there are
usable processors. They are timed over one window, which begins when the batches prepared during the warm-up are used
up. `augment` is `RandomResizedCrop` and flip, `centre` is `Resize` and `CenterCrop`. `just bench-data` prepares this.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
MODES = ("augment", "centre")


def load_torchvision(folder, mode, images, batch, workers, input_size, prefetch):
    """Loads images as a training script would; prints images, seconds and workers as JSON."""
    import torch
    from torchvision import datasets, transforms

    torch.manual_seed(0)
    # As in DataLoader's processes. Without these, the threads of this process would only spin.
    torch.set_num_threads(1)
    if mode == "augment":
        crop = [transforms.RandomResizedCrop(input_size), transforms.RandomHorizontalFlip()]
    else:
        crop = [transforms.Resize(round(input_size * 256 / 224)), transforms.CenterCrop(input_size)]
    steps = [*crop, transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
    dataset = datasets.ImageFolder(os.path.join(folder, "train"), transforms.Compose(steps))
    batches = -(-images // batch)
    warmup = 2 * max(1, workers * prefetch)
    # One long epoch, so that the loader's workers are not restarted and its queue is not emptied within the window.
    sampler = torch.utils.data.RandomSampler(dataset, replacement=True, num_samples=(warmup + batches) * batch)
    ahead = {"prefetch_factor": prefetch} if workers else {}
    loader = torch.utils.data.DataLoader(
        dataset, batch_size=batch, sampler=sampler, num_workers=workers, drop_last=True, **ahead
    )
    iterator = iter(loader)
    for _ in range(warmup):
        next(iterator)
    start = time.perf_counter()
    loaded = sum(len(labels) for _, labels in (next(iterator) for _ in range(batches)))
    elapsed = time.perf_counter() - start
    print(json.dumps({"images": loaded, "elapsed_s": elapsed, "workers": workers}))


def rate_of(words):
    """Images per second of the command, and the facts that must be equal on both sides."""
    output = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
    result = json.loads(output.splitlines()[-1])
    if result.get("unreadable_images"):
        sys.exit(f"the worker left out {result['unreadable_images']} images")
    return result["images"] / result["elapsed_s"], (result["images"], result["workers"])


def run_worker(mode, options):
    words = [options.worker, "data", "--data", options.data, *shared_flags(options)]
    return rate_of(words + (["--no-augment"] if mode == "centre" else []))


def run_torchvision(mode, options):
    return rate_of([sys.executable, __file__, "--child", mode, options.worker, options.data, *shared_flags(options)])


def shared_flags(options):
    flags = []
    for name in ("images", "batch_size", "workers", "input_size", "prefetch_factor"):
        flags += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    return flags


def compare(mode, options):
    worker, torchvision = [], []
    for pair in range(options.pairs):
        (ours, our_work), (theirs, their_work) = run_worker(mode, options), run_torchvision(mode, options)
        if our_work != their_work:
            sys.exit(f"{mode}: images and workers differ: worker {our_work}, torchvision {their_work}")
        worker.append(ours)
        torchvision.append(theirs)
        print(f"{mode} pair {pair + 1}: {ours:.1f} / {theirs:.1f} = {ours / theirs:.3f}", file=sys.stderr, flush=True)
    return worker, torchvision


def main():
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("worker", help="the worker's binary")
    parser.add_argument("data", help="an ImageFolder")
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--workers", type=int, default=processors)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--input-size", type=int, default=224)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--least", type=float, help="exit with 1 if a median ratio is below this")
    parser.add_argument("--child", metavar="MODE", choices=MODES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return load_torchvision(
            options.data, options.child, options.images, options.batch_size, options.workers, options.input_size,
            options.prefetch_factor,
        )
    # Without workers, the process itself does the work.
    cores = min(max(options.workers, 1), processors)
    print(f"{options.images} images to {options.input_size} pixels, {options.workers} workers, images/s and core")
    print(f"{'transform':<14}{'worker':>10}{'torchvision':>13}{'ratio':>8}{'least':>8}{'most':>8}{'pairs':>7}")
    medians = []
    for mode in MODES:
        worker, torchvision = compare(mode, options)
        ratios = [ours / theirs for ours, theirs in zip(worker, torchvision)]
        medians.append(statistics.median(ratios))
        columns = f"{statistics.median(worker) / cores:>10.1f}{statistics.median(torchvision) / cores:>13.1f}"
        columns += f"{medians[-1]:>8.3f}{min(ratios):>8.3f}{max(ratios):>8.3f}{len(ratios):>7}"
        print(f"{mode:<14}{columns}", flush=True)
    if options.least is not None and min(medians) < options.least:
        sys.exit(f"a median ratio is below {options.least}")


if __name__ == "__main__":
    main()
