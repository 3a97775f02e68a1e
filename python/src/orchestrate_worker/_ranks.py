"""Several processes that train together through `torch.distributed`: one window, one measurement."""

from __future__ import annotations

import os
import socket
import sys
from typing import Any, Optional

from ._framework import Unusable
from ._torch import is_rank_of_many


class Ranks:
    """This process among those that train with it."""

    def __init__(self) -> None:
        self.rank = 0
        self._group: Optional[Any] = None
        if is_rank_of_many():
            self._distributed: Any = sys.modules["torch"].distributed
            self.rank = self._distributed.get_rank()
            # A separate group over the hosts: its messages neither take memory of a GPU nor wait for one.
            self._group = self._distributed.new_group(backend="gloo")
        elif int(os.environ.get("WORLD_SIZE") or 1) > 1:
            count = os.environ["WORLD_SIZE"]
            raise Unusable(
                f"WORLD_SIZE is {count}, but torch.distributed is not initialised: "
                "call init_process_group before the window"
            )

    def wait(self) -> None:
        """Returns when all ranks are here."""
        if self._group is not None:
            self._distributed.barrier(group=self._group)

    def gather(self, own: dict[str, Any]) -> list[dict[str, Any]]:
        """The `own` of all ranks, by rank, on all ranks. The last call of this object."""
        if self._group is None:
            return [own]
        gathered: list[Any] = [None] * self._distributed.get_world_size()
        self._distributed.all_gather_object(gathered, dict(own, host=socket.gethostname()), group=self._group)
        # A group that lives until the interpreter ends can end it with a crash.
        self.wait()
        group, self._group = self._group, None
        self._distributed.destroy_process_group(group)
        return gathered
