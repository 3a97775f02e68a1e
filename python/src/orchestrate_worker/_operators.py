"""The time of a few iterations by operator: `ops` of `measurement.json`, from `torch.profiler`.

The profiler records calls with their inputs. Here they become self times, added up by name, phase and inputs.
orchestrate computes FLOPs and bytes from the shapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Optional

# The variable with the number of iterations to profile, which is only set in jobs of the kind `ops`.
ITERATIONS = "ORCHESTRATE_OPERATORS"

# The scope in which an iteration waits for its data.
DATA = "orchestrate::data_wait"

# The most operators that are listed.
_MOST = 400

_BACKWARD = "autograd::engine::evaluate_function"
_OPTIMIZER = "Optimizer.step#"

# Operators that neither compute nor move data themselves. Their inputs would only make the list longer.
_BOOKKEEPING = {
    "aten::empty", "aten::empty_like", "aten::empty_strided", "aten::resize_", "aten::as_strided", "aten::as_strided_",
    "aten::view", "aten::_unsafe_view", "aten::_reshape_alias", "aten::expand", "aten::permute", "aten::transpose",
    "aten::t", "aten::select", "aten::unbind", "aten::flatten", "aten::detach", "detach", "aten::resolve_conj",
    "aten::reshape", "aten::contiguous", "aten::clone", "aten::to", "aten::_to_copy",
}

# The profiler's names of types, where PyTorch's documentation has others.
_TYPES = {
    "float": "float32", "double": "float64", "c10::Half": "float16", "c10::BFloat16": "bfloat16", "long int": "int64",
    "long": "int64", "int": "int32", "short int": "int16", "short": "int16", "signed char": "int8",
    "unsigned char": "uint8", "bool": "bool", "c10::Float8_e4m3fn": "float8_e4m3fn", "c10::Float8_e5m2": "float8_e5m2",
}


class Call:
    """A call that the profiler recorded. Times are in nanoseconds."""

    def __init__(self, event: Any) -> None:
        self.name: str = event.name()
        self.thread: int = event.start_thread_id()
        self.began: int = event.start_ns()
        self.ended: int = self.began + event.duration_ns()
        self.is_scope: bool = event.is_user_annotation()
        self.identity: int = event.correlation_id()
        self.inputs = ((), (), ()) if self.is_scope or _is_bookkeeping(self.name) else _inputs(event)
        self.parent: Optional[Call] = None
        self.own: int = self.ended - self.began
        """Without the calls within it."""
        self.phase = "forward"

    def enter(self, parent: Optional[Call]) -> None:
        """The call was made within `parent`."""
        self.parent = parent
        if parent is not None:
            parent.own -= self.ended - self.began
            self.phase = parent.phase
        if self.phase == "data" or self.name == DATA:
            self.phase = "data"
        elif self.name.startswith(_OPTIMIZER):
            self.phase = "optimizer"
        elif self.name.startswith(_BACKWARD):
            self.phase = "backward"

    @property
    def is_operator(self) -> bool:
        """Whether its self time is that of an operator. The self time of a scope belongs to the script."""
        return not self.is_scope or self.phase == "data"

    @property
    def kind(self) -> tuple[Any, ...]:
        """The identity of calls that are added up. Calls while an iteration waits for data all belong to the wait."""
        return ("data",) if self.phase == "data" else (self.name, self.phase, *self.inputs)

    def listed(self) -> dict[str, Any]:
        """As an operator of `ops`, without its times."""
        if self.phase == "data":
            return {"name": DATA, "phase": "data", "class": "data"}
        listed: dict[str, Any] = {"name": self.name, "phase": self.phase}
        shapes, types, arguments = self.inputs
        if any(kind is not None for kind in types):
            listed["shapes"] = [None if kind is None else list(shape) for shape, kind in zip(shapes, types)]
            listed["types"] = list(types)
        if any(argument is not None for argument in arguments):
            listed["arguments"] = [list(it) if isinstance(it, tuple) else it for it in arguments]
        return listed


class Kernel:
    """A kernel or a copy that an accelerator did. Times are in nanoseconds."""

    def __init__(self, event: Any) -> None:
        self.name: str = event.name()
        self.launcher: int = event.linked_correlation_id()
        self.began: int = event.start_ns()
        self.ended: int = self.began + event.duration_ns()


class Profile:
    """Records iterations from [`Profile.begin`] to [`Profile.end`]."""

    def __init__(self, torch: Any, on_cuda: bool) -> None:
        from torch.profiler import ProfilerActivity, profile

        kinds = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if on_cuda else [])
        self._profiler = profile(activities=kinds, record_shapes=True, acc_events=True)
        self._on_cuda = on_cuda
        self._cuda_type: Any = getattr(torch._C._autograd.DeviceType, "CUDA", None)

    def begin(self) -> None:
        """Begins to record."""
        self._profiler.start()

    def end(self, iterations: int, elapsed_s: float) -> dict[str, Any]:
        """Ends the recording, and returns the `ops` of so many iterations, which took `elapsed_s` seconds together."""
        self._profiler.stop()
        events = self._profiler.profiler.kineto_results.events()
        calls = [Call(event) for event in events if event.device_type() != self._cuda_type and _is_call(event)]
        kernels = [Kernel(event) for event in events if event.device_type() == self._cuda_type and _is_work(event)]
        profile = {"source": "torch.profiler", "iterations": iterations, "elapsed_s": elapsed_s}
        return {**profile, **summed(calls, kernels if self._on_cuda else None, elapsed_s)}


def wait_for_data(torch: Any) -> AbstractContextManager[Any]:
    """A scope in which an iteration waits for its data."""
    scope: AbstractContextManager[Any] = torch.profiler.record_function(DATA)
    return scope


def summed(calls: Sequence[Call], kernels: Optional[Sequence[Kernel]], elapsed_s: float) -> dict[str, Any]:
    """The fields of `ops` that follow from the recording. Without an accelerator, `kernels` is `None`."""
    nest(calls)
    operators: dict[tuple[Any, ...], dict[str, Any]] = {}
    by_identity: dict[int, dict[str, Any]] = {}
    for call in calls:
        if not call.is_operator:
            continue
        operator = operators.setdefault(call.kind, {**call.listed(), "calls": 0, "host_s": 0.0})
        # The wait is one call, including all calls within it.
        operator["calls"] += call.phase != "data" or call.name == DATA
        operator["host_s"] += max(0, call.own) / 1e9
        by_identity[call.identity] = operator
    for operator in operators.values():
        operator["calls"] = max(1, operator["calls"])
    found = list(operators.values())
    about: dict[str, Any] = {}
    if kernels is not None:
        about["device_busy_s"] = min(union(kernels) / 1e9, elapsed_s)
        found += _with_kernels(kernels, by_identity, found)
        if not kernels:
            about["notes"] = ["The profiler recorded no kernels, so the work of the device is unknown."]
    found.sort(key=lambda operator: -float(operator.get("device_s", operator["host_s"])))
    rest = sum(operator.get("device_s", operator["host_s"]) for operator in found[_MOST:])
    return {**about, "operators": found[:_MOST], "rest_s": rest}


def nest(calls: Sequence[Call]) -> None:
    """Finds the caller of each call. Calls of one thread are nested or disjoint."""
    by_thread: dict[int, list[Call]] = {}
    for call in calls:
        by_thread.setdefault(call.thread, []).append(call)
    for of_thread in by_thread.values():
        around: list[Call] = []
        for call in sorted(of_thread, key=lambda it: (it.began, -it.ended)):
            while around and around[-1].ended <= call.began:
                around.pop()
            call.enter(around[-1] if around else None)
            around.append(call)


def union(kernels: Iterable[Kernel]) -> int:
    """Nanoseconds in which at least one of them ran."""
    busy, until = 0, -1
    for kernel in sorted(kernels, key=lambda it: it.began):
        busy += max(0, kernel.ended - max(kernel.began, until))
        until = max(until, kernel.ended)
    return busy


def _with_kernels(
    kernels: Iterable[Kernel], by_identity: dict[int, dict[str, Any]], operators: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Adds the seconds of kernels to the operators that launched them; returns those without a known launcher, as in a
    CUDA graph, by the names of the kernels."""
    for operator in operators:
        if operator["phase"] != "data":
            operator.update(device_s=0.0, kernels=0)
    alone: dict[str, dict[str, Any]] = {}
    for kernel in kernels:
        operator = by_identity.get(kernel.launcher)
        if operator is None or "device_s" not in operator:
            empty = {"name": kernel.name, "calls": 0, "host_s": 0.0, "device_s": 0.0, "kernels": 0}
            operator = alone.setdefault(kernel.name, empty)
            operator["calls"] += 1
        operator["device_s"] += (kernel.ended - kernel.began) / 1e9
        operator["kernels"] += 1
    return list(alone.values())


def _is_call(event: Any) -> bool:
    """Whether it is an operator or a scope, and not a call of CUDA's runtime or of the profiler itself."""
    if hasattr(event, "activity_type") and event.activity_type():
        return event.activity_type() in ("cpu_op", "user_annotation")
    name = str(event.name())
    # Functions of the runtime are linked to the operator that called them. Without one, their names identify them:
    # cudaLaunchKernel and cuLaunchKernelEx.
    is_named = name.startswith("cu") and name[2:3].isupper() or name.startswith("cuda") and name[4:5].isupper()
    return not (event.linked_correlation_id() or is_named)


def _is_work(event: Any) -> bool:
    """Whether it is work of an accelerator, and not a copy of a scope of the host."""
    return not event.is_user_annotation()


def _is_bookkeeping(name: str) -> bool:
    is_node = "autograd::" in name or ("::" not in name and name.rstrip("0123456789").endswith("Backward"))
    return is_node or name in _BOOKKEEPING


def _inputs(event: Any) -> tuple[tuple[Any, ...], ...]:
    """Shapes, types and values of the arguments."""
    types = tuple(_type(kind) for kind in event.dtypes())
    shapes = tuple(_frozen(shape) for shape in event.shapes())
    values = tuple(_frozen(value) if _is_value(value) else None for value in event.concrete_inputs())
    return shapes, types, values


def _type(kind: str) -> Optional[str]:
    """The type of a tensor's elements; `None` for anything but tensors."""
    return None if kind in ("", "Scalar", "ScalarList", "TensorList", "GenericList") else _TYPES.get(kind, kind)


def _is_value(value: Any) -> bool:
    """Whether it is a number, a truth value, or a list of them."""
    items = value if isinstance(value, (list, tuple)) else [value]
    return all(isinstance(item, (bool, int, float)) for item in items)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value
