"""Scripts under the real orchestrate: their records show what they did, and false declarations are detected."""

import csv
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from test_pytorch import HAS_PYTORCH, REASON
from test_window import SOURCES

ROOT = pathlib.Path(__file__).parent.parent.parent
BUILT = ROOT / "target" / "debug"
SECONDS = 600  # after which a test fails instead of waiting on

# A worker with a parameter `lie`: each value changes what it does, but not what it declares.
SCRIPT = """
import argparse
import orchestrate_worker
import torch
flags = argparse.ArgumentParser()
for name in ("--batch", "--precision", "--compile", "--channels-last", "--size", "--lie", "--iters"):
    flags.add_argument(name, required=True)
asked = flags.parse_args()
torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.LazyLinear(5))
size = 12 if asked.lie == "size" else int(asked.size)
layout = torch.channels_last if asked.channels_last == "true" and asked.lie != "layout" else torch.contiguous_format
images = torch.randn(int(asked.batch), 3, size, size).to(memory_format=layout)
labels = torch.randint(5, (int(asked.batch),))
rows = 2 if asked.lie == "half" else int(asked.batch)
enlarge = torch.nn.Upsample(14) if asked.lie == "resize" else torch.nn.Identity()
network(enlarge(images))
network = network.to(memory_format=layout)
is_compiled = (asked.compile == "true") != (asked.lie == "compile")
forward = torch.compile(network, backend="aot_eager") if is_compiled else network
lower = (asked.precision == "bf16") != (asked.lie == "precision")
said = dict(precision=asked.precision, compile=asked.compile, channels_last=asked.channels_last)
said["input_size" if asked.lie == "size" else "size"] = asked.size
if asked.lie == "silence":
    said = {}
iters = int(asked.iters) + (asked.lie == "iterations")
with orchestrate_worker.window(warmup=1, iters=iters, model="tiny", **said) as window:
    for images, labels in window.over([(images, labels)]):
        with torch.autocast("cpu", torch.bfloat16, enabled=lower):
            loss = torch.nn.functional.cross_entropy(forward(enlarge(images)[:rows]), labels[:rows])
        loss.backward()
        window.loss(loss)
"""

MATRIX = """
name: lies
models: [tiny]
batches: [4]
precisions: [{precision}]
repeats: 1
params: {{ iters: 3, size: 10, input_size: 10, channels_last: {flag}, compile: {flag}, lie: {lie} }}
envs: {{ here: {{ device: cpu }} }}
limits: {{ retries: 0 }}
worker:
  command: ["{python}", lies.py, --batch, "{{batch}}", --precision, "{{precision}}", --compile, "{{compile}}",
            --channels-last, "{{channels_last}}", --size, "{{size}}", --lie, "{{lie}}", --iters, "{{iters}}"]
"""


class Project:
    """A directory with a store, in which orchestrate is called."""

    def __init__(self, test):
        holder = tempfile.TemporaryDirectory()
        test.addCleanup(holder.cleanup)
        self.path = pathlib.Path(holder.name)
        # Variables such as PYTHONPATH do not reach a worker, but modules beside its script do.
        os.symlink(pathlib.Path(SOURCES) / "orchestrate_worker", self.path / "orchestrate_worker")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("ORCHESTRATE_")}
        self.environment["ORCHESTRATE_LOCK_DIR"] = str(self.path / "locks")

    def write(self, name, text):
        (self.path / name).write_text(text)

    def start(self, *words):
        words = [BUILT / "orchestrate", *words]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(words, cwd=self.path, env=self.environment, **pipes)

    def call(self, *words):
        """Exit code and everything that was printed."""
        process = self.start(*words)
        out, errors = process.communicate(timeout=SECONDS)
        return process.returncode, out + errors

    def records(self, kind="timing"):
        """The records of one kind: a timed config can also be profiled by operator, which is a separate job."""
        found = [json.loads(path.read_text()) for path in sorted(self.path.glob("runs/*/record.json"))]
        return [record for record in found if record["key"]["kind"] == kind]


def needs_everything(test):
    reason = REASON if not HAS_PYTORCH else f"{BUILT}/orchestrate is not built"
    there = HAS_PYTORCH and (BUILT / "orchestrate").exists()
    return unittest.skipUnless(there or os.environ.get("ORCHESTRATE_NEEDS_PYTORCH"), reason)(test)


@needs_everything
class Lies(unittest.TestCase):
    """Requested is effective, or the run fails."""

    def outcome(self, lie, precision="fp32", flag="false"):
        project = Project(self)
        project.write("lies.py", SCRIPT)
        project.write("lies.yaml", MATRIX.format(lie=lie, precision=precision, flag=flag, python=sys.executable))
        code, printed = project.call("run", "lies.yaml")
        (record,) = project.records()
        return code, record["outcome"], printed

    def test_true_declarations_are_accepted(self):
        for precision, flag in (("fp32", "false"), ("bf16", "true")):
            code, outcome, printed = self.outcome("none", precision, flag)
            self.assertEqual((code, outcome["kind"]), (0, "succeeded"), printed)

    def test_deviations_from_the_request_are_mismatches_whatever_the_script_declares(self):
        for lie, precision, flag, expected in (
            ("precision", "fp32", "false", ("precision", "fp32", "bf16")),
            ("precision", "bf16", "false", ("precision", "bf16", "fp32")),
            ("layout", "fp32", "true", ("channels_last", "true", "false")),
            ("compile", "fp32", "true", ("compile", "true", "false")),
            ("compile", "fp32", "false", ("compile", "false", "true")),
            ("size", "fp32", "false", ("input_size", "10", "12")),
            ("iterations", "fp32", "false", ("iters", "3", "4")),
            ("half", "fp32", "false", ("batch", "4", "2")),
            ("half", "bf16", "true", ("batch", "4", "2")),
            ("resize", "fp32", "false", ("input_size", "10", "14")),
        ):
            with self.subTest(lie=lie, precision=precision, flag=flag):
                code, outcome, printed = self.outcome(lie, precision, flag)
                self.assertEqual((code, outcome["kind"]), (10, "setting_mismatch"), printed)
                found = [(it["setting"], it["requested"], it["effective"]) for it in outcome["mismatches"]]
                self.assertEqual(found, [expected])

    def test_silence_passes_and_is_said(self):
        code, outcome, printed = self.outcome("silence")
        self.assertEqual((code, outcome["kind"]), (0, "succeeded"), printed)
        self.assertRegex(printed, r"not confirmed: [^\n]*`size`")


@needs_everything
class Ranks(unittest.TestCase):
    """A launcher and its ranks are one worker."""

    MATRIX = """
name: ranks
models: [tiny]
batches: [16]
repeats: 1
params: {{ iters: {iters} }}
envs: {{ here: {{ device: cpu }} }}
worker:
  command: ["{python}", -m, torch.distributed.run, --standalone, --nproc-per-node, "2", ranks.py, "{{iters}}"]
"""
    SCRIPT = """
import sys, time
import orchestrate_worker
import torch
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
network = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 8))
with orchestrate_worker.window(warmup=2, iters=int(sys.argv[1])) as window:
    for images, labels in window.over([(torch.randn(8, 64), torch.randint(8, (8,)))]):
        torch.nn.functional.cross_entropy(network(images), labels).backward()
torch.distributed.destroy_process_group()
"""

    def project(self, iters):
        project = Project(self)
        project.write("ranks.py", self.SCRIPT)
        project.write("ranks.yaml", self.MATRIX.format(python=sys.executable, iters=iters))
        return project

    def test_one_record_contains_both_ranks(self):
        project = self.project(200)
        code, printed = project.call("run", "ranks.yaml")
        self.assertEqual(code, 0, printed)
        (record,) = project.records()
        details = record["measurement"]["details"]
        self.assertEqual([rank["rank"] for rank in details["ranks"]], [0, 1])
        self.assertEqual(record["measurement"]["samples"], 200 * 16)
        self.assertIn("slowest_rank", project.call("show", record["label"], "--all")[1])

    def test_an_interrupt_leaves_no_rank_behind(self):
        project = self.project(1_000_000)
        process = project.start("run", "ranks.yaml")
        pids = self.wait_for(lambda: ranks_of(project.path))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, 11)
        self.assertEqual([pid for pid in pids if is_alive(pid)], [])
        self.assertEqual([record for record in project.records() if record["outcome"]["kind"] == "succeeded"], [])

    def wait_for(self, condition):
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            found = condition()
            if found:
                return found
            time.sleep(0.05)
        self.fail("waited in vain")


def is_alive(pid):
    """Whether the process runs and is not a zombie."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def ranks_of(directory):
    """The process ids of both ranks of the script in `directory`, once they are there."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            is_rank = b"ranks.py" in words and b"torch.distributed.run" not in words
            if is_rank and os.path.samefile(entry / "cwd", directory):
                found.append(int(entry.name))
        except (OSError, ValueError):
            continue
    return found if len(found) == 2 else []


@needs_everything
class Example(unittest.TestCase):
    """The example: PyTorch, eager and compiled, and the shipped worker, in one report."""

    def test_three_workers_are_three_rows_with_their_complexity(self):
        project = Project(self)
        text = (ROOT / "examples" / "pytorch" / "pytorch.yaml").read_text()
        for before, after in (
            (r"models: .*", "models: [squeezenet1_1]"), (r"batches: .*", "batches: [2]"), (r"repeats: 3", "repeats: 1"),
            (r"input_size: 224", "input_size: 64"), (r"warmup: 3", "warmup: 1"), (r"iters: 10", "iters: 2"),
            (r"\[python, examples/pytorch/train\.py", f'["{sys.executable}", train.py'),
        ):
            text, number = re.subn(before, after, text)
            self.assertGreaterEqual(number, 1, before)
        project.write("pytorch.yaml", text)
        project.write("train.py", (ROOT / "examples" / "pytorch" / "train.py").read_text())
        os.symlink(ROOT / "peaks", project.path / "peaks")
        code, printed = project.call("run", "pytorch.yaml")
        self.assertEqual(code, 0, printed)
        self.assertEqual(project.call("report", "pytorch")[0], 0)
        with open(project.path / "report" / "pytorch" / "metrics.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        # Each is also profiled by operator, which is a separate line.
        rows = [row for row in rows if row["kind"] == "timing"]
        self.assertEqual(len(rows), 3)
        with open(project.path / "report" / "pytorch" / "summary.csv", newline="") as file:
            summary = list(csv.DictReader(file))
        # A busy machine marks runs, and then they do not count. They are separate rows all the same.
        self.assertEqual(len(summary), 3)
        self.assertEqual(len({row["training_gflop_per_sample"] for row in rows}), 1)
        self.assertNotIn("NA", {row["training_gflop_per_sample"] for row in rows})
        reported = [record["measurement"]["effective"].get("compile") for record in project.records()]
        self.assertEqual(sorted(map(str, reported)), ["False", "None", "True"])
        profiles = [record["measurement"]["ops"]["source"] for record in project.records("ops")]
        self.assertEqual(sorted(profiles), ["kineto", "torch.profiler", "torch.profiler"])


if __name__ == "__main__":
    unittest.main()
