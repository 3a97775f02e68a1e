"""A worker that makes up its throughput: always the same for a job, and different between jobs.

    worker.py --model M --batch B --precision P --compile C --repeat R --out FILE

The variable GPU names its fake device.
"""

import json
import math
import os
import sys
import time
import zlib

words = sys.argv[1:]
asked = dict(zip([word.removeprefix("--") for word in words[::2]], words[1::2]))
model, precision, compiled = asked["model"], asked["precision"], asked["compile"] == "true"
batch, repeat = int(asked["batch"]), int(asked["repeat"])

# A text with markup that pages and tables must escape.
HOSTILE = 'tried to allocate <b>20 GiB</b> & "more" | than there is'

# The device: its name, its speed, and the gain of bf16.
name, speed, of_bf16 = {
    "a100": ("Fake A100", 1, 1.75), "h100": ("Fake H100", 2, 1.9), "t4": ("Fake T4", 0.2, 0.9),
}.get(os.environ.get("GPU"), ("Fake CPU @ 1 GHz", 1, 1))
too_large = name == "Fake T4" and batch == 64 and model != "resnet50"

if (model, batch, compiled) == ("vgg16", 64, True) or too_large:
    with open(asked["out"], "w") as out:
        json.dump({"schema": 1, "failure": {"kind": "out_of_memory", "message": HOSTILE}}, out)
    sys.exit(71)

if (name, model, precision, batch) == ("Fake T4", "gpt2_small", "bf16", 32):
    sys.exit("bf16 has no kernel for attention here")

base = {
    "resnet18": 9000, "mobilenet_v2": 14000, "vgg16": 4000,
    "resnet50": 5000, "bert_base": 3000, "gpt2_small": 2500, "vit_b16": 4000,
}[model]
noise = zlib.crc32(f"{asked}".encode()) / 2**32 - 0.5 if repeat else 0
gain = {"amp": 1.7, "bf16": of_bf16}.get(precision, 1) * (1.2 if compiled else 1)
rate = base * speed * batch / (batch + 12) * gain * math.exp(0.02 * noise)
iterations = max(1, round(0.02 * rate / batch))
elapsed = iterations * batch / rate
time.sleep(elapsed)

# The operators of an iteration, if they are requested.
profiled = int(os.environ.get("ORCHESTRATE_OPERATORS", 0))
seconds = 1.02 * profiled * batch / rate
operator = lambda name, phase, kind, share, flops: {
    "name": name, "phase": phase, "class": kind, "calls": profiled, "host_s": share * seconds,
    "flops": flops * profiled, "bytes": 4e6 * batch * profiled}
profile = {"ops": {
    "source": "made up", "iterations": profiled, "elapsed_s": seconds, "rest_s": 0.03 * seconds,
    "operators": [
        operator("convolution", "forward", "convolution", 0.62, 1e9 * batch),
        operator("normalise", "backward", "normalisation", 0.3, 1e6 * batch),
        operator("load images", "data", "data", 0.05, 0),
    ]}} if profiled else {}
with open(asked["out"], "w") as out:
    json.dump({
        "schema": 1, "samples": iterations * batch, "elapsed_s": elapsed, "unit": "images",
        "synchronized": (model, batch, precision, repeat) != ("resnet18", 16, "amp", 2),
        "effective": {"device": "cpu", "precision": precision, "batch": batch, "compile": compiled, "threads": 1,
                      "input_size": 224, "classes": 1000},
        "details": {"device_name": name},
        **profile,
        "metrics": {"loss": {"value": 6.9 - 0.01 * repeat}},
    }, out)
