"""Facts about weights and optimizers, and about stages that are computed within the backward pass."""

import os
import unittest

import test_graph
from test_pytorch import HAS_PYTORCH, REASON


@unittest.skipUnless(HAS_PYTORCH or os.environ.get("ORCHESTRATE_NEEDS_PYTORCH"), REASON)
class Trained(unittest.TestCase):
    """Only trained tensors count, wherever they are."""

    lines = test_graph.Graphs.lines

    def test_an_input_with_a_gradient_is_not_a_weight(self):
        found = self.lines("""
def report(network, x, *held):
    optimizer = torch.optim.SGD(held, lr=0.01) if held else None
    def train():
        loss = cross_entropy(network(x.float()), torch.tensor([0, 1, 2, 3]))
        loss.backward()
        return loss
    for warmup in (0, 2):
        found = measure(train, warmup)
        print(found["details"].get("parameters"), found["effective"].get("parameter_types"))
x, weights, other = (torch.randn(*sizes, requires_grad=True) for sizes in ((4, 6), (6, 7), (1,)))
report(lambda x: x @ weights, x)
report(lambda x: x @ weights, x, weights)
layer = torch.nn.Linear(6, 7)
wide = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
report(layer, wide)
report(layer, wide, *layer.parameters())
report(lambda x: layer(x) + other, wide, *layer.parameters(), other)
# Each process has a part of the weights, or an optimizer has copies of them.
report(layer, wide, other)
layer.weight._is_flat_param = True
report(layer, wide, *layer.parameters())
""")
        counts = [4 * 6 + 6 * 7, 6 * 7, 7 * 7, 7 * 7, 7 * 7 + 1, None, None]
        self.assertEqual(found, [f"{count} None" for count in counts for _ in range(2)])

    def test_objects_that_are_frozen_are_found_if_they_were_there_when_the_window_was_entered(self):
        found = self.lines("""
import gc
def report(train, before=lambda: None):
    errors = io.StringIO()
    before()
    with contextlib.redirect_stderr(errors):
        found = measure(train, warmup=2)
    gc.unfreeze()
    print(found["details"]["repeated"], found["effective"].get("optimizer"), errors.getvalue().strip())
train = trainer(recurrent(), sequences())
def train_frozen():
    gc.freeze()
    return train()
report(train_frozen)
report(train, before=gc.freeze)
""")
        self.assertEqual(found[0], "[] sgd ")
        warning = r"the input of the network is unknown, because gc\.freeze\(\) hides it"
        self.assertRegex(found[1], r"^\['batch'\] None orchestrate_worker: " + warning)

    def test_graphs_within_the_backward_pass_are_read_too(self):
        found = self.lines("""
from torch.utils.checkpoint import checkpoint
class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = torch.nn.ModuleList(torch.nn.Conv2d(3, 3, 3, padding=1) for _ in range(3))
        self.head = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, 7))
    def forward(self, x):
        for stage in self.stages:
            x = checkpoint(stage, x, use_reentrant=True)
        return self.head(x)
def report(train, **options):
    found = measure(train, **options)
    details = found["details"]
    words = found["effective"].get("product_types"), details.get("parameters"), details["repeated"]
    print(json.dumps([found["effective"].get(name) for name in names] + list(words)))
names = "precision", "compile", "channels_last", "tf32", "optimizer", "classes"
network, data = Network(), pictures()
data[0].requires_grad_()
for warmup in (0, 2):
    report(trainer(network, data), warmup=warmup)
    # Each stage is computed in the type of its forward pass.
    report(trainer(network, data, lower=True), warmup=warmup)
network.to(memory_format=torch.channels_last)
images = data[0].detach().to(memory_format=torch.channels_last).requires_grad_()
report(trainer(network, (images, data[1])), warmup=1)
""")
        settings = 'false, "sgd", 7, null, {}, ["batch"]]'.format(3 * (3 * 3 * 9 + 3) + 3 * 16 * 16 * 7 + 7)
        eager = ['["fp32", false, false, ' + settings, '["bf16", false, false, ' + settings]
        self.assertEqual(found, eager * 2 + ['["fp32", false, true, ' + settings])

    def test_hidden_products_show_no_precision(self):
        found = self.lines("""
from torch.utils import checkpoint
# A pass that this package does not see.
checkpoint.torch = type("Torch", (), {"__getattr__": lambda self, name: getattr(torch, name)})()
checkpoint.torch.autograd = type("Autograd", (), {"__getattr__": lambda self, name: getattr(torch.autograd, name)})()
checkpoint.torch.autograd.backward = torch.autograd.backward.__wrapped__
stage, head = torch.nn.Linear(6, 8), torch.nn.Linear(8, 7)
network = lambda x: head(checkpoint.checkpoint(stage, x.requires_grad_(), use_reentrant=True))
network.parameters = lambda: [*stage.parameters(), *head.parameters()]
train = trainer(network, (torch.randn(4, 6), sequences()[1]))
for warmup in (0, 2):
    with contextlib.redirect_stdout(io.StringIO()), worker.window(
        warmup=warmup, iters=3, batch=4, precision="bf16", compile=True
    ) as window:
        for _ in range(warmup + 3):
            window.step(train())
    show(window.measurement, "precision", "compile", "tf32", "optimizer", "classes")
    print(window.measurement["details"].get("parameters"), window.measurement["details"]["repeated"])
""")
        self.assertEqual(found, ['["bf16", true, null, "sgd", 7]', "None ['batch', 'compile', 'precision']"] * 2)


if __name__ == "__main__":
    unittest.main()
