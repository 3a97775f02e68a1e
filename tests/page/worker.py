"""A worker that makes up its throughput: the same for the same job, and different for each.

    worker.py --model M --batch B --precision P --compile C --repeat R --out FILE
"""

import json
import math
import sys
import time
import zlib

words = sys.argv[1:]
asked = dict(zip([word.removeprefix("--") for word in words[::2]], words[1::2]))
model, precision, compiled = asked["model"], asked["precision"], asked["compile"] == "true"
batch, repeat = int(asked["batch"]), int(asked["repeat"])

# What a terminal, a page or a table would obey if it were not escaped.
HOSTILE = 'tried to allocate <b>20 GiB</b> & "more" | than there is'

if (model, batch, compiled) == ("vgg16", 64, True):
    with open(asked["out"], "w") as out:
        json.dump({"schema": 1, "failure": {"kind": "out_of_memory", "message": HOSTILE}}, out)
    sys.exit(71)

base = {"resnet18": 9000, "mobilenet_v2": 14000, "vgg16": 4000}[model]
noise = zlib.crc32(f"{asked}".encode()) / 2**32 - 0.5 if repeat else 0
rate = base * batch / (batch + 12) * (1.7 if precision == "amp" else 1) * (1.2 if compiled else 1) * math.exp(0.02 * noise)
iterations = max(1, round(0.02 * rate / batch))
elapsed = iterations * batch / rate
time.sleep(elapsed)
with open(asked["out"], "w") as out:
    json.dump({
        "schema": 1, "samples": iterations * batch, "elapsed_s": elapsed, "unit": "images",
        "synchronized": (model, batch, precision, repeat) != ("resnet18", 16, "amp", 2),
        "effective": {"device": "cpu", "precision": precision, "batch": batch, "compile": compiled, "threads": 1,
                      "input_size": 224, "classes": 1000},
        "details": {"device_name": "Fake CPU @ 1 GHz"},
        "metrics": {"loss": {"value": 6.9 - 0.01 * repeat}},
    }, out)
