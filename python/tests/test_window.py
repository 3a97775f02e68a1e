"""The window without any library: what is counted, what is written, and what is refused."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCES = str(pathlib.Path(__file__).parent.parent / "src")


def run(script, *, asked=True, variables=(), python=sys.executable):
    """Runs `script` as a worker. Returns the process, the measurement and the lines of `iterations.csv`."""
    with tempfile.TemporaryDirectory() as directory:
        measurement, iterations = (os.path.join(directory, name) for name in ("measurement.json", "iterations.csv"))
        environment = dict(os.environ, PYTHONPATH=SOURCES, PYTHONDONTWRITEBYTECODE="1", **dict(variables))
        for name in ("ORCHESTRATE_MEASUREMENT", "ORCHESTRATE_ITERATIONS"):
            environment.pop(name, None)
        if asked:
            environment.update(ORCHESTRATE_MEASUREMENT=measurement, ORCHESTRATE_ITERATIONS=iterations)
        done = subprocess.run([python, "-c", script], env=environment, capture_output=True, text=True, timeout=600)
        return done, read(measurement, json.loads), read(iterations, str.splitlines)


def read(path, parse):
    with contextlib.suppress(FileNotFoundError), open(path) as file:
        return parse(file.read())
    return None


class Counts(unittest.TestCase):
    """The counts of a window are written unchanged."""

    def test_a_loop_over_data_warms_up_measures_and_ends_by_itself(self):
        done, measurement, iterations = run(
            "import orchestrate_worker as worker\n"
            "data = [[1, 2], [3, 4], [5, 6]]\n"
            "seen = []\n"
            "with worker.window(batch=2, warmup=4, iters=7, precision='fp32', model='tiny', size=3) as window:\n"
            "    for item in window.over(data):\n"
            "        seen.append(item)\n"
            "        window.loss(10 - len(seen))\n"
            "assert seen == (data * 4)[:11], seen\n"
        )
        self.assertEqual(done.stderr, "")
        self.assertEqual((measurement["samples"], measurement["synchronized"]), (14, True))
        expected = {"device": "cpu", "precision": "fp32", "batch": 2, "warmup": 4, "iters": 7}
        expected.update(model="tiny", size=3)
        self.assertEqual(measurement["effective"], expected)
        self.assertEqual(measurement["details"]["repeated"], ["batch", "model", "precision", "size"])
        self.assertEqual((measurement["details"]["first_loss"], measurement["details"]["last_loss"]), (9.0, -1.0))
        self.assertEqual(iterations[0], "iteration,elapsed_s,data_wait_s,loss,clock")
        self.assertEqual([line.split(",")[0] for line in iterations[1:]], [str(number) for number in range(7)])
        self.assertEqual([float(line.split(",")[3]) for line in iterations[1:]], [5, 4, 3, 2, 1, 0, -1])
        total = sum(float(line.split(",")[1]) for line in iterations[1:])
        self.assertLessEqual(total, measurement["elapsed_s"] + 1e-6)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(lines[0], {"event": "warmup", "done": 1, "of": 4})
        self.assertEqual(lines[-1], {"event": "measure", "done": 7, "of": 7})

    def test_a_window_after_a_custom_warmup_counts_steps(self):
        _, measurement, iterations = run(
            "import orchestrate_worker as worker\n"
            "with worker.window(samples=12, precision='fp32') as window:\n"
            "    for _ in range(3):\n"
            "        window.step(1.5)\n"
        )
        self.assertEqual((measurement["samples"], measurement["effective"]["batch"]), (12, 4))
        self.assertEqual((measurement["effective"]["iters"], len(iterations)), (3, 4))
        self.assertNotIn("warmup", measurement["effective"])

    def test_waits_that_a_loop_does_not_report_are_unknown_and_not_zero(self):
        for body, known in (("pass", False), ("with window.waiting(): pass", True), ("window.waited(0.0)", True)):
            with self.subTest(body):
                _, measurement, iterations = run(
                    "import orchestrate_worker as worker\n"
                    "with worker.window(batch=4, precision='fp32') as window:\n"
                    f"    for _ in range(3):\n        {body}\n        window.step(1.5)\n"
                )
                cells = [line.split(",")[2] for line in iterations[1:]]
                self.assertEqual([cell != "" for cell in cells], [known] * 3)
                self.assertEqual("data_wait_s" in measurement["details"], known)

    def test_waits_for_data_are_counted_only_within_the_window(self):
        _, measurement, iterations = run(
            "import time, orchestrate_worker as worker\n"
            "def data():\n"
            "    for number in range(4):\n"
            "        end = time.perf_counter() + (0.5 if number < 2 else 0.05)\n"
            "        while time.perf_counter() < end:\n            pass\n"
            "        yield number\n"
            "with worker.window(batch=1, warmup=2, iters=2, precision='fp32') as window:\n"
            "    for item in window.over(data()):\n"
            "        pass\n"
        )
        waits = [float(line.split(",")[2]) for line in iterations[1:]]
        # Each wait is at least the time of the data, without that of the warm-up.
        self.assertTrue(all(wait >= 0.05 for wait in waits), waits)
        self.assertAlmostEqual(measurement["details"]["data_wait_s"], sum(waits), places=6)
        self.assertLessEqual(sum(waits), measurement["elapsed_s"])

    def test_facts_that_a_system_does_not_report_are_left_out(self):
        done, measurement, _ = run(
            "import sys\n"
            "sys.modules['resource'] = None\n"
            "import orchestrate_worker as worker\n"
            "worker._process.seconds_since_start = lambda: -1.5\n"
            "with worker.window(batch=1, warmup=1, iters=2, precision='fp32') as window:\n"
            "    for item in window.over([1, 2]):\n"
            "        pass\n"
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        unknown = {"peak_host_memory_bytes", "involuntary_switches", "first_step_s"}
        self.assertEqual(unknown & set(measurement["details"]), set())

    def test_preemptions_are_those_of_the_window(self):
        _, measurement, _ = run(
            "import orchestrate_worker as worker\n"
            "worker._process.involuntary_switches = iter([100, 107]).__next__\n"
            "with worker.window(batch=1, warmup=2, iters=2, precision='fp32') as window:\n"
            "    for item in window.over([1, 2]):\n"
            "        pass\n"
        )
        self.assertEqual(measurement["details"]["involuntary_switches"], 7)

    def test_memory_is_that_of_the_window_only(self):
        _, measurement, _ = run(
            "import orchestrate_worker as worker\n"
            "peak = [100]\n"
            "worker._process.peak_memory_bytes = lambda: peak[0]\n"
            "with worker.window(batch=1, warmup=1, iters=2, precision='fp32') as window:\n"
            "    for item in window.over([1, 2]):\n"
            "        peak[0] += 1\n"
            "    peak[0] = 1000\n"
        )
        self.assertEqual(measurement["details"]["peak_host_memory_bytes"], 103)

    def test_the_window_ends_with_its_last_iteration_and_not_with_the_end_of_the_data(self):
        _, measurement, iterations = run(
            "import time, orchestrate_worker as worker\n"
            "def data():\n"
            "    yield from [1, 2]\n"
            "    began = time.perf_counter()\n"
            "    while time.perf_counter() - began < 0.1:\n        pass\n"
            "with worker.window(batch=1, precision='fp32') as window:\n"
            "    for item in window.over(data()):\n        pass\n"
        )
        total = sum(float(line.split(",")[1]) for line in iterations[1:])
        self.assertAlmostEqual(measurement["elapsed_s"], total, places=6)

    def test_the_window_ends_with_the_data(self):
        _, measurement, iterations = run(
            "import time, orchestrate_worker as worker\n"
            "with worker.window(batch=1, precision='fp32') as window:\n"
            "    for item in window.over([1, 2]):\n        pass\n"
            "    began = time.perf_counter()\n"
            "    while time.perf_counter() - began < 0.5:\n        pass\n"
        )
        last = sum(float(line.split(",")[1]) for line in iterations[1:])
        self.assertLess(measurement["elapsed_s"], last + 0.5)

    def test_a_loss_that_is_no_number_is_null_and_its_iteration_is_named(self):
        _, measurement, iterations = run(
            "import orchestrate_worker as worker\n"
            "with worker.window(batch=1, precision='fp32') as window:\n"
            "    for loss in [2.0, float('nan'), float('inf')]:\n"
            "        window.step(loss)\n"
        )
        self.assertEqual([line.split(",")[3] for line in iterations[1:]], ["2.0", "nan", "inf"])
        self.assertEqual(measurement["details"]["first_non_finite_iteration"], 1)
        self.assertIsNone(measurement["details"]["last_loss"])

    def test_metrics_of_the_script_and_the_unit_of_a_sample(self):
        done, measurement, _ = run(
            "import orchestrate_worker as worker\n"
            "with worker.window(batch=2, warmup=3, iters=5, unit='sequences', precision='fp32') as window:\n"
            "    for item in window.over([[1, 2]] * 8):\n"
            "        window.count('tokens', 100)\n"
            "        window.count('read', 1.5, unit='GB')\n"
            "        window.metric('perplexity', float('nan') if item else 0)\n"
            "    window.count('tokens', 1000000)\n"
            "    window.metric('accuracy', 0.5)\n"
        )
        self.assertEqual(done.stderr, "")
        self.assertEqual((measurement["unit"], measurement["samples"]), ("sequences", 10))
        expected = {
            "tokens": {"value": 500, "per_second": True},
            "read": {"value": 7.5, "unit": "GB", "per_second": True},
            "perplexity": {"value": None},
            "accuracy": {"value": 0.5},
        }
        self.assertEqual(measurement["metrics"], expected)
        self.assertNotIn("unit", measurement["effective"])

    def test_an_amount_may_be_a_tensor_that_the_training_overwrites(self):
        _, measurement, _ = run(
            "import orchestrate_worker as worker\n"
            "class Tensor:\n"
            "    def __init__(self, value): self.value = value\n"
            "    def __add__(self, other): return Tensor(self.value + other.value)\n"
            "    def detach(self): return self\n"
            "    def clone(self): return Tensor(self.value)\n"
            "    def item(self): return self.value\n"
            "tokens = Tensor(0)\n"
            "with worker.window(batch=1, warmup=3, iters=5, precision='fp32') as window:\n"
            "    for tokens.value in window.over(range(1, 9)):\n"
            "        window.count('tokens', tokens)\n"
            "        window.metric('last', tokens)\n"
            "    tokens.value = 1000\n"
        )
        self.assertEqual(measurement["metrics"]["tokens"]["value"], 4 + 5 + 6 + 7 + 8)
        self.assertEqual(measurement["metrics"]["last"]["value"], 8)

    def test_a_number_on_its_way_from_a_device_is_read_after_the_window(self):
        done, _, _ = run(
            "import sys, types\n"
            "from orchestrate_worker import _window\n"
            "class Tensor:\n"
            "    is_cpu = True\n"
            "    def __init__(self, pinned):\n"
            "        self.is_pinned = lambda: pinned\n"
            "    def numel(self):\n"
            "        return 1\n"
            "    def detach(self):\n"
            "        return self\n"
            "    def item(self):\n"
            "        return 'read'\n"
            "there, coming = Tensor(False), Tensor(True)\n"
            "cuda = types.SimpleNamespace(is_initialized=lambda: True)\n"
            "sys.modules['torch'] = types.SimpleNamespace(cuda=cuda)\n"
            "assert _window._kept(there) == 'read' and _window._kept(coming) is coming\n"
            "cuda.is_initialized = lambda: False\n"
            "assert _window._kept(coming) == 'read'\n"
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_without_orchestrate_the_same_numbers_are_printed_and_no_file_is_written(self):
        done, measurement, iterations = run(
            "import orchestrate_worker as worker\n"
            "with worker.window(batch=3, warmup=1, precision='bf16', model='tiny', depth=5) as window:\n"
            "    for _ in window.over(range(5)):\n"
            "        pass\n"
            "rate = window.measurement['samples'] / window.measurement['elapsed_s']\n"
            "print(f'{rate:.2f} samples/s')\n",
            asked=False,
        )
        self.assertEqual((measurement, iterations), (None, None))
        first, second, *_, last = done.stdout.splitlines()
        self.assertRegex(first, r"^tiny, bf16, batch 3, on cpu")
        self.assertIn(last, second)
        self.assertIn("12 samples in", second)
        self.assertRegex(done.stdout, r"(?m)^  said +depth=5$")


# A stand-in for a tensor, and windows over such data.
ARRAYS = """
import orchestrate_worker as worker
class Array:
    def __init__(self, *shape): self.shape = shape
def measure(*data, **said):
    with worker.window(precision="fp32", **said) as window:
        for item in window.over(data):
            pass
    found = window.measurement
    assert "batch" in found["details"]["repeated"], found
    return found["effective"]["batch"]
image, label, target = Array(3, 8, 9), Array(), {"boxes": Array(2, 4)}
"""


class Shapes(unittest.TestCase):
    """The facts that the shapes of the data show."""

    def assert_batches(self, *cases):
        checks = [f"assert measure({data}) == {batch}, {data!r}" for data, batch in cases]
        done, _, _ = run(ARRAYS + "\n".join(checks), asked=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_the_first_tensor_begins_with_the_batch(self):
        self.assert_batches(
            ("Array(16, 5)", 16), ("(Array(16, 5), Array(16))", 16), ("[Array(2, 3, 8, 8), Array(2)]", 2),
            ("{'id': ['a', 'b'], 'x': Array(16, 5)}", 16), ("({'x': Array(16, 5)}, Array(16))", 16),
            ("(['a', 'b'], Array(16, 5))", 16), ("(Array(3, 8, 9), Array(3))", 3),
        )

    def test_declarations_of_the_script_are_accepted_and_repeated(self):
        self.assert_batches(
            ("Array(35, 20), batch=20", 20), ("Array(16, 1024), batch=16 * 1024, unit='tokens'", 16 * 1024),
            ("Array(35, 20), Array(30, 20), Array(20, 20), batch=20", 20), ("Array(35, 20), batch=4", 4),
            ("([image] * 5, [target] * 5), batch=5", 5), ("[image] * 5, batch=5", 5),
            ("[(image, target)] * 5, batch=5", 5), ("[{'image': image}] * 5, batch=5", 5),
        )

    def test_tensors_in_a_list_are_identified_by_their_neighbours(self):
        self.assert_batches(
            ("((image,) * 5, (target,) * 5)", 5), ("((image,) * 3, (target,) * 3)", 3),
            ("([image] * 5, Array(5))", 5), ("{'images': [image] * 5, 'labels': [1] * 5}", 5),
            ("([Array(16, 6), Array(16, 5)], Array(16))", 16), ("({'a': [Array(16, 6)] * 2}, Array(16))", 16),
        )

    def test_data_that_do_not_begin_with_the_batch_need_a_declaration(self):
        for item in (
            "((image,) * 5,)", "[(image, target)] * 5", "[(image, label)] * 5", "[(image, image)] * 5", "[image] * 5",
            "[{'image': image}] * 5", "([Array(16, 6), Array(16, 5)],)", "([Array(16, 6)] * 2, Array(5))",
        ):
            with self.subTest(item):
                done, measurement, _ = run(f"{ARRAYS}measure({item})")
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("the number of samples per batch is unknown: declare it", str(measurement))

    def test_a_shape_that_cannot_be_read_is_none(self):
        script = "class Nested:\n    @property\n    def shape(self): raise RuntimeError\n"
        script += "assert measure((Array(16, 5), Nested())) == 16\n"
        script += "assert measure((Nested(), Array(16, 5))) == 16\n"
        done, _, _ = run(ARRAYS + script, asked=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Refused(unittest.TestCase):
    """Windows that cannot be measured are refused, with the change to make; the failure is written for orchestrate."""

    def assert_refused(self, script, *words):
        done, measurement, _ = run("import orchestrate_worker as worker\n" + script)
        self.assertNotEqual(done.returncode, 0)
        message = measurement["failure"]["message"]
        for word in words:
            self.assertIn(word, message)
        self.assertIn(words[0], done.stderr)

    def test_a_window_that_is_not_complete(self):
        script = "with worker.window(batch=1, warmup=2, iters=5, precision='fp32') as window:\n"
        self.assert_refused(script + "    window.step()\n", "1 of 2 warm-up iterations and 0 of 5 measured ones")
        loop = "    for item in window.over(iter(range(4))):\n        pass\n"
        self.assert_refused(script + loop, "the data ended after 2 of 2 warm-up", "2 of 5 measured")
        loop = "    for item in window.over([]):\n        pass\n"
        self.assert_refused(script + loop, "the data ended after 0 of 2 warm-up")

    def test_a_loop_that_was_left(self):
        script = "with worker.window(batch=1, precision='fp32') as window:\n"
        loop = "    for item in window.over(range(9)):\n        if item == 4:\n            break\n"
        self.assert_refused(script + loop, "was left before its end", "let it run to its end")

    def test_counts_that_contradict_each_other(self):
        script = "with worker.window(samples=10, batch=4, precision='fp32') as window:\n    "
        self.assert_refused(script + "pass\n", "10 samples do not match batches of 4")
        self.assert_refused(script + "window.step()\n", "10 samples do not match 1 iterations of 4")
        script = "with worker.window(batch=4, iters=1, precision='fp32') as window:\n"
        self.assert_refused(script + "    window.step()\n    window.step()\n", "the window of 1 iterations is over")

    def test_settings_without_evidence_must_be_declared(self):
        script = "with worker.window({}) as window:\n    window.step()\n"
        self.assert_refused(script.format("batch=1"), "the precision cannot be read back")
        self.assert_refused(script.format("precision='fp32'"), "the number of samples per batch is unknown")
        self.assert_refused("with worker.window(batch=2, precision='fp32'):\n    pass\n", "no iterations were counted")

    def test_a_device_that_cannot_be_synchronised(self):
        for device in ("cuda", "gpu"):
            script = f"with worker.window(batch=1, precision='fp32', device={device!r}) as window:\n    window.step()\n"
            self.assert_refused(script, f"device={device} cannot be synchronised without PyTorch or JAX")

    def test_batches_of_several_sizes(self):
        script = "class Batch:\n    def __init__(self, of): self.shape = (of,)\n"
        script += "with worker.window(precision='fp32') as window:\n"
        script += "    for item in window.over([Batch(4), Batch(4), Batch(2)]):\n        pass\n"
        self.assert_refused(script, "the batches of the window differ in size (2, 4)", "drop_last=True", "say batch=")
        said = script.replace("precision=", "batch=4, precision=")
        self.assert_refused(said, "the batches of the window differ in size (2, 4)", "drop_last=True")

    def test_a_batch_that_the_data_contradicts(self):
        script = "class Batch:\n    shape = (4,)\n"
        script += "with worker.window(batch=8, precision='fp32') as window:\n"
        script += "    for item in window.over([Batch(), Batch()]):\n        pass\n"
        self.assert_refused(script, "the script declares batch=8, but its data comes in batches of 4")

    def test_variables_that_change_a_precision(self):
        script = "import orchestrate_worker as worker\nwith worker.window(batch=1, precision='fp32'):\n    pass\n"
        done, _, _ = run(script, variables={"NVIDIA_TF32_OVERRIDE": "1"})
        self.assertIn("NVIDIA_TF32_OVERRIDE=1 changes what a precision means", done.stderr)

    def test_numbers_that_cannot_be(self):
        for words, name in (("batch=0", "batch is 0"), ("iters=True", "iters is True"), ("warmup=-1", "warmup is -1")):
            self.assert_refused(f"worker.window({words})\n", f"{name}: expected a whole number")

    def test_flops_are_no_setting(self):
        refused = "flops_per_sample is not a setting: call window.detail(flops_per_sample=…)"
        self.assert_refused("worker.window(batch=1, flops_per_sample=1e9)\n", refused)
        script = "with worker.window(batch=1, precision='fp32') as window:\n    window.{}(flops_per_sample=1e9)\n"
        self.assert_refused(script.format("report"), refused)
        done, measurement, _ = run("import orchestrate_worker as worker\n" + script.format("detail") + "    window.step()\n")
        self.assertEqual((done.returncode, measurement["details"]["flops_per_sample"]), (0, 1e9), done.stderr)

    def test_metrics_that_cannot_be(self):
        window = "with worker.window(batch=1, precision='fp32') as window:\n    window.step()\n    "
        self.assert_refused(window + "window.metric('Top 1', 1)", "'Top 1' is not a name of a metric")
        self.assert_refused(window + "window.metric('top1', 'high')", "the metric 'top1' is 'high': expected a number")
        twice = "window.metric('a', 1); window.count('a', 1)"
        self.assert_refused(window + twice, "'a' is a metric and is counted, too")
        self.assert_refused(window + "window.metric('a', 1, unit='x' * 41)", "expected at most 40 characters")
        many = "class Many:\n    def item(self): raise RuntimeError('many')\n"
        self.assert_refused(many + window + "window.metric('a', Many())", "expected a number")
        self.assert_refused("worker.window(unit='tokens/s')", "unit is 'tokens/s': expected a word")

    def test_two_loops_or_steps_beside_a_loop(self):
        script = "with worker.window(batch=1, precision='fp32') as window:\n    for item in window.over([1]):\n"
        self.assert_refused(script + "        window.step()\n", "is called by window.over(…) already")

    def test_ranks_that_do_not_know_each_other(self):
        done, measurement, _ = run(
            "import orchestrate_worker as worker\nwith worker.window(batch=1, precision='fp32'):\n    pass\n",
            variables={"WORLD_SIZE": "2", "RANK": "1"},
        )
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("rank 1: Unusable: WORLD_SIZE is 2, but torch.distributed", measurement["failure"]["message"])


class Failures(unittest.TestCase):
    """An exception is reported, wherever it was raised, and still ends the script as ever."""

    def test_out_of_memory_is_reported_with_its_sizes(self):
        said = "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.11 GiB of which "
        said += "512.00 MiB is free. Including non-PyTorch memory"
        done, measurement, _ = run(f"import orchestrate_worker\nraise RuntimeError({said!r})\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("RuntimeError: CUDA out of memory", done.stderr.splitlines()[-1])
        failure = measurement["failure"]
        self.assertEqual((failure["kind"], failure["needed_bytes"]), ("out_of_memory", int(2.5 * 2**30)))
        self.assertEqual(failure["free_bytes"], 512 * 2**20)
        _, measurement, _ = run("import orchestrate_worker\nraise MemoryError\n")
        self.assertEqual(measurement["failure"], {"kind": "out_of_memory", "message": "MemoryError"})

    def test_other_exceptions_are_reported_with_their_message(self):
        _, measurement, _ = run(
            "import orchestrate_worker as worker\n"
            "with worker.window(batch=1, precision='fp32'):\n    raise ValueError('no such\\nnetwork')\n"
        )
        self.assertEqual(measurement["failure"], {"kind": "failed", "message": "ValueError: no such network"})

    def test_a_measurement_is_not_replaced_by_a_later_failure(self):
        done, measurement, _ = run(
            "import orchestrate_worker as worker\n"
            "with worker.window(batch=1, precision='fp32') as window:\n    window.step()\n"
            "raise OSError('the log is full')\n"
        )
        self.assertEqual((done.returncode, measurement["samples"]), (1, 1))

    def test_stopping_the_script_is_not_a_failure(self):
        _, measurement, _ = run("import orchestrate_worker\nraise KeyboardInterrupt\n")
        self.assertIsNone(measurement)


if __name__ == "__main__":
    unittest.main()
