"""Graphs, switches and devices are read from the training of the window, without an effect on it."""

import os
import unittest

from test_pytorch import HAS_PYTORCH, REASON
from test_window import run

# All cases of a test run in one process, since loading PyTorch takes seconds.
PRELUDE = """
import contextlib, io, json, sys
import orchestrate_worker as worker
import torch
from torch.nn.functional import cross_entropy
torch.manual_seed(0)

def convolutional(*convolutions):
    end = [torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(), torch.nn.Linear(32, 7)]
    return torch.nn.Sequential(*(convolutions or [torch.nn.Conv2d(3, 8, 3)]), torch.nn.ReLU(), *end)

def recurrent():
    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = torch.nn.LSTM(6, 8, batch_first=True), torch.nn.Linear(8, 7)
        def forward(self, x):
            return self.head(self.rnn(x)[0][:, -1])
    return Network()

def pictures(batch=4, size=16):
    return torch.randn(batch, 3, size, size), torch.randint(7, (batch,))

def sequences():
    return torch.randn(4, 5, 6), torch.randint(7, (4,))

def trainer(network, data, lower=False):
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    def train():
        with torch.autocast("cpu", torch.bfloat16, enabled=lower):
            loss = cross_entropy(network(data[0]), data[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss
    return train

def measure(train, warmup=0, iters=3, batch=4, around=lambda number: contextlib.nullcontext()):
    with contextlib.redirect_stdout(io.StringIO()):
        with worker.window(warmup=warmup, iters=iters, batch=batch) as window:
            for number in range(warmup + iters):
                with around(number):
                    loss = train()
                window.step(loss)
    return window.measurement

def show(found, *names):
    print(json.dumps([found["effective"].get(name) for name in names]))
"""

# A GPU of several in one host. The training stays on the processor, but its graph says that it is on others.
CUDA = """
indices, seen, clock = [1], [], [0]
class Event:
    def __init__(self, enable_timing):
        pass
    def record(self, stream=None):
        clock[0] += 5
        self.at = clock[0]
        seen.append(("event", stream))
    def elapsed_time(self, other):
        return other.at - self.at
class About:
    def __init__(self, index):
        self.name, self.uuid, self.major, self.minor = f"GPU {'ABC'[index]}", f"0{index}", 7 + index, 0
class Output:
    def __init__(self, output, index):
        self.dtype, self.shape, self.device = output.dtype, output.shape, torch.device("cuda", index)
cuda = torch.cuda
cuda.is_initialized, cuda.device_count, cuda.current_device = lambda: True, lambda: 3, lambda: 0
torch._C._cuda_hasPrimaryContext = lambda index: True
cuda.synchronize, cuda.reset_peak_memory_stats = lambda index: None, lambda index: seen.append(("reset", index))
cuda.cudart = lambda: type("Runtime", (), {"cudaProfilerStart": lambda self: 0, "cudaProfilerStop": lambda self: 0})()
cuda.nvtx.range_push, cuda.nvtx.range_pop, cuda.Event = lambda name: None, lambda: None, Event
cuda.is_current_stream_capturing, cuda.current_stream = lambda: False, lambda index: f"stream of {index}"
cuda.get_device_properties = About
cuda.max_memory_reserved = lambda index=0: 2000 + index
cuda.max_memory_allocated = lambda index=0: 1000 + index
torch.version.cuda = "13.0"
torch.backends.cudnn.version = lambda: 91002
real, products = worker._graph._outputs, [0]
def outputs(node):
    products[0] += 1
    return [Output(output, indices[products[0] % len(indices)]) for output in real(node)]
worker._graph._outputs = outputs
"""


@unittest.skipUnless(HAS_PYTORCH or os.environ.get("ORCHESTRATE_NEEDS_PYTORCH"), REASON)
class Graphs(unittest.TestCase):
    """Scripts that print what was read back."""

    def lines(self, script, before=""):
        """The lines that the script prints. It must not fail, and this package must not warn; PyTorch may."""
        done, _, _ = run(PRELUDE + before + script, asked=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("orchestrate_worker:", done.stderr)
        return done.stdout.splitlines()

    # --- which training -----------------------------------------------------------------------------------------------

    def test_a_window_without_a_warmup_does_not_read_an_earlier_training(self):
        found = self.lines("""
names = "compile", "precision", "product_types", "channels_last", "optimizer", "classes", "input_size"
network = convolutional()
train = trainer(torch.compile(network, backend="aot_eager"), pictures(), lower=True)
train()
show(measure(train), *names)
show(measure(trainer(network, pictures())), *names)
# There is only a custom loop between these trainings.
train()
other = torch.nn.Sequential(convolutional(), torch.nn.Linear(7, 5)).to(memory_format=torch.channels_last)
small = pictures(size=8)
small = small[0].to(memory_format=torch.channels_last), small[1] % 5
train = trainer(other, small)
train()
show(measure(train), *names)
""")
        self.assertEqual(found[0], '[true, "bf16", null, false, "sgd", 7, 16]')
        self.assertEqual(found[1], '[false, "fp32", null, false, "sgd", 7, 16]')
        self.assertEqual(found[2], '[false, "fp32", null, true, "sgd", 5, 8]')

    def test_code_that_is_compiled_only_in_the_warmup_is_not_compiled(self):
        found = self.lines("""
network, data = convolutional(), pictures()
compiled = torch.compile(network, backend="aot_eager")
for first, rest in (
    (trainer(compiled, data), trainer(network, data)),
    (trainer(network, data), trainer(compiled, data, lower=True)),
):
    for warmup in (1, 2):
        steps = [first] + [rest] * (warmup + 2)
        show(measure(lambda: steps.pop(0)(), warmup), "compile", "precision", "optimizer", "input_size")
""")
        self.assertEqual(found, ['[false, "fp32", "sgd", 16]'] * 2 + ['[true, "bf16", "sgd", 16]'] * 2)

    def test_trainings_are_distinguished_by_their_losses_and_only_some_are_read(self):
        self.lines("""
watch, reads = worker._backward, []
read = watch._read_now
watch._read_now = lambda nodes: reads.append(1) or read(nodes)
one, other = trainer(convolutional(), pictures()), trainer(convolutional(), pictures(batch=2))
for _ in range(3):
    one()
    first = watch.first_graph()
    other()
    assert watch.first_graph() is not first
assert len(reads) == 2, reads
# Within a window, they are known. Behind it, they may have changed.
for _ in range(2):
    measure(one)
    assert len(reads) == 2, reads
one()
assert len(reads) == 3, reads
for _ in range(30):
    (torch.randn(3, requires_grad=True) @ torch.randn(3)).backward()
assert len(reads) <= 3 + watch._TRAININGS, reads
""")

    # --- layouts ------------------------------------------------------------------------------------------------------

    def test_the_order_of_strides_shows_channels_last(self):
        self.lines("""
order, last = worker._graph.is_channels_last, dict(memory_format=torch.channels_last)
x = torch.randn(2, 8, 6, 6)
nhwc = x.to(**last)
for tensor in (nhwc, nhwc.chunk(2, dim=1)[1], nhwc[:, :, 1:, 2:4], nhwc[:1].expand(4, -1, -1, -1), nhwc[:, :, :1]):
    assert order(tensor) is True, tensor.stride()
for tensor in (x, x.chunk(2, dim=1)[1], x[:, :, 1:, 2:4], x[:, :1].expand(-1, 4, -1, -1), x.transpose(1, 2),
               nhwc.transpose(2, 3), x[:, :, :1]):
    assert order(tensor) is False, tensor.stride()
for tensor in (x[:, :1], nhwc[:, :1], x[:, :, :1, :1], nhwc[:, :, :1, :1], x[:0], x[0], x.to_sparse()):
    assert order(tensor) is None, tensor.shape
""")

    def test_a_layout_that_changes_between_windows_is_seen(self):
        found = self.lines("""
network, (images, labels) = convolutional(), pictures()
show(measure(trainer(network, (images, labels))), "channels_last", "input_size")
network.to(memory_format=torch.channels_last)
train = trainer(network, (images.to(memory_format=torch.channels_last), labels))
show(measure(train), "channels_last", "input_size")
train = trainer(network, (images, labels))
train()
show(measure(train), "channels_last", "input_size")
""")
        self.assertEqual(found, ["[false, 16]", "[true, 16]", "[false, 16]"])

    def test_a_network_that_slices_channels_is_in_channels_last(self):
        found = self.lines("""
class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other, self.rest = torch.nn.Conv2d(3, 8, 3), torch.nn.Conv2d(4, 8, 3), convolutional()[2:]
    def forward(self, x):
        return self.rest(self.other(self.one(x).chunk(2, dim=1)[1]))
network, (images, labels) = Network(), pictures()
show(measure(trainer(network, (images, labels)), warmup=1), "channels_last")
network.to(memory_format=torch.channels_last)
data = images.to(memory_format=torch.channels_last), labels
show(measure(trainer(network, data), warmup=1), "channels_last")
""")
        self.assertEqual(found, ["[false]", "[true]"])

    def test_reading_does_not_recompute(self):
        found = self.lines("""
from torch.utils.checkpoint import checkpoint
if torch.cuda.is_available():
    torch.cuda.init()  # to compile begins to use the device, which PyTorch refuses within what is checkpointed
def checkpointed(forward, calls):
    def stage(x):
        calls.append(1)
        return forward(x)
    return lambda x: checkpoint(stage, x, use_reentrant=False)
for compiles in (False, True):
    inner = [torch.nn.Conv2d(3, 3, 3, padding=1) for _ in range(4)]
    network, calls = convolutional(*inner, torch.nn.BatchNorm2d(3), torch.nn.Conv2d(3, 8, 3)), []
    network.to(memory_format=torch.channels_last)
    forward = checkpointed(torch.compile(network, backend="aot_eager") if compiles else network, calls)
    forward.parameters = network.parameters
    show(measure(trainer(forward, pictures()), warmup=1, iters=2), "compile", "channels_last", "precision")
    # Each iteration computes it once, and once more in its backward pass.
    print(len(calls), int(network[4].num_batches_tracked))
""")
        self.assertEqual(found, ['[false, true, "fp32"]', "6 6", '[true, true, "fp32"]', "6 6"])

    def test_reading_does_not_recompute_on_an_old_pytorch(self):
        self.lines("""
from torch.utils.checkpoint import checkpoint
network, calls = torch.nn.Conv2d(3, 8, 3), []
network.register_forward_hook(lambda *_: calls.append(1))
class Old:
    # It does not show whether something else was kept in the place of a tensor.
    _raw_saved_input = object()
    def __init__(self, output):
        self.node = output.grad_fn
    @property
    def _saved_input(self):
        return self.node._saved_input
images = pictures()[0]
kept = worker._graph._kept_as
assert kept(Old(network(images)), "_saved_input") is images
assert kept(Old(checkpoint(network, images, use_reentrant=False)), "_saved_input") is None
assert len(calls) == 2, calls
with torch.autograd.graph.save_on_cpu():
    output = network(images)
    assert kept(Old(output), "_saved_input") is None
output.sum().backward()
with torch.autograd.graph.save_on_cpu():
    network(images).sum().backward()
""")

    def test_memory_that_runs_short_is_no_layout(self):
        self.lines("""
class Node:
    _raw_saved_input = None
    def __init__(self, error):
        self.error = error
    @property
    def _saved_input(self):
        raise self.error
kept = worker._graph._kept_as
assert kept(Node(RuntimeError("Trying to backward through the graph a second time")), "_saved_input") is None
for error in (torch.cuda.OutOfMemoryError("CUDA out of memory"), RuntimeError("MPS backend out of memory")):
    try:
        kept(Node(error), "_saved_input")
    except RuntimeError as raised:
        assert raised is error
    else:
        raise AssertionError(error)
""")

    # --- switches -----------------------------------------------------------------------------------------------------

    def test_switches_are_those_at_the_backward_pass_of_the_window(self):
        found = self.lines("""
torch.ops.mkldnn._is_mkldnn_bf16_supported = lambda: True
train = trainer(convolutional(), pictures())
@contextlib.contextmanager
def switched(number, word, otherwise):
    torch.set_float32_matmul_precision(word)
    torch.use_deterministic_algorithms(word == "medium")
    torch.set_num_threads(1 if word == "medium" else 2)
    yield
    torch.set_float32_matmul_precision(otherwise)
    torch.use_deterministic_algorithms(otherwise == "medium")
    torch.set_num_threads(1 if otherwise == "medium" else 2)
names = "precision", "tf32", "deterministic", "threads"
for warmup in (0, 2):
    show(measure(train, warmup, around=lambda number: switched(number, "medium", "highest")), *names)
    show(measure(train, warmup, around=lambda number: switched(number, "highest", "medium")), *names)
""")
        rounded, exact = '["tf32", true, true, 1]', '["fp32", false, false, 2]'
        self.assertEqual(found, [rounded, exact] * 2)

    def test_a_recurrent_network_has_a_separate_switch(self):
        # oneDNN's first, then cuDNN's, which is on unless it is switched off.
        found = self.lines("""
torch.ops.mkldnn._is_mkldnn_bf16_supported = lambda: True
train = trainer(recurrent(), sequences())
show(measure(train, warmup=1), "precision", "tf32")
if hasattr(torch.backends.mkldnn, "rnn"):
    torch.backends.mkldnn.rnn.fp32_precision = "bf16"
    show(measure(train, warmup=1), "precision", "tf32")
    torch.backends.mkldnn.rnn.fp32_precision = "none"
else:
    print('["tf32", true]')
exec(CUDA)
show(measure(train, warmup=1), "precision", "tf32")
flat = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(30, 7))
show(measure(trainer(flat, sequences()), warmup=1), "precision", "tf32")
torch.backends.cudnn.allow_tf32 = False
show(measure(train, warmup=1), "precision", "tf32")
""", f"CUDA = {CUDA!r}\n")
        rounded, exact = '["tf32", true]', '["fp32", false]'
        self.assertEqual(found, [exact, rounded, rounded, exact, exact])

    # --- devices ------------------------------------------------------------------------------------------------------

    def test_the_device_that_trains_is_asked_and_not_the_current_one(self):
        found = self.lines("""
train = trainer(convolutional(), pictures())
def show_cuda(found):
    details = found["details"]
    names = "device_name", "device_uuid", "compute_capability", "iteration_clock"
    print(json.dumps([found["effective"]["device"], *(details.get(name) for name in names)]))
    print(details["peak_device_memory_bytes"], details["peak_device_allocated_bytes"])
    print(sorted({index for what, index in seen if what == "reset"}), {on for what, on in seen if what == "event"})
    seen.clear()
show_cuda(measure(train, warmup=1))
# The device is unknown before the window, so there are no events.
worker._backward.forget()
show_cuda(measure(trainer(convolutional(), pictures())))
indices[:] = [2, 1]
show_cuda(measure(train, warmup=1))
indices[:] = [0]
worker._backward.forget()
show_cuda(measure(trainer(convolutional(), pictures())))
""", CUDA)
        resets = "[0, 1, 2]"
        alone = '["cuda", "GPU B", "GPU-01", "8.0", "{}"]'
        self.assertEqual(found[0:3], [alone.format("device_events"), "2001 1001", resets + " {'stream of 1'}"])
        self.assertEqual(found[3:6], [alone.format("submission"), "2001 1001", resets + " {None}"])
        several = '["cuda", "GPU B, GPU C", "2 GPUs: GPU-01, GPU-02", "8.0, 9.0", "submission"]'
        self.assertEqual(found[6:9], [several, "2002 1002", resets + " set()"])
        current = '["cuda", "GPU A", "GPU-00", "7.0", "device_events"]'
        self.assertEqual(found[9:12], [current, "2000 1000", resets + " {None}"])

    def test_a_device_without_tf32_does_not_round(self):
        found = self.lines("""
train = trainer(convolutional(), pictures())
for indices[:] in ([0], [1], [0, 1]):
    show(measure(train, warmup=1), "precision")
""", CUDA)
        self.assertEqual(found, ['["fp32"]', '["tf32"]', '["tf32"]'])

    # --- what is compiled ---------------------------------------------------------------------------------------------

    def test_a_step_that_is_compiled_as_a_whole_stays_as_it_was_compiled(self):
        found = self.lines("""
import torch._dynamo.utils
def plain(network):
    pass
def with_a_hook(network):
    network.register_forward_hook(lambda module, inputs, output: None)
def with_a_pre_hook(network):
    network.register_forward_pre_hook(lambda module, inputs: None)
def with_custom_code(network):
    forward = network.forward
    network.forward = lambda x: forward(x)
def with_a_hook_in_the_window(network):
    pass
for change in (plain, with_a_hook, with_a_pre_hook, with_custom_code, with_a_hook_in_the_window):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    network, calls = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Linear(8, 7)), []
    graphs = []
    change(network)
    x, y = torch.randn(4, 6), torch.randint(7, (4,))
    step = torch.compile(lambda x, y: cross_entropy(network(x), y), backend="aot_eager", fullgraph=True)
    def train():
        calls.append(1)
        is_changed = change is with_a_hook_in_the_window and len(calls) > 3
        if is_changed and len(calls) == 4:
            with_a_hook(network)
        # Something smaller lets all of it be compiled anew.
        loss = step(x[:2], y[:2]) if is_changed else step(x, y)
        loss.backward()
        graphs.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
        return loss
    measure(train, warmup=3, iters=5)
    print(change.__name__, graphs[2], graphs[-1] - graphs[2])
""")
        counts = {name: tuple(map(int, counts)) for name, *counts in map(str.split, found)}
        # A network with pre-hooks is compiled once more in the warm-up; with PyTorch 2.15, also one with other hooks.
        self.assertEqual(counts["plain"], (1, 0))
        for name in ("with_a_hook", "with_a_pre_hook", "with_custom_code"):
            self.assertIn(counts[name], [(1, 0), (2, 0)], name)
        # One that changes is compiled when it changes.
        self.assertEqual(counts["with_a_hook_in_the_window"], (1, 1))

    def test_counters_of_this_package_are_never_compiled(self):
        found = self.lines("""
import torch._dynamo.utils
counters = torch._dynamo.utils.counters
network, (x, y), counts = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Linear(8, 7)), sequences(), []
@torch.compile(backend="aot_eager")
def train():
    loss = cross_entropy(network(x[:, 0]), y)
    loss.backward()
    return loss
def counted():
    loss = train()
    counts.append(counters["frames"]["total"])
    return loss
show(measure(counted, warmup=4, iters=9), "compile")
assert len(set(counts[1:])) == 1, counts
""")
        self.assertEqual(found, ["[true]"])


if __name__ == "__main__":
    unittest.main()
