"""Where the time of a few iterations goes: calls that were made up, and profiles by PyTorch."""

import os
import sys
import unittest

from test_pytorch import HAS_PYTORCH, REASON, measure
from test_window import SOURCES

sys.path.insert(0, SOURCES)

from orchestrate_worker import _operators  # noqa: E402


class Event:
    """An event of the profiler, with the fields that are read."""

    def __init__(self, name, began, ended, identity=0, shapes=(), types=(), values=(), scope=False, launcher=0, thread=1):
        attributes = {
            "name": name, "start_ns": began, "duration_ns": ended - began, "correlation_id": identity,
            "shapes": list(shapes), "dtypes": list(types), "concrete_inputs": list(values), "is_user_annotation": scope,
            "linked_correlation_id": launcher, "start_thread_id": thread,
        }
        for field, value in attributes.items():
            setattr(self, field, lambda value=value: value)


def calls(*events):
    return [_operators.Call(event) for event in events]


class Summed(unittest.TestCase):
    """Self times add up to the elapsed time, without counting anything twice."""

    def test_self_times_are_those_without_the_calls_within(self):
        found = _operators.summed(calls(
            Event("aten::linear", 0, 100, shapes=[[4, 8], [2, 8]], types=["float", "float"]),
            Event("aten::addmm", 10, 90, shapes=[[4, 8], []], types=["c10::BFloat16", "Scalar"], values=[None, 1]),
            Event("aten::addmm", 200, 230, shapes=[[4, 8], []], types=["c10::BFloat16", "Scalar"], values=[None, 1]),
            Event("aten::addmm", 300, 310, shapes=[[9, 9], []], types=["float", "Scalar"], values=[None, 1]),
        ), None, 1e-6)
        addmm, linear, other = found["operators"]
        self.assertEqual((addmm["calls"], linear["calls"], other["calls"]), (2, 1, 1))
        for operator, seconds in ((addmm, 110e-9), (linear, 20e-9), (other, 10e-9)):
            self.assertAlmostEqual(operator["host_s"], seconds, 15)
        self.assertEqual(addmm["types"], ["bfloat16", None])
        self.assertEqual((addmm["shapes"], addmm["arguments"]), ([[4, 8], None], [None, 1]))
        self.assertEqual(found["rest_s"], 0)

    def test_phases_follow_from_the_enclosing_scopes(self):
        found = _operators.summed(calls(
            Event("aten::mm", 0, 10),
            Event("autograd::engine::evaluate_function: MmBackward0", 20, 60),
            Event("MmBackward0", 25, 55),
            Event("aten::mm", 30, 50),
            Event("Optimizer.step#SGD.step", 70, 100, scope=True),
            Event("aten::add_", 80, 90),
            Event(_operators.DATA, 100, 200, scope=True),
            Event("aten::stack", 110, 190),
            Event("aten::cat", 120, 180),
        ), None, 1e-6)
        phases = {(it["name"], it["phase"]): round(it["host_s"] * 1e9) for it in found["operators"]}
        self.assertEqual(phases, {
            (_operators.DATA, "data"): 100, ("aten::mm", "backward"): 20, ("aten::mm", "forward"): 10,
            ("aten::add_", "optimizer"): 10, ("MmBackward0", "backward"): 10,
            ("autograd::engine::evaluate_function: MmBackward0", "backward"): 10,
        })
        wait = found["operators"][0]
        self.assertEqual((wait["class"], wait["calls"]), ("data", 1))

    def test_kernels_belong_to_the_operator_that_launched_them(self):
        kernels = [_operators.Kernel(event) for event in (
            Event("gemm", 1000, 1400, launcher=7), Event("bias", 1300, 1500, launcher=7),
            Event("graph kernel", 1600, 1700, launcher=99),
        )]
        found = _operators.summed(calls(Event("aten::addmm", 0, 50, identity=7)), kernels, 1e-5)
        self.assertAlmostEqual(found["device_busy_s"], 600e-9, 15)
        addmm, alone = found["operators"]
        self.assertEqual((addmm["name"], addmm["kernels"], alone["name"]), ("aten::addmm", 2, "graph kernel"))
        self.assertAlmostEqual(addmm["device_s"], 600e-9, 15)
        self.assertAlmostEqual(alone["device_s"], 100e-9, 15)
        self.assertIn("no kernels", _operators.summed(calls(Event("aten::mm", 0, 9)), [], 1e-5)["notes"][0])

    def test_threads_are_separate_and_unlisted_operators_are_summed(self):
        found = _operators.summed(calls(Event("a", 0, 100), Event("b", 50, 60, thread=2)), None, 1e-6)
        self.assertEqual([round(it["host_s"] * 1e9) for it in found["operators"]], [100, 10])
        many = [Event("op", 10 * n, 10 * n + 5, shapes=[[n]], types=["float"]) for n in range(450)]
        found = _operators.summed(calls(*many), None, 1e-4)
        self.assertEqual(len(found["operators"]), 400)
        self.assertAlmostEqual(found["rest_s"], 50 * 5e-9, 15)

    def test_calls_of_the_runtime_are_no_operators(self):
        for name, is_call in (
            ("cudaLaunchKernel", False), ("cuLaunchKernelEx", False), ("aten::mm", True), ("cumulate", True),
            ("custom", True), ("cudnn_it", True),
        ):
            self.assertEqual(_operators._is_call(Event(name, 0, 1)), is_call, name)


@unittest.skipUnless(HAS_PYTORCH or os.environ.get("ORCHESTRATE_NEEDS_PYTORCH"), REASON)
class Profiles(unittest.TestCase):
    """Iterations behind the window are profiled if orchestrate asks for it."""

    def test_some_iterations_behind_the_window_are_profiled(self):
        done, measurement, iterations = measure(variables={"ORCHESTRATE_OPERATORS": "2"})
        self.assertEqual((done.returncode, len(iterations), measurement["samples"]), (0, 4, 12), done.stderr)
        ops = measurement["ops"]
        self.assertEqual((ops["source"], ops["iterations"]), ("torch.profiler", 2))
        self.assertNotIn("device_busy_s", ops)
        found = {(it["name"], it["phase"]): it for it in ops["operators"]}
        for key in (
            ("aten::convolution_backward", "backward"), ("aten::addmm", "forward"), (_operators.DATA, "data"),
            ("aten::add_", "optimizer"),
        ):
            self.assertIn(key, found)
        self.assertEqual(found[("aten::convolution_backward", "backward")]["calls"], 2)
        self.assertEqual(found[("aten::addmm", "forward")]["shapes"][1:3], [[4, 32], [32, 7]])
        self.assertLessEqual(sum(it["host_s"] for it in ops["operators"]) + ops["rest_s"], 1.001 * ops["elapsed_s"])
        self.assertEqual(measurement["details"]["profiles"], ["ops"])

    def test_without_being_asked_the_window_only_says_that_it_can(self):
        _, measurement, _ = measure()
        self.assertNotIn("ops", measurement)
        self.assertEqual(measurement["details"]["profiles"], ["ops"])

    def test_a_custom_loop_without_a_profile_warns_if_one_is_requested(self):
        loop = "with worker.window(batch=4, warmup=1, iters=3, **options) as window:\n"
        loop += "    for _ in range(4):\n        window.step(train())\n"
        done, measurement, _ = measure(loop=loop, variables={"ORCHESTRATE_OPERATORS": "2"})
        self.assertNotIn("profiles", measurement["details"])
        self.assertNotIn("ops", measurement)
        self.assertIn("no iterations were profiled: loop over window.over(…)", done.stderr)

    def test_a_custom_loop_is_profiled_at_the_end_of_its_warm_up(self):
        loop = "with worker.window(batch=4, warmup={}, iters=3, **options) as window:\n    for _ in range({} + 3):\n"
        loop += "        with window.waiting():\n            torch.zeros(9).tolist()\n        window.step(train())\n"
        # The first three are not profiled.
        for warmup, profiled in ((4, 1), (6, 2)):
            with self.subTest(warmup=warmup):
                variables = {"ORCHESTRATE_OPERATORS": "2"}
                done, measurement, iterations = measure(loop=loop.format(warmup, warmup), variables=variables)
                self.assertEqual((len(iterations), measurement["samples"]), (4, 12), done.stderr)
                ops = measurement["ops"]
                calls = {it["name"]: it["calls"] for it in ops["operators"]}
                self.assertEqual((ops["iterations"], calls["aten::convolution_backward"]), (profiled, profiled))
                self.assertEqual(calls[_operators.DATA], profiled)
                self.assertIn("counted_flops_per_sample", measurement["details"])
                self.assertLessEqual(sum(it["host_s"] for it in ops["operators"]), 1.001 * ops["elapsed_s"])
                self.assertEqual(measurement["details"]["profiles"], ["ops"])

    def test_data_that_ends_ends_the_profile(self):
        loop = "with worker.window(warmup=1, iters=3, **options) as window:\n"
        loop += "    for images, labels in window.over(iter([(images, labels)] * {})):\n        window.loss(train())\n"
        _, measurement, _ = measure(loop=loop.format(5), variables={"ORCHESTRATE_OPERATORS": "2"})
        self.assertEqual(measurement["ops"]["iterations"], 1)
        done, measurement, _ = measure(loop=loop.format(4), variables={"ORCHESTRATE_OPERATORS": "2"})
        self.assertNotIn("ops", measurement)
        self.assertIn("no iterations were profiled: the data ended", done.stderr)

    def test_a_profiler_that_fails_costs_no_measurement(self):
        setup = "import torch.profiler\ndef fail(*args, **kwargs):\n    raise RuntimeError('no CUPTI')\n"
        setup += "torch.profiler.profile = fail"
        done, measurement, _ = measure(setup, variables={"ORCHESTRATE_OPERATORS": "2"})
        self.assertEqual((done.returncode, measurement["samples"]), (0, 12))
        self.assertIn("no iterations were profiled: no CUPTI", done.stderr)
        self.assertNotIn("ops", measurement)


if __name__ == "__main__":
    unittest.main()
