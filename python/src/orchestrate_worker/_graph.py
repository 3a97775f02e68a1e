"""Reads facts about a training from its autograd graph.

Flags show what was requested; the graph shows what was computed. A node has the type of an operation's output, and the
tensors that its backward pass needs, with their layouts. `_backward.py` decides which graphs are read, and when.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple, Optional

from ._failure import failure_of
from ._switches import Switches

# Operations that multiply and add, by the names of their nodes.
_CONVOLUTIONS = {"ConvolutionBackward", "MpsConvolutionBackward", "CudnnConvolutionBackward", "ThnnConv2DBackward"}
_RECURRENT = {"CudnnRnnBackward", "MkldnnRnnLayerBackward"}
_PRODUCTS = {
    "AddmmBackward", "MmBackward", "BmmBackward", "BaddbmmBackward", "AddmvBackward", "MvBackward", "LinearBackward",
    "MkldnnLinearBackward", "ScaledDotProductFlashAttentionBackward", "ScaledDotProductFlashAttentionForCpuBackward",
    "ScaledDotProductEfficientAttentionBackward", "ScaledDotProductCudnnAttentionBackward",
    "ScaledDotProductFusedAttentionOverrideableBackward",
}
# Reentrant activation checkpointing: the graph of its computation is made within the backward pass, as a separate one.
_HIDING = "CheckpointFunctionBackward"
_KINDS = {
    **dict.fromkeys(_CONVOLUTIONS, "conv"), **dict.fromkeys(_RECURRENT, "rnn"), **dict.fromkeys(_PRODUCTS, "matmul"),
}


class Leaf(NamedTuple):
    """A leaf of the graph: a tensor whose gradient is kept."""

    is_parameter: bool
    elements: Optional[int]
    """`None` if its total size is unknown, because each process has a part."""
    shape: tuple[int, ...]
    type: str
    is_last: Optional[bool]
    """Whether it is in NHWC order."""


class Graph:
    """The facts that one graph shows. Unknown facts are `None` or empty."""

    def __init__(self) -> None:
        self.device: Optional[str] = None
        """The device's type: `cpu`, `cuda` or `mps`; that of the most products."""
        self.indices: list[int] = []
        """The devices of that type with products; empty if there is only one of it."""
        self.devices: Counter[tuple[str, Optional[int]]] = Counter()
        """The number of products by device."""
        self.products: Counter[str] = Counter()
        """The number of products by the type of their output: `float32`, `bfloat16`, …"""
        self.kinds: set[str] = set()
        """The kinds of products: `conv`, `rnn`, `matmul`; of a compiled part, the first and the last."""
        self.compiled = False
        """Whether a part of it was made by `torch.compile`."""
        self.hidden = 0
        """The number of parts that were not read, because they have separate graphs."""
        self.shown: Optional[Counter[str]] = None
        """The products outside of such parts, if any of these was read."""
        self.leaves: dict[int, Leaf] = {}
        """All leaves, by their identities."""
        self.parameters: Optional[int] = None
        """Elements of all trainable tensors."""
        self.parameter_types: Counter[str] = Counter()
        """The number of trainable tensors by type."""
        self.trained: set[int] = set()
        """The identities of the trainable tensors."""
        self.channels_last: Optional[bool] = None
        """Whether all images, feature maps and weights of convolutions are in NHWC order."""
        self.maps: list[Optional[bool]] = []
        """Whether each of the images and feature maps is."""
        self.weights_last: Optional[bool] = None
        """The same for weights only."""
        self.shapes: set[tuple[int, ...]] = set()
        """The shapes of the trainable tensors."""
        self.images: Optional[tuple[int, ...]] = None
        """The shape of the input of the first convolution."""
        self.logits: Optional[tuple[int, ...]] = None
        """The shape of what a cross-entropy is taken of: a row for each sample, a column for each class."""
        self.switches: Optional[Switches] = None
        """The switches before its backward pass, if it was read then."""

    def add(self, part: Graph, is_hidden: bool) -> None:
        """Adds a part that has a separate graph. `is_hidden` says whether it was counted as such."""
        self.shown = self.products if self.shown is None else self.shown
        self.products, self.devices = self.products + part.products, self.devices + part.devices
        self.kinds |= part.kinds
        self.compiled = self.compiled or part.compiled
        self.images, self.logits = self.images or part.images, self.logits or part.logits
        self.leaves.update(part.leaves)
        self.maps += part.maps
        self.hidden += part.hidden - is_hidden
        self.count_trained()
        self.choose_device()

    def choose_device(self) -> None:
        """Takes the device from those of the products."""
        types = Counter[str]()
        for (kind, _), count in self.devices.items():
            types[kind] += count
        if types:
            self.device = types.most_common(1)[0][0]
            self.indices = sorted(index for kind, index in self.devices if kind == self.device and index is not None)

    def count_trained(self, held: AbstractSet[int] = frozenset()) -> None:
        """Finds the trained tensors among the leaves: parameters, and the tensors `held` by an optimizer.

        Others are inputs with gradients. If there are no such leaves, all leaves count as trained.
        """
        chosen = {name: leaf for name, leaf in self.leaves.items() if leaf.is_parameter or name in held} or self.leaves
        self.trained, self.shapes = set(chosen), {leaf.shape for leaf in chosen.values()}
        counts = [leaf.elements for leaf in chosen.values() if leaf.elements is not None]
        self.parameters = sum(counts) if len(counts) == len(chosen) else None
        self.parameter_types = Counter(leaf.type for leaf in chosen.values())
        weights = [leaf.is_last for leaf in chosen.values()]
        self.weights_last, self.channels_last = all_of(weights), all_of(weights + self.maps)


def read_nodes(nodes: Iterator[Any], layouts: bool) -> Graph:
    """Reads `nodes`; of a graph that was used up, only without `layouts`."""
    graph = Graph()
    pictures: set[tuple[int, ...]] = set()
    for node in nodes:
        name = node.name()
        kind = _KINDS.get(name.rstrip("0123456789"))
        if hasattr(node, "variable"):
            _keep_leaf(graph, node.variable)
        elif "Compiled" in name:
            graph.compiled = True
            graph.kinds.update(("conv", "matmul"))
            # The outputs of a compiled part do not show the types of its inner operations.
            kept = saved_by(node) if layouts else []
            pictures |= pictures_of(kept)
            _count_outputs(graph, [tensor for tensor in kept if tensor.is_floating_point()] or _outputs(node))
        elif name.startswith("LogSoftmaxBackward"):
            graph.logits = next((tuple(map(int, output.shape)) for output in _outputs(node)), None)
        elif hides(node):
            graph.hidden += 1
        elif kind is not None:
            graph.kinds.add(kind)
            _count_outputs(graph, _outputs(node)[:1])
            if layouts and kind == "conv":
                _look_at_convolution(graph, node)
    graph.count_trained()
    if graph.images is None:
        graph.images = images_among(pictures, graph)
    graph.choose_device()
    return graph


def hides(node: Any) -> bool:
    """Whether `node` is counted as a part that has a separate graph."""
    return bool(node.name().startswith(_HIDING))


def all_of(orders: Sequence[Optional[bool]]) -> Optional[bool]:
    """Whether all known values are true; `None` if none is known."""
    known = [order for order in orders if order is not None]
    return all(known) if known else None


def nodes_from(roots: Sequence[Any]) -> Iterator[Any]:
    """All nodes from `roots` on, each once."""
    seen, rest = set(), [root for root in roots if root is not None]
    while rest:
        node = rest.pop()
        if node in seen:
            continue
        seen.add(node)
        after = behind(node)
        if after is not None:
            rest.extend(after)
            yield node


def behind(node: Any) -> Optional[list[Any]]:
    """The next nodes after `node`; `None` if it is a node of Python whose graph is gone."""
    try:
        return [after for after, _ in node.next_functions if after is not None]
    except RuntimeError:
        return None


def _outputs(node: Any) -> list[Any]:
    """Types, shapes and devices of the outputs of `node`; empty before PyTorch 2.1."""
    return [output for output in getattr(node, "_input_metadata", ()) if output.dtype.is_floating_point]


def saved_by(node: Any) -> list[Any]:
    """The tensors that a node of Python keeps, as far as [`_kept_as`] returns them."""
    return [tensor for tensor in _kept_as(node, "saved_tensors") or () if tensor is not None]


def _kept_as(node: Any, name: str) -> Any:
    """The tensors that `node` keeps as `name`; `None` if it keeps none, or if they would be recomputed.

    Under activation checkpointing, a whole stage would be recomputed for each tensor, and all of it would be kept.
    """
    hooks = sys.modules["torch"].autograd.graph
    try:
        kept = getattr(node, "_raw_" + name.lstrip("_"))
        if any(getattr(each, "unpack_hook", None) for each in (kept if isinstance(kept, tuple) else (kept,))):
            return None
        # An old PyTorch does not show hooks. But libraries that recompute a stage set some, which is an error here.
        with hooks.disable_saved_tensors_hooks("orchestrate_worker does not recompute anything"):
            return getattr(node, name)
    except AttributeError:
        return None
    except RuntimeError as error:  # it was used up, or overwritten
        if failure_of(error)["kind"] == "out_of_memory":
            raise
        return None


def pictures_of(tensors: Sequence[Any]) -> set[tuple[int, ...]]:
    """The shapes of those tensors that can be images: they have at most 4 channels."""
    kept = (tuple(map(int, tensor.shape)) for tensor in tensors if tensor.dim() == 4 and tensor.is_floating_point())
    return {shape for shape in kept if shape[1] <= 4}


def images_among(pictures: set[tuple[int, ...]], graph: Graph) -> Optional[tuple[int, ...]]:
    """The shape of the input of a convolution in a compiled part, if it is the only one of `pictures` that fits."""
    channels = {shape[1] for shape in graph.shapes if len(shape) == 4}
    found = [shape for shape in pictures - graph.shapes if shape[1] in channels]
    return found[0] if len(found) == 1 else None


def _count_outputs(graph: Graph, outputs: Sequence[Any]) -> None:
    for output in outputs:
        graph.products[str(output.dtype).partition(".")[2]] += 1
        graph.devices[output.device.type, output.device.index] += 1


def _keep_leaf(graph: Graph, tensor: Any) -> None:
    is_parameter = isinstance(tensor, sys.modules["torch"].nn.Parameter)
    # FSDP's first version puts many weights into one tensor, of which each process keeps a part between their uses.
    elements = None if getattr(tensor, "_is_flat_param", False) else tensor.numel()
    kind = str(tensor.dtype).partition(".")[2]
    graph.leaves[id(tensor)] = Leaf(is_parameter, elements, tuple(tensor.shape), kind, is_channels_last(tensor))


def _look_at_convolution(graph: Graph, node: Any) -> None:
    source = _kept_as(node, "_saved_input")
    if source is None:
        return
    graph.maps.append(is_channels_last(source))
    # Images are not trained, so no node precedes the first convolution. The outputs of a frozen part have more
    # channels than images.
    if node.next_functions and node.next_functions[0][0] is None and source.dim() == 4 and source.shape[1] <= 4:
        graph.images = tuple(source.shape)


def is_channels_last(tensor: Any) -> Optional[bool]:
    """Whether a tensor of four dimensions is in NHWC order; `None` if it is in both orders, or has other dimensions.

    The order of strides decides, as in PyTorch. A slice of channels has the order of the tensor that it was cut from.
    """
    if tensor.dim() != 4 or tensor.layout is not sys.modules["torch"].strided:
        return None
    sizes, strides = tensor.shape, tensor.stride()
    if sizes[1] < 2 or sizes[2] * sizes[3] < 2 or not sizes[0]:
        return None
    least = 1
    for dimension in (1, 3, 2, 0):
        # If one image represents all, the batch has no stride.
        if sizes[dimension] < 2 or (dimension == 0 and not strides[0]):
            continue
        if strides[dimension] < least:
            return False
        least = strides[dimension] * sizes[dimension]
    return True
