"""Trains a network of torchvision for a window of iterations, as a worker of orchestrate or standalone:

    python train.py --model resnet18 --batch 16 --precision bf16 --device cpu --warmup 3 --iters 10 --compile true

The effective settings are read from PyTorch by `orchestrate_worker`; the flags only request them. pytorch.yaml beside
this file compares it, eager and compiled, with the worker of orchestrate.
"""

import argparse
import itertools
import sys

import orchestrate_worker
import torch
import torchvision

UNSUPPORTED = 69  # the exit code for: not supported here
HALVES = {"amp": torch.float16, "bf16": torch.bfloat16}
OPTIMIZERS = {
    "sgd": lambda weights, _: torch.optim.SGD(weights, lr=0.01, momentum=0.9, weight_decay=1e-4),
    "adamw": lambda weights, captured: torch.optim.AdamW(weights, lr=1e-3, weight_decay=1e-2, capturable=captured),
}


def switch(word):
    return {"true": True, "false": False}[word]


def parse():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--model", required=True, help="a network of torchvision.models")
    flags.add_argument("--batch", type=int, required=True, help="images per iteration")
    flags.add_argument("--precision", choices=["fp32", "tf32", "amp", "bf16"], default="fp32")
    flags.add_argument("--device", choices=["cpu", "cuda", "mps"], default="cpu")
    flags.add_argument("--warmup", type=int, default=10, help="iterations before the window")
    flags.add_argument("--iters", type=int, default=100, help="iterations within it")
    flags.add_argument("--data", default="synthetic", help="a folder with a folder for each class, or synthetic")
    flags.add_argument("--loader-workers", type=int, default=4, help="processes that read images")
    flags.add_argument("--input-size", type=int, default=224, help="height and width of the images, in pixels")
    flags.add_argument("--classes", type=int, default=1000)
    flags.add_argument("--optimizer", choices=OPTIMIZERS, default="sgd")
    flags.add_argument("--seed", type=int, default=0)
    for name in ("channels-last", "compile", "cuda-graph", "deterministic", "cudnn-benchmark"):
        flags.add_argument(f"--{name}", type=switch, default=False, metavar="{true,false}")
    return flags.parse_args()


def refuse(reason):
    print(reason, file=sys.stderr)
    sys.exit(UNSUPPORTED)


def prepare(args):
    """Sets PyTorch up as requested, or refuses with a reason."""
    if args.device == "cuda" and not torch.cuda.is_available():
        refuse("PyTorch sees no CUDA device here")
    if args.device == "mps" and not torch.backends.mps.is_available():
        refuse("PyTorch sees no Apple GPU here")
    if args.precision == "tf32" and args.device != "cuda":
        refuse("only CUDA devices compute in TF32")
    if args.cuda_graph and (args.device != "cuda" or args.precision == "amp" or args.data != "synthetic"):
        refuse("a CUDA graph needs CUDA, synthetic data, and a precision without a loss scale: fp32, tf32 or bf16")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = args.precision == "tf32"
    torch.backends.cudnn.benchmark = args.cudnn_benchmark
    torch.use_deterministic_algorithms(args.deterministic)
    torch.manual_seed(args.seed)


def batches(args, layout):
    """Endless batches of one random tensor, or a loader of the images in a folder."""
    if args.data == "synthetic":
        images = torch.randn(args.batch, 3, args.input_size, args.input_size, device=args.device)
        labels = torch.randint(args.classes, (args.batch,), device=args.device)
        return itertools.repeat((images.to(memory_format=layout), labels))
    steps = [torchvision.transforms.RandomResizedCrop(args.input_size), torchvision.transforms.ToTensor()]
    folder = torchvision.datasets.ImageFolder(args.data, torchvision.transforms.Compose(steps))
    return torch.utils.data.DataLoader(
        folder, args.batch, shuffle=True, drop_last=True, num_workers=args.loader_workers,
        pin_memory=args.device == "cuda", persistent_workers=args.loader_workers > 0,
    )


def main():
    args = parse()
    prepare(args)
    layout = torch.channels_last if args.channels_last else torch.contiguous_format
    network = torchvision.models.get_model(args.model, num_classes=args.classes)
    network = network.to(args.device, memory_format=layout).train()
    forward = torch.compile(network) if args.compile else network
    optimizer = OPTIMIZERS[args.optimizer](network.parameters(), args.cuda_graph)
    half = HALVES.get(args.precision)
    scaler = torch.amp.GradScaler(args.device, enabled=half == torch.float16 and args.device != "cpu")
    # On the processor, automatic mixed precision means bfloat16.
    half = torch.bfloat16 if half is not None and args.device == "cpu" else half

    def train(images, labels):
        with torch.autocast(args.device, half, enabled=half is not None):
            outputs = forward(images)
            outputs = outputs[0] if isinstance(outputs, tuple) else outputs  # googlenet and inception_v3 have three
            loss = torch.nn.functional.cross_entropy(outputs, labels)
        optimizer.zero_grad(set_to_none=not args.cuda_graph)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    data = batches(args, layout)
    step = captured(train, *next(data)) if args.cuda_graph else train
    said = {"model": args.model, "precision": args.precision, "seed": args.seed, "cuda_graph": args.cuda_graph}
    said["data"] = {"synthetic": True} if args.data == "synthetic" else {"folder": args.data}
    with orchestrate_worker.window(warmup=args.warmup, iters=args.iters, **said) as window:
        for images, labels in window.over(data):
            images = images.to(args.device, memory_format=layout, non_blocking=True)
            window.loss(step(images, labels.to(args.device, non_blocking=True)))


def captured(train, images, labels):
    """The training step as a CUDA graph of these tensors, which every call computes on anew."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):  # libraries choose their algorithms before anything is recorded
            train(images, labels)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = train(images, labels)

    def replay(*_):
        graph.replay()
        return loss.clone()

    return replay


if __name__ == "__main__":
    main()
