"""The FLOPs of an iteration, counted while PyTorch runs it, against counts by hand and against orchestrate's tables."""

import os
import sys
import unittest

from test_pytorch import HAS_PYTORCH, REASON, measure
from test_window import SOURCES, run

sys.path.insert(0, SOURCES)

# `count` counts one call of a function, and `train` makes the function that trains a network on x.
HELPERS = """
import torch
from orchestrate_worker._flops import FlopCounter
def count(step):
    counter = FlopCounter(torch)
    assert counter.begin()
    step()
    return counter.end()
def train(network, x, loss=lambda out: out.float().pow(2).mean()):
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    def step():
        optimizer.zero_grad()
        loss(network(x)).backward()
        optimizer.step()
    return step
"""


@unittest.skipUnless(HAS_PYTORCH or os.environ.get("ORCHESTRATE_NEEDS_PYTORCH"), REASON)
class Counts(unittest.TestCase):
    """2 FLOPs per multiply-add, forward and backward."""

    def printed(self, script):
        done, _, _ = run(HELPERS + script)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split("\n")[:-1]

    def test_a_convolutional_network_by_hand(self):
        found = self.printed("""
network = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
    torch.nn.Conv2d(8, 16, 3, stride=2, padding=1, groups=4), torch.nn.ReLU(), torch.nn.Flatten(),
    torch.nn.Linear(16 * 8 * 8, 10))
print(count(train(network, torch.randn(4, 3, 16, 16))).flops)
""")
        first = 16 * 16 * 8 * 3 * 9
        grouped = 8 * 8 * 16 * (8 // 4) * 9
        linear = 16 * 8 * 8 * 10
        # The first layer has no gradient of its input.
        self.assertEqual(float(found[0]), 4 * 2 * (2 * first + 3 * grouped + 3 * linear))

    def test_a_transformer_by_hand(self):
        found = self.printed("""
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.taken, self.given = torch.nn.Linear(32, 96), torch.nn.Linear(32, 32)
        self.wide, self.narrow = torch.nn.Linear(32, 128), torch.nn.Linear(128, 32)
    def forward(self, x):
        parts = self.taken(x).view(2, 20, 3, 4, 8).permute(2, 0, 3, 1, 4)
        mixed = torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=False)
        x = x + self.given(mixed.transpose(1, 2).reshape(2, 20, 32))
        return x + self.narrow(torch.nn.functional.gelu(self.wide(x)))
network = torch.nn.Sequential(torch.nn.Embedding(50, 32), Block(), torch.nn.Linear(32, 50))
print(count(train(network, torch.randint(50, (2, 20)))).flops)
""")
        tokens = 2 * 20
        weights = 32 * 96 + 32 * 32 + 2 * 32 * 128 + 32 * 50
        # Queries with keys, and their weights with values: over all heads together, 32 numbers for each pair of tokens.
        attention = 2 * (20 * 20 * 32) * 2
        self.assertEqual(float(found[0]), 3 * 2 * (tokens * weights + attention))

    def test_the_networks_that_we_describe(self):
        found = self.printed("""
import torchvision
for name in ("resnet18", "mobilenet_v2", "squeezenet1_0", "vit_b_16"):
    print(count(train(getattr(torchvision.models, name)(), torch.randn(1, 3, 224, 224))).flops / 1e9)
""")
        # `orchestrate complexity --all`, in GFLOP per image.
        for counted, described in zip(found, (10.648, 1.78297, 4.57822, 105.152)):
            self.assertLess(abs(float(counted) / described - 1), 1e-3, (counted, described))

    def test_recomputation_and_code_without_gradients_are_not_counted(self):
        found = self.printed("""
from torch.utils.checkpoint import checkpoint
x = torch.randn(8, 64)
class Two(torch.nn.Module):
    def __init__(self, reentrant=None):
        super().__init__()
        self.one, self.other, self.reentrant = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64), reentrant
    def forward(self, x):
        part = lambda y: torch.relu(self.other(y))
        x = self.one(x)
        return part(x) if self.reentrant is None else checkpoint(part, x, use_reentrant=self.reentrant)
for reentrant in (None, False, True):
    print(count(train(Two(reentrant), x)).flops)
def with_evaluation():
    with torch.no_grad():
        Two()(x)
    train(Two(), x)()
print(count(with_evaluation).flops)
""")
        self.assertEqual(found, [str(float(8 * 2 * 64 * 64 * 5))] * 4)

    def test_custom_functions_and_recurrent_layers(self):
        found = self.printed("""
class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w
    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return None, x.T @ grad
w = torch.randn(64, 32, requires_grad=True)
before = vars(torch.autograd.Function)["apply"]
print(count(lambda: Product.apply(torch.randn(8, 64), w).sum().backward()).flops)
assert vars(torch.autograd.Function)["apply"] is before
step = train(torch.nn.LSTM(16, 32), torch.randn(5, 4, 16, requires_grad=True), lambda out: out[0].sum())
print(count(step).flops)
""")
        self.assertEqual(float(found[0]), 2 * 2 * 8 * 64 * 32)
        self.assertLess(abs(float(found[1]) / (3 * 2 * 5 * 4 * 4 * 32 * (16 + 32)) - 1), 0.05)

    def test_uncountable_operators_are_named_or_left_out(self):
        found = self.printed("""
from typing import Any
library = torch.library.Library("mine", "DEF")
library.define("double(Tensor x) -> Tensor")
library.impl("double", lambda x: x * 2, "CPU")
x = torch.randn(4, 8)
network = torch.nn.Linear(8, 8)
print(count(lambda: (network(x) + torch.ops.mine.double(x)).sum().backward()).without_formula)
# The gradient of a gradient cannot be distinguished from recomputation.
taken = torch.randn(4, 8, requires_grad=True)
def penalty():
    gradient, = torch.autograd.grad(network(taken).pow(2).sum(), taken, create_graph=True)
    gradient.pow(2).sum().backward()
print(count(penalty))
""")
        self.assertEqual(found, ["['mine::double']", "None"])


    def test_products_that_pytorch_has_no_formula_for(self):
        found = self.printed("""
products = torch.nn.Linear(8, 8)
taken = lambda *shape: torch.randn(*shape, requires_grad=True)
matrix, vector = torch.randn(4, 8), taken(8)
print(count(lambda: (matrix @ vector).sum().backward()).flops)
rows, experts, ends = taken(48, 16), taken(3, 16, 32), torch.tensor([16, 32, 48], dtype=torch.int32)
lower = lambda it: it.to(torch.bfloat16)
print(count(lambda: torch._grouped_mm(lower(rows), lower(experts), offs=ends).pow(2).sum().backward()).flops)
queries, keys = taken(2, 8, 16, 8), taken(2, 2, 16, 8)
attention = torch.nn.functional.scaled_dot_product_attention
print(count(lambda: attention(queries, keys, keys, enable_gqa=True).sum().backward()).flops)
texts = torch.nested.nested_tensor([torch.randn(3, 8), torch.randn(5, 8)], layout=torch.jagged)
print(count(lambda: products(texts).values().sum().backward()).flops)
""")
        # Of a vector, the weight has no gradient; 8 heads of queries share 2 of keys; and texts have 3 and 5 rows.
        expected = [2 * 2 * 4 * 8, 3 * 2 * 48 * 16 * 32, 3 * 2 * 2 * 8 * 16 * 16 * 16, 2 * 2 * 8 * 64]
        self.assertEqual([float(line) for line in found], expected)

    def test_products_in_place_count_as_others_do(self):
        found = self.printed("""
a, b, weight = torch.zeros(4, 5), torch.randn(4, 8), torch.randn(8, 5, requires_grad=True)
class InPlace(torch.autograd.Function):
    def forward(ctx, b, weight):
        return torch.zeros(4, 5).addmm_(b, weight)
    def backward(ctx, grad):
        return None, b.t() @ grad
print(count(lambda: InPlace.apply(b, weight).sum().backward()).flops)
""")
        self.assertEqual(found, [f"{2 * 2 * 4 * 8 * 5:.1f}"])

    def test_a_mode_of_the_script_stays_while_ours_ends(self):
        found = self.printed("""
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack as stack
class Own(TorchDispatchMode):
    seen = 0
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        Own.seen += 1
        return func(*args, **(kwargs or {}))
counter = FlopCounter(torch)
counter.begin()
with Own() as own:
    torch.ones(2) + 1
    print(counter.end(), stack() == [own])
    before = Own.seen
    torch.ones(2) + 1
    print(Own.seen > before)
print(stack(), torch.utils._python_dispatch.is_in_torch_dispatch_mode())
""")
        self.assertEqual(found, ["None True", "True", "[] False"])

    def test_products_of_unknown_size_are_named(self):
        found = self.printed("""
weight = torch.randn(16, 4, requires_grad=True)
edges = torch.eye(16).to_sparse()
for step in (
    lambda: torch.sparse.mm(edges, weight).sum(), lambda: torch.fft.fft(weight).abs().sum(),
    lambda: torch.linalg.solve(torch.eye(16), weight).sum(), lambda: torch.linalg.vector_norm(weight),
):
    print(count(lambda: step().backward()).without_formula)
""")
        for line, name in zip(found, ("aten::_sparse_addmm", "aten::_fft_r2c", "aten::_linalg_solve_ex")):
            self.assertIn(name, line)
        self.assertEqual(found[3], "[]")

    def test_functions_with_hidden_kernels_are_named(self):
        found = self.printed("""
class Kernel(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x.contiguous())
        y.numpy()[:] = 1
        return y
    @staticmethod
    def backward(ctx, grad):
        return grad
class Reversed(Kernel):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)
class Clipped(Kernel):
    @staticmethod
    def forward(ctx, x):
        return torch.clamp(x, min=0, out=torch.empty_like(x))
network, x = torch.nn.Linear(8, 8), torch.randn(4, 8)
for kind in (Kernel, Reversed, Clipped):
    print(count(lambda: kind.apply(network(x)).sum().backward()).without_formula)
""")
        self.assertEqual(found, ["['__main__.Kernel']", "[]", "[]"])

    def test_hidden_operators_leave_the_number_out(self):
        found = self.printed("""
import threading
network, x = torch.nn.Linear(8, 8), torch.randn(4, 8)
def in_a_thread():
    results = []
    thread = threading.Thread(target=lambda: results.append(network(x)))
    thread.start()
    thread.join()
    results[0].sum().backward()
def replayed():
    network(x).sum().backward()
    torch.cuda.CUDAGraph.replay(None)
plain = torch.cuda.CUDAGraph.replay = lambda graph: None
print(count(in_a_thread), count(replayed), torch.cuda.CUDAGraph.replay is plain)
""")
        self.assertEqual(found, ["None None True"])

    def test_control_flow_is_left_alone(self):
        found = self.printed("""
network, x, compiler = torch.nn.Linear(8, 8), torch.randn(4, 8), torch.compile
def step():
    network.zero_grad()
    result, = torch.cond(torch.tensor(True), lambda y: (network(y),), lambda y: (-network(y),), (x,))
    result.sum().backward()
    return network.weight.grad.clone()
before = step()
counted = []
print(count(lambda: counted.append(step())), torch.equal(counted[0], before), torch.equal(step(), before))
print(torch.compile is compiler)
""")
        self.assertEqual(found, ["None True True", "True"])


@unittest.skipUnless(HAS_PYTORCH or os.environ.get("ORCHESTRATE_NEEDS_PYTORCH"), REASON)
class Windows(unittest.TestCase):
    """One iteration outside the window is counted, without other effects."""

    # By hand: 14 × 14 places of 8 filters, and 32 × 7 weights. The first layer has no gradient of its input.
    FLOPS = 2 * (2 * 14 * 14 * 8 * 27 + 3 * 32 * 7)

    def test_every_warm_up_counts_and_no_iteration_of_the_window_does(self):
        for warmup, more in ((0, 1), (1, 0), (2, 0), (5, 0)):
            with self.subTest(warmup=warmup):
                loop = "from torch.utils._python_dispatch import _get_current_dispatch_mode as mode\nseen = []\n"
                loop += f"with worker.window(warmup={warmup}, iters=3, **options) as window:\n"
                loop += "    for images, labels in window.over([(images, labels)] * 2):\n"
                loop += "        seen.append((window._state, mode() is not None))\n        window.loss(train())\n"
                loop += "assert mode() is None and ('open', True) not in seen, seen\n"
                loop += f"assert len(seen) == {warmup} + 3 + {more}, seen\n"
                done, measurement, iterations = measure(loop=loop)
                self.assertEqual((done.returncode, len(iterations)), (0, 4), done.stderr)
                self.assertEqual(measurement["details"]["counted_flops_per_sample"], self.FLOPS)
                self.assertNotIn("uncounted_operators", measurement["details"])

    def test_a_custom_loop_is_counted_in_its_warm_up(self):
        loop = "with worker.window(batch=4, warmup=2, iters=3, **options) as window:\n"
        loop += "    for _ in range(5):\n        window.step(train())\n"
        _, measurement, _ = measure(loop=loop)
        self.assertEqual(measurement["details"]["counted_flops_per_sample"], self.FLOPS)
        without = loop.replace("warmup=2, ", "").replace("range(5)", "range(3)")
        _, measurement, _ = measure(loop=without)
        self.assertNotIn("counted_flops_per_sample", measurement["details"])

    def test_compiled_code_stays_as_it_was(self):
        setup = "from torch._dynamo.backends.common import aot_autograd\ncompilations = []\n"
        setup += "def compiler(graph, inputs):\n    compilations.append(window._state)\n    return graph\n"
        setup += "forward = torch.compile(network, backend=aot_autograd(fw_compiler=compiler))"
        own = "with worker.window(batch=4, warmup=3, iters=3, **options) as window:\n"
        own += "    for _ in range(6):\n        window.step(train())\n"
        own += "assert set(compilations) == {'warm-up'}, compilations"
        # To run eagerly, a GPU may need more memory. So it does not within a loop that ends with the window.
        on_gpu = setup + "\nimport orchestrate_worker._torch as ours\n"
        on_gpu += "ours.TorchFramework.is_on_host = lambda self: False"
        for place, is_counted in ((setup, True), (on_gpu, False)):
            done, measurement, _ = measure(place, loop=own)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual("counted_flops_per_sample" in measurement["details"], is_counted)
        for warmup, more in ((1, 1), (3, 1)):
            with self.subTest(warmup=warmup):
                loop = f"calls = 0\nwith worker.window(warmup={warmup}, iters=3, **options) as window:\n"
                loop += "    for images, labels in window.over([(images, labels)] * 2):\n"
                loop += "        calls += 1\n        window.loss(train())\n"
                loop += f"assert set(compilations) == {{'warm-up'}}, compilations\n"
                loop += f"assert calls == {warmup} + 3 + {more}\n"
                done, measurement, _ = measure(setup, loop=loop)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertTrue(measurement["effective"]["compile"])
                self.assertEqual(measurement["details"]["counted_flops_per_sample"], self.FLOPS)

    def test_a_count_that_fails_has_no_effect(self):
        setup = "import orchestrate_worker._flops as flops, orchestrate_worker._formulas as formulas\n"
        setup += "def fail(*args):\n    raise RuntimeError('no formula')\n"
        own = "formulas._own_formulas = lambda torch: {torch.ops.aten.convolution: fail}"
        for broken in ("flops._mode = fail", own):
            with self.subTest(broken=broken):
                done, measurement, _ = measure(setup + broken)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertNotIn("counted_flops_per_sample", measurement["details"])

    def test_processes_that_load_data_do_not_count(self):
        setup = "from torch.utils._python_dispatch import _get_current_dispatch_mode as mode\n"
        setup += "class Data(torch.utils.data.Dataset):\n    def __len__(self):\n        return 4\n"
        setup += "    def __getitem__(self, number):\n        return images[0] * 1, labels[0], mode() is not None\n"
        setup += "loader = torch.utils.data.DataLoader(Data(), 4, num_workers=1, multiprocessing_context='fork')\n"
        for loop in ("window.over(loader)", "[next(iter(loader)) for _ in range(4)]"):
            with self.subTest(loop=loop):
                body = "with worker.window(batch=4, warmup=1, iters=3, **options) as window:\n"
                body += f"    for _, _, counts in {loop}:\n        assert not counts.any()\n        loss = train()\n"
                body += "        window.loss(loss) if window._loops else window.step(loss)\n"
                done, measurement, _ = measure(setup, loop=body)
                self.assertEqual(measurement["details"]["counted_flops_per_sample"], self.FLOPS, done.stderr)

    def test_an_iteration_of_another_size_does_not_represent_the_window(self):
        sizes = "with worker.window(batch=4, warmup=2, iters=3, **options) as window:\n"
        sizes += "    for images in window.over([torch.randn(4, 3, size, size) for size in {}]):\n"
        sizes += "        window.loss(train())\n"
        for each, is_counted in (([16] * 5, True), ([20] + [16] * 4, False), ([16, 16, 16, 20, 16], False)):
            with self.subTest(each=each):
                _, measurement, _ = measure(loop=sizes.format(each))
                self.assertEqual("counted_flops_per_sample" in measurement["details"], is_counted)

    def test_an_iteration_behind_the_window_that_fails_costs_no_measurement(self):
        loop = "with worker.window(warmup=0, iters=3, **options) as window:\n"
        loop += "    for images, labels in window.over([(images, labels)]):\n"
        loop += "        if window._state == 'closed':\n            raise RuntimeError('out of memory')\n"
        loop += "        window.loss(train())\n"
        done, measurement, _ = measure(loop=loop)
        self.assertEqual((done.returncode, measurement["samples"]), (0, 12))
        self.assertIn("an iteration after the window failed: RuntimeError: out of memory", done.stderr)
        self.assertNotIn("counted_flops_per_sample", measurement["details"])

    def test_half_of_a_batch_in_a_custom_loop_is_found(self):
        setup = "network = forward = torch.nn.Sequential(torch.nn.Linear(12, 8), torch.nn.Linear(8, 7))\n"
        setup += "whole, targets = torch.randn(8, 12), torch.randint(7, (8,))\nimages, labels = {images}, {labels}"
        loop = "train()\nwith worker.window(batch=8, **options) as window:\n"
        loop += "    for _ in range(3):\n        window.step(train())\n"
        for images, labels, batch, repeated in (
            ("whole[:4]", "targets[:4]", 4, False), ("whole", "targets", 8, False),
            ("whole[:4].clone()", "targets[:4]", 8, True),
            # Eight samples may be packed into four rows, as pairs are.
            ("torch.randn(8, 6).reshape(4, 12)", "targets[:4]", 8, True),
        ):
            with self.subTest(images=images):
                done, measurement, _ = measure(setup.format(images=images, labels=labels), loop=loop)
                self.assertEqual((measurement["effective"]["batch"], measurement["samples"]), (batch, 3 * batch))
                self.assertEqual("batch" in measurement["details"]["repeated"], repeated)

    def test_evaluation_within_the_window_has_a_share(self):
        loop = LOOP = "with worker.window(warmup=2, iters=3, **options) as window:\n"
        loop += "    for images, labels in window.over([(images, labels)]):\n        window.loss(train())\n"
        _, measurement, _ = measure(loop=loop)
        self.assertNotIn("evaluation_share", measurement["details"])
        loop += "        with torch.no_grad():\n            network(images)\n"
        _, measurement, _ = measure(loop=loop)
        self.assertTrue(0 < measurement["details"]["evaluation_share"] < 1, measurement["details"])
        self.assertEqual(measurement["effective"]["batch"], 4)
        # A network with custom hooks is watched by hooks.
        _, measurement, _ = measure("network.register_forward_pre_hook(lambda module, inputs: None)", loop=loop)
        self.assertTrue(0 < measurement["details"]["evaluation_share"] < 1, measurement["details"])
        # Only in the warm-up.
        once = LOOP + "    for number, (images, labels) in enumerate(window.over([(images, labels)])):\n"
        once += "        window.loss(train())\n        if number < 2:\n            with torch.no_grad():\n"
        once += "                network(images)\n"
        _, measurement, _ = measure(loop=once)
        self.assertNotIn("evaluation_share", measurement["details"])


if __name__ == "__main__":
    unittest.main()
