"""Writes the reason for a missing measurement to `measurement.json`: the exception, and whether memory ran out."""

from __future__ import annotations

import os
import re
import sys
from types import TracebackType
from typing import Any, Optional

from . import _output

_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "bytes": 1, "B": 1}
# Parts of the messages of allocators: PyTorch's on CUDA, MPS and the processor, and XLA's.
_SHORT = re.compile(
    r"out of memory|can't allocate memory|not enough memory|RESOURCE_EXHAUSTED|Unable to allocate", re.IGNORECASE
)
_NEEDED = re.compile(r"(?:allocate|allocating)\s+([0-9.]+)\s*(KiB|MiB|GiB|TiB|bytes|B)\b", re.IGNORECASE)
_FREE = re.compile(r"([0-9.]+)\s*(KiB|MiB|GiB|TiB|bytes|B) is free", re.IGNORECASE)
_LONGEST = 500


def failure_of(error: BaseException) -> dict[str, Any]:
    """The exception as the protocol's `failure`."""
    said = " ".join(str(error).split())
    name = type(error).__name__
    failure: dict[str, Any] = {"kind": "failed", "message": f"{name}: {said}"[:_LONGEST] if said else name}
    if isinstance(error, MemoryError) or name == "OutOfMemoryError" or _SHORT.search(said):
        failure["kind"] = "out_of_memory"
        failure["needed_bytes"] = _bytes(_NEEDED.search(said))
        failure["free_bytes"] = _bytes(_FREE.search(said))
    rank = os.environ.get("RANK")
    if rank and os.environ.get("WORLD_SIZE", "1") != "1":
        failure["message"] = f"rank {rank}: {failure['message']}"
    return {key: value for key, value in failure.items() if value is not None}


def _bytes(found: Optional[re.Match[str]]) -> Optional[int]:
    if found is None:
        return None
    unit = next(size for name, size in _UNITS.items() if name.lower() == found[2].lower())
    return int(float(found[1]) * unit)


def write_failure(error: BaseException) -> None:
    """Writes the exception, unless a user stopped the script, orchestrate did not start it, or it was measured."""
    if isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit)):
        return
    path = _output.asked_for()
    if path is not None and not os.path.exists(path):
        _output.write_json(path, {"schema": _output.SCHEMA, "failure": failure_of(error)})


def report_failures() -> None:
    """From now on, an exception that ends the script is written, if orchestrate started it."""
    if _output.asked_for() is None:
        return
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: Optional[TracebackType]) -> None:
        write_failure(error)
        before(kind, error, trace)

    sys.excepthook = hook
