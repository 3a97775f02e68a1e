"""How many samples a batch and the window hold, and of which size: as claimed, and as the networks show it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from ._entered import Claim, Entered, rows_shown, samples_by_iteration
from ._framework import Framework, Unusable
from ._output import warn


@dataclass
class Counted:
    """What the window counted in this process. Seconds are those of a monotonic clock, from the window's start."""

    samples: Optional[int]
    batch: Optional[int]
    iters: Optional[int]
    warmup: Optional[int]
    elapsed_s: float
    started_at: float
    shapes: Sequence[tuple[int, ...]] = ()
    ends: Sequence[float] = ()
    waits: Sequence[float] = ()
    losses: Sequence[Any] = ()
    first_loss: Any = None
    first_step_s: Optional[float] = None
    switches: int = 0


@dataclass
class Sizes:
    """What is reported of a window's sizes."""

    batch: int
    samples: int
    iters: Optional[int]
    of_network: dict[str, int] = field(default_factory=dict)
    """The sizes of its input and output."""
    unconfirmed: list[str] = field(default_factory=list)
    """What the data or the script says, and no network shows."""


def read_sizes(counted: Counted, unit: Optional[str], framework: Framework) -> Sizes:
    """The sizes of a window. If fewer samples entered the network than the script claims, these count."""
    networks = framework.entered()
    batch, samples, iters = _claimed(counted, networks, framework)
    sizes = Sizes(batch, samples, iters)
    claim = Claim(batch if counted.iters is not None else samples, unit, counted.shapes)
    shown = samples_by_iteration(claim, networks)
    if shown is None:
        sizes.unconfirmed.append("batch")
    elif set(shown) != {claim.samples}:
        _correct(sizes, shown, networks, has_iterations=counted.iters is not None)
    picture, is_shown = _picture(counted, networks, framework)
    if picture is not None and picture[2] == picture[3]:
        sizes.of_network["input_size"] = picture[2]
        if not is_shown:
            sizes.unconfirmed.append("input_size")
    logits = framework.logits()
    if logits is not None and len(logits) == 2 and logits[0] == sizes.batch:
        sizes.of_network["classes"] = logits[1]
    return sizes


def _claimed(
    counted: Counted, networks: Sequence[Entered], framework: Framework
) -> tuple[int, int, Optional[int]]:
    """Batch, samples and iterations: from the data, from the script, or else from the network."""
    batches = {shape[0] for shape in counted.shapes}
    if len(batches) > 1:
        raise _differ(batches)
    images = framework.images()
    seen = next(iter(batches), None)
    if None not in (counted.batch, seen) and seen != counted.batch:
        raise Unusable(f"the script says batch={counted.batch}, but its data comes in batches of {seen}")
    batch = seen if seen is not None else counted.batch
    iters = counted.iters
    # One step of a loop of one's own may put several batches through the network, so what the script says comes first.
    if batch is None and counted.samples is None:
        rows = rows_shown(networks) if iters is not None else None
        if rows is not None and len(set(rows)) > 1:
            raise _differ(set(rows))
        batch = rows[0] if rows else images[0] if images is not None else None
    if batch is None and counted.samples is not None and iters is not None and counted.samples % iters == 0:
        batch = counted.samples // iters
    if batch is None and images is not None:
        batch = images[0]
    if batch is None:
        raise Unusable("nothing shows how many samples a batch holds: say it, as in window(batch=32)")
    if iters is None and counted.samples is not None and counted.samples % batch == 0:
        iters = counted.samples // batch
    samples = counted.samples if counted.samples is not None else batch * iters if iters is not None else None
    if samples is None:
        raise Unusable("nothing was counted: call window.step() for each iteration, or say window(samples=…)")
    if iters is None or samples != batch * iters:
        counts = f"{iters} iterations of {batch}" if iters is not None else f"batches of {batch}"
        raise Unusable(f"{samples} samples are not what {counts} hold")
    return batch, samples, iters


def _differ(batches: set[int]) -> Unusable:
    several = ", ".join(map(str, sorted(batches)))
    return Unusable(
        f"the batches of the window differ in size ({several}): leave out the last one, as by drop_last=True"
    )


def _correct(sizes: Sizes, shown: Sequence[int], networks: Sequence[Entered], has_iterations: bool) -> None:
    """Puts what entered the network in the place of what was claimed."""
    claimed, batch, iters = sizes.samples, sizes.batch, sizes.iters or 1
    if has_iterations:
        if len(set(shown)) > 1:
            raise _differ(set(shown))
        batch = shown[0]
    elif not any(shape[0] == batch for network in networks for shape in network.shapes):
        batch = sum(shown) // iters  # as many iterations, but of less
    else:
        iters = sum(shown) // batch  # fewer of them
    samples = batch * iters
    if not has_iterations and samples != sum(shown):
        raise Unusable(f"the script says samples={claimed}, but {sum(shown)} entered the network")
    sizes.batch, sizes.samples, sizes.iters = batch, samples, iters
    warn(
        f"{claimed} samples were claimed, but only {samples} entered the network: "
        f"these count, in {iters} iterations of {batch}"
    )


def _picture(
    counted: Counted, networks: Sequence[Entered], framework: Framework
) -> tuple[Optional[Sequence[int]], bool]:
    """The shape of images that enter the network, and whether the network shows it; `None` if they differ."""
    entered = [tuple(shape) for network in networks for shape in network.shapes]
    beside = [shape for network in networks for others in network.shapes.values() for shape in others]
    data = [shape for shape in counted.shapes if len(shape) == 4]
    images = framework.images()
    if not entered and images is not None and len(images) == 4:
        entered = [tuple(images)]
    for shapes in (entered, beside):
        pictures = [shape for shape in shapes if len(shape) == 4]
        if pictures:
            return (pictures[0] if len({shape[2:] for shape in pictures}) == 1 else None), True
    if len(data) != 1:
        return None, False
    # Images may enter as rows of numbers.
    return data[0], any(math.prod(shape[1:]) == math.prod(data[0][1:]) for shape in entered)
