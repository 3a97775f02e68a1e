"""What an autograd graph tells about the training that built it.

Flags say what was asked for; the graph says what was computed. A node of it holds the type of an operation's output,
the tensors that its backward pass needs, and so their layout. `torch.autograd.backward` is wrapped: the first graph of
the process is read whole before it is used up, and the first one within a window is kept, without its tensors, and read
after the window. Neither takes time within a window that had a warm-up.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, Callable, Optional

# Operations that multiply and add, by the names of their nodes, and the tensor that shows the layout of their input.
_CONVOLUTIONS = {"ConvolutionBackward", "MpsConvolutionBackward", "CudnnConvolutionBackward", "ThnnConv2DBackward"}
_PRODUCTS = _CONVOLUTIONS | {
    "AddmmBackward", "MmBackward", "BmmBackward", "BaddbmmBackward", "AddmvBackward", "MvBackward", "LinearBackward",
    "MkldnnLinearBackward", "ScaledDotProductFlashAttentionBackward", "ScaledDotProductFlashAttentionForCpuBackward",
    "ScaledDotProductEfficientAttentionBackward", "ScaledDotProductCudnnAttentionBackward",
    "ScaledDotProductFusedAttentionOverrideableBackward", "CudnnRnnBackward", "MkldnnRnnLayerBackward",
}


# The attribute of a function that is wrapped already.
_MARK = "_orchestrate_watches"


class Graph:
    """What one graph shows. What it does not show is `None` or empty."""

    def __init__(self) -> None:
        self.device: Optional[str] = None
        """The device's type: `cpu`, `cuda` or `mps`; that of the most products."""
        self.products: Counter[str] = Counter()
        """How many products have outputs of which type: `float32`, `bfloat16`, …"""
        self.kinds: set[str] = set()
        """Which products there are: `conv`, `matmul`; both if a compiled part does not tell."""
        self.compiled = False
        """Whether a part of it was made by `torch.compile`."""
        self.parameters = 0
        """Elements of all trainable tensors."""
        self.parameter_types: Counter[str] = Counter()
        """How many trainable tensors have which type."""
        self.trained: set[int] = set()
        """The identities of the trainable tensors."""
        self.channels_last: Optional[bool] = None
        """Whether all images, feature maps and weights of convolutions are in NHWC order."""
        self.shapes: set[tuple[int, ...]] = set()
        """The shapes of the trainable tensors."""
        self.images: Optional[tuple[int, ...]] = None
        """The shape of what goes into the first convolution."""
        self.logits: Optional[tuple[int, ...]] = None
        """The shape of what a cross-entropy is taken of: a row for each sample, a column for each class."""


def read_nodes(nodes: Iterator[Any], layouts: bool) -> Graph:
    """Reads `nodes`; of a graph that was used up, only without `layouts`."""
    graph, devices = Graph(), Counter[str]()
    orders: list[Optional[bool]] = []
    pictures: set[tuple[int, ...]] = set()
    for node in nodes:
        name = node.name()
        if hasattr(node, "variable"):
            _count_parameter(graph, node.variable, orders)
        elif "Compiled" in name:
            graph.compiled = True
            graph.kinds.update(("conv", "matmul"))
            # Outputs of a compiled part alone do not tell in which type its inner operations computed.
            kept = _saved(node) if layouts else []
            pictures |= _pictures(kept)
            _count_outputs(graph, devices, [tensor for tensor in kept if tensor.is_floating_point()] or _outputs(node))
        elif name.startswith("LogSoftmaxBackward"):
            graph.logits = next((tuple(map(int, output.shape)) for output in _outputs(node)), None)
        elif name.rstrip("0123456789") in _PRODUCTS:
            graph.kinds.add("conv" if name.rstrip("0123456789") in _CONVOLUTIONS else "matmul")
            _count_outputs(graph, devices, _outputs(node)[:1])
            if layouts and name.rstrip("0123456789") in _CONVOLUTIONS:
                _look_at_convolution(graph, node, orders)
    if graph.images is None:
        graph.images = images_among(pictures, graph)
    graph.device = devices.most_common(1)[0][0] if devices else None
    told = [order for order in orders if order is not None]
    graph.channels_last = all(told) if told else None
    return graph


def _nodes(roots: Sequence[Any]) -> Iterator[Any]:
    """All nodes from `roots` on, each once."""
    seen, rest = set(), [root for root in roots if root is not None]
    while rest:
        node = rest.pop()
        if node in seen:
            continue
        seen.add(node)
        try:
            rest.extend(after for after, _ in node.next_functions if after is not None)
        except RuntimeError:  # a node of Python whose graph is gone
            continue
        yield node


def _outputs(node: Any) -> list[Any]:
    """Types, shapes and devices of what the operation of `node` put out; none before PyTorch 2.1."""
    return [output for output in getattr(node, "_input_metadata", ()) if output.dtype.is_floating_point]


def _saved(node: Any) -> list[Any]:
    try:
        return [tensor for tensor in node.saved_tensors if tensor is not None]
    except (AttributeError, RuntimeError):
        return []


def _pictures(tensors: Sequence[Any]) -> set[tuple[int, ...]]:
    """The shapes of those tensors that can be images: they have at most 4 channels."""
    kept = (tuple(map(int, tensor.shape)) for tensor in tensors if tensor.dim() == 4 and tensor.is_floating_point())
    return {shape for shape in kept if shape[1] <= 4}


def images_among(pictures: set[tuple[int, ...]], graph: Graph) -> Optional[tuple[int, ...]]:
    """What goes into a convolution within a compiled part, if it is the only one of `pictures` that can."""
    channels = {shape[1] for shape in graph.shapes if len(shape) == 4}
    found = [shape for shape in pictures - graph.shapes if shape[1] in channels]
    return found[0] if len(found) == 1 else None


def _count_outputs(graph: Graph, devices: Counter[str], outputs: Sequence[Any]) -> None:
    for output in outputs:
        graph.products[str(output.dtype).partition(".")[2]] += 1
        devices[output.device.type] += 1


def _count_parameter(graph: Graph, parameter: Any, orders: list[Optional[bool]]) -> None:
    graph.trained.add(id(parameter))
    graph.parameters += parameter.numel()
    graph.shapes.add(tuple(parameter.shape))
    graph.parameter_types[str(parameter.dtype).partition(".")[2]] += 1
    orders.append(is_channels_last(parameter))


def _look_at_convolution(graph: Graph, node: Any, orders: list[Optional[bool]]) -> None:
    try:
        source = node._saved_input
    except (AttributeError, RuntimeError):
        return
    if source is None:
        return
    orders.append(is_channels_last(source))
    # Images are not trained, so no node stands before the first convolution. What a frozen part puts out has more
    # channels than images have.
    if node.next_functions and node.next_functions[0][0] is None and source.dim() == 4 and source.shape[1] <= 4:
        graph.images = tuple(source.shape)


def is_channels_last(tensor: Any) -> Optional[bool]:
    """Whether a tensor of four dimensions is in NHWC order; `None` if it is in both orders, or has other dimensions."""
    if tensor.dim() != 4 or tensor.layout is not sys.modules["torch"].strided:
        return None
    here = tensor.is_contiguous(memory_format=sys.modules["torch"].channels_last)
    return None if here and tensor.is_contiguous() else bool(here)


class _Watch:
    """What the wrapped `torch.autograd.backward` has seen."""

    def __init__(self) -> None:
        self.first: Optional[Graph] = None
        self.inside: Optional[list[Any]] = None
        """The roots of the first graph within the window, or their nodes; `None` while nobody asks for it."""
        self.captured: Optional[Graph] = None
        """The graph that a CUDA graph has captured last."""
        self.passes = 0
        """Backward passes since the window began, as long as they were counted."""
        self.suffices: Callable[[], bool] = lambda: False
        """Whether something else shows what enters the networks, so that no more passes need to be seen."""
        self.wraps: Callable[[bool], None] = lambda wraps: None
        """Wraps `torch.autograd.backward`, or lets it be as it was."""
        self.pictures: list[set[tuple[int, ...]]] = []
        """What a compiled step keeps and can be images, in some of these passes."""

    def look(self, tensors: Any) -> None:
        """Reads what a compiled step has kept. That is done of some passes, ever fewer."""
        node = getattr(tensors, "grad_fn", None)
        if node is not None and "Compiled" in node.name():
            self.pictures.append(_pictures(_saved(node)))

    def capture(self, tensors: Any) -> None:
        """Reads the graph of `tensors`, while a CUDA graph captures it."""
        node = getattr(tensors, "grad_fn", None)
        if node is not None:
            self.captured = read_nodes(_nodes([node]), layouts=True)

    def see(self, tensors: Any, retains: bool) -> None:
        if self.first is not None and (self.inside is None or self.inside or retains):
            return
        # Whatever is neither a tensor nor some of them, such as an edge of a graph, is not looked at.
        candidates = tensors if isinstance(tensors, (list, tuple)) else [tensors]
        roots = [root for root in candidates if getattr(root, "grad_fn", None) is not None]
        nodes = [root.grad_fn for root in roots]
        if self.first is None and nodes:
            self.first = read_nodes(_nodes(nodes), layouts=True)
        if self.inside == [] and not retains:
            # A node of Python does not live longer than its tensor; a loss is small enough to be kept for it.
            self.inside = [root if root.numel() == 1 else root.grad_fn for root in roots]


_WATCH = _Watch()


def first_graph() -> Optional[Graph]:
    """The first graph that went backward in this process, or since [`forget`]."""
    return _WATCH.first


def captured_graph() -> Optional[Graph]:
    """The graph that a CUDA graph has captured last. It is replayed without going backward again."""
    return _WATCH.captured


def forget() -> None:
    """Forgets the first graph: a warm-up follows, and its graph is that of the window."""
    _WATCH.first = None


def keep_next(suffices: Callable[[], bool]) -> None:
    """Keeps the next graph that goes backward, for [`kept_graph`]. If it `suffices` then, no further pass is seen until
    that is called."""
    _WATCH.inside, _WATCH.passes, _WATCH.pictures, _WATCH.suffices = [], 0, [], suffices


def kept_graph() -> Optional[Graph]:
    """What was kept since [`keep_next`]: types, but no layouts."""
    _WATCH.wraps(True)
    roots, _WATCH.inside = _WATCH.inside, None
    nodes = [getattr(root, "grad_fn", root) for root in roots or ()]
    return read_nodes(_nodes(nodes), layouts=False) if nodes else None


def passes() -> int:
    """The backward passes since [`keep_next`], as long as they were counted."""
    return _WATCH.passes


def images_in_passes() -> list[Optional[tuple[int, ...]]]:
    """The shapes of images, in some passes of a compiled step since [`keep_next`]; else that in the first graph."""
    first = _WATCH.first
    if first is None:
        return []
    return [images_among(pictures, first) for pictures in _WATCH.pictures] or [first.images]


def watch_backward() -> None:
    """Wraps `torch.autograd.backward`, at once or as soon as PyTorch is imported."""
    if "torch" in sys.modules:
        _wrap(sys.modules["torch"])
    elif not any(isinstance(finder, _AfterImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterImport("torch", _wrap))


def _wrap(torch: ModuleType) -> None:
    backward = torch.autograd.backward
    if hasattr(backward, _MARK):
        return

    watch = _WATCH

    @functools.wraps(backward)
    def watched(tensors: Any, *args: Any, **options: Any) -> None:
        if watch.first is None or watch.inside == []:
            if isinstance(tensors, Iterator):
                tensors = tuple(tensors)
            retains = any(map(bool, args[1:3])) or options.get("retain_graph") or options.get("create_graph")
            watch.see(tensors, bool(retains))
            if watch.inside and watch.suffices():
                wrap(False)
        if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
            watch.capture(tensors)
        watch.passes = passes = watch.passes + 1
        if passes & (passes - 1) == 0:
            watch.look(tensors)
        backward(tensors, *args, **options)

    def wrap(wraps: bool) -> None:
        # Whoever has wrapped it after us stays.
        if torch.autograd.backward is (backward if wraps else watched):
            torch.autograd.backward = watched if wraps else backward

    setattr(watched, _MARK, True)
    watch.wraps = wrap
    wrap(True)


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function with a module as soon as it was imported."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self.name, self.then, self.asks = name, then, False

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if fullname != self.name or self.asks:
            return None
        # Who only asks whether there is such a module imports nothing, so this stays until it was imported.
        self.asks = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self.asks = False
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_tell(module: ModuleType) -> None:
                execute(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                self.then(module)

            spec.loader.exec_module = execute_and_tell  # type: ignore[method-assign]
        return spec
