"""Whether as many samples entered the networks as a window claims.

It is decided without PyTorch, of counts and shapes. Nobody is accused by a guess: where the claim can be true, or
nothing is known, the answer is that nobody knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

# Units of which one is one row of a network's input. Of tokens, a row has many.
_ROWS = (None, "images", "samples", "sequences", "examples")

Shape = tuple[int, ...]


class Entered:
    """What entered one network while gradients were computed, and was made by no other network."""

    def __init__(self, since: int = 0) -> None:
        self.since = since
        """How many ticks of the window came before it was watched."""
        self.now = 0
        """Rows since the last tick: the first dimension of the input, over all calls."""
        self.again = 0
        """The same of calls within a backward pass, which computes activations once more that were not kept."""
        self.each: list[int] = []
        """Rows between ticks, of which the first is the window's beginning."""
        self.before = 0
        """Rows of the last iteration before the window in which it was called."""
        self.calls = 0
        self.shapes: dict[Any, tuple[Shape, ...]] = {}
        """Shapes of the input, each with those of the other tensors in the first such call."""
        self.earlier = self.shapes
        """The same before the window."""
        self.is_captured = False
        """Whether the last call stands for iterations in which a CUDA graph was replayed, which calls nothing."""
        self.is_unclear = False
        """Whether something entered of which nobody knows the samples."""

    def open(self) -> None:
        """The window is about to begin."""
        self.earlier, self.shapes = self.shapes, {}
        self.now, self.again, self.each, self.calls = 0, 0, [], 0

    def take(self) -> int:
        """Rows since the last tick, which is now."""
        # If nothing but the second computation was seen, the first one ran without gradients.
        rows = self.now or self.again
        self.now = self.again = 0
        return rows

    def rows(self) -> list[int]:
        """Rows by iteration; of the whole window, if it has no iterations."""
        each = self.each if self.since else self.each[1:]
        return each or [self.now or self.again]

    def repeat_what_was_captured(self) -> None:
        """Lets the last iteration with a call stand for those without. Nobody knows how often it was replayed."""
        rows = self.rows()
        if rows[-1]:
            return
        self.is_captured = True
        last = next((count for count in reversed(rows) if count), self.before)
        if not last:
            return
        self.calls, self.shapes = self.calls or 1, self.shapes or self.earlier
        while rows and not rows[-1]:
            rows.pop()
        self.since, self.each = max(self.since, 1), rows or [last]


class Claim:
    """What a window claims to have trained on: so many samples in each iteration, or at once if it has none."""

    def __init__(self, samples: int, unit: Optional[str] = None, data: Sequence[Shape] = ()) -> None:
        self.samples, self.unit, self.data = samples, unit, data


def rows_shown(networks: Sequence[Entered]) -> Optional[list[int]]:
    """Rows by iteration, if there is no doubt which they are: only one network was called."""
    called = [network for network in networks if network.calls or network.is_unclear]
    return called[0].rows() if len(called) == 1 and not called[0].is_unclear else None


def samples_by_iteration(claim: Claim, networks: Sequence[Entered]) -> Optional[list[int]]:
    """How many samples entered in each iteration: what was claimed, if it is true; `None` if nobody knows."""
    called = [network for network in networks if network.calls or network.is_unclear]
    clear = [network for network in called if not network.is_unclear]
    if any(_confirms(claim, network) for network in clear):
        return [claim.samples]
    counts = [network.rows() for network in clear]
    claimed = claim.samples * max(map(len, counts), default=0)
    # Several networks may share the samples of an iteration, so all of them together must have less.
    if not counts or clear != called or any(network.is_captured for network in clear):
        return None
    if sum(map(sum, counts)) >= claimed or claim.unit not in _ROWS:
        return None
    if not all(_counts_rows(claim, network) for network in clear):
        return None
    return max(counts, key=sum)


def _confirms(claim: Claim, network: Entered) -> bool:
    rows = network.rows()
    if len(set(rows)) != 1 or not network.calls:
        return False
    if rows[0] == claim.samples:
        return True
    # A sample may be less than a row: a token, a step of time.
    counts = []
    if len(network.shapes) == 1:
        count = rows[0]
        for size in list(next(iter(network.shapes)))[1:]:
            count *= size
            counts.append(count)
    return claim.samples in counts


def _counts_rows(claim: Claim, network: Entered) -> bool:
    """Whether the first dimension of what entered is certainly that of the samples."""
    iterations = len(network.rows())
    for shape, beside in network.shapes.items():
        if any(len(data) == len(shape) and data[1:] == tuple(shape)[1:] for data in claim.data):
            continue
        # Sequences may be packed into one row.
        if shape[0] == 1:
            return False
        # Samples may be in the second dimension, or in the first one of another tensor.
        sizes = {*tuple(shape)[1:2], *(size for other in beside for size in other[:2])}
        if any(size * network.calls == claim.samples * iterations for size in sizes):
            return False
    return True
