"""What enters the networks that a script calls.

Data loaders and flags say what was there; the network's input says what was trained on. Each network that is called
from outside gets a forward pre-hook, which counts the samples of every iteration. Those networks are found before the
window, in memory: first modules that are part of no other one, then their children, until one of them is called.

A hook sees no call within code that `torch.compile` made of a whole function, and none when a CUDA graph is replayed.
Then nothing is known. A hook changes no compiled code: it does nothing while PyTorch compiles.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, Callable, Optional

from ._entered import Entered

# How far below the outermost modules a network is looked for: in a container, or a container of those.
_DEEPEST = 3

# How many tensors of a call, and how many shapes of a network's input, are kept.
_TENSORS, _SHAPES = 16, 64


class _Hook:
    """Is called with all that enters a network. Copies of the network get one that does nothing."""

    def __init__(self, torch: Any, entered: Entered) -> None:
        self.entered = entered
        self.was_called = False
        self.tensor = torch.Tensor
        self.trains: Callable[[], bool] = torch.is_grad_enabled
        node = getattr(torch._C, "_current_autograd_node", None)
        self.recomputes: Callable[[], bool] = (lambda: node() is not None) if node is not None else lambda: False
        self.compiles: Callable[[], bool] = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)

    def __call__(self, module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if self.compiles():
            return
        self.was_called = True
        # What runs without gradients evaluates, or teaches.
        if self.trains():
            try:
                self._count(args, kwargs)
            except Exception:  # some kinds of tensors have no shape
                self.entered.is_unclear = True

    def __reduce__(self) -> tuple[Any, ...]:
        return (_Silence, ())

    def _count(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        first, entered = args[0] if args else None, self.entered
        shape = first.shape if type(first) is self.tensor else ()
        if len(shape) < 2:
            first = self._main_tensor(args, kwargs)
            if first is None:
                entered.is_unclear = True
                return
            shape = first.shape
        # What another network made is no data. Data that shall have a gradient of its own cannot be told from it.
        if first.requires_grad:
            return
        if shape not in entered.shapes:
            self._keep(first, args, kwargs)
        entered.calls += 1
        if self.recomputes():
            entered.again += shape[0]
        else:
            entered.now += shape[0]

    def _main_tensor(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The first tensor of several dimensions, or else the first of one: steps and scales have fewer than data."""
        if args and isinstance(args[0], (list, tuple)):
            return None  # it may hold a tensor for each sample, or for each kind of data
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


class _Silence:
    """The hook of a network that was copied or stored."""

    def __call__(self, module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        return


class Watch:
    """The networks that are watched: from the warm-up on, until the window ends."""

    def __init__(self) -> None:
        self._hooks: list[tuple[weakref.ref[Any], _Hook, Callable[[], None]]] = []
        self._depth = 0
        self._found = False
        self._ticks = 0

    def end_warmup_iteration(self, torch: Any) -> None:
        """An iteration of the warm-up has ended: what is not found yet is looked for."""
        for _, hook, _ in self._hooks:
            hook.entered.before = hook.entered.take() or hook.entered.before
        self._look(torch)

    def open(self, torch: Any) -> None:
        """The window is about to begin."""
        if not self._hooks:
            self._look(torch)
        for _, hook, _ in self._hooks:
            hook.entered.open()

    def tick(self, torch: Any) -> None:
        """The window has begun, or an iteration of it has ended."""
        # What runs once an iteration is never in the caches, so it is one function.
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
        compiled = vars(module).get("_compiled_call_impl")
        try:
            if compiled is None:
                remove = module.register_forward_pre_hook(hook, with_kwargs=True).remove
            else:
                remove = _watch_compiled(module, hook, compiled)
        except Exception:  # an old PyTorch, or a module that takes no hooks
            return
        self._hooks.append((weakref.ref(module), hook, remove))


def _watch_compiled(module: Any, hook: _Hook, compiled: Callable[..., Any]) -> Callable[[], None]:
    """Watches a module that was compiled in place: its own hooks are a part of what was compiled."""

    def watched(*args: Any, **kwargs: Any) -> Any:
        hook(module, args, kwargs)
        return compiled(*args, **kwargs)

    reference = weakref.ref(module)

    def remove() -> None:
        alive = reference()
        if alive is not None and vars(alive).get("_compiled_call_impl") is watched:
            alive._compiled_call_impl = compiled

    module._compiled_call_impl = watched
    return remove


def _outermost(torch: Any) -> list[Any]:
    """Modules with something to train that are part of no other one. No library lists them, so memory is searched."""
    kind = torch.nn.Module
    modules = [it for it in gc.get_objects() if issubclass(type(it), kind) and "_modules" in vars(it)]
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
