"""PyTorch's switches, which decide how an operation is computed. The graph does not show them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Callable, Optional


@dataclass(frozen=True)
class Switches:
    """PyTorch's switches, as they were at one moment."""

    deterministic: bool
    cudnn_benchmark: bool
    threads: int
    float32: dict[str, str]
    """The allowed arithmetic for single precision, by library and operation, in PyTorch's words."""
    bf16_products: Optional[str]
    """The library that multiplies bf16 on the processor: oneDNN, or PyTorch's kernels; None if it is unknown."""


def read_switches() -> Switches:
    """The switches as they are now."""
    torch: Any = sys.modules["torch"]
    return Switches(
        torch.are_deterministic_algorithms_enabled(), bool(torch.backends.cudnn.benchmark), torch.get_num_threads(),
        _float32(torch), _bf16_products(torch),
    )


def words_that_round() -> set[str]:
    """The words of oneDNN's switches under which this processor rounds products in single precision.

    Both conditions are those of PyTorch's tests. If a later PyTorch lacks them, they count as true.
    """
    torch: Any = sys.modules["torch"]
    if not torch.backends.mkldnn.is_available():
        return set()
    conditions: dict[str, Callable[[], bool]] = {
        "tf32": lambda: torch.cpu._is_amx_fp16_supported(),
        "bf16": lambda: torch.ops.mkldnn._is_mkldnn_bf16_supported(),
    }
    return {word for word, condition in conditions.items() if _may_be_true(condition)}


def _bf16_products(torch: Any) -> Optional[str]:
    is_on = getattr(torch._C, "_get_mkldnn_enabled", lambda: True)
    if not torch.backends.mkldnn.is_available() or not is_on():
        return "libtorch"
    try:
        return "onednn" if torch.ops.mkldnn._is_mkldnn_bf16_supported() else "libtorch"
    except (AttributeError, RuntimeError):
        return None


def _may_be_true(condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except (AttributeError, RuntimeError):
        return True


def _float32(torch: Any) -> dict[str, str]:
    cuda, cudnn, mkldnn = torch.backends.cuda, torch.backends.cudnn, torch.backends.mkldnn

    def of_products() -> str:
        # Of the words for all devices, oneDNN knew only this one.
        return "bf16" if torch.get_float32_matmul_precision() == "medium" else "ieee"

    places: dict[str, tuple[Any, Optional[Callable[[], str]]]] = {
        "cuda_matmul": (cuda.matmul, lambda: _word(cuda.matmul)),
        "cuda_conv": (getattr(cudnn, "conv", None), lambda: _word(cudnn)),
        "cuda_rnn": (getattr(cudnn, "rnn", None), lambda: _word(cudnn)),
        "onednn_matmul": (getattr(mkldnn, "matmul", None), of_products),
        "onednn_conv": (getattr(mkldnn, "conv", None), None),
        "onednn_rnn": (getattr(mkldnn, "rnn", None), None),
    }
    found = {}
    for name, (new, old) in places.items():
        # Since PyTorch 2.9 as a word; before, as a switch that must not be read once the words were used.
        try:
            found[name] = str(new.fp32_precision)
        except (AttributeError, AssertionError):  # PyTorch 2.0 raises the latter
            if old is not None:
                found[name] = old()
    return found


def _word(library: Any) -> str:
    return "tf32" if library.allow_tf32 else "ieee"
