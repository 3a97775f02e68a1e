"""A worker that adds numbers, for `check.yaml`."""

import json
import os
import sys
import time

model, batch = sys.argv[1], int(sys.argv[2])
started = time.monotonic()
for _ in range(100 * batch):
    sum(range(20_000))
elapsed = time.monotonic() - started
effective = {"device": "cpu", "precision": "fp32", "batch": batch, "model": model}
with open(os.environ["ORCHESTRATE_MEASUREMENT"], "w") as file:
    json.dump({"schema": 1, "samples": 100 * batch, "elapsed_s": elapsed, "synchronized": True,
               "effective": effective}, file)
