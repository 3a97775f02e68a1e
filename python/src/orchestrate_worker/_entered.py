"""Checks whether as many samples entered the networks as a window claims.

The decision needs counts and shapes, but not PyTorch. A script is never accused by a guess: if the claim can be true,
or the input of the network does not resemble the data, the answer is unknown.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any, Optional

# Units of which a row of a network's input is one. A row has many tokens.
_ROWS = (None, "images", "samples", "sequences", "examples")

Shape = tuple[int, ...]


class Entered:
    """The inputs of one network while gradients were computed, except those that another network made."""

    def __init__(self, since: int = 0) -> None:
        self.since = since
        """The number of ticks of the window before it was watched."""
        self.now = 0
        """Rows since the last tick: the first dimension of the input, over all calls."""
        self.again = 0
        """The same for calls within a backward pass, which recomputes activations that were not kept."""
        self.each: list[int] = []
        """Rows between ticks, of which the first is the window's beginning."""
        self.before = 0
        """Rows of the last iteration before the window in which it was called."""
        self.calls = 0
        self.shapes: dict[Any, tuple[Shape, ...]] = {}
        """Shapes of the input, each with those of the other tensors in the first such call."""
        self.wholes: dict[Any, int] = {}
        """Rows of the tensors that the input was a part of, by its shape."""
        self.earlier = self.shapes
        """The same before the window."""
        self.is_captured = False
        """Whether the last call represents iterations in which a CUDA graph was replayed, which calls no network."""
        self.is_unclear = False
        """Whether an input had an unknown number of samples."""

    def open(self) -> None:
        """The window is about to begin."""
        self.earlier, self.shapes = self.shapes, {}
        self.now, self.again, self.each, self.calls = 0, 0, [], 0

    def take(self) -> int:
        """Rows since the last tick, which is now."""
        # If only the recomputation was seen, the first computation ran without gradients.
        rows = self.now or self.again
        self.now = self.again = 0
        return rows

    def rows(self) -> list[int]:
        """Rows by iteration; of the whole window, if it has no iterations."""
        each = self.each if self.since else self.each[1:]
        return each or [self.now or self.again]

    def repeat_captured_call(self) -> None:
        """Lets the last iteration with a call represent those without. The number of its replays is unknown."""
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
    """The claim of a window: the samples of each iteration, or of the whole window if it has no iterations."""

    def __init__(
        self, samples: int, unit: Optional[str] = None, data: Sequence[Shape] = (), firsts: Sequence[Shape] = ()
    ) -> None:
        self.samples, self.unit = samples, unit
        self.firsts = firsts
        """Shapes of the tensors that show the batch: the first one of each item of data."""
        # A single dimension resembles any other, so labels are not compared.
        self.data = [*firsts, *(shape for shape in data if len(shape) > 1)]
        """These, and the shapes of other tensors in the data."""
        lengths = {first[0] for first in firsts}
        self.is_second = len(lengths) > 1 and all(first[1:2] == (samples,) for first in firsts)
        """Whether samples seem to be in the second dimension of the data, because the first one varies."""

    def is_confirmed_by_data(self, shape: Shape) -> bool:
        """Whether data of a similar shape begins with as many samples as are claimed."""
        return not self.is_second and any(data[0] == self.samples and _alike(data, shape) for data in self.data)


def certain_rows(networks: Sequence[Entered]) -> Optional[list[int]]:
    """Rows by iteration, if they are certain: only one network was called."""
    called = [network for network in networks if network.calls or network.is_unclear]
    return called[0].rows() if len(called) == 1 and not called[0].is_unclear else None


def samples_by_iteration(claim: Claim, networks: Sequence[Entered]) -> Optional[list[int]]:
    """The samples that entered in each iteration: the claimed ones if that is true; `None` if it is unknown."""
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
    # A sample may be less than a row: a token, a time step. By its unit or its data, a sample can be known to be a row.
    if claim.unit in _ROWS or len(network.shapes) != 1:
        return False
    shape = tuple(next(iter(network.shapes)))
    return not claim.is_confirmed_by_data(shape) and claim.samples in _products((rows[0], *shape[1:]))


def _products(shape: Shape) -> list[int]:
    """The products of the leading dimensions: of two, of three, and so on."""
    return list(itertools.accumulate(shape, operator.mul))[1:]


def _counts_rows(claim: Claim, network: Entered) -> bool:
    """Whether the first dimension of the input is certainly that of the samples."""
    return all(_is_of_samples(claim, network, tuple(shape)) for shape in network.shapes)


def _is_of_samples(claim: Claim, network: Entered, shape: Shape) -> bool:
    if claim.is_confirmed_by_data(shape):
        return True
    if not any(_alike(first, shape) for first in claim.firsts):
        # It is a part of a tensor that has as many rows as are claimed.
        if network.wholes.get(shape) == claim.samples:
            return True
        # The input is derived from the data, or unrelated to them. Without data to compare with, images are samples.
        return _is_of_images(shape) and all(len(data) < 2 for data in claim.data)
    # The script declares another batch than the data have. For images, it cannot be in another dimension.
    if _is_of_images(shape):
        return True
    # Sequences may be packed into one row.
    if shape[0] == 1:
        return False
    # Samples may be in the second dimension, be less than a row, or be in the first dimensions of another tensor.
    beside = (size for other in network.shapes[shape] for size in other[:2])
    sizes = {*shape[1:2], *_products(shape), *beside}
    return not any(size * network.calls == claim.samples * len(network.rows()) for size in sizes)


def _alike(data: Shape, shape: Shape) -> bool:
    """Whether a tensor of this shape can be rows of such data, as they are or changed as is usual."""
    if data[1:] == shape[1:]:
        return True
    # Images are resized.
    if _is_of_images(data) and _is_of_images(shape) and data[1] == shape[1]:
        return True
    # All tokens of a sequence but the last enter, because each predicts the next.
    if len(data) == len(shape) > 1 and (data[1] - 1, *data[2:]) == shape[1:]:
        return True
    # Rows are flattened, or their dimensions are swapped.
    numbers = math.prod(shape[1:])
    return numbers > 1 and numbers == math.prod(data[1:])


def _is_of_images(shape: Shape) -> bool:
    """Whether it is certainly that of a batch of images: channels come second, and there are few of them."""
    return len(shape) == 4 and shape[1] <= 4
