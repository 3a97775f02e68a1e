"""Lightning and JAX, where they are installed; and CUDA, by a stub that writes down what it is asked."""

import importlib.util
import os
import unittest

from test_pytorch import HAS_PYTORCH, REASON, SCRIPT
from test_window import run

LIGHTNING = """
import sys
import torch
from lightning.pytorch import LightningModule, Trainer
from orchestrate_worker.lightning import MeasureWindow

class Module(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 3)
    def training_step(self, batch, number):
        images, labels = batch
        return torch.nn.functional.cross_entropy(self.layer(images), labels)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

data = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.randint(3, (64,)))
loader = torch.utils.data.DataLoader(data, batch_size=16)
measure = MeasureWindow(warmup=3, iters=7, model="layer")
trainer = Trainer(
    max_epochs={epochs}, callbacks=[measure], accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False, precision={precision!r})
trainer.fit(Module(), loader)
assert trainer.global_step == 10, trainer.global_step
"""

# Whatever takes time in it moves a clock on: data by 1 s a sample, what ends an epoch or validates by 1000.
LIGHTNING_CLOCK = """
import types
import orchestrate_worker.lightning as ours
clock = [0.0]
ours.time = types.SimpleNamespace(perf_counter=lambda: clock[0])
class Data(torch.utils.data.TensorDataset):
    def __getitem__(self, number):
        clock[0] += 1
        return super().__getitem__(number)
def late(self, *_):
    clock[0] += 1000
Module.validation_step = Module.on_train_epoch_end = late
data = Data(*data.tensors)
loader = torch.utils.data.DataLoader(data, batch_size=16)
measure = MeasureWindow(warmup=3, iters=7, model="layer")
trainer = Trainer(
    max_epochs=-1, callbacks=[measure], accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False, val_check_interval=1)
others = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*data.tensors), batch_size=16)
trainer.fit(Module(), loader, others)
"""

JAX = """
import jax, jax.numpy as jnp
import orchestrate_worker as worker
weights, images = jnp.ones((512, 512)), jnp.ones((64, 512))
step = jax.jit(lambda weights, images: weights - 1e-6 * images.T @ (images @ weights))
with worker.window(warmup=1, iters=5, {said}) as window:
    for images in window.over([images]):
        weights = step(weights, images)
        window.loss(weights[0, 0])
"""

# JAX takes a GPU where there is one.
ON_THE_PROCESSOR = {"JAX_PLATFORMS": "cpu"}

# A stand-in for JAX on an NVIDIA GPU.
JAX_ON_A_GPU = """
import sys, types
peak = [1]
class Device:
    compute_capability, device_kind, platform = {capability!r}, "Fake GPU", "gpu"
    memory_stats = staticmethod(lambda: {{"peak_bytes_in_use": peak[0]}})
jax = types.ModuleType("jax")
class Cpu(Device):
    platform = "cpu"
jax.config = types.SimpleNamespace(
    jax_default_matmul_precision={products!r}, jax_enable_x64=False, jax_default_device=None, jax_disable_jit=False)
waited = []
def live_arrays(platform=None):
    return [types.SimpleNamespace(block_until_ready=lambda: waited.append(platform))]
jax.process_count, jax.live_arrays, jax.effects_barrier = lambda: 1, live_arrays, lambda: None
jax.default_backend, jax.device_get = lambda: "gpu", list
jax.devices = lambda platform=None: [Cpu if platform == "cpu" else Device]
sys.modules["jax"] = jax
import orchestrate_worker as worker
with worker.window(warmup=1, iters=2, batch=4, precision={said!r}) as window:
    for number in range(3):
        jax.config.jax_default_matmul_precision = {products!r} if number < 2 else {later!r}
        peak[0] += 1
        window.step()
    peak[0] = 100
jax.config.jax_default_matmul_precision = None
"""

# A stand-in for CUDA. The training stays on the processor; the tests check which functions are called, in which order.
CUDA = """
asked = []
def note(name, result=None):
    def answer(*words, **more):
        asked.append(name)
        return result
    return answer
class Event:
    clock = 0
    def __init__(self, enable_timing):
        assert enable_timing
    def record(self):
        asked.append("event")
        Event.clock += 5
        self.at = Event.clock
    def elapsed_time(self, other):
        asked.append("read")
        return other.at - self.at
class Runtime:
    cudaProfilerStart, cudaProfilerStop = staticmethod(note("start")), staticmethod(note("stop"))
class About:
    name, uuid, major, minor = "Fake GPU", "01234567", 9, 0
cuda = torch.cuda
cuda.is_initialized, cuda.synchronize = note("asked", True), note("synchronize")
cuda.reset_peak_memory_stats, cuda.cudart = note("reset"), lambda: Runtime
cuda.nvtx.range_push, cuda.nvtx.range_pop, cuda.Event = note("push"), note("pop"), Event
capturing = []
cuda.is_current_stream_capturing = lambda: bool(capturing)
class Graph:
    pass
cuda.CUDAGraph = Graph
cuda.current_device, cuda.get_device_properties = lambda: 0, lambda index: About
evaluates = []
cuda.max_memory_reserved, cuda.max_memory_allocated = lambda: 9000 if evaluates else 2000, lambda: 1000
torch.version.cuda = "13.0"
torch.backends.cudnn.version = lambda: 91002
torch.backends.cudnn.allow_tf32 = False
import orchestrate_worker._torch as ours
ours.TorchFramework.device = lambda self: "cuda"
"""
CUDA_LOOP = """
import os
with worker.window(warmup=2, iters=3, **options) as window:
    for images, labels in window.over([(images, labels)]):
        asked.append("train")
        threads = torch._C._is_multithreading_enabled()
        assert threads == (window._state != "open" or "NVTX_INJECTION64_PATH" not in os.environ), threads
        window.loss(train())
    evaluates.append(True)
asked = [word for word in asked if word != "asked"]
train = ["train", "event"] * 3
before = ["train"] * 2 + ["synchronize", "reset", "start", "push", "event"]
assert torch._C._is_multithreading_enabled()
assert asked == before + train + ["synchronize", "pop", "stop"] + ["read"] * 3, asked
"""

# The loader ends when a second has passed. Its last iteration ended before, on the host and on the device.
CUDA_END = """
import time
def data():
    yield from [(images, labels)] * 5
    while time.perf_counter() - window._ends[-1] < 1:
        pass
with worker.window(warmup=2, **options) as window:
    for images, labels in window.over(data()):
        window.loss(train())
assert abs(window._ended - max(window._ends[-1], window._began + 0.015)) < 1e-6
"""

# The replay of a CUDA graph calls neither a network nor a backward pass.
REPLAYED = """
train()
capturing.append(1)
everything = images, labels
images, labels = images[:{captured}], labels[:{captured}]
train()
images, labels = everything
capturing.clear()
graph = Graph()
with worker.window(warmup=2, iters=3, **options) as window:
    for _ in window.over([(images, labels)]):
        pass
"""


@unittest.skipUnless(HAS_PYTORCH or os.environ.get("ORCHESTRATE_NEEDS_PYTORCH"), REASON)
class Devices(unittest.TestCase):
    """Devices that are not here."""

    def test_under_a_profiler_all_of_an_iteration_is_in_one_thread(self):
        script = SCRIPT.format(setup=CUDA, optimizer="SGD") + CUDA_LOOP
        done, _, _ = run(script, variables={"NVTX_INJECTION64_PATH": "/nowhere"})
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_cuda_is_waited_for_at_both_ends_and_read_only_afterwards(self):
        done, measurement, iterations = run(SCRIPT.format(setup=CUDA, optimizer="SGD") + CUDA_LOOP)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        details = measurement["details"]
        self.assertEqual((details["device_name"], details["device_uuid"]), ("Fake GPU", "GPU-01234567"))
        self.assertEqual((details["compute_capability"], details["iteration_clock"]), ("9.0", "device_events"))
        self.assertEqual(details["peak_device_memory_bytes"], 2000)
        self.assertEqual(details["peak_device_allocated_bytes"], 1000)
        self.assertEqual([line.split(",")[1] for line in iterations[1:]], ["0.005000000"] * 3)
        self.assertEqual((measurement["effective"]["device"], measurement["effective"]["precision"]), ("cuda", "fp32"))

    def test_the_window_ends_when_the_device_has_done_its_last_iteration(self):
        done, _, _ = run(SCRIPT.format(setup=CUDA, optimizer="SGD") + CUDA_END)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_replayed_graph_is_reported_as_captured(self):
        for captured, repeated in ((4, []), (2, ["batch"])):
            with self.subTest(captured=captured):
                script = SCRIPT.format(setup=CUDA, optimizer="SGD") + REPLAYED.format(captured=captured)
                done, measurement, _ = run(script)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                settings = measurement["effective"]
                self.assertEqual((settings["batch"], settings["input_size"], settings["precision"]), (4, 16, "fp32"))
                self.assertEqual((settings["compile"], settings["optimizer"]), (False, "sgd"))
                self.assertEqual(measurement["details"]["repeated"], repeated)

    def test_networks_hidden_by_gc_freeze_are_not_watched(self):
        # In Python 3.12, all scripts begin so.
        freeze = "import gc; gc.freeze()\n"
        done, _, _ = run(freeze + SCRIPT.format(setup=CUDA, optimizer="SGD") + REPLAYED.format(captured=4))
        self.assertEqual((done.returncode, done.stderr), (0, ""))


@unittest.skipUnless(importlib.util.find_spec("lightning") or os.environ.get("ORCHESTRATE_NEEDS_PYTORCH"), REASON)
class Lightning(unittest.TestCase):
    """The callback measures a trainer and stops it."""

    def test_the_trainer_is_measured_and_stopped(self):
        for precision, expected in (("32-true", "fp32"), ("bf16-mixed", "bf16")):
            with self.subTest(precision):
                done, measurement, iterations = run(LIGHTNING.format(epochs=-1, precision=precision))
                self.assertEqual(done.returncode, 0, done.stderr)
                settings = measurement["effective"]
                self.assertEqual((settings["precision"], settings["batch"], settings["classes"]), (expected, 16, 3))
                self.assertEqual(settings["optimizer"], "sgd")
                self.assertEqual((measurement["samples"], len(iterations)), (7 * 16, 8))
                self.assertTrue(all(float(line.split(",")[3]) > 0 for line in iterations[1:]))

    def test_validation_and_the_ends_of_epochs_are_no_waiting_for_data(self):
        script = LIGHTNING.format(epochs=-1, precision="32-true").partition("measure = ")[0] + LIGHTNING_CLOCK
        done, measurement, _ = run(script)
        self.assertEqual(done.returncode, 0, done.stderr)
        # The trainer fetches one batch ahead, so an iteration waits for zero to two batches.
        wait = measurement["details"]["data_wait_s"]
        self.assertTrue(0 < wait < 1000, wait)

    def test_iterations_are_counted_and_profiled_at_the_end_of_the_warm_up(self):
        script = LIGHTNING.format(epochs=-1, precision="32-true").replace("warmup=3, iters=7", "warmup=5, iters=5")
        done, measurement, _ = run(script, variables={"ORCHESTRATE_OPERATORS": "2"})
        self.assertEqual(done.returncode, 0, done.stderr)
        # The only layer has no gradient of its input.
        self.assertEqual(measurement["details"]["counted_flops_per_sample"], 2 * 2 * 8 * 3)
        self.assertEqual((measurement["details"]["profiles"], measurement["ops"]["iterations"]), (["ops"], 2))
        phases = {it.get("phase") for it in measurement["ops"]["operators"]}
        self.assertEqual(phases, {"forward", "backward", "optimizer", "data"})

    def test_a_training_that_ends_early_says_so(self):
        done, measurement, _ = run(LIGHTNING.format(epochs=1, precision="32-true"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("3 of 3 warm-up iterations and 1 of 7 measured ones", measurement["failure"]["message"])


class JaxOnAGpu(unittest.TestCase):
    """JAX computes products of single precision in TF32 by default."""

    def reported(self, said, products, capability="9.0", **later):
        """The precision that is reported, and whether that is a mere repetition."""
        words = {"capability": capability, "products": products, "later": products, "said": said}
        done, measurement, _ = run(JAX_ON_A_GPU.format(**{**words, **later}))
        self.assertEqual(done.returncode, 0, done.stderr)
        # Memory after the window does not count.
        self.assertEqual(measurement["details"]["peak_device_allocated_bytes"], 4)
        precision = measurement["effective"]["precision"]
        self.assertEqual("but precision=" in done.stderr, said != precision)
        return precision, "precision" in measurement["details"]["repeated"]

    def test_rounded_products_are_not_fp32(self):
        for products in (None, "default", "high", "tensorfloat32", "bfloat16"):
            with self.subTest(products):
                self.assertEqual(self.reported("fp32", products), ("tf32", False))
        self.assertEqual(self.reported("tf32", None, "8.0"), ("tf32", False))
        self.assertEqual(self.reported("fp32", "BF16_BF16_F32"), ("bf16", False))

    def test_products_that_are_not_rounded_are_fp32(self):
        cases = (("fp32", "float32", "9.0"), ("tf32", "highest", "9.0"), ("fp32", None, "7.5"))
        for said, products, capability in cases:
            with self.subTest(said=said, products=products):
                self.assertEqual(self.reported(said, products, capability), ("fp32", False))

    def test_declared_settings_without_evidence_are_repeated(self):
        for said, products, capability in (
            ("bf16", None, "9.0"), ("fp32", "BF16_BF16_F32_X6", "9.0"), ("fp32", None, "gfx90a"), ("fp32", None, ""),
        ):
            with self.subTest(said=said, products=products, capability=capability):
                self.assertEqual(self.reported(said, products, capability), (said, True))
        self.assertEqual(self.reported("fp32", "float32", later=None), ("fp32", True))

    def test_all_platforms_in_use_are_waited_for(self):
        for default, device in (("None", "cuda"), ("'cpu'", "cpu"), ("Cpu", "cpu"), ("Device", "cuda")):
            with self.subTest(default):
                words = {"capability": "9.0", "products": "float32", "later": "float32", "said": "fp32"}
                script = JAX_ON_A_GPU.format(**words)
                script = script.replace("jax_default_device=None", f"jax_default_device={default}")
                done, measurement, _ = run(script + "assert sorted(waited) == ['cpu', 'cpu', 'gpu', 'gpu'], waited\n")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual(measurement["effective"]["device"], device)

    def test_compile_is_read_back_only_if_it_is_switched_off(self):
        for disabled, found in ((False, None), (True, False)):
            words = {"capability": "9.0", "products": "float32", "later": "float32", "said": "fp32"}
            script = JAX_ON_A_GPU.format(**words)
            script = script.replace("jax_disable_jit=False", f"jax_disable_jit={disabled}")
            _, measurement, _ = run(script)
            self.assertIs(measurement["effective"].get("compile"), found)

    def test_a_precision_that_has_no_name_is_refused(self):
        words = {"capability": "9.0", "products": "F16_F16_F32", "later": "F16_F16_F32", "said": "fp32"}
        done, measurement, _ = run(JAX_ON_A_GPU.format(**words))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("jax_default_matmul_precision=F16_F16_F32 cannot be", measurement["failure"]["message"])


@unittest.skipUnless(importlib.util.find_spec("jax"), "JAX is not installed for this Python")
class Jax(unittest.TestCase):
    """JAX on the processor."""

    def test_a_compiled_step_is_measured(self):
        done, measurement, iterations = run(
            JAX.format(said="precision='fp32', model='matrix'"), variables=ON_THE_PROCESSOR
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((measurement["samples"], measurement["effective"]["batch"]), (5 * 64, 64))
        self.assertEqual((measurement["effective"]["device"], measurement["effective"]["precision"]), ("cpu", "fp32"))
        self.assertIn("jax", measurement["details"]["versions"])
        self.assertEqual(len(iterations), 6)
        self.assertTrue(iterations[1].endswith(",submission"))

    def test_precision_has_to_be_said(self):
        _, measurement, _ = run(JAX.format(said=""), variables=ON_THE_PROCESSOR)
        self.assertIn("the precision cannot be read back", measurement["failure"]["message"])


if __name__ == "__main__":
    unittest.main()
