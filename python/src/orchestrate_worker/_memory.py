"""Finds objects in memory by their class, where no library keeps a list of them.

`gc.freeze()` hides all existing objects. So the relevant ones are remembered when a window is entered. Python 3.12
itself starts with some hundred frozen objects.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

_REMEMBERED: list[weakref.ref[Any]] = []


def remember(*kinds: type) -> None:
    """Remembers all objects of these kinds, and forgets those that were remembered before."""
    _REMEMBERED[:] = [weakref.ref(it) for it in gc.get_objects() if issubclass(type(it), kinds)]


def objects(kind: type) -> list[Any]:
    """All objects of this kind: visible ones, and remembered ones."""
    found = [it for it in gc.get_objects() if issubclass(type(it), kind)]
    known = set(map(id, found))
    remembered = [it for reference in _REMEMBERED if (it := reference()) is not None]
    return found + [it for it in remembered if issubclass(type(it), kind) and id(it) not in known]


def hides(kind: type) -> bool:
    """Whether objects of this kind can be hidden: if the kind itself is, which is older, `gc.freeze()` was called."""
    return gc.get_freeze_count() > 0 and not any(it is kind for it in gc.get_objects())
