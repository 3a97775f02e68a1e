"""The FLOPs of one training iteration, counted while it runs.

The formulas of `_formulas` are applied to every product and convolution of one iteration outside the window, 2 FLOPs
per multiply-add. The count covers the training of the network: the forward pass, and the gradients of inputs and
weights that are computed. It excludes operators without gradients, such as those of the optimizer and of evaluation,
and recomputation in a backward pass, as under activation checkpointing.

Code that `torch.compile` made hides its products. So the iteration runs without it; the compiled code is kept.

A count that may be incomplete is left out: products can be hidden in a CUDA graph, in threads, or in control flow.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Optional

from ._formulas import formulas, has_no_formula

# Operators that allocate results or move numbers. They do not compute anything.
_ALLOCATIONS = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "zeros", "zeros_like"}
_MOVES = {"clone", "copy_", "_to_copy", "contiguous", "detach", "zero_", "fill_", "new_zeros", "full", "full_like"}

# Kinds of tensors whose shapes are those of all processes together.
_DISTRIBUTED = {"DTensor"}


class Count:
    """The count of an iteration."""

    def __init__(self, flops: float, without_formula: list[str]) -> None:
        self.flops = flops
        """FLOPs of the whole iteration, on this process."""
        self.without_formula = without_formula
        """Operators that take part and have no formula."""


class FlopCounter:
    """Counts one iteration: [`FlopCounter.begin`] where it begins, [`FlopCounter.end`] where it ends."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._forward = self._backward = 0.0
        self._without_formula = set[str]()
        self._is_unclear = False
        self._open = contextlib.ExitStack()
        self._mode: Any = None
        self._functions: list[_Function] = []
        self._in_function = 0

    def begin(self) -> bool:
        """Begins to count; `False` if this PyTorch cannot."""
        try:
            # Failures within the iteration must be avoided.
            self._is_training()
            with contextlib.ExitStack() as entered:
                if "torch._dynamo" in sys.modules:
                    entered.enter_context(self._torch.compiler.set_stance("force_eager"))
                entered.enter_context(self._watched_functions())
                entered.enter_context(self._watched_replays())
                entered.enter_context(self._watched_compilers())
                entered.callback(_forget, self)
                self._mode = entered.enter_context(_mode(self._torch, self))
                self._open = entered.pop_all()
        except Exception:  # an old PyTorch
            return False
        _remember(self)
        return True

    def end(self) -> Optional[Count]:
        """Ends the count. `None` if nothing was counted, or if the count may be incomplete."""
        try:
            is_innermost = self._leave()
        except Exception:  # an old PyTorch
            return None
        if not is_innermost:
            return None
        # A gradient takes at most as much as its product. If it seems to take more, a part of forward was hidden.
        is_hidden = self._backward > 2.0001 * self._forward and not self._without_formula
        if self._is_unclear or is_hidden:
            return None
        return Count(self._forward + self._backward, sorted(self._without_formula))

    def look(self, operator: Any, formula: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> None:
        """An operator was called, and has this formula."""
        try:
            packet = operator._overloadpacket
            if self._functions:
                self._functions[-1].look(operator, packet.__name__)
            if not self._is_training():
                return
            if formula is None:
                if has_no_formula(operator.namespace, packet.__name__) and self._has_tensors(args, kwargs):
                    self._without_formula.add(f"{operator.namespace}::{packet.__name__}")
            elif self.has_layouts(args):
                # A formula would count the zeros.
                self._without_formula.add(f"{operator.namespace}::{packet.__name__} (sparse)")
            else:
                self._add(float(formula(*args, **kwargs, out_val=result)))
        except Exception:  # a kind of tensor that the formula does not know
            self._is_unclear = True

    def miss(self) -> None:
        """Code runs whose operators are not seen."""
        try:
            self._is_unclear |= self._is_training()
        except Exception:  # an old PyTorch
            self._is_unclear = True

    def look_at_kinds(self, kinds: Iterable[type]) -> None:
        """An operator was called with tensors of these kinds, which take it apart themselves."""
        if any(kind.__name__ in _DISTRIBUTED for kind in kinds):
            self.miss()

    def _abandon(self) -> None:
        """Ends the count of this iteration without a number."""
        self._is_unclear = True
        self._leave()

    def _leave(self) -> bool:
        """Leaves the entered modes, within modes of the script, too; returns whether there are no such modes."""
        from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

        modes = _get_current_dispatch_mode_stack()
        within = modes[modes.index(self._mode) + 1 :] if self._mode in modes else []
        # The one that was entered last is left first.
        for mode in reversed(within):
            TorchDispatchMode.__exit__(mode, None, None, None)
        self._open.close()
        for mode in within:
            TorchDispatchMode.__enter__(mode)
        return not within

    def _add(self, flops: float) -> None:
        if self._torch._C._current_autograd_node() is None:
            self._forward += flops
        else:
            self._backward += flops

    def _has_tensors(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Whether it computes anything. Some operators only report the features of the processor."""
        parts = [part for it in (*args, *kwargs.values()) for part in (it if isinstance(it, (list, tuple)) else [it])]
        return any(isinstance(part, self._torch.Tensor) for part in parts)

    def has_layouts(self, args: tuple[Any, ...]) -> bool:
        """Whether there is a tensor with a special layout, such as a sparse one."""
        tensors = [it for it in args if isinstance(it, self._torch.Tensor)]
        return any(it.layout != self._torch.strided or it.is_nested for it in tensors)

    def _is_training(self) -> bool:
        """Whether the current code trains a network, and is not a recomputation."""
        has_gradients = bool(self._torch.is_grad_enabled())
        if self._torch._C._current_autograd_node() is None:
            return has_gradients or self._in_function > 0
        # A backward pass has no gradients itself, unless it recomputes activations; or gradients of
        # gradients, which cannot be distinguished from that.
        self._is_unclear |= has_gradients and not _is_checkpointing()
        return not has_gradients

    @contextlib.contextmanager
    def _watched_functions(self) -> Iterator[None]:
        """Within it, functions with a custom backward pass are recognised. Their forward pass runs without gradients,
        but is a part of the training."""
        function: Any = self._torch.autograd.Function
        counter, plain = self, vars(function)["apply"]

        def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
            trains = counter._begin_function()
            try:
                return plain.__get__(None, cls)(*args, **kwargs)
            finally:
                counter._end_function(cls, trains)

        function.apply = classmethod(apply)
        try:
            yield
        finally:
            function.apply = plain

    def _begin_function(self) -> bool:
        trains = self._is_training()
        self._in_function += trains
        self._functions.append(_Function())
        return trains

    def _end_function(self, kind: type, trains: bool) -> None:
        self._in_function -= trains
        function = self._functions.pop()
        if self._functions:
            self._functions[-1].add(function)
        if function.is_hidden and trains and not kind.__module__.startswith("torch."):
            self._without_formula.add(f"{kind.__module__}.{kind.__qualname__}")

    @contextlib.contextmanager
    def _watched_replays(self) -> Iterator[None]:
        """Within it, CUDA graphs are noticed: their replays are not seen."""
        kind: Any = self._torch.cuda.CUDAGraph
        counter, plain = self, vars(kind).get("replay")
        if plain is None:
            yield
            return

        def replay(graph: Any) -> Any:
            counter._is_unclear = True
            return plain(graph)

        kind.replay = replay
        try:
            yield
        finally:
            kind.replay = plain

    @contextlib.contextmanager
    def _watched_compilers(self) -> Iterator[None]:
        """Within it, a call of `torch.compile` ends the count. Control flow such as `torch.cond` and flexible attention
        compile what they call, which would lose its gradients."""
        torch, counter = self._torch, self
        plain = getattr(torch, "compile", None)

        def compile(*args: Any, **kwargs: Any) -> Any:
            counter._abandon()
            return plain(*args, **kwargs)  # type: ignore[misc]

        if plain is not None:
            torch.compile = compile
        try:
            yield
        finally:
            if plain is not None:
                torch.compile = plain


class _Function:
    """The forward pass of a function with a custom backward pass. If it allocates its results and no operator computes
    them, a hidden kernel does, such as one by Triton."""

    def __init__(self) -> None:
        self._allocates = self._computes = False

    def look(self, operator: Any, name: str) -> None:
        """An operator was called within it."""
        self._allocates |= name in _ALLOCATIONS
        self._computes |= name not in _ALLOCATIONS and name not in _MOVES and not operator.is_view

    def add(self, within: _Function) -> None:
        """Another one was called within it."""
        self._computes |= within._computes or within.is_hidden

    @property
    def is_hidden(self) -> bool:
        """Whether its results come from a hidden kernel."""
        return self._allocates and not self._computes


# Parts of the names of files in which libraries recompute activations.
_CHECKPOINTING = ("torch.", "deepspeed.", "fairscale.", "megatron.", "transformer_engine.", "xformers.")


def _is_checkpointing() -> bool:
    """Whether one of these libraries recomputes activations now."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        file, module = os.path.basename(frame.f_code.co_filename), str(frame.f_globals.get("__name__"))
        if "checkpoint" in file and module.startswith(_CHECKPOINTING):
            return True
        frame = frame.f_back
    return False


def _mode(torch: Any, counter: FlopCounter) -> Any:
    """A mode that passes every operator below autograd to `counter`."""
    return _kind_of_mode(torch)(counter)


@functools.cache
def _kind_of_mode(torch: Any) -> Any:
    """Its class, made once: a class is a cycle of references, which must not be collected within the window."""
    from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

    known, higher_order = formulas(torch), torch._ops.HigherOrderOperator
    plain = torch.Tensor.__torch_dispatch__

    class Mode(TorchDispatchMode):  # type: ignore[misc]
        # Without it, PyTorch refuses control flow such as `torch.cond` while a mode is there.
        supports_higher_order_operators = True

        def __init__(self, counter: FlopCounter) -> None:
            super().__init__()
            self.counter = counter

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if isinstance(func, higher_order):
                self.counter.miss()
            elif kinds := [kind for kind in types if kind.__torch_dispatch__ is not plain]:
                self.counter.look_at_kinds(kinds)
                if _get_current_dispatch_mode() is None:
                    # Such tensors take it apart, and its parts get here.
                    return NotImplemented
                self.counter.miss()
            else:
                return self._looked_at(func, args, kwargs)
            return func(*args, **kwargs)

        def _looked_at(self, func: Any, args: Any, kwargs: Any) -> Any:
            formula = known.get(func._overloadpacket)
            if formula is None and func is not torch.ops.prim.device.default and not self.counter.has_layouts(args):
                # Some operators get here before they are taken apart.
                with self:
                    parts = func.decompose(*args, **kwargs)
                if parts is not NotImplemented:
                    return parts
            result = func(*args, **kwargs)
            self.counter.look(func, formula, args, kwargs, result)
            return result

    return Mode


# The counter that counts now. A process that is forked meanwhile, such as one that loads data, must not go on with it.
_COUNTING: Optional[FlopCounter] = None
_WATCHES_FORKS = False


def _remember(counter: FlopCounter) -> None:
    global _COUNTING, _WATCHES_FORKS
    _COUNTING = counter
    if not _WATCHES_FORKS and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_end_in_child)
        _WATCHES_FORKS = True


def _forget(counter: FlopCounter) -> None:
    global _COUNTING
    if _COUNTING is counter:
        _COUNTING = None


def _end_in_child() -> None:
    if _COUNTING is not None:
        _COUNTING.end()
