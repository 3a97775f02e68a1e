"""Makes a training script a worker of orchestrate.

    import orchestrate_worker

    with orchestrate_worker.window(warmup=10, iters=100, model="resnet50") as window:
        for images, labels in window.over(loader):
            loss = train_one_batch(images, labels)
            window.loss(loss)

The loop runs 110 times. The device is synchronised before the first and after the last of the 100 measured iterations;
the seconds between are the measurement. The effective settings are read from PyTorch, not from the script's flags:
device, precision, memory format, whether it was compiled, and more. Under orchestrate, they go into `measurement.json`.
Without orchestrate, the same numbers are printed.

A script with a custom loop opens the window after its warm-up, and may count its iterations:

    with orchestrate_worker.window(samples=1600, batch=16) as window:
        for step in range(100):
            window.step(train_one_batch())
"""

from ._backward import watch_backward
from ._failure import report_failures
from ._window import Window, window

__version__ = "0.1.0"
__all__ = ["Window", "window"]

report_failures()
watch_backward()
