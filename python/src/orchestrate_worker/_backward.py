"""Decides which autograd graphs of a script are read, and when.

`torch.autograd.backward` is wrapped: the first graph of each training is read completely before it is used up. The
first one within a window is kept, without its tensors, and read after the window. Neither takes time within a window if
the same was trained before it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any, Callable, Optional

from ._graph import Graph, behind, hides, images_among, nodes_from, pictures_of, read_nodes, saved_by
from ._switches import Switches, read_switches

# The attribute of a function that is wrapped already.
_MARK = "_orchestrate_watches"

# The number of trainings that are distinguished before a window, and the most nodes that distinguish them.
_TRAININGS, _STEPS = 16, 16


def _read_now(nodes: Sequence[Any]) -> Graph:
    """Reads the graph behind `nodes`, which is about to be used up, and the current switches."""
    graph = read_nodes(nodes_from(nodes), layouts=True)
    graph.switches = read_switches()
    return graph


def _way(node: Any) -> tuple[Any, ...]:
    """The first nodes on the way from a loss to a trained tensor. They differ if trainings differ, and take far less
    time than reading a graph."""
    steps: list[Any] = []
    while len(steps) < 2 * _STEPS:
        # Each compiled function has a separate class.
        steps += (node.name(), id(type(node)))
        after = behind(node)
        if not after:
            steps.append(id(getattr(node, "variable", None)))
            break
        node = after[0]
    return tuple(steps)


class _Watch:
    """The state of the wrapped `torch.autograd.backward`."""

    def __init__(self) -> None:
        self.trainings: dict[tuple[Any, ...], Graph] = {}
        """The first graph of each training, by the way from its loss; of many trainings, those that came first."""
        self.earlier = self.trainings
        """The same until the last window ended."""
        self.first: Optional[Graph] = None
        """That of the last training."""
        self.inside: Optional[list[Any]] = None
        """The roots of the first graph within the window, or their nodes; `None` while it is not requested."""
        self.switches: Optional[Switches] = None
        """The switches at the first backward pass of the window."""
        self.captured: Optional[Graph] = None
        """The graph that a CUDA graph has captured last."""
        self.reading: list[Graph] = []
        """The graphs whose backward pass runs, and which were read before it for the first time."""
        self.passes = 0
        """Backward passes since the window began, as long as they were counted."""
        self.suffices: Callable[[], bool] = lambda: False
        """Whether something else shows what enters the networks, so that no more passes need to be seen."""
        self.wraps: Callable[[bool], None] = lambda wraps: None
        """Wraps `torch.autograd.backward`, or restores it."""
        self.pictures: list[set[tuple[int, ...]]] = []
        """The shapes that a compiled step keeps and that can be images, in some of these passes."""

    def look(self, tensors: Any) -> None:
        """Reads the tensors that a compiled step has kept, in some passes, less and less often."""
        node = getattr(tensors, "grad_fn", None)
        if node is not None and "Compiled" in node.name():
            self.pictures.append(pictures_of(saved_by(node)))

    def capture(self, tensors: Any) -> None:
        """Reads the graph of `tensors`, while a CUDA graph captures it."""
        node = getattr(tensors, "grad_fn", None)
        if node is not None:
            self.captured = _read_now([node])
            self.reading.append(self.captured)

    def see(self, tensors: Any, retains: bool) -> None:
        """Reads the graph of `tensors` if a training begins with it, and keeps it if the window does."""
        if self.inside == [] and self.switches is None:
            self.switches = read_switches()
        # Anything but tensors, such as an edge of a graph, is ignored.
        candidates = tensors if isinstance(tensors, (list, tuple)) else [tensors]
        roots = [root for root in candidates if getattr(root, "grad_fn", None) is not None]
        if not roots:
            return
        way = _way(roots[0].grad_fn)
        if way not in self.trainings and len(self.trainings) < _TRAININGS:
            # Within a window, a graph is not read a second time.
            known = self.earlier.get(way) if self.inside is not None else None
            self.trainings[way] = graph = known or _read_now([root.grad_fn for root in roots])
            if known is None:
                self.reading.append(graph)
        self.first = self.trainings.get(way, self.first)
        if self.inside == [] and not retains:
            # A node of Python does not live longer than its tensor; a loss is small enough to be kept for it.
            self.inside = [root if root.numel() == 1 else root.grad_fn for root in roots]

    def see_part(self, tensors: Any, node: Any) -> Any:
        """Adds the graph of `tensors`, made by `node`, to the graph in whose backward pass it was made."""
        if not self.reading:
            return tensors
        if isinstance(tensors, Iterator):
            tensors = tuple(tensors)
        roots = tensors if isinstance(tensors, (list, tuple)) else [tensors]
        nodes = [root.grad_fn for root in roots if getattr(root, "grad_fn", None) is not None]
        if nodes:
            part = read_nodes(nodes_from(nodes), layouts=True)
            for graph in self.reading:
                graph.add(part, hides(node))
        return tensors

    def begin_anew(self) -> None:
        """From now on, trainings before a window are read anew, because they may have changed."""
        self.earlier, self.trainings = self.trainings, {}


_WATCH = _Watch()


def first_graph() -> Optional[Graph]:
    """The first graph of the training that went backward last, since [`forget`]."""
    return _WATCH.first


def captured_graph() -> Optional[Graph]:
    """The graph that a CUDA graph has captured last. It is replayed without going backward again."""
    return _WATCH.captured


def forget() -> None:
    """Forgets the graphs before a warm-up: its graph is that of the window."""
    _WATCH.first, _WATCH.earlier, _WATCH.trainings = None, {}, {}


def keep_next(suffices: Callable[[], bool]) -> None:
    """Keeps the next graph that goes backward, for [`kept_graph`]. If it `suffices` then, no further pass is seen until
    that is called."""
    _WATCH.inside, _WATCH.switches, _WATCH.passes, _WATCH.pictures, _WATCH.suffices = [], None, 0, [], suffices


def kept_graph() -> Optional[Graph]:
    """The graph that was kept since [`keep_next`]: with types, but with the layouts of weights only."""
    _WATCH.wraps(True)
    _WATCH.begin_anew()
    roots, _WATCH.inside = _WATCH.inside, None
    nodes = [getattr(root, "grad_fn", root) for root in roots or ()]
    return read_nodes(nodes_from(nodes), layouts=False) if nodes else None


def kept_switches() -> Optional[Switches]:
    """The switches at the first backward pass since [`keep_next`]."""
    return _WATCH.switches


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
    """Wraps `torch.autograd.backward`, now or as soon as PyTorch is imported."""
    if "torch" in sys.modules:
        _wrap(sys.modules["torch"])
    elif not any(isinstance(finder, _AfterImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterImport("torch", _wrap))


def _wrap(torch: ModuleType) -> None:
    backward = torch.autograd.backward
    if hasattr(backward, _MARK):
        return

    watch = _WATCH
    running = getattr(torch._C, "_current_autograd_node", None) or (lambda: None)

    @functools.wraps(backward)
    def watched(tensors: Any, *args: Any, **options: Any) -> None:
        if (node := running()) is not None:
            # This pass is a part of another one.
            backward(watch.see_part(tensors, node), *args, **options)
            return
        suffices = False
        if not watch.inside:
            if isinstance(tensors, Iterator):
                tensors = tuple(tensors)
            retains = any(map(bool, args[1:3])) or options.get("retain_graph") or options.get("create_graph")
            watch.see(tensors, bool(retains))
            suffices = bool(watch.inside) and watch.suffices()
        if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
            watch.capture(tensors)
        watch.passes = passes = watch.passes + 1
        if passes & (passes - 1) == 0:
            watch.look(tensors)
        try:
            backward(tensors, *args, **options)
        finally:
            watch.reading.clear()
            if suffices:
                wrap(False)

    def wrap(wraps: bool) -> None:
        # A wrapper that was added after ours stays.
        if torch.autograd.backward is (backward if wraps else watched):
            torch.autograd.backward = watched if wraps else backward

    setattr(watched, _MARK, True)
    watch.wraps = wrap
    wrap(True)
    with contextlib.suppress(Exception):  # how that is done differs from one PyTorch to the next
        _hide_from_compiler(torch)


def _hide_from_compiler(torch: Any) -> None:
    """Keeps `torch.compile` from compiling this package, which it does if a script compiles its backward pass, too.
    Otherwise, it would recompile for each counted number."""
    frames = torch._C._dynamo.eval_frame
    skip: Callable[[CodeType], None] = getattr(frames, "skip_code", None) or functools.partial(
        lambda strategy, code: frames.set_code_exec_strategy(code, strategy),
        frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.DEFAULT),
    )
    package = __name__.partition(".")[0]
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == package:
            for code in _codes(vars(module), name):
                skip(code)


def _codes(names: Mapping[str, Any], module: str) -> Iterator[CodeType]:
    """The code of all functions of a module or class, with those within them."""
    for value in list(names.values()):
        value = getattr(value, "__wrapped__", getattr(value, "fget", value))
        if getattr(value, "__module__", None) != module:
            continue
        if isinstance(value, type):
            yield from _codes(vars(value), module)
        elif isinstance(value, FunctionType):
            rest = [value.__code__]
            while rest:
                code = rest.pop()
                rest.extend(inner for inner in code.co_consts if isinstance(inner, CodeType))
                yield code


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function with a module as soon as it was imported."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self.name, self.then, self.asks = name, then, False

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if fullname != self.name or self.asks:
            return None
        # A search for a module does not imply its import, so this finder stays until the module was imported.
        self.asks = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self.asks = False
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_notify(module: ModuleType) -> None:
                execute(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                self.then(module)

            spec.loader.exec_module = execute_and_notify  # type: ignore[method-assign]
        return spec
