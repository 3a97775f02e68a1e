"""The number and the size of the samples in a batch and in the window: as claimed, and as the networks show it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from ._entered import Claim, Entered, Shape, certain_rows, samples_by_iteration
from ._framework import Framework, Unusable
from ._output import warn

# The number of parts of an item of data, and of each part, that are examined. Lists of token ids have thousands.
_PARTS = 4

# The alternative remedy for batches that seem to differ in size.
_OR_SAY = "; if their first dimension is not that of the samples, say batch="


@dataclass(frozen=True)
class Item:
    """The facts that an item of data shows."""

    samples: Optional[int] = None
    """The number of its samples."""
    candidates: tuple[int, ...] = ()
    """The possible numbers of samples, if only a network can decide between them."""
    first: Optional[Shape] = None
    """The shape of the tensor that begins with the samples."""
    shapes: tuple[Shape, ...] = ()
    """The shapes of its tensors."""


@dataclass
class Counted:
    """The counts of the window in this process. Seconds are those of a monotonic clock, from the window's start."""

    samples: Optional[int]
    batch: Optional[int]
    iters: Optional[int]
    warmup: Optional[int]
    elapsed_s: float
    started_at: float
    items: Sequence[Item] = ()
    ends: Sequence[float] = ()
    waits: Sequence[float] = ()
    """The waits for data, by iteration; empty if the script does not report them."""
    losses: Sequence[Any] = ()
    first_loss: Any = None
    first_step_s: Optional[float] = None
    switches: Optional[int] = None
    peak_memory_bytes: Optional[int] = None
    flops: Optional[float] = None
    """FLOPs of one iteration outside the window, as PyTorch counts them."""
    without_formula: Sequence[str] = ()
    """Operators of that iteration without a formula."""
    ops: Optional[dict[str, Any]] = None
    """The time of a few iterations outside the window by operator."""
    can_profile: bool = False
    """Whether such iterations are possible."""


@dataclass
class Sizes:
    """The reported sizes of a window."""

    batch: int
    samples: int
    iters: Optional[int]
    of_network: dict[str, int] = field(default_factory=dict)
    """The sizes of its input and output."""
    unconfirmed: list[str] = field(default_factory=list)
    """The sizes that come from the data or the script, without confirmation by a network."""


def read_sizes(counted: Counted, unit: Optional[str], framework: Framework) -> Sizes:
    """The sizes of a window. If fewer samples entered the network than the script claims, these count."""
    networks = framework.entered()
    batch, samples, iters = _claimed(counted, networks, framework)
    sizes = Sizes(batch, samples, iters)
    claim = Claim(
        batch if counted.iters is not None else samples, unit,
        data=[shape for item in counted.items for shape in item.shapes], firsts=_firsts(counted),
    )
    shown = samples_by_iteration(claim, networks)
    if shown is None:
        _refuse_contradiction_by_data(counted, claim)
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


def _firsts(counted: Counted) -> list[Shape]:
    return [item.first for item in counted.items if item.first is not None]


def _claimed(
    counted: Counted, networks: Sequence[Entered], framework: Framework
) -> tuple[int, int, Optional[int]]:
    """Batch, samples and iterations: from the script, from the data, or else from the network."""
    batch, iters = counted.batch, counted.iters
    if batch is None:
        batch = _shown_batch(counted, networks, framework)
    if batch is None:
        raise Unusable("the number of samples per batch is unknown: declare it, as in window(batch=32)")
    if iters is None and counted.samples is not None and counted.samples % batch == 0:
        iters = counted.samples // batch
    samples = counted.samples if counted.samples is not None else batch * iters if iters is not None else None
    if samples is None:
        raise Unusable("no iterations were counted: call window.step() for each one, or declare window(samples=…)")
    if iters is None or samples != batch * iters:
        counts = f"{iters} iterations of {batch}" if iters is not None else f"batches of {batch}"
        raise Unusable(f"{samples} samples do not match {counts}")
    return batch, samples, iters


def _shown_batch(counted: Counted, networks: Sequence[Entered], framework: Framework) -> Optional[int]:
    """The samples of one iteration, from the data or else from the network; `None` if they are unknown."""
    items = [item for item in counted.items if item.shapes]
    counts = {item.samples for item in items if item.samples is not None}
    if items and all(item.samples is not None for item in items):
        if len(counts) > 1:
            raise _differ(counts, _OR_SAY)
        return counts.pop()
    if counted.samples is not None and counted.iters is not None and counted.samples % counted.iters == 0:
        return counted.samples // counted.iters
    # One step of a custom loop may put several batches through the network, so the script's declaration comes first.
    rows = certain_rows(networks) if counted.samples is None and counted.iters is not None else None
    if rows is not None and len(set(rows)) > 1:
        if items:
            return None
        raise _differ(set(rows), _OR_SAY)
    images = framework.images()
    batch = rows[0] if rows else images[0] if images is not None else None
    return batch if all(batch in (item.samples, *item.candidates) for item in items) else None


def _differ(batches: set[int], hint: str = "") -> Unusable:
    several = ", ".join(map(str, sorted(batches)))
    return Unusable(
        f"the batches of the window differ in size ({several}): leave out the last one, as by drop_last=True{hint}"
    )


def _refuse_contradiction_by_data(counted: Counted, claim: Claim) -> None:
    """Refuses a batch that the script declares, no network confirms, and the data contradict."""
    said, items = counted.batch, counted.items
    if said is None:
        return
    counts = {item.samples for item in items if item.samples is not None}
    if len(counts) > 1 and max(counts) == said and not claim.is_second:
        raise _differ(counts)
    for item in items:
        if item.samples is not None and all(math.prod(shape) < said for shape in item.shapes):
            raise Unusable(f"the script declares batch={said}, but its data comes in batches of {item.samples}")


def _correct(sizes: Sizes, shown: Sequence[int], networks: Sequence[Entered], has_iterations: bool) -> None:
    """Replaces the claimed samples by those that entered the network."""
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
        raise Unusable(f"the script declares samples={claimed}, but {sum(shown)} entered the network")
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
    data = [first for first in _firsts(counted) if len(first) == 4]
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


def outline(item: Any) -> Hashable:
    """A short value that differs for items of other sizes: mostly, the shape of the first tensor or array. It is called
    in each iteration; [`look_into`] finds the rest."""
    has_parts = type(item) is tuple or type(item) is list
    try:
        # Mostly, the first part is what is trained on.
        shape = getattr(item[0] if has_parts else item, "shape", None)
        if shape and not callable(shape):
            return shape if isinstance(shape, tuple) else tuple(shape)
    except (IndexError, RuntimeError):  # there is no part, or it is a nested tensor, which has no shape
        pass
    for part in item[:_PARTS] if has_parts else _inner(item):
        found = outline(part)
        if found:
            return ("list", len(part)) if isinstance(part, (list, tuple)) else found
    return ()


def look_into(item: Any) -> Item:
    """The facts that `item` shows: mostly, the first dimension of its first tensor is the number of samples.

    If tensors are in a list, there may be one for each sample, or one for each kind of data. In the former case,
    something beside the list must have the same number, such as labels.
    """
    shape = _shape(item)
    if shape is not None:
        return Item(shape[0], first=shape, shapes=(shape,))
    parts = _parts(item)
    main = next((number for number, part in enumerate(parts) if _shapes(part)), None)
    if main is None:
        return Item()
    shapes = [shape for part in parts for shape in _shapes(part)]
    is_list = _is_list_of_samples(item)
    first = _shape(parts[main])
    if first is not None and not is_list:
        return Item(first[0], first=first, shapes=tuple(shapes))
    group = item if is_list else parts[main]
    within = _shapes(group)
    candidates, beginnings = {len(group)}, {shape[0] for shape in within}
    if len(beginnings) == 1:
        candidates |= beginnings
    beside = [] if is_list else [_count(part) for number, part in enumerate(parts) if number != main]
    confirmed = candidates.intersection(beside)
    shapes += [(len(group), *shape) for shape in within[:1]]
    return Item(confirmed.pop() if len(confirmed) == 1 else None, tuple({*candidates, len(item)}), shapes=tuple(shapes))


def _is_list_of_samples(item: Any) -> bool:
    """Whether it seems to be a list of mappings, or of images, that were not batched; or a packed sequence."""
    some = list(_inner(item))
    if isinstance(item, tuple) and hasattr(item, "batch_sizes"):
        return True
    if isinstance(item, Mapping) or len(some) < 2:
        return False
    if all(isinstance(part, Mapping) for part in some):
        return all(part.keys() == some[0].keys() for part in some)
    shapes = [_shape(part) or () for part in some]
    return all(len(shape) == 3 and shape[0] == shapes[0][0] <= 4 for shape in shapes)


def _count(part: Any) -> Optional[int]:
    """The number of samples in a part of an item: labels in a tensor or a list. Tensors in a list do not show it."""
    shape = _shape(part)
    if shape is not None:
        return shape[0]
    is_list = isinstance(part, (list, tuple)) and not any(_shape(each) for each in part[:_PARTS])
    return len(part) if is_list else None


def _parts(item: Any) -> list[Any]:
    """The first few parts of an item, where those of a mapping are parts of what it is in."""
    parts = []
    for part in _inner(item):
        parts += _parts(part) if isinstance(part, Mapping) else [part]
    return parts


def _shapes(part: Any) -> list[Shape]:
    """The shapes of the first few tensors in a part of an item."""
    shape = _shape(part)
    return [shape] if shape is not None else [shape for each in _inner(part) for shape in _shapes(each)]


def _inner(item: Any) -> Iterator[Any]:
    inner = item.values() if isinstance(item, Mapping) else item if isinstance(item, (list, tuple)) else ()
    return itertools.islice(inner, _PARTS)


def _shape(part: Any) -> Optional[Shape]:
    """The shape of a tensor or an array that has dimensions."""
    try:
        shape = getattr(part, "shape", None)
        return tuple(map(int, shape)) if shape and not callable(shape) else None
    except Exception:  # some kinds of tensors have no shape
        return None
