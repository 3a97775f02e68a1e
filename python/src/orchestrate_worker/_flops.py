"""The FLOPs of one training iteration, counted while it runs.

PyTorch's formulas (`torch.utils.flop_counter`) are applied to every product and convolution of one iteration outside the
window, 2 FLOPs per multiply-add. Counted is what training the network takes: the forward pass, and the gradients of
inputs and weights that are really computed. Not counted is what runs without gradients, such as the optimizer and
evaluation, and what a backward pass computes once more, as under activation checkpointing.

Code that `torch.compile` made hides its products. So the iteration runs without it, and what was compiled stays.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import sys
from collections.abc import Iterator
from typing import Any, Callable, Optional

# Operators of these libraries are counted, or compute no products.
_KNOWN = {"aten", "prim", "prims", "c10d", "_c10d_functional", "profiler", "fsdp", "quantized_decomposed"}

# Products of `aten` that PyTorch has no formula for.
_WITHOUT_FORMULA = (
    "miopen_rnn", "miopen_rnn_backward", "_lstm_mps", "lstm_mps_backward", "_trilinear", "_grouped_mm",
    "_scaled_grouped_mm", "_int_mm", "_sparse_semi_structured_mm",
)


class Count:
    """What was counted in an iteration."""

    def __init__(self, flops: float, without_formula: list[str]) -> None:
        self.flops = flops
        """FLOPs of the whole iteration, on this process."""
        self.without_formula = without_formula
        """Operators that take part and that nobody can count."""


class FlopCounter:
    """Counts one iteration: [`FlopCounter.begin`] where it begins, [`FlopCounter.end`] where it ends."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._flops, self._without_formula = 0.0, set[str]()
        self._is_unclear = False
        self._open = contextlib.ExitStack()
        self._in_function = 0

    def begin(self) -> bool:
        """Begins to count; `False` if this PyTorch cannot."""
        try:
            with contextlib.ExitStack() as entered:
                if "torch._dynamo" in sys.modules:
                    entered.enter_context(self._torch.compiler.set_stance("force_eager"))
                entered.enter_context(self._watched_functions())
                entered.enter_context(_mode(self._torch, self._look))
                self._open = entered.pop_all()
        except Exception:  # an old PyTorch
            return False
        return True

    def end(self) -> Optional[Count]:
        """Ends it. `None` if nothing was counted, or if nobody knows whether that is all."""
        try:
            self._open.close()
        except Exception:  # a mode of the script's own was entered in between, and is not left yet
            return None
        if self._is_unclear:
            return None
        return Count(self._flops, sorted(self._without_formula))

    def _look(self, operator: Any, types: Any, formula: Optional[Callable[[], float]]) -> None:
        """An operator was called; `formula` gives its FLOPs."""
        try:
            if not self._is_training():
                return
            packet = operator._overloadpacket
            if formula is not None:
                # The shapes of distributed tensors are those of all processes together.
                self._is_unclear |= any(kind.__name__ == "DTensor" for kind in types)
                self._flops += formula()
            elif operator.namespace not in _KNOWN or packet.__name__ in _WITHOUT_FORMULA:
                self._without_formula.add(f"{operator.namespace}::{packet.__name__}")
        except Exception:  # a kind of tensor that the formula does not know
            self._is_unclear = True

    def _is_training(self) -> bool:
        """Whether what runs now belongs to the training of a network, for the first time."""
        has_gradients = bool(self._torch.is_grad_enabled())
        if self._torch._C._current_autograd_node() is None:
            return has_gradients or self._in_function > 0
        # A backward pass has no gradients of its own, unless it computes activations once more; or gradients of
        # gradients, which nobody can tell from that.
        self._is_unclear |= has_gradients and not _is_checkpointing()
        return not has_gradients

    @contextlib.contextmanager
    def _watched_functions(self) -> Iterator[None]:
        """Within it, functions with a backward pass of their own are known. Their forward pass runs without gradients,
        but is a part of the training."""
        function: Any = self._torch.autograd.Function
        counter, plain = self, vars(function)["apply"]

        def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
            trains = counter._is_training()
            counter._in_function += trains
            try:
                return plain.__get__(None, cls)(*args, **kwargs)
            finally:
                counter._in_function -= trains

        function.apply = classmethod(apply)
        try:
            yield
        finally:
            function.apply = plain


def _is_checkpointing() -> bool:
    """Whether activations are computed once more by one of the libraries that do that."""
    frame: Any = sys._getframe(1)
    while frame is not None and "checkpoint" not in os.path.basename(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is not None


def _mode(torch: Any, look: Callable[..., None]) -> Any:
    """What sees every operator below autograd, and tells `look` of it."""
    # It warns of kernels by Triton, which are listed here as what they are: operators without a formula.
    logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry

    formulas = {packet: _without_recomputation(packet, count) for packet, count in flop_registry.items()}
    formulas.update(_own_formulas(torch))

    class Mode(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            count = formulas.get(func._overloadpacket)
            if count is None and func is not torch.ops.prim.device.default:
                # Some operators get here before they are taken apart.
                with self:
                    parts = func.decompose(*args, **kwargs)
                if parts is not NotImplemented:
                    return parts
            result = func(*args, **kwargs)
            look(func, types, None if count is None else lambda: float(count(*args, **kwargs, out_val=result)))
            return result

    return Mode()


def _own_formulas(torch: Any) -> dict[Any, Callable[..., float]]:
    """Formulas of operators that PyTorch's table lacks or counts wrongly."""
    aten = torch.ops.aten
    own = {
        "convolution_backward": _convolution_backward,
        "_scaled_dot_product_flash_attention_for_cpu": _attention,
        "_scaled_dot_product_flash_attention_for_cpu_backward": lambda grad, *args, **kwargs: 2 * _attention(*args),
        "mkldnn_rnn_layer": _recurrent_layer,
        "mkldnn_rnn_layer_backward": _twice(_recurrent_layer),
        "_cudnn_rnn": _recurrent_network,
        "_cudnn_rnn_backward": _twice(_recurrent_network),
    }
    return {getattr(aten, name): formula for name, formula in own.items() if hasattr(aten, name)}


def _convolution_backward(
    grad: Any, images: Any, weight: Any, biases: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int, output_mask: Any, out_val: Any = None,
) -> float:
    """Each gradient takes as much as the forward pass. PyTorch's formula takes grouped convolutions for full ones."""
    from torch.utils.flop_counter import conv_flop_count

    each = conv_flop_count(images.shape, weight.shape, grad.shape, transposed=transposed)
    return float(each * sum(output_mask[:2]))


def _attention(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> float:
    """Fused attention on the processor: as on other devices."""
    from torch.utils.flop_counter import sdpa_flop_count

    return float(sdpa_flop_count(query.shape, key.shape, value.shape))


def _without_recomputation(packet: Any, count: Callable[..., Any]) -> Callable[..., float]:
    """Without what fused attention computes once more in its backward pass: one of the five products in it."""
    if "attention_backward" not in packet.__name__:
        return count
    return lambda *args, **kwargs: 0.8 * float(count(*args, **kwargs))


def _recurrent_layer(data: Any, of_data: Any, of_state: Any, *args: Any, **kwargs: Any) -> float:
    """Both matrices of weights are applied in each step of each sequence."""
    return 2.0 * math.prod(data.shape[:-1]) * (of_data.numel() + of_state.numel())


def _recurrent_network(data: Any, weights: Any, *args: Any, **kwargs: Any) -> float:
    """The same of all layers and directions."""
    return 2.0 * math.prod(data.shape[:-1]) * sum(weight.numel() for weight in weights if weight.dim() > 1)


def _twice(formula: Callable[..., float]) -> Callable[..., float]:
    """A backward pass: the gradients of inputs and of weights take as much as the forward pass each."""
    return lambda *args, **kwargs: 2.0 * formula(*args, **kwargs)
