"""What is done beside the window: one iteration is counted, and some are profiled if orchestrate asks for that.

Counting makes an iteration slower. It is the last but one of the warm-up, so that what follows is as it was. Compiled
code is left alone meanwhile, and needs an iteration before it and one behind it. If the warm-up is too short, a loop over
[`Window.over`] goes on behind the window. There, iterations are profiled, too.
"""

from __future__ import annotations

import os
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Optional

from . import _operators
from ._framework import Framework, loaded
from ._output import warn


class Beside:
    """The iterations outside the window of which more is known than their time."""

    def __init__(self, warmup: int) -> None:
        self._warmup = warmup
        self._framework = Framework()
        self._counts = False
        self._began = 0.0
        self.flops: Optional[float] = None
        """FLOPs of one iteration of this process."""
        self.without_formula: list[str] = []
        """Operators of that iteration that nobody can count."""
        self.ops: Optional[dict[str, Any]] = None
        """Where the time of the profiled iterations went."""
        self.is_profiled = False
        """Whether iterations are being profiled."""

    # --- the warm-up --------------------------------------------------------------------------------------------------

    def begin_warmup_iteration(self, number: int) -> None:
        """Iteration `number` of the warm-up begins, counted from 1."""
        if number == max(1, self._warmup - 1) and (self._warmup > 2 or not loaded().may_compile()):
            self._begin_count()

    def end_iteration(self) -> None:
        """An iteration has ended."""
        if not self._counts:
            return
        self._counts = False
        count = self._framework.end_count()
        if count is not None:
            self.flops, self.without_formula = count.flops or None, count.without_formula

    def _begin_count(self) -> None:
        if self._counts:
            self._framework.end_count()
        self._framework = loaded()
        self._counts = self._framework.begin_count()

    # --- behind the window --------------------------------------------------------------------------------------------

    def left(self) -> list[tuple[str, int]]:
        """What is still to be done in further iterations, and in how many of them."""
        asked, framework = _asked(), loaded()
        is_counted = self.flops is not None or self.without_formula
        # Processes that train together must do the same number of iterations.
        left = [("count", 1)] if not is_counted and framework.can_count() and not framework.is_of_many() else []
        if asked and framework.can_profile():
            left.append(("profile", asked))
        return left

    def begin(self, what: str) -> None:
        """Begins with `what` is left."""
        self._framework = loaded()
        if what == "count":
            self._begin_count()
            return
        self._framework.synchronize()
        self.is_profiled = self._framework.begin_profile()
        self._began = time.perf_counter()

    def end(self, iterations: int) -> None:
        """Ends it after so many iterations."""
        self.end_iteration()
        if not self.is_profiled:
            return
        self.is_profiled = False
        self._framework.synchronize()
        elapsed_s = time.perf_counter() - self._began
        profile = self._framework.end_profile(iterations, elapsed_s)
        self.ops = profile if iterations else None

    def waiting(self) -> AbstractContextManager[Any]:
        """A block in which a profiled iteration waits for data."""
        return self._framework.wait_for_data() if self.is_profiled else nullcontext()

    def stop(self) -> None:
        """The script failed: nothing is left that changes what it does."""
        if self._counts:
            self._framework.end_count()
        if self.is_profiled:
            self._framework.end_profile(0, 0.0)
        self._counts = self.is_profiled = False

    def tell_missing(self, loops: bool) -> None:
        """Says why there is no profile, if there should be one."""
        if _asked() and self.ops is None and loaded().can_profile():
            reason = "the data ended" if loops else "loop over window.over(…), which goes on behind the window"
            warn(f"no iterations were profiled: {reason}")


def _asked() -> int:
    """The iterations that orchestrate wants to have profiled."""
    text = os.environ.get(_operators.ITERATIONS, "")
    return int(text) if text.isdigit() else 0
