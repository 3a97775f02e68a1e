"""Work beside the window: the FLOPs of one iteration are counted, and some are profiled if orchestrate requests that.

Counting makes an iteration slower. So the last but one of the warm-up is counted, and the last one runs normally.
Compiled code runs eagerly while it is counted, which can take more memory. So it is counted after the window, if a loop
over [`Window.over`] continues there. Iterations are profiled there, too. Any other loop ends with the window, so the
last iterations of its warm-up are profiled.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Hashable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Optional

from . import _operators
from ._framework import Framework, loaded
from ._output import warn

# Iterations of a warm-up that are not profiled: the first, a counted one, and one that is like those of the window.
_NOT_PROFILED = 3


class Beside:
    """The counted and profiled iterations outside the window."""

    def __init__(self, warmup: int) -> None:
        self._warmup = warmup
        self._framework = Framework()
        self._counts = self._has_counted = False
        self._began = 0.0
        self._profiled = 0
        self.item: Hashable = None
        """The outline of the data of the current iteration, if it is known."""
        self._counted_item: Hashable = None
        self.flops: Optional[float] = None
        """FLOPs of one iteration of this process."""
        self.without_formula: list[str] = []
        """Operators of that iteration that have no formula."""
        self.ops: Optional[dict[str, Any]] = None
        """The time of the profiled iterations by operator."""
        self.is_profiled = False
        """Whether iterations are being profiled."""

    def flops_of(self, items: Collection[Hashable]) -> Optional[float]:
        """FLOPs of an iteration with such data; `None` if the data differ from the counted ones, or in size."""
        is_alike = self._counted_item is None or all(item == self._counted_item for item in items)
        return self.flops if is_alike else None

    # --- the warm-up --------------------------------------------------------------------------------------------------

    def begin_warmup_iteration(self, number: int, goes_on: bool = False) -> None:
        """Iteration `number` of the warm-up begins, counted from 1, of a loop that `goes_on` behind the window."""
        profiled = 0 if goes_on else self._profiled_in_warmup()
        if profiled and number == self._warmup - profiled + 1:
            self._begin_profile()
        if number == max(1, self._warmup - 1 - profiled) and self._is_counted_in_warmup(goes_on):
            self._begin_count()

    def end_warmup_iteration(self, number: int) -> None:
        """Iteration `number` of the warm-up has ended."""
        self._end_count()
        self._profiled += self.is_profiled
        if self.is_profiled and number == self._warmup:
            self._end_profile(self._profiled)

    def can_profile_in_warmup(self) -> bool:
        """Whether the warm-up is long enough for a profile."""
        return self._warmup > _NOT_PROFILED

    def _profiled_in_warmup(self) -> int:
        """The number of profiled iterations of the warm-up if the loop ends with the window."""
        asked = min(_asked(), self._warmup - _NOT_PROFILED)
        return asked if asked > 0 and loaded().can_profile() else 0

    def _is_counted_in_warmup(self, goes_on: bool) -> bool:
        """Whether the count does not make compiled code run eagerly, or does so without using memory of a device."""
        framework = loaded()
        return not framework.may_compile() or (not goes_on and self._warmup > 2 and framework.is_on_host())

    def _begin_count(self) -> None:
        if self._counts:
            self._framework.end_count()
        self._framework, self._has_counted = loaded(), True
        self._counts = self._framework.begin_count()

    def _end_count(self) -> None:
        if not self._counts:
            return
        self._counts, self._counted_item = False, self.item
        count = self._framework.end_count()
        if count is not None:
            self.flops, self.without_formula = count.flops or None, count.without_formula

    # --- after the window ---------------------------------------------------------------------------------------------

    def left(self) -> list[tuple[str, int]]:
        """The remaining work in further iterations, and the number of these."""
        asked, framework = _asked(), loaded()
        # Processes that train together must do the same number of iterations.
        is_missing = not self._has_counted and framework.can_count() and not framework.is_of_many()
        left = [("count", 1)] if is_missing else []
        if asked and framework.can_profile():
            left.append(("profile", asked))
        return left

    def begin(self, what: str) -> None:
        """Begins `what`: one of the names in [`Beside.left`]."""
        if what == "count":
            self._begin_count()
        else:
            self._begin_profile()

    def end(self, iterations: int) -> None:
        """Ends it after so many iterations."""
        self._end_count()
        if self.is_profiled:
            self._end_profile(iterations)

    def _begin_profile(self) -> None:
        self._framework = loaded()
        self._framework.synchronize()
        self.is_profiled = self._framework.begin_profile()
        self._began = time.perf_counter()

    def _end_profile(self, iterations: int) -> None:
        self.is_profiled = False
        self._framework.synchronize()
        elapsed_s = time.perf_counter() - self._began
        profile = self._framework.end_profile(iterations, elapsed_s)
        self.ops = profile if iterations else None

    def waiting(self) -> AbstractContextManager[Any]:
        """A block in which a profiled iteration waits for data."""
        return self._framework.wait_for_data() if self.is_profiled else nullcontext()

    def stop(self) -> None:
        """The script failed: stops counting and profiling."""
        if self._counts:
            self._framework.end_count()
        if self.is_profiled:
            self._framework.end_profile(0, 0.0)
        self._counts = self.is_profiled = False

    def warn_of_missing_profile(self, goes_on: bool) -> None:
        """Warns why there is no profile, if one was requested."""
        if not _asked() or self.ops is not None or not loaded().can_profile():
            return
        if goes_on:
            warn("no iterations were profiled: the data ended")
        elif not self.can_profile_in_warmup():
            least = _NOT_PROFILED + 1
            warn(f"no iterations were profiled: loop over window.over(…), or use window(warmup={least}) or more")


def _asked() -> int:
    """The number of iterations that orchestrate requests to be profiled."""
    text = os.environ.get(_operators.ITERATIONS, "")
    return int(text) if text.isdigit() else 0
