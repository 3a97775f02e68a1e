"""Settings are read back from the real PyTorch on the processor: a script cannot declare what it does not do."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from test_window import SOURCES, run

HAS_PYTORCH = importlib.util.find_spec("torch") is not None
REASON = "PyTorch is not installed for this Python"

# A network with all relevant parts: a convolution, a linear layer, a loss that shows the classes.
SCRIPT = """
import orchestrate_worker as worker
import torch
torch.manual_seed(0)
network = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(),
    torch.nn.Linear(32, 7))
images, labels = torch.randn(4, 3, 16, 16), torch.randint(7, (4,))
forward, lower, options = network, False, dict(precision="fp32")
{setup}
optimizer = torch.optim.{optimizer}(network.parameters(), lr=0.01)
def train():
    with torch.autocast("cpu", torch.bfloat16, enabled=lower):
        loss = torch.nn.functional.cross_entropy(forward(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss
"""
LOOP = """
with worker.window(warmup=2, iters=3, **options) as window:
    for images, labels in window.over([(images, labels)]):
        window.loss(train())
"""


def measure(setup="", loop=LOOP, optimizer="SGD", **options):
    script = SCRIPT.format(setup=setup, optimizer=optimizer) + loop
    done, measurement, iterations = run(script, **options)
    if measurement is None or "effective" not in measurement:
        raise AssertionError(f"{measurement}\n{done.stderr}")
    return done, measurement, iterations


@unittest.skipUnless(HAS_PYTORCH or os.environ.get("ORCHESTRATE_NEEDS_PYTORCH"), REASON)
class ReadBack(unittest.TestCase):
    """Settings come from what was computed."""

    def test_an_eager_training_in_single_precision(self):
        done, measurement, iterations = measure("options.update(model='tiny')")
        self.assertEqual(done.stderr, "")
        settings = measurement["effective"]
        threads = settings.pop("threads")
        self.assertGreaterEqual(threads, 1)
        expected = {
            "device": "cpu", "precision": "fp32", "batch": 4, "model": "tiny", "warmup": 2, "iters": 3, "tf32": False,
            "compile": False, "channels_last": False, "deterministic": False, "cudnn_benchmark": False,
            "input_size": 16, "classes": 7, "optimizer": "sgd",
        }
        self.assertEqual(settings, expected)
        details = measurement["details"]
        self.assertEqual(details["repeated"], ["model"])
        self.assertEqual(details["parameters"], 3 * 8 * 9 + 8 + 32 * 7 + 7)
        self.assertIn("torch", details["versions"])
        self.assertEqual(details["optimizer"], "SGD, learning rate 0.01, momentum 0, weight decay 0, not fused")
        self.assertLess(details["last_loss"], details["first_loss"])
        self.assertGreater(details["first_step_s"], 0)
        self.assertEqual((len(iterations), details["iteration_clock"]), (4, "host"))

    def test_undeclared_settings_of_pytorch_are_read_back(self):
        setup = "network.to(memory_format=torch.channels_last)\n"
        setup += "images = images.to(memory_format=torch.channels_last)\n"
        setup += "torch.set_num_threads(1); torch.use_deterministic_algorithms(True)"
        _, measurement, _ = measure(setup, optimizer="AdamW")
        settings = measurement["effective"]
        found = {name: settings[name] for name in ("channels_last", "threads", "deterministic", "optimizer")}
        self.assertEqual(found, {"channels_last": True, "threads": 1, "deterministic": True, "optimizer": "adamw"})

    def test_weights_alone_in_channels_last_are_not_channels_last(self):
        _, measurement, _ = measure("images = images.to(memory_format=torch.channels_last)")
        self.assertIs(measurement["effective"]["channels_last"], False)

    def test_single_precision_is_rounded_where_the_processor_can_do_that(self):
        able = "torch.ops.mkldnn._is_mkldnn_bf16_supported = lambda: {}\n"
        able += "torch.cpu._is_amx_fp16_supported = lambda: {}\n"
        medium = "torch.set_float32_matmul_precision('medium')\n"
        on_mps = "worker._torch.TorchFramework.device = lambda self: 'mps'\n"
        tf32 = "if hasattr(torch.backends.mkldnn, 'conv'): torch.backends.mkldnn.conv.fp32_precision = 'tf32'\n"
        for bf16, fp16, setup, found in (
            (True, False, medium, "tf32"), (False, True, medium, "fp32"), (True, True, medium + on_mps, "fp32"),
            (True, False, tf32, "fp32"),
        ):
            with self.subTest(bf16=bf16, fp16=fp16, setup=setup):
                words = able.format(bf16, fp16) + setup
                _, measurement, _ = measure("import orchestrate_worker._torch\n" + words)
                settings = measurement["effective"]
                self.assertEqual((settings["precision"], settings["tf32"]), (found, found == "tf32"))

    def test_an_old_pytorch_rounds_products_too(self):
        loop = "from types import SimpleNamespace as Module\nimport orchestrate_worker._switches as ours\n"
        loop += "for words, precision in (('ieee', 'high'), ('bf16', 'medium')):\n"
        loop += "    backends = Module(cuda=torch.backends.cuda, cudnn=torch.backends.cudnn, mkldnn=Module())\n"
        loop += "    old = Module(backends=backends, get_float32_matmul_precision=lambda: precision)\n"
        loop += "    assert ours._float32(old)['onednn_matmul'] == words\n"
        done, _, _ = run("import torch\n" + loop)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_precision_is_that_of_the_computation(self):
        for setup, said, found in (
            ("lower = True", "bf16", "bf16"), ("lower = True", "amp", "amp"), ("lower = True", "fp32", "bf16"),
            ("", "bf16", "fp32"),
        ):
            with self.subTest(setup=setup, said=said):
                done, measurement, _ = measure(f"{setup}\noptions.update(precision={said!r})")
                self.assertEqual(measurement["effective"]["precision"], found)
                warning = f"the script declares precision={said}, but precision={found} was read back"
                self.assertEqual(warning in done.stderr, said != found)

    def test_the_library_of_bf16_products_is_reported(self):
        able = "import orchestrate_worker\ntorch.ops.mkldnn._is_mkldnn_bf16_supported = lambda: {}\n"
        lower = "lower = True; options.update(precision='bf16')"
        for setup, found in (
            (able.format(True) + lower, "onednn"), (able.format(False) + lower, "libtorch"), (able.format(True), None),
            (able.format("torch.missing") + lower, None),
            (able.format(True) + lower + "; torch.backends.mkldnn.set_flags(False)", "libtorch"),
        ):
            with self.subTest(setup=setup):
                _, measurement, _ = measure(setup)
                self.assertEqual(measurement["details"].get("bf16_products"), found)

    def test_precision_that_changes_behind_the_warmup_is_seen(self):
        loop = LOOP.replace("        window.loss", "        lower = window._state == 'open'\n        window.loss")
        _, measurement, _ = measure(loop=loop)
        self.assertEqual(measurement["effective"]["precision"], "bf16")

    def test_weights_of_lower_precision_are_a_setting(self):
        setup = "network.bfloat16(); images = images.bfloat16(); options.update(precision='bf16')"
        _, measurement, _ = measure(setup)
        self.assertEqual(measurement["effective"]["parameter_types"], {"bfloat16": 4})
        done, failed, _ = run(SCRIPT.format(setup="network.double(); images = images.double()", optimizer="SGD") + LOOP)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("float64", failed["failure"]["message"])

    def test_a_compiled_network_is_distinguished_from_an_eager_one(self):
        for lower, precision in ((False, "fp32"), (True, "bf16")):
            # The part that makes the graph is the same for all backends, and this one needs no compiler.
            setup = f"forward, lower = torch.compile(network, backend='aot_eager'), {lower}\n"
            setup += f"options.update(precision={precision!r})"
            with self.subTest(precision):
                _, measurement, _ = measure(setup)
                settings = measurement["effective"]
                self.assertEqual((settings["compile"], settings["precision"]), (True, precision))
                self.assertEqual((settings["batch"], settings["classes"], settings["input_size"]), (4, 7, 16))

    def test_a_step_that_is_compiled_as_a_whole(self):
        loop = "train = torch.compile(train, backend='aot_eager')\n" + LOOP
        _, measurement, _ = measure("lower = True; options.update(precision='bf16')", loop=loop)
        settings = measurement["effective"]
        self.assertEqual((settings["compile"], settings["precision"], settings["batch"]), (True, "bf16", 4))

    def test_a_script_that_says_it_compiles_and_does_not(self):
        done, measurement, _ = measure("options.update(compile=True, channels_last='true')")
        settings = measurement["effective"]
        self.assertEqual((settings["compile"], settings["channels_last"]), (False, False))
        self.assertIn("the script declares compile=True, but compile=False was read back", done.stderr)
        self.assertIn("the script declares channels_last=true", done.stderr)

    def test_a_window_with_a_custom_loop_reads_the_same(self):
        loop = "train()\nwith worker.window(samples=12, **options) as window:\n"
        loop += "    for _ in range(3):\n        window.step(train())\n"
        _, measurement, iterations = measure(loop=loop)
        settings = measurement["effective"]
        expected = {"batch": 4, "iters": 3, "input_size": 16, "classes": 7, "channels_last": False, "compile": False}
        self.assertEqual({name: settings[name] for name in expected}, expected)
        self.assertEqual(len(iterations), 4)

    def test_pytorch_may_be_imported_before_and_after_the_package(self):
        first = "import torch\nimport orchestrate_worker as worker\n"
        script = SCRIPT.format(setup="lower = True", optimizer="SGD").replace("import torch\n", "", 1)
        done, measurement, _ = run(script.replace("import orchestrate_worker as worker\n", first) + LOOP)
        self.assertEqual(measurement["effective"]["precision"], "bf16", done.stderr)

    def test_searching_for_pytorch_before_its_import_has_no_effect(self):
        asks = "import orchestrate_worker as worker, importlib.util\nassert importlib.util.find_spec('torch')\n"
        script = SCRIPT.format(setup="lower = True", optimizer="SGD")
        done, measurement, _ = run(script.replace("import orchestrate_worker as worker\n", asks) + LOOP)
        self.assertEqual(measurement["effective"]["precision"], "bf16", done.stderr)

    def test_each_window_with_a_warmup_reads_the_training_of_that_window(self):
        loop = LOOP + "images, labels, lower = images[:2], labels[:2], True\n"
        loop += "network.to(memory_format=torch.channels_last)\n"
        loop += "images = images.to(memory_format=torch.channels_last)\n" + LOOP
        _, measurement, _ = measure(loop=loop)
        expected = {"batch": 2, "precision": "bf16", "channels_last": True}
        self.assertEqual({name: measurement["effective"][name] for name in expected}, expected)

    def test_several_batches_in_a_step_are_declared_by_the_script(self):
        loop = "with worker.window(batch=8, warmup=1, **options) as window:\n"
        loop += "    for _ in range(4):\n        train()\n        window.step(train())\n"
        _, measurement, _ = measure(loop=loop)
        self.assertEqual((measurement["effective"]["batch"], measurement["samples"]), (8, 24))

    def test_all_that_backward_takes_still_works(self):
        loop = "loss = train()\n"
        loop += "torch.autograd.backward(loss for loss in [network(images).sum(), network(images).sum()])\n"
        loop += "edge = torch.autograd.graph.get_gradient_edge(network(images).sum())\n"
        loop += "before = network[0].weight.grad.clone()\n"
        loop += "with worker.window(samples=4, batch=4, **options) as window:\n"
        loop += "    torch.autograd.backward(edge, torch.ones(()))\n"
        loop += "assert not torch.equal(before, network[0].weight.grad)\n"
        done, _, _ = measure(loop=loop)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_losses_in_one_tensor_are_distinguished_and_nan_is_none(self):
        # Behind a warm-up, a loss on the processor is read in a shorter way.
        for warmup in (0, 1):
            with self.subTest(warmup=warmup):
                loop = "total = torch.zeros(())\n"
                loop += f"with worker.window(batch=4, warmup={warmup}, **options) as window:\n"
                loop += f"    for _ in range({warmup}):\n        window.step(train())\n"
                loop += "    for _ in range(3):\n        train()\n        total += 1\n        window.step(total)\n"
                loop += "    train()\n    window.step(network(images))\n"
                _, _, iterations = measure(loop=loop)
                self.assertEqual([line.split(",")[3] for line in iterations[1:]], ["1.0", "2.0", "3.0", ""])

    def test_losses_that_cannot_be_read_together_are_read_one_by_one(self):
        # Such as those of DTensor.
        loop = "class Apart(torch.Tensor):\n    @classmethod\n"
        loop += "    def __torch_function__(cls, function, types, args=(), kwargs=None):\n"
        loop += "        if function in (torch.stack, torch.Tensor.item) and window._state == 'open':\n"
        loop += "            raise RuntimeError('not within a training')\n"
        loop += "        if function is torch.stack: raise RuntimeError('not together')\n"
        loop += "        return super().__torch_function__(function, types, args, kwargs or {})\n"
        loop += "with worker.window(batch=4, warmup=1, iters=3, **options) as window:\n"
        loop += "    for number in range(4):\n"
        loop += "        train()\n        window.step(torch.tensor(float(number)).as_subclass(Apart))\n"
        _, measurement, iterations = measure(loop=loop)
        self.assertEqual([line.split(",")[3] for line in iterations[1:]], ["1.0", "2.0", "3.0"])

    def test_backward_is_as_it_was_within_a_window_and_watched_again_behind_it(self):
        loop = "watched, seen = torch.autograd.backward, []\n"
        loop += LOOP + "    " * 2 + "seen.append(torch.autograd.backward is watched)\n"
        loop += "assert seen == [True, True, False, False, False], seen\n"
        loop += "assert torch.autograd.backward is watched\n"
        loop += "lower = True\n" + LOOP + "assert torch.autograd.backward is watched\n"
        done, measurement, _ = measure(loop=loop)
        self.assertEqual((done.returncode, measurement["effective"]["precision"]), (0, "bf16"), done.stderr)

    def test_no_graph_is_held_after_the_window(self):
        loop = LOOP + "assert worker._backward._WATCH.inside is None\nimport gc, weakref\n"
        loop += "watched = weakref.ref(network[0].weight)\n"
        loop += "del network, optimizer, forward, train, images, labels, window; gc.collect()\n"
        loop += "assert watched() is None\n"
        done, _, _ = measure(loop=loop)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


@unittest.skipUnless(HAS_PYTORCH or os.environ.get("ORCHESTRATE_NEEDS_PYTORCH"), REASON)
class Ranks(unittest.TestCase):
    """Several processes under `torchrun` are one measurement."""

    RANKS = """
import os, sys, time
import orchestrate_worker as worker
import torch, torch.distributed as distributed
distributed.init_process_group("gloo")
rank = distributed.get_rank()
network = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(6, 3))
with worker.window(warmup=1, iters=4, precision="fp32") as window:
    for images, labels in window.over([(torch.randn(8, 6), torch.randint(3, (8,)))]):
        torch.nn.functional.cross_entropy(network(images), labels).backward()
        {body}
assert (window.measurement is not None) == (rank == 0)
distributed.destroy_process_group()
"""

    def launch(self, body):
        with tempfile.TemporaryDirectory() as directory:
            script, path = pathlib.Path(directory, "ranks.py"), pathlib.Path(directory, "measurement.json")
            script.write_text(self.RANKS.format(body=body))
            environment = dict(os.environ, PYTHONPATH=SOURCES, ORCHESTRATE_MEASUREMENT=str(path), OMP_NUM_THREADS="1")
            environment.pop("ORCHESTRATE_ITERATIONS", None)
            words = [sys.executable, "-B", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
            done = subprocess.run([*words, script], env=environment, capture_output=True, text=True, timeout=600)
            return done, json.loads(path.read_text()) if path.exists() else None

    def test_the_sum_in_the_time_of_the_slowest(self):
        done, measurement = self.launch(
            "end = time.monotonic() + 0.05 * rank\n        while time.monotonic() < end: pass\n"
            "        window.count('tokens', torch.tensor(10 + rank)); window.metric('rank', rank)\n"
            "        window.detail(**{f'of_{rank}': rank, 'rank': rank})"
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(measurement["samples"], 2 * 4 * 8)
        self.assertEqual(measurement["metrics"]["tokens"], {"value": 4 * 10 + 4 * 11, "per_second": True})
        self.assertEqual(measurement["metrics"]["rank"], {"value": 0})
        self.assertEqual((measurement["effective"]["batch"], measurement["effective"]["ranks"]), (16, 2))
        details = measurement["details"]
        self.assertEqual([line["rank"] for line in details["ranks"]], [0, 1])
        self.assertEqual([line["samples"] for line in details["ranks"]], [32, 32])
        # Declarations of the script are kept, whichever rank is slowest.
        self.assertEqual((details["of_0"], details["of_1"], details["rank"]), (0, 1, 0))
        slowest = details["ranks"][details["slowest_rank"]]
        self.assertEqual(measurement["elapsed_s"], slowest["elapsed_s"])
        self.assertEqual(measurement["elapsed_s"], max(line["elapsed_s"] for line in details["ranks"]))
        self.assertGreaterEqual(measurement["elapsed_s"], 4 * 0.05)

    def test_the_exception_of_a_rank_is_the_reason(self):
        done, measurement = self.launch("\n        if rank == 1: raise ValueError('rotten batch')")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(measurement["failure"]["message"], "rank 1: ValueError: rotten batch")


if __name__ == "__main__":
    unittest.main()
