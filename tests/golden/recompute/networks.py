"""The costs of training the golden store's networks, computed layer by layer.

A multiply-accumulate is two FLOPs. The forward pass, the gradient of the inputs and the gradient of the weights take
the same number each. A layer without a trained layer before it needs no gradient of its inputs.
"""

from math import prod


class Net:
    """Adds up layers. A shape is (channels, height, width)."""

    def __init__(self, size):
        self.shape = (3, size, size)
        self.parameters = self.forward = self.training = 0
        # Elements that an iteration moves: per image, and independently of the batch.
        self.each, self.once = 0, 0
        self.trained = False

    def _move(self, inputs, output, kept, weights):
        """Each layer reads its inputs and weights and writes its outputs once, forward and backward."""
        backward = output + kept + (inputs if self.trained else 0)
        self.each += inputs + output + backward
        self.once += weights + weights * (2 if self.trained else 1)
        if weights:
            self.parameters += weights
            self.trained = True

    def _multiply(self, macs):
        self.forward += macs
        self.training += 2 * macs * (3 if self.trained else 2)

    def conv(self, channels, kernel, stride=1, padding=0, bias=False):
        deep, high, wide = self.shape
        side = [(extent + 2 * padding - kernel) // stride + 1 for extent in (high, wide)]
        output = (channels, *side)
        weight = channels * deep * kernel * kernel
        self._multiply(deep * kernel * kernel * prod(output))
        self._move(prod(self.shape), prod(output), prod(self.shape), weight + (channels if bias else 0))
        self.shape = output

    def linear(self, features):
        inputs = prod(self.shape)
        self._multiply(inputs * features)
        self._move(inputs, features, inputs, inputs * features + features)
        self.shape = (features,)

    def norm(self):
        elements = prod(self.shape)
        self._move(elements, elements, elements, 2 * self.shape[0])

    def masked(self):
        """An activation or a dropout: backward reads the output, or a mask of its size."""
        elements = prod(self.shape)
        self._move(elements, elements, elements, 0)

    def max_pool(self, kernel, stride, padding=0):
        deep, high, wide = self.shape
        side = [(extent + 2 * padding - kernel) // stride + 1 for extent in (high, wide)]
        output = (deep, *side)
        self._move(prod(self.shape), prod(output), prod(output), 0)
        self.shape = output

    def mean_pool(self, side):
        output = (self.shape[0], side, side)
        self._move(prod(self.shape), prod(output), 0, 0)
        self.shape = output

    def add(self):
        """A sum of two tensors passes its gradient on."""
        self.each += 3 * prod(self.shape)


def alexnet(net, classes):
    for channels, kernel, stride, padding, pooled in [
        (64, 11, 4, 2, True), (192, 5, 1, 2, True), (384, 3, 1, 1, False), (256, 3, 1, 1, False), (256, 3, 1, 1, True),
    ]:
        net.conv(channels, kernel, stride, padding, bias=True)
        net.masked()
        if pooled:
            net.max_pool(3, 2)
    net.mean_pool(6)
    for _ in range(2):
        net.masked()
        net.linear(4096)
        net.masked()
    net.linear(classes)


def vgg11(net, classes):
    for channels, layers in [(64, 1), (128, 1), (256, 2), (512, 2), (512, 2)]:
        for _ in range(layers):
            net.conv(channels, 3, 1, 1, bias=True)
            net.masked()
        net.max_pool(2, 2)
    net.mean_pool(7)
    for _ in range(2):
        net.linear(4096)
        net.masked()
        net.masked()
    net.linear(classes)


def resnet18(net, classes):
    net.conv(64, 7, 2, 3)
    net.norm()
    net.masked()
    net.max_pool(3, 2, 1)
    for stage, channels in enumerate([64, 128, 256, 512]):
        for block in range(2):
            stride = 2 if stage and not block else 1
            before = net.shape
            net.conv(channels, 3, stride, 1)
            net.norm()
            net.masked()
            net.conv(channels, 3, 1, 1)
            net.norm()
            after = net.shape
            if before != after:
                net.shape = before
                net.conv(channels, 1, stride)
                net.norm()
            net.add()
            net.masked()
    net.mean_pool(1)
    net.linear(classes)


NETWORKS = {"alexnet": alexnet, "resnet18": resnet18, "vgg11": vgg11}

# Bytes that a step reads and writes per parameter: it, its gradient and the state of the optimizer, all but the
# gradient written, in single precision.
STEP_BYTES = {"sgd": 4 * (3 + 2), "adamw": 4 * (4 + 3)}


class Cost:
    """The costs of one image."""

    def __init__(self, model, size, classes, batch, precision, optimizer):
        net = Net(size)
        NETWORKS[model](net, classes)
        self.parameters, self.forward_macs, self.flops = net.parameters, net.forward, net.training
        moved = (net.each * batch + net.once) * {"fp32": 4, "tf32": 4, "amp": 2, "bf16": 2}[precision]
        step = STEP_BYTES[optimizer] * net.parameters if optimizer else 0
        self.modelled_bytes = (moved + step) / batch
        self.optimizer = optimizer
