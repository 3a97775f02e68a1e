"""A callback that measures a training by Lightning, with its `Trainer` unchanged.

    from orchestrate_worker.lightning import MeasureWindow

    trainer = Trainer(max_steps=-1, callbacks=[MeasureWindow(warmup=10, iters=100, model="resnet50")])
    trainer.fit(module, loader)

The trainer is stopped after the window.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any, Optional

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback

from ._failure import write_failure
from ._window import Window, window


class MeasureWindow(Callback):  # type: ignore[misc]
    """Measures `iters` batches after `warmup` others; `settings` as for [`orchestrate_worker.window`]."""

    def __init__(self, *, warmup: int, iters: int, batch: Optional[int] = None, **settings: Any) -> None:
        super().__init__()
        self.window: Window = window(warmup=warmup, iters=iters, batch=batch, **settings)
        self._batches = warmup + iters
        self._done = 0
        self._waits_since: Optional[float] = None
        self._waits = ExitStack()

    @property
    def measurement(self) -> Optional[dict[str, Any]]:
        """The measurement, as [`Window.measurement`]."""
        return self.window.measurement

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """The window's block begins."""
        self.window.__enter__()
        self._wait_anew()

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """The wait for the next batch begins: the end of the last epoch was not waiting."""
        self._wait_anew()

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Validation is not waiting."""
        self._waits.close()

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """The wait for the next batch begins. A trainer also validates before it trains."""
        if self._waits_since is not None:
            self._wait_anew()

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """A batch is there: the trainer waited for it."""
        self._waits.close()
        if self._done < self._batches and self._waits_since is not None:
            self.window.waited(time.perf_counter() - self._waits_since)
            self.window.look_at(batch)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """An iteration has ended; after the last one, so does the training."""
        if self._done < self._batches:
            loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
            self.window.step(loss)
            self._done += 1
            self._wait_anew()
            if self._done == self._batches:
                trainer.should_stop = True
                self.window.__exit__(None, None, None)

    def _wait_anew(self) -> None:
        self._waits.close()
        self._waits_since = time.perf_counter()
        self._waits.enter_context(self.window.waits())

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Writes the reason for orchestrate, and stops counting and profiling."""
        self._waits.close()
        self.window.stop()
        write_failure(exception)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """A training that ended early has no measurement, and reports that."""
        if self._done < self._batches:
            self.window.__exit__(None, None, None)
