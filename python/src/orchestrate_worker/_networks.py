"""Watches the inputs of the networks that a script calls.

Data loaders and flags show which data were available; the network's input shows the data that were trained on. Every
call of a network from outside is watched, and the samples of every iteration are counted. These networks are found
before the window, in memory: first modules that are not part of another one, then their children, until one is called.

Calls are not seen within code that `torch.compile` made of a whole function, nor when a CUDA graph is replayed. The
samples are unknown then. Compiled code is never changed: calls are not counted while PyTorch compiles.
"""

from __future__ import annotations

import contextlib
import sys
import time
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, Callable, Optional

from . import _memory
from ._entered import Entered

# The depth below the outermost modules to which networks are searched: in a container, or a container of those.
_DEEPEST = 3

# The number of tensors of a call, and of shapes of a network's input, that are kept.
_TENSORS, _SHAPES = 16, 64


class _Hook:
    """A forward pre-hook, called with all inputs of a network. Copies of the network get one without effect."""

    def __init__(self, torch: Any, entered: Entered) -> None:
        self.entered = entered
        self.was_called = False
        self.evaluations: list[tuple[Any, Any]] = []
        """When calls without gradients began and ended within the window: seconds, or events of the device."""
        self.began: Any = None
        """When such a call began, if a second hook sees its end."""
        self.tensor = torch.Tensor
        self.trains: Callable[[], bool] = torch.is_grad_enabled
        node = getattr(torch._C, "_current_autograd_node", None)
        self.recomputes: Callable[[], bool] = (lambda: node() is not None) if node is not None else lambda: False
        self.now: Callable[[], Any] = _clock(torch)
        self.compiles: Callable[[], bool] = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)

    def __call__(self, module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if not self.compiles():
            self.count(args, kwargs)
            self.began = None if self.trains() else self.now()

    def __reduce__(self) -> tuple[Any, ...]:
        return (_Silence, ())

    def count(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Counts a call with these arguments."""
        self.was_called = True
        # A network without gradients is evaluated, or is the teacher of another one.
        if not self.trains():
            return
        entered = self.entered
        try:
            first: Any = args[0] if args else None
            shape: tuple[int, ...] = first.shape if type(first) is self.tensor else ()
            # The short way, for what has been seen before: code that runs once an iteration is never in the caches.
            if len(shape) < 2 or shape not in entered.shapes or first.requires_grad:
                first = self._first_data(first, args, kwargs)
                if first is None:
                    return
                shape = first.shape
            entered.calls += 1
            if self.recomputes():
                entered.again += shape[0]
            else:
                entered.now += shape[0]
        except Exception:  # some kinds of tensors have no shape
            entered.is_unclear = True

    def _first_data(self, first: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Returns the tensor whose rows are counted, and keeps its shape; `None` if the call is not counted."""
        if type(first) is not self.tensor or first.dim() < 2:
            first = self._main_tensor(args, kwargs)
            if first is None:
                self.entered.is_unclear = True
                return None
        # The output of another network is not data. It cannot be distinguished from data with a gradient.
        if first.requires_grad:
            return None
        if first.shape not in self.entered.shapes:
            self._keep(first, args, kwargs)
        return first

    def _main_tensor(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The first tensor of several dimensions, or else the first of one: steps and scales have fewer than data."""
        if args and isinstance(args[0], (list, tuple)):
            return None  # it may contain a tensor for each sample, or for each kind of data
        tensors = [tensor for tensor in self._tensors(args, kwargs) if tensor.dim()]
        return next((tensor for tensor in tensors if tensor.dim() > 1), tensors[0] if tensors else None)

    def _tensors(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        parts = [*args[:_TENSORS], *list(kwargs.values())[:_TENSORS]]
        if args and isinstance(args[0], Mapping):
            parts[:1] = list(args[0].values())[:_TENSORS]
        return [part for part in parts if isinstance(part, self.tensor)]

    def _keep(self, first: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        # Within a transformation such as vmap, a tensor hides dimensions.
        level = getattr(getattr(sys.modules["torch"]._C, "_functorch", None), "peek_interpreter_stack", None)
        if level is not None and level() is not None:
            self.entered.is_unclear = True
        elif len(self.entered.shapes) < _SHAPES:
            beside = [tuple(map(int, tensor.shape)) for tensor in self._tensors(args, kwargs) if tensor is not first]
            self.entered.shapes[first.shape] = tuple(beside)
            whole = first._base
            if whole is not None and whole.shape[1:] == first.shape[1:]:
                self.entered.wholes[first.shape] = whole.shape[0]


def _clock(torch: Any) -> Callable[[], Any]:
    """A function that returns the time where networks run: on CUDA, an event that is recorded on the current stream."""
    if not torch.cuda.is_initialized():
        return time.perf_counter

    def record() -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    return record


def _between(began: Any, ended: Any) -> float:
    """Seconds between two times of [`_clock`]."""
    if isinstance(began, float):
        return float(ended - began)
    try:
        return float(began.elapsed_time(ended)) / 1e3
    except RuntimeError:  # recorded while a CUDA graph was captured, or on two devices
        return 0.0


class _End:
    """A forward hook of the same network: a call has ended."""

    def __init__(self, hook: _Hook) -> None:
        self.hook = hook

    def __call__(self, module: Any, args: tuple[Any, ...], result: Any) -> None:
        hook = self.hook
        if not hook.compiles() and hook.began is not None:
            hook.evaluations.append((hook.began, hook.now()))
            hook.began = None

    def __reduce__(self) -> tuple[Any, ...]:
        return (_Silence, ())


class _Silence:
    """A hook of a network that was copied or stored."""

    def __call__(self, module: Any, args: tuple[Any, ...], other: Any) -> None:
        return


class Watch:
    """The networks that are watched: from the warm-up on, until the window ends."""

    def __init__(self) -> None:
        self._hooks: list[tuple[weakref.ref[Any], _Hook, Callable[[], None]]] = []
        self._depth = 0
        self._found = False
        self._ticks = 0

    def end_warmup_iteration(self, torch: Any) -> None:
        """An iteration of the warm-up has ended: networks are searched again, unless they are found already."""
        for _, hook, _ in self._hooks:
            hook.entered.before = hook.entered.take() or hook.entered.before
        self._look(torch)

    def open(self, torch: Any) -> None:
        """The window is about to begin."""
        if not self._hooks:
            self._look(torch)
        for _, hook, _ in self._hooks:
            hook.entered.open()
            hook.evaluations.clear()

    def tick(self, torch: Any) -> None:
        """The window has begun, or an iteration of it has ended."""
        # Code that runs once per iteration is never in the caches, so it is one function.
        for _, hook, _ in self._hooks:
            entered = hook.entered
            entered.each.append(entered.now or entered.again)
            entered.now = entered.again = 0
        self._ticks += 1
        if not self._found and self._ticks > 1:
            self._look(torch)

    def has_entered(self) -> bool:
        """Whether anything entered a network since the window began, as far as hooks see it."""
        return any(hook.entered.calls for _, hook, _ in self._hooks)

    def iterations(self) -> int:
        """The iterations of the window so far."""
        return self._ticks - 1

    def evaluation_s(self) -> float:
        """Seconds of the window in which a network was called without gradients. The device has been waited for."""
        return sum(_between(*times) for _, hook, _ in self._hooks for times in hook.evaluations)

    def close(self) -> list[Entered]:
        """The window has ended, or will never be complete: no network is watched any more."""
        hooks, self._hooks = self._hooks, []
        for _, _, remove in hooks:
            remove()
        return [hook.entered for _, hook, _ in hooks]

    def _look(self, torch: Any) -> None:
        """Watches the outermost modules; or, if none of those that are watched trains on data, their children."""
        self._found = self._found or any(hook.entered.calls for _, hook, _ in self._hooks)
        if self._found or self._depth > _DEEPEST:
            return
        self._depth += 1
        if self._depth == 1:
            modules = _outermost(torch)
        else:
            silent = [each for each in self._hooks if not each[1].was_called]
            self._hooks = [each for each in self._hooks if each[1].was_called]
            for _, _, remove in silent:
                remove()
            parents = [module for reference, _, _ in silent if (module := reference()) is not None]
            modules = [child for module in parents for child in _children(module) if _is_trained(child)]
        known = {id(reference()) for reference, _, _ in self._hooks}
        for module in modules:
            if id(module) not in known:
                known.add(id(module))
                self._watch(torch, module)

    def _watch(self, torch: Any, module: Any) -> None:
        hook = _Hook(torch, Entered(self._ticks))
        try:
            remove = _watch_calls(torch, module, hook)
        except Exception:  # an old PyTorch, or a module that takes no hooks
            return
        self._hooks.append((weakref.ref(module), hook, remove))


class _Call:
    """The call of a watched module, which counts first. Copies of the module are not watched.

    It is in the place of the result of `Module.compile`, which PyTorch calls instead of the module's code, and leaves
    out of copies and of what it compiles. With any hook, PyTorch takes a longer way through each call; and hooks of a
    module that was compiled in place are a part of the compiled code. Like a hook, it does not count while PyTorch
    compiles.
    """

    ATTRIBUTE = "_compiled_call_impl"

    def __init__(self, module: Any, hook: _Hook, compiled: Optional[Callable[..., Any]]) -> None:
        self._module, self._hook, self._compiled = weakref.ref(module), hook, compiled
        self._compiles, self._now = hook.compiles, hook.now

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = self._compiled or self._module()._call_impl  # type: ignore[union-attr]
        if self._compiles():
            return call(*args, **kwargs)
        self._hook.count(args, kwargs)
        if self._hook.trains():
            return call(*args, **kwargs)
        began = self._now()
        result = call(*args, **kwargs)
        self._hook.evaluations.append((began, self._now()))
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(None), ())

    def remove(self) -> None:
        """Restores what the module called before, unless it was replaced since."""
        module = self._module()
        if module is not None and vars(module).get(self.ATTRIBUTE) is self:
            vars(module)[self.ATTRIBUTE] = self._compiled


def _watch_calls(torch: Any, module: Any, hook: _Hook) -> Callable[[], None]:
    """Lets `hook` count all calls of `module`; returns a function that ends this."""
    compiled = vars(module).get(_Call.ATTRIBUTE)
    if compiled is None and (_has_custom_call(module) or not hasattr(torch.nn.Module, _Call.ATTRIBUTE)):
        handles = contextlib.ExitStack()
        handles.callback(module.register_forward_pre_hook(hook, with_kwargs=True).remove)
        handles.callback(module.register_forward_hook(_End(hook)).remove)
        return handles.close
    call = _Call(module, hook, compiled)
    # Some modules forward attributes to the one within them.
    vars(module)[_Call.ATTRIBUTE] = call
    return call.remove


def _has_custom_call(module: Any) -> bool:
    """Whether a call of `module` runs more than the code of its class.

    Its pre-hooks can change its input, and ours comes after them. Besides, a step that is compiled as a whole leaves
    out the call of a module without such code. For other modules, it compiles the call, and would find ours there.
    """
    hooks = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
    if any(getattr(module, name, None) for name in hooks):
        return True
    # The result of `torch.compile` has such code, but is left out, too.
    return "forward" in vars(module) and "_orig_mod" not in vars(module)["_modules"]


def _outermost(torch: Any) -> list[Any]:
    """Modules with trainable tensors that are not part of another one. No library lists them, so memory is searched."""
    modules = [it for it in _memory.objects(torch.nn.Module) if "_modules" in vars(it)]
    inner = {id(child) for module in modules for child in _children(module)}
    return [module for module in modules if id(module) not in inner and _is_trained(module)]


def _children(module: Any) -> Iterator[Any]:
    return (child for child in vars(module)["_modules"].values() if child is not None)


def _is_trained(module: Any) -> bool:
    try:
        return any(parameter.requires_grad for parameter in module.parameters())
    except Exception:  # some are not complete yet
        return False


_WATCH: Optional[Watch] = None


def watch() -> Watch:
    """The watch of this process's window."""
    global _WATCH
    if _WATCH is None:
        _WATCH = Watch()
    return _WATCH


def forget() -> None:
    """Ends the watch, if there is one: another window begins, or this one failed."""
    global _WATCH
    if _WATCH is not None:
        _WATCH.close()
    _WATCH = None
