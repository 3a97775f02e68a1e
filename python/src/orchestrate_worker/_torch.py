"""PyTorch: its synchronisation, and the facts that it shows about the training."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections import Counter
from collections.abc import Sequence
from types import FunctionType
from typing import Any, Optional

from . import _backward, _graph, _memory, _networks, _operators, _process, _switches
from ._entered import Entered
from ._flops import Count, FlopCounter
from ._framework import LIBRARIES, Framework, Settings, Unusable
from ._output import warn

# The range that profilers are restricted to.
RANGE = "orchestrate"

# The variable by which NVIDIA's profilers reach the ranges of a program.
_INJECTION = "NVTX_INJECTION64_PATH"

# Losses that are gathered into one tensor at a time.
_TOGETHER = 4096

_LIBRARIES = ("torch", "torchvision", "lightning", "pytorch_lightning", "triton", *LIBRARIES)


class TorchFramework(Framework):
    """PyTorch in this process, on the processor, CUDA or MPS."""

    def __init__(self) -> None:
        import torch

        self._torch: Any = torch
        self._events: list[Any] = []
        self._on_cuda = bool(torch.cuda.is_initialized())
        self._on_mps = self._uses_mps()
        self._inside: Optional[_graph.Graph] = None
        self._whole: Optional[_graph.Graph] = None
        self._switches = _switches.read_switches()
        self._peaks: dict[str, int] = {}
        self._records, self._recorded_on = self._on_cuda, 0
        self._stream_of: tuple[int, ...] = ()
        self._watch = _networks.Watch()
        self._entered: list[Entered] = []
        self._evaluation_s: Optional[float] = None
        self._images: list[Optional[tuple[int, ...]]] = []
        self._passes, self._iterations = 0, 1
        self._replays = False
        self._single_thread = contextlib.ExitStack()
        self._counter: Optional[FlopCounter] = None
        self._profile: Optional[_operators.Profile] = None

    def _uses_mps(self) -> bool:
        """Whether this process has memory on an Apple GPU, which is the only sign that it computes there."""
        torch = self._torch
        return bool(torch.backends.mps.is_available() and torch.mps.current_allocated_memory() > 0)

    # --- the window ---------------------------------------------------------------------------------------------------

    def synchronize(self) -> None:
        if self._torch.cuda.is_initialized():
            for index in self._used():
                self._torch.cuda.synchronize(index)
        if self._uses_mps():
            self._torch.mps.synchronize()

    def _used(self) -> list[int]:
        """The CUDA devices that this process uses. Any call for another one would take memory there."""
        cuda = self._torch.cuda
        used = [index for index in range(cuda.device_count()) if self._torch._C._cuda_hasPrimaryContext(index)]
        return used or [cuda.current_device()]

    def enter(self) -> None:
        _memory.remember(self._torch.nn.Module, self._torch.optim.Optimizer)

    def end_warmup_iteration(self) -> None:
        _networks.watch().end_warmup_iteration(self._torch)

    def is_on_host(self) -> bool:
        return not (self._on_cuda or self._on_mps)

    def open(self) -> None:
        self._watch = _networks.watch()
        self._watch.open(self._torch)
        if self._on_cuda:
            for index in self._used():
                self._torch.cuda.reset_peak_memory_stats(index)
            self._choose_stream()
            if _INJECTION in os.environ:
                # A range belongs to one thread, but backward passes run on another one.
                self._single_thread.enter_context(self._torch.autograd.set_multithreading_enabled(False))
            self._torch.cuda.cudart().cudaProfilerStart()
            self._torch.cuda.nvtx.range_push(RANGE)
        # Only backward passes see the capture of a CUDA graph.
        _backward.keep_next(suffices=self._watch.has_entered if self.is_on_host() else lambda: False)

    def _choose_stream(self) -> None:
        """Chooses the device that trained before the window for events; if it is unknown, the current one."""
        before = _backward.first_graph() or _backward.captured_graph()
        indices = before.indices if before is not None and before.device == "cuda" else []
        # An event of one device does not time another one.
        self._records = len(indices) < 2
        self._recorded_on = indices[0] if indices else self._torch.cuda.current_device()
        self._stream_of = (self._recorded_on,) if indices else ()

    def tick(self) -> None:
        if self._records:
            event = self._torch.cuda.Event(enable_timing=True)
            event.record(*map(self._torch.cuda.current_stream, self._stream_of))
            self._events.append(event)
        self._watch.tick(self._torch)

    def close(self) -> None:
        if self._on_cuda:
            self._torch.cuda.nvtx.range_pop()
            self._torch.cuda.cudart().cudaProfilerStop()
            self._single_thread.close()
        self._inside, self._images = _backward.kept_graph(), _backward.images_in_passes()
        self._passes, self._iterations = _backward.passes(), max(1, self._watch.iterations())
        self._evaluation_s = self._watch.evaluation_s()
        self._entered = self._watch.close()
        self._replays = self._on_cuda and self._has_cuda_graph()
        # A replayed CUDA graph has no autograd graph, except when it was captured.
        self._whole = _backward.first_graph() or (_backward.captured_graph() if self._replays else None)
        captured = self._whole.switches if self._replays and self._whole is not None else None
        self._switches = _backward.kept_switches() or captured or _switches.read_switches()
        for graph in (self._inside, self._whole):
            # The search for optimizers takes a moment. Mostly, all trained tensors are parameters.
            if graph is not None and not all(leaf.is_parameter for leaf in graph.leaves.values()):
                graph.count_trained(set().union(*map(_held_by, self._optimizers())))
        if self.device() == "cuda":
            cuda, places = self._torch.cuda, self._places()
            self._peaks = {
                "peak_device_memory_bytes": max(cuda.max_memory_reserved(*place) for place in places),
                "peak_device_allocated_bytes": max(cuda.max_memory_allocated(*place) for place in places),
            }

    # --- beside the window --------------------------------------------------------------------------------------------

    def is_of_many(self) -> bool:
        return is_rank_of_many()

    def may_compile(self) -> bool:
        # No library lists what `torch.compile` made, so memory is searched for functions with its marks.
        functions = (vars(it) for it in gc.get_objects() if type(it) is FunctionType)
        return any("_torchdynamo_orig_callable" in it and "_torchdynamo_disable" not in it for it in functions)

    def can_count(self) -> bool:
        return hasattr(self._torch.utils, "_python_dispatch")

    def begin_count(self) -> bool:
        self._counter = FlopCounter(self._torch)
        return self._counter.begin()

    def end_count(self) -> Optional[Count]:
        return self._counter.end() if self._counter is not None else None

    def can_profile(self) -> bool:
        # On Apple GPUs, the profiler only sees what is submitted.
        return hasattr(self._torch, "profiler") and not self._uses_mps()

    def begin_profile(self) -> bool:
        try:
            self._profile = _operators.Profile(self._torch, bool(self._torch.cuda.is_initialized()))
            self._profile.begin()
        except Exception as error:
            warn(f"no iterations were profiled: {error}")
            return False
        return True

    def end_profile(self, iterations: int, elapsed_s: float) -> Optional[dict[str, Any]]:
        try:
            return self._profile.end(iterations, elapsed_s) if self._profile is not None else None
        except Exception as error:
            warn(f"no iterations were profiled: {error}")
            return None

    def wait_for_data(self) -> contextlib.AbstractContextManager[Any]:
        return _operators.wait_for_data(self._torch)

    # --- after the window ---------------------------------------------------------------------------------------------

    def numbers(self, losses: Sequence[Any]) -> list[Optional[float]]:
        if not all(isinstance(loss, self._torch.Tensor) and loss.numel() == 1 for loss in losses):
            return super().numbers(losses)
        numbers: list[Optional[float]] = []
        for begin in range(0, len(losses), _TOGETHER):
            some = losses[begin : begin + _TOGETHER]
            try:
                numbers.extend(self._torch.stack([loss.detach().reshape(()).float() for loss in some]).tolist())
            except Exception:  # tensors of several devices, or kinds of them such as DTensor
                numbers.extend(super().numbers(some))
        return numbers

    def clock(self) -> str:
        if self.device() == "cuda":
            are_there = all(place == (self._recorded_on,) for place in self._places() if place)
            return "device_events" if are_there and len(self._events) > 1 else "submission"
        return "host" if self.device() == "cpu" else "submission"

    def seconds(self) -> Optional[list[float]]:
        if self.clock() != "device_events":
            return None
        return [begin.elapsed_time(end) / 1e3 for begin, end in zip(self._events, self._events[1:])]

    def device(self) -> Optional[str]:
        graph = self._graph()
        if graph is not None and graph.device is not None:
            return graph.device
        return "cuda" if self._on_cuda else "mps" if self._on_mps else "cpu"

    def precision(self, said: Optional[str]) -> Optional[str]:
        graph, whole = self._graph(), self._read_whole()
        if graph is None or not graph.products or graph.hidden:
            return None
        types = graph.products
        if not graph.compiled:
            types = Counter(dict(types.most_common(1)))
        elif whole is not None:
            # A compiled part of the window's graph hides its inner types after its use.
            types = types + whole.products
        if graph.parameter_types["float64"] or graph.parameter_types["float16"]:
            raise Unusable("the weights are in float64 or float16, which is none of fp32, tf32, amp and bf16")
        if types["float16"]:
            return "amp"
        if types["bfloat16"]:
            # On the processor, both names mean autocast to bfloat16.
            return "amp" if said == "amp" and self.device() == "cpu" else "bf16"
        return "tf32" if self._rounds() else "fp32"

    def settings(self) -> Settings:
        found: Settings = {
            "deterministic": self._switches.deterministic,
            "cudnn_benchmark": self.device() == "cuda" and self._switches.cudnn_benchmark,
            "threads": self._switches.threads,
        }
        graph = self._graph()
        if graph is None or not graph.hidden:
            found["tf32"] = self._rounds()
        if graph is not None and (graph.compiled or not graph.hidden):
            found["compile"] = graph.compiled
        if graph is not None and not graph.hidden:
            if (channels_last := self._channels_last(graph)) is not None:
                found["channels_last"] = channels_last
            # The tensors that a compiled part keeps for its backward pass do not show single products.
            if len(graph.products) > 1 and not graph.compiled:
                found["product_types"] = dict(sorted(graph.products.items()))
            if set(graph.parameter_types) != {"float32"} and graph.parameter_types:
                found["parameter_types"] = dict(sorted(graph.parameter_types.items()))
        if (optimizer := self._optimizer()) is not None:
            found["optimizer"] = type(optimizer).__name__.lower()
        return found

    def _channels_last(self, graph: _graph.Graph) -> Optional[bool]:
        """Whether all are in NHWC order: weights as they were in the window, feature maps as they were last read."""
        whole = self._read_whole()
        return _graph.all_of([graph.channels_last, whole.channels_last if whole is not None else None])

    def entered(self) -> list[Entered]:
        networks = self._entered
        if not networks and _memory.hides(self._torch.nn.Module):
            warn("the input of the network is unknown, because gc.freeze() hides it: call it after entering the window")
        if self._replays:
            for network in networks:
                network.repeat_captured_call()
        if not any(network.calls or network.is_unclear for network in networks):
            if not self._passes and not self._replays and any(network.before for network in networks):
                raise Unusable("nothing was trained within the window: its network was called only in the warm-up")
            return self._entered_a_graph()
        return networks

    def _entered_a_graph(self) -> list[Entered]:
        """The images that the graph shows if no call of a network was seen, as the input of a network."""
        graph = self._whole
        if self._replays and not self._passes and graph is not None and graph.images is not None:
            entered = Entered(since=1)
            entered.is_captured, entered.each, entered.calls = True, [graph.images[0]], 1
            entered.shapes = {graph.images: ()}
            return [entered]
        shapes = self._images
        if not self._passes or self._passes % self._iterations or None in shapes or not shapes:
            return []
        entered, each = Entered(since=1), self._passes // self._iterations
        entered.each = [shape[0] * each for shape in shapes if shape is not None]
        if len(set(entered.each)) == 1:
            entered.each = entered.each[:1] * self._iterations
        entered.shapes, entered.calls = {shape: () for shape in shapes}, self._passes
        return [entered]

    def evaluation_s(self) -> Optional[float]:
        return self._evaluation_s

    def images(self) -> Optional[Sequence[int]]:
        graph = self._read_whole()
        return graph.images if graph is not None else None

    def logits(self) -> Optional[Sequence[int]]:
        graph = self._graph()
        return graph.logits if graph is not None else None

    def details(self) -> dict[str, Any]:
        torch, graph = self._torch, self._graph()
        details: dict[str, Any] = {"versions": _process.versions(_LIBRARIES), "float32": self._switches.float32}
        optimizer = self._optimizer()
        # If optimizers have other tensors than the trained ones, each process may have a part of them.
        is_whole = optimizer is not None or not self._optimizers()
        if graph is not None and graph.parameters and not graph.hidden and is_whole:
            details["parameters"] = graph.parameters
        if optimizer is not None:
            details["optimizer"] = _phrase(optimizer)
        if self.device() == "cuda":
            details.update(self._cuda_details())
        elif self.device() == "mps":
            details["device_name"] = _process.processor()
            details["peak_device_memory_bytes"] = None  # MPS reports the current memory, not its peak.
        else:
            details["device_name"] = _process.processor()
            if self.precision(None) == "bf16":
                details["bf16_products"] = self._switches.bf16_products
        if torch.version.cuda and self.device() == "cuda":
            details["versions"]["cuda"] = torch.version.cuda
            details["versions"]["cudnn"] = str(torch.backends.cudnn.version())
        return details

    def _cuda_details(self) -> dict[str, Any]:
        """Of several devices, all names, and the largest peak memory."""
        abouts = self._abouts()
        uuids = [f"GPU-{about.uuid}" for about in abouts if getattr(about, "uuid", None) is not None]
        # A list is not a UUID, and must not be read as one.
        prefix = f"{len(uuids)} GPUs: " if len(uuids) > 1 else ""
        return {
            "device_name": ", ".join(about.name for about in abouts),
            "device_uuid": prefix + ", ".join(uuids) if uuids else None,
            "compute_capability": ", ".join(sorted({f"{about.major}.{about.minor}" for about in abouts})),
            **self._peaks,
        }

    def _places(self) -> list[tuple[int, ...]]:
        """The CUDA devices that trained, as arguments of PyTorch's functions; empty for the current one."""
        graph = self._graph()
        indices = graph.indices if graph is not None and graph.device == "cuda" else []
        return [(index,) for index in indices] or [()]

    def _abouts(self) -> list[Any]:
        """PyTorch's properties of these devices."""
        cuda = self._torch.cuda
        return [cuda.get_device_properties(*(place or (cuda.current_device(),))) for place in self._places()]

    def _has_cuda_graph(self) -> bool:
        """Whether there is a CUDA graph: its replays do not call networks."""
        kind = self._torch.cuda.CUDAGraph
        return any(issubclass(type(it), kind) for it in gc.get_objects())

    def _read_whole(self) -> Optional[_graph.Graph]:
        """The graph of the same training that was read before its use, with layouts and images."""
        graph, whole = self._graph(), self._whole
        if graph is None or whole is None or graph is whole:
            return whole
        is_same = graph.compiled == whole.compiled and graph.weights_last == whole.weights_last
        return whole if is_same and graph.trained & whole.trained else None

    def _graph(self) -> Optional[_graph.Graph]:
        """The graph that is reported: that of the window, or else that of the last training before it."""
        inside, whole = self._inside, self._whole
        if inside is None or (whole is not None and whole.products and not inside.products):
            return whole
        # Within the window, parts with separate graphs are not read.
        if inside.hidden and whole is not None and whole.shown == inside.products and inside.trained & whole.trained:
            return whole
        return inside

    def _optimizer(self) -> Any:
        """The optimizer of most of the trained tensors."""
        graph = self._graph()
        if graph is None:
            return None
        counts = [(len(_held_by(optimizer) & graph.trained), optimizer) for optimizer in self._optimizers()]
        count, best = max(counts, key=lambda counted: counted[0], default=(0, None))
        return best if count else None

    def _optimizers(self) -> list[Any]:
        """All optimizers. No library lists them, so memory is searched."""
        # Wrappers of optimizers forward attributes. Only the optimizer itself has its groups.
        return [it for it in _memory.objects(self._torch.optim.Optimizer) if "param_groups" in vars(it)]

    def _rounds(self) -> bool:
        """Whether products in single precision may be rounded to fewer bits on the device that computed."""
        device = self.device()
        if device == "cuda":
            # TF32 came with compute capability 8.0.
            library, rounds = "cuda", {"tf32", "bf16"} if any(it.major >= 8 for it in self._abouts()) else set()
        else:
            library, rounds = "onednn", _switches.words_that_round() if device == "cpu" else set()
        graph, words = self._graph(), self._switches.float32
        kinds = graph.kinds if graph is not None and graph.kinds else ("conv", "matmul")
        return any(words.get(f"{library}_{kind}") in rounds for kind in kinds)


def _held_by(optimizer: Any) -> set[int]:
    """The identities of the tensors that an optimizer changes."""
    return {id(tensor) for group in optimizer.param_groups for tensor in group["params"]}


def _phrase(optimizer: Any) -> str:
    """`SGD, learning rate 0.01, momentum 0.9, weight decay 0, fused`: an optimizer and its constants, defaults too.

    A constant that is left out would look unknown.
    """
    group = optimizer.param_groups[0]
    words = [type(optimizer).__name__]
    for key, said in (("lr", "learning rate"), ("momentum", "momentum"), ("weight_decay", "weight decay")):
        if group.get(key) is not None:
            words.append(f"{said} {float(group[key]):g}")
    if group.get("betas") is not None:
        words.append("betas " + " and ".join(f"{float(beta):g}" for beta in group["betas"]))
    if isinstance(group.get("eps"), float):  # Adafactor has two
        words.append(f"epsilon {group['eps']:g}")
    words += [key for key in ("nesterov", "foreach", "capturable") if group.get(key)]
    if "fused" in group:
        words.append("fused" if group["fused"] else "not fused")
    return ", ".join(words)


def is_rank_of_many() -> bool:
    """Whether this process is one of several that train together through `torch.distributed`."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    return bool(
        distributed and distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1
    )
