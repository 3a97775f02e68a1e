"""The interface of the window to the library that trains, and its implementation for scripts without such a library."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Optional

from . import _process
from ._entered import Entered
from ._flops import Count

Settings = dict[str, Any]

# Libraries whose versions are worth a note, beside those that a framework adds.
LIBRARIES = ("numpy", "transformers", "datasets", "accelerate", "timm")


class Unusable(Exception):
    """A measurement that cannot be valid; the message says what to change in the script."""


class Framework:
    """A script without a library that this package knows: it computes on the processor, and nothing is pending.

    The window calls `enter` first. When it begins, it calls `synchronize` and `open`, starts its clock, calls `tick`
    then and after each iteration, calls `synchronize`, stops its clock, calls `close`, and everything else after that.
    """

    def synchronize(self) -> None:
        """Waits until all devices of this process have finished their work."""

    def enter(self) -> None:
        """The window's block was entered."""

    def end_warmup_iteration(self) -> None:
        """An iteration of the warm-up has ended."""

    def is_on_host(self) -> bool:
        """Whether a tensor of the host can be read immediately, because no device could still write to it."""
        return False

    def open(self) -> None:
        """The window is about to begin: peaks of memory are reset, and profilers are notified."""

    def tick(self) -> None:
        """The window has begun, or an iteration has ended, as far as the host knows."""

    def close(self) -> None:
        """The window has ended: peaks of memory are read, since what follows is no part of it."""

    def is_of_many(self) -> bool:
        """Whether this process is one of several that train together."""
        return False

    def may_compile(self) -> bool:
        """Whether a part of the script is compiled when it is called."""
        return False

    def can_count(self) -> bool:
        """Whether FLOPs of an iteration can be counted."""
        return False

    def begin_count(self) -> bool:
        """Begins to count the FLOPs of an iteration; `False` if that cannot be."""
        return False

    def end_count(self) -> Optional[Count]:
        """Ends the count; `None` if it is incomplete."""
        return None

    def can_profile(self) -> bool:
        """Whether the time of operators can be recorded."""
        return False

    def begin_profile(self) -> bool:
        """Begins to record it; `False` if that cannot be."""
        return False

    def end_profile(self, iterations: int, elapsed_s: float) -> Optional[dict[str, Any]]:
        """Ends it after so many iterations, which took so long: `ops` of `measurement.json`."""
        return None

    def wait_for_data(self) -> AbstractContextManager[Any]:
        """A block in which an iteration that is recorded waits for its data."""
        return nullcontext()

    def evaluation_s(self) -> Optional[float]:
        """Seconds of the window in which a trained network was called without gradients."""
        return None

    def numbers(self, losses: Sequence[Any]) -> list[Optional[float]]:
        """Losses as numbers; `None` for anything else."""
        return [_number(loss) for loss in losses]

    def clock(self) -> str:
        """The clock of single iterations, in the words of the protocol."""
        return "host"

    def seconds(self) -> Optional[list[float]]:
        """The seconds of each iteration by the device's clock, if it has one."""
        return None

    def device(self) -> Optional[str]:
        """The device that computed, if anything shows it: `cpu`, `cuda` or `mps`."""
        return None

    def precision(self, said: Optional[str]) -> Optional[str]:
        """The precision of the computation, if it can be read back. `said` decides if two names mean the same."""
        return None

    def settings(self) -> Settings:
        """Everything else that belongs under `effective` and was read back."""
        return {}

    def entered(self) -> list[Entered]:
        """The inputs of each network within the window; empty if no network is known."""
        return []

    def images(self) -> Optional[Sequence[int]]:
        """The shape of a batch of images, if anything shows it: batch, channels, height, width."""
        return None

    def logits(self) -> Optional[Sequence[int]]:
        """The shape of the input of the loss, if it can be read back: samples, classes."""
        return None

    def details(self) -> dict[str, Any]:
        """The entries of `details`."""
        return {"device_name": _process.processor(), "versions": _process.versions(LIBRARIES)}


# Variables that make libraries round single precision whatever a script sets, or let another device compute; and their
# harmless values. The shipped worker of orchestrate refuses the same.
_ROUNDING = {
    "ONEDNN_DEFAULT_FPMATH_MODE": ("", "STRICT", "strict"),
    "DNNL_DEFAULT_FPMATH_MODE": ("", "STRICT", "strict"),
    "NVIDIA_TF32_OVERRIDE": ("",),
    "CUBLAS_EMULATE_SINGLE_PRECISION": ("", "0"),
    "PYTORCH_MPS_FAST_MATH": ("", "0"),
    "PYTORCH_ENABLE_MPS_FALLBACK": ("", "0"),
}


def refuse_rounding(environment: Mapping[str, str]) -> None:
    """Raises `Unusable` in an environment that changes what a precision means."""
    for name, harmless in _ROUNDING.items():
        if environment.get(name, "") not in harmless:
            raise Unusable(f"{name}={environment[name]} changes what a precision means: unset it")


def _number(loss: Any) -> Optional[float]:
    try:
        return None if loss is None else float(loss)
    except (TypeError, ValueError, RuntimeError):
        return None


def loaded() -> Framework:
    """The framework of this process. With both PyTorch and JAX loaded, the one that has trained."""
    from . import _backward

    _backward.watch_backward()
    if "torch" in sys.modules and (_backward.first_graph() is not None or "jax" not in sys.modules):
        from ._torch import TorchFramework

        return TorchFramework()
    if "jax" in sys.modules:
        from ._jax import JaxFramework

        return JaxFramework()
    return Framework()
