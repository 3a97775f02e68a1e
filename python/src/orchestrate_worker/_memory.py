"""What is found in memory: objects of a kind of which no library keeps a list.

`gc.freeze()` hides all objects that are there. So those that matter are remembered when a window is entered.
Python 3.12 itself begins so, with some hundred objects of its own.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

_REMEMBERED: list[weakref.ref[Any]] = []


def remember(*kinds: type) -> None:
    """Remembers all objects of these kinds, and forgets what was remembered before."""
    _REMEMBERED[:] = [weakref.ref(it) for it in gc.get_objects() if issubclass(type(it), kinds)]


def objects(kind: type) -> list[Any]:
    """All objects of this kind: those that are not hidden, and those that were remembered."""
    found = [it for it in gc.get_objects() if issubclass(type(it), kind)]
    known = set(map(id, found))
    remembered = [it for reference in _REMEMBERED if (it := reference()) is not None]
    return found + [it for it in remembered if issubclass(type(it), kind) and id(it) not in known]


def hides(kind: type) -> bool:
    """Whether objects of this kind can be hidden: all that is older than the last `gc.freeze()` is, the kind too."""
    return gc.get_freeze_count() > 0 and not any(it is kind for it in gc.get_objects())
