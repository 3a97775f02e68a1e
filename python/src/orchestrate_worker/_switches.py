"""PyTorch's switches, which decide how an operation is computed that looks the same in a graph."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Switches:
    """PyTorch's switches, as they were at one moment."""

    deterministic: bool
    cudnn_benchmark: bool
    threads: int
    float32: dict[str, str]
    """How single precision may be computed, by library and operation, in PyTorch's words."""


def read_switches() -> Switches:
    """The switches as they are now."""
    torch: Any = sys.modules["torch"]
    return Switches(
        torch.are_deterministic_algorithms_enabled(), bool(torch.backends.cudnn.benchmark), torch.get_num_threads(),
        _float32(torch.backends),
    )


def _float32(backends: Any) -> dict[str, str]:
    cudnn, mkldnn = backends.cudnn, backends.mkldnn
    places = {
        "cuda_matmul": (backends.cuda.matmul, backends.cuda.matmul),
        "cuda_conv": (getattr(cudnn, "conv", None), cudnn),
        "cuda_rnn": (getattr(cudnn, "rnn", None), cudnn),
        "onednn_matmul": (getattr(mkldnn, "matmul", None), None),
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
                found[name] = "tf32" if old.allow_tf32 else "ieee"
    return found
