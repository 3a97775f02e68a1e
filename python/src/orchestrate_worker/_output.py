"""The output of this process: `measurement.json`, `iterations.csv` and progress; or, without orchestrate, a summary."""

from __future__ import annotations

import json
import math
import os
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from typing import Any, Optional

SCHEMA = 1
_MEASUREMENT, _ITERATIONS = "ORCHESTRATE_MEASUREMENT", "ORCHESTRATE_ITERATIONS"
_SECONDS_BETWEEN_LINES = 0.2


def asked_for() -> Optional[str]:
    """The path of the measurement; `None` if orchestrate did not start this process."""
    return os.environ.get(_MEASUREMENT) or None


def warn(message: str) -> None:
    """Prints a warning for the reader of the measurement on standard error."""
    print(f"orchestrate_worker: {message}", file=sys.stderr, flush=True)


def write_json(path: str, content: Mapping[str, Any]) -> None:
    """Writes `content` atomically, so that a reader never sees a part of it."""
    _replace(path, json.dumps(_finite(content), allow_nan=False, indent=2) + "\n")


def write_iterations(
    seconds: Sequence[float], waits: Sequence[Optional[float]], losses: Sequence[Optional[float]], clock: str
) -> None:
    """Writes one line for each iteration, if orchestrate requests them. Unknown values are empty cells."""
    path = os.environ.get(_ITERATIONS)
    if not path:
        return
    lines = ["iteration,elapsed_s,data_wait_s,loss,clock"]
    for number, (elapsed, wait, loss) in enumerate(zip(seconds, waits, losses)):
        waited = "" if wait is None else f"{wait:.9f}"
        lines.append(f"{number},{elapsed:.9f},{waited},{'' if loss is None else repr(loss)},{clock}")
    _replace(path, "\n".join(lines) + "\n")


def _replace(path: str, text: str) -> None:
    draft = f"{path}.{os.getpid()}.tmp"
    with open(draft, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(draft, path)


def _finite(value: Any) -> Any:
    """The value with `None` for numbers that JSON does not have, and plain numbers for those of other libraries."""
    if isinstance(value, Mapping):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return _finite(value.tolist()) if hasattr(value, "tolist") else str(value)


class Progress:
    """Reports the progress of the window, a few times a second at most: printing takes time within the window."""

    def __init__(self, speaks: bool) -> None:
        self._asked = speaks and asked_for() is not None
        self._draws = speaks and not self._asked and sys.stderr.isatty()
        self._speaks = self._asked or self._draws
        self._last = -math.inf

    def report(self, event: str, done: int, of: Optional[int]) -> None:
        """Reports that `done` iterations `of` so many have ended. The last one is always reported."""
        if not self._speaks or of is None:
            return
        now = time.monotonic()
        if done < of and now - self._last < _SECONDS_BETWEEN_LINES:
            return
        self._last = now
        if self._asked:
            print(json.dumps({"event": event, "done": done, "of": of}), flush=True)
        else:
            print(f"\r{event} {done}/{of} ", end="", file=sys.stderr, flush=True)

    def finish(self) -> None:
        """Clears the line of progress on a terminal."""
        if self._draws:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def page(measurement: Mapping[str, Any]) -> str:
    """A summary of the measurement for users."""
    effective, details = dict(measurement["effective"]), dict(measurement["details"])
    samples, seconds = measurement["samples"], measurement["elapsed_s"]
    said = details.pop("repeated", [])
    model, precision, batch, device = (effective.pop(name, None) for name in ("model", "precision", "batch", "device"))
    name = details.pop("device_name", None)
    where = f"{device} ({name})" if name else device
    lines = [f"{model or 'training'}, {precision}, batch {batch}, on {where}"]
    unit = measurement.get("unit", "samples")
    rate = f"{samples / seconds:.2f} {unit}/s"
    lines += _lines(rate, f"{samples} {unit} in {seconds:.3f} s, the device synchronised at both ends")
    for name, metric in measurement.get("metrics", {}).items():
        lines += _lines(*_metric(name, metric, seconds)) if metric["value"] is not None else []
    versions = details.pop("versions", {})
    for heading, what in (
        ("read back", {name: value for name, value in effective.items() if name not in said}),
        ("said", {name: value for name, value in effective.items() if name in said}),
        ("versions", versions),
        ("details", details),
    ):
        words = [f"{name}={_word(value)}" for name, value in sorted(what.items()) if value is not None]
        lines += _lines(heading, "  ".join(words)) if words else []
    return "\n".join(lines)


def _metric(name: str, metric: Mapping[str, Any], seconds: float) -> tuple[str, str]:
    """The value of a metric and its description: a rate if it is counted per second."""
    value, unit = metric["value"], metric.get("unit")
    if metric.get("per_second"):
        return f"{value / seconds:.2f} {unit or name}/s", f"{value} {unit or name} in the window"
    return f"{value:.6g} {unit or ''}".rstrip(), name


def _lines(heading: str, text: str) -> list[str]:
    """`text` after `heading`, wrapped."""
    return textwrap.wrap(
        text, 100, initial_indent=f"  {heading:<20}  ", subsequent_indent=" " * 24, break_on_hyphens=False,
        break_long_words=False,
    )


def _word(value: Any) -> str:
    value = _finite(value)
    return f"{value:.6g}" if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value)
