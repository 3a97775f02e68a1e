"""The measured window: its begin and end, the counts within it, and the measurement that is made of them."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from types import TracebackType
from typing import Any, Optional, TypeVar

from . import _backward, _failure, _networks, _output, _process
from ._assemble import Said, assemble, merge
from ._beside import Beside
from ._framework import Framework, Unusable, loaded, refuse_rounding
from ._output import warn
from ._ranks import Ranks
from ._sizes import Counted, Item, look_into, outline

T = TypeVar("T")

# Data has ended.
_ENDED = object()

# The error for a loop over `Window.over` that was left early.
_LEFT = (
    "the loop over window.over(…) was left before its end, so it is unknown whether its last iteration belongs to "
    "the window: let it run to its end, with window(iters=…) or until the data end"
)


class Window:
    """A window that is measured; made by [`window`], which documents its arguments.

    After the `with` block, `measurement` is the measurement in the form of `measurement.json`: on rank 0 if
    several processes train together, and `None` on the others.
    """

    def __init__(
        self, samples: Optional[int], batch: Optional[int], warmup: int, iters: Optional[int], unit: Optional[str],
        said: Mapping[str, Any],
    ) -> None:
        for name, value in (("samples", samples), ("batch", batch), ("warmup", warmup), ("iters", iters)):
            least = 0 if name == "warmup" else 1
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise ValueError(f"{name} is {value!r}: expected a whole number of at least {least}")
        if unit is not None and (not isinstance(unit, str) or not re.fullmatch("[A-Za-z0-9_-]{1,24}", unit)):
            expected = "expected a word of 1 to 24 ASCII letters, digits, _ and -, such as tokens"
            raise ValueError(f"unit is {unit!r}: {expected}")
        _refuse_details(said)
        self.measurement: Optional[dict[str, Any]] = None
        self._samples, self._batch, self._warmup, self._iters = samples, batch, warmup, iters
        self._said = Said(dict(said), {}, unit)
        self._framework: Framework = Framework()
        self._ranks: Optional[Ranks] = None
        self._progress = _output.Progress(False)
        self._state = "new"  # then "warm-up", "open", "closed"
        self._loops = False
        self._left = False
        self._warmed = 0
        self._ends: list[float] = []
        self._waits: list[float] = []
        self._losses: list[Any] = []
        self._loss: Any = None
        self._first_loss: Any = None
        self._wait = 0.0
        self._has_waits = False
        self._items: dict[Hashable, Item] = {}
        self._is_on_host = False
        self._began = self._ended = self._started_at = 0.0
        self._first_step: Optional[float] = None
        self._switches_before: Optional[int] = None
        self._switches_after: Optional[int] = None
        self._peak_memory: Optional[int] = None
        self._beside = Beside(warmup)
        self._is_behind = False

    # --- for the script -----------------------------------------------------------------------------------------------

    def over(self, data: Iterable[T]) -> Iterator[T]:
        """Goes over `data`, an iteration for each item: the warm-up first, then the window.

        With `iters`, the loop ends after so many, and `data` begins anew as often as that takes; without, the window
        ends with `data`. The time that `data` takes is counted as waited for data. If the script does not declare the
        batch, it is the first dimension of the first tensor in each item.
        """
        if self._loops or self._warmed or self._ends:
            raise Unusable("window.over(…) was called for the second time, or after window.step()")
        self._loops = True
        return self._over(data)

    def step(self, loss: Any = None) -> None:
        """Ends an iteration, with its `loss`: a number, or a tensor that is read after the window.

        A loop over [`Window.over`] does so automatically.
        """
        if self._loops:
            raise Unusable("window.step() is called by window.over(…) already: report a loss by window.loss(loss)")
        if loss is not None:
            self.loss(loss)
        self._end_iteration()

    def loss(self, loss: Any) -> None:
        """Reports the loss of this iteration: a number, or a tensor that is read after the window."""
        if self._is_on_host and getattr(loss, "is_cpu", False):
            # The short way: code that runs once an iteration is never in the caches.
            try:
                self._loss = loss.item()
                return
            except (RuntimeError, ValueError):
                pass
        # Only a single number is a loss.
        is_none = hasattr(loss, "detach") and loss.numel() != 1
        self._loss = None if is_none else _kept(loss)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Counts the time of the block as waited for data, for a loop that fetches its data itself."""
        began = time.perf_counter()
        try:
            with self._beside.waiting():
                yield
        finally:
            self.waited(time.perf_counter() - began)

    def waited(self, seconds: float) -> None:
        """Counts so many seconds of this iteration as waited for data."""
        self._wait += seconds
        self._has_waits = True

    def look_at(self, item: Any) -> None:
        """Takes the batch, and the size of images, from `item`: data that is about to be trained on."""
        if self._first_step is None and not self._warmed and not self._ends:
            self._first_step = _process.seconds_since_start()
        if self._state == "open" or not self._warmup:
            key = outline(item)
            if key not in self._items:
                self._items[key] = look_into(item)
        else:
            self._beside.item = outline(item)

    def report(self, **settings: Any) -> None:
        """Adds settings such as `model` or parameters of the script. Settings that are read back take precedence."""
        _refuse_details(settings)
        self._said.settings.update(settings)

    def detail(self, **details: Any) -> None:
        """Adds to `details`, such as `flops_per_sample`."""
        self._said.details.update(details)

    def count(self, name: str, amount: Any, unit: Optional[str] = None) -> None:
        """Adds `amount` to the count called `name`, such as tokens; its rate over the window is reported.

        Calls before and after the window are ignored. With several processes, all of their counts are
        added. An amount can be a tensor, which is read after the window.
        """
        metric = self._metric(name, unit, per_second=True)
        if self._state == "open":
            metric["value"] = metric["value"] + amount if metric["value"] is not None else _kept(amount)

    def metric(self, name: str, value: Any, unit: Optional[str] = None) -> None:
        """Reports a metric of the script, such as `window.metric("accuracy", 0.71)`. The last value counts; with
        several processes, that of rank 0."""
        self._metric(name, unit, per_second=False)["value"] = _kept(value)

    def _metric(self, name: str, unit: Optional[str], per_second: bool) -> dict[str, Any]:
        if not isinstance(name, str) or not re.fullmatch("[a-z][a-z0-9_]{0,39}", name):
            raise ValueError(
                f"{name!r} is not a name of a metric: expected at most 40 lower-case ASCII letters, digits and _, "
                "beginning with a letter"
            )
        if unit is not None and (not isinstance(unit, str) or len(unit) > 40):
            raise ValueError(f"the unit of {name!r} is {unit!r}: expected at most 40 characters")
        metric = self._said.metrics.setdefault(name, {"value": None, "unit": unit, "per_second": per_second})
        if metric["per_second"] != per_second:
            raise ValueError(f"{name!r} is a metric and is counted, too: choose different names")
        if unit is not None:
            metric["unit"] = unit
        return metric

    # --- for callbacks ------------------------------------------------------------------------------------------------

    def waits(self) -> AbstractContextManager[Any]:
        """A block in which a profiled iteration waits for data, and whose length the caller measures."""
        return self._beside.waiting()

    def stop(self) -> None:
        """The training failed: iterations are neither counted nor profiled any more."""
        self._beside.stop()

    # --- the window ---------------------------------------------------------------------------------------------------

    def __enter__(self) -> Window:
        if self._state != "new":
            raise Unusable("a window was opened for the second time: make a new one")
        self._framework, self._ranks = loaded(), Ranks()
        self._progress = _output.Progress(self._ranks.rank == 0)
        self._state = "warm-up"
        refuse_rounding(os.environ)
        _networks.forget()
        self._framework.enter()
        if self._warmup:
            _backward.forget()
            self._beside.begin_warmup_iteration(1)
        else:
            self._open()
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> bool:
        self._beside.stop()
        if self._is_behind and isinstance(error, Exception):
            # The failed iteration was only counted or profiled: its result is lost, not the measurement.
            warn(f"an iteration after the window failed: {type(error).__name__}: {error}")
            error = None
        elif error is not None:
            self._progress.finish()
            _failure.write_failure(error)
            _networks.forget()
            if self._state == "open":
                with suppress(Exception):
                    self._framework.close()
            return False
        try:
            self._finish()
        except Exception as unusable:
            _failure.write_failure(unusable)
            raise
        return self._is_behind

    def _over(self, data: Iterable[T]) -> Iterator[T]:
        began = time.perf_counter()
        items, since_start = iter(data), 0
        self.waited(time.perf_counter() - began)
        while self._state != "closed":
            began = time.perf_counter()
            try:
                item = next(items)
            except StopIteration:
                if self._iters is None:
                    if self._state == "open":
                        self._close()
                        self._ended = min(self._ended, self._end_of_last_iteration())
                        break
                    return
                if not since_start or items is data:
                    raise Unusable(f"window.over(…): the data ended after {self._counts_text()}") from None
                items, since_start = iter(data), 0
                self.waited(time.perf_counter() - began)
                continue
            self._wait += time.perf_counter() - began
            since_start += 1
            self.look_at(item)
            if self._state == "warm-up":
                # Loading data is not counted.
                self._beside.begin_warmup_iteration(self._warmed + 1, goes_on=True)
            self._left = True
            yield item
            self._left = False
            self._end_iteration()
        for what, number in self._beside.left():
            yield from self._behind(what, number, items, data)

    def _behind(self, what: str, number: int, items: Iterator[T], data: Iterable[T]) -> Iterator[T]:
        """Further iterations after the window, for `what`: a count or a profile. They end if the data do."""
        self._is_behind = True
        self._beside.begin(what)
        done = 0
        try:
            for done in range(1, number + 1):
                with self._beside.waiting():
                    item = next(items, _ENDED)
                    if item is _ENDED and items is not data:
                        items = iter(data)
                        item = next(items, _ENDED)
                if item is _ENDED:
                    done -= 1
                    break
                self._beside.item = outline(item)
                yield item  # type: ignore[misc]
        except GeneratorExit:  # the loop is left: no further iterations are counted
            self._beside.stop()
            raise
        self._beside.end(done)
        self._is_behind = False

    def _counts_text(self) -> str:
        asked = f" of {self._iters}" if self._iters is not None else ""
        return f"{self._warmed} of {self._warmup} warm-up iterations and {len(self._ends)}{asked} measured ones"

    def _end_iteration(self) -> None:
        if self._state == "warm-up":
            self._beside.end_warmup_iteration(self._warmed + 1)
            self._warmed += 1
            if self._warmed == 1:
                self._first_loss = self._loss
            self._loss, self._wait = None, 0.0
            self._framework.end_warmup_iteration()
            self._progress.report("warmup", self._warmed, self._warmup)
            if self._warmed == self._warmup:
                self._open()
            elif not self._loops:
                self._beside.begin_warmup_iteration(self._warmed + 1)
            return
        if self._state != "open":
            raise Unusable(f"window.step(): the window of {self._iters} iterations is over")
        self._framework.tick()
        self._ends.append(time.perf_counter())
        self._waits.append(self._wait)
        self._losses.append(self._loss)
        self._loss, self._wait = None, 0.0
        if len(self._ends) == self._iters:
            self._close()
        self._progress.report("measure", len(self._ends), self._iters)

    def _open(self) -> None:
        assert self._ranks is not None
        # The library that trains may have been loaded since the block was entered.
        self._framework = loaded()
        self._framework.synchronize()
        self._framework.open()
        # Without a warm-up, it is unknown yet which devices will train.
        self._is_on_host = self._warmup > 0 and self._framework.is_on_host()
        self._ranks.wait()
        self._state, self._wait = "open", 0.0
        self._switches_before = _process.involuntary_switches()
        self._started_at, self._began = time.time(), time.perf_counter()
        self._framework.tick()

    def _close(self) -> None:
        self._framework.synchronize()
        self._ended = time.perf_counter()
        self._switches_after = _process.involuntary_switches()
        self._peak_memory = _process.peak_memory_bytes()
        self._state = "closed"
        self._framework.close()
        if type(loaded()) is not type(self._framework):
            raise Unusable("the library that trains was loaded within the window: add a warm-up")

    def _end_of_last_iteration(self) -> float:
        """The end of the last iteration, if the devices report it. What follows is the end of the data."""
        if not self._ends:
            return self._ended
        if self._framework.clock() == "host":
            return self._ends[-1]
        seconds = self._framework.seconds()
        return self._ended if seconds is None else max(self._ends[-1], self._began + sum(seconds))

    def _finish(self) -> None:
        if self._left:
            raise Unusable(_LEFT)
        if self._state == "open" and self._iters is None:
            self._close()
        self._progress.finish()
        if self._state != "closed":
            raise Unusable(f"the window is not complete: {self._counts_text()} were done")
        assert self._ranks is not None
        counted = Counted(
            samples=self._samples, batch=self._batch, iters=len(self._ends) or None,
            warmup=self._warmed if self._warmup else None, elapsed_s=self._ended - self._began,
            items=list(self._items.values()),
            started_at=self._started_at, ends=[end - self._began for end in self._ends],
            waits=self._waits if self._has_waits else (), losses=self._losses, first_loss=self._first_loss,
            first_step_s=self._first_step, peak_memory_bytes=self._peak_memory,
            flops=self._beside.flops_of(self._items), without_formula=self._beside.without_formula,
            ops=self._beside.ops,
            can_profile=(self._loops or self._beside.can_profile_in_warmup()) and self._framework.can_profile(),
        )
        self._beside.warn_of_missing_profile(self._loops)
        if self._switches_before is not None and self._switches_after is not None:
            # macOS counts them as a difference of two numbers, which can go back.
            counted.switches = max(0, self._switches_after - self._switches_before)
        try:
            own = assemble(counted, self._said, self._framework)
        except Unusable as unusable:
            # All ranks get it, or they would wait for this one.
            own = {"unusable": str(unusable)}
        everybody = self._ranks.gather(own)
        for number, rank in enumerate(everybody):
            if "unusable" in rank:
                raise Unusable(rank["unusable"] if len(everybody) == 1 else f"rank {number}: {rank['unusable']}")
        if self._ranks.rank == 0:
            self.measurement, iterations = merge(everybody)
            if iterations is not None:
                _output.write_iterations(*iterations)
            path = _output.asked_for()
            if path is not None:
                _output.write_json(path, self.measurement)
            else:
                print(_output.page(self.measurement), flush=True)


def _refuse_details(settings: Mapping[str, Any]) -> None:
    """Refuses `flops_per_sample` as a setting: it belongs to the details, and would be ignored among the settings."""
    if "flops_per_sample" in settings:
        raise ValueError("flops_per_sample is not a setting: call window.detail(flops_per_sample=…)")


def _kept(number: Any) -> Any:
    """`number` as it is now. A tensor is detached, because the graph behind it would keep all of its tensors. It is
    copied, because some trainings put each result into the same memory. For a tensor of the processor, its number is
    returned, which takes no wait. A tensor in page-locked memory may still be on its way from a device, which is not
    synchronised within the window. It is kept as it is: a copy to the processor makes new memory each time."""
    if not hasattr(number, "detach"):
        return number
    if getattr(number, "is_cpu", False) and number.numel() == 1:
        if _is_on_its_way(number):
            return number.detach()
        with suppress(RuntimeError, ValueError):  # some kinds of tensors, such as DTensor, cannot be converted
            return number.item()
    return number.detach().clone()


def _is_on_its_way(tensor: Any) -> bool:
    """Whether a tensor of the processor can be the target of a copy that is not done."""
    torch = sys.modules.get("torch")
    # Only devices copy to page-locked memory. The check for page-locked memory takes a moment and may start a driver.
    return torch is not None and torch.cuda.is_initialized() and tensor.is_pinned()


def window(
    *,
    samples: Optional[int] = None,
    batch: Optional[int] = None,
    warmup: int = 0,
    iters: Optional[int] = None,
    unit: Optional[str] = None,
    **settings: Any,
) -> Window:
    """A window to be measured, for a `with` statement.

    - `samples` is the number of samples of the window: images, texts, or other units that the script trains on. By
      default, it is the sum of the batches.
    - `batch` is the number of samples of one iteration, needed only if neither the data nor the network shows it.
    - `warmup` iterations come first and are not measured. The window begins after them; with 0, immediately.
    - `iters` is the number of measured iterations. With it, the window ends after the last of them; without it, at
      the end of the `with` block.
    - `unit` is the name of the samples: `sequences`, `tokens`. Without it, samples that are pictures are `images`.
    - `settings` are reported under `effective`, as by [`Window.report`]: `model="resnet50"`, and other parameters of
      the script.

    If several processes train together through `torch.distributed`, each opens a window with its numbers; rank 0
    reports the sum of the samples over the seconds of the slowest.

    Raises `ValueError` for an impossible number, and later `Unusable` for a window that cannot be measured.
    """
    return Window(samples, batch, warmup, iters, unit, settings)

