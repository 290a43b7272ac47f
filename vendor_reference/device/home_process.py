"""The process that a device was opened in: OpenCL's threads are not in one that was forked from it."""

from __future__ import annotations

import os

from litert.core.errors import LiteRtError
from litert.core.status import Status


class HomeProcess:
    """The process that made this object."""

    __slots__ = ("_id", "_where")

    def __init__(self, where: str) -> None:
        """Remembers the process; `where` names the device, for messages."""
        self._id = os.getpid()
        self._where = where

    def is_here(self) -> bool:
        """Whether it is the one that asks."""
        return os.getpid() == self._id

    def check(self) -> None:
        """Refuses a forked process, where a run would wait for ever.

        Raises:
          LiteRtError: RUNTIME_FAILURE.
        """
        if not self.is_here():
            raise LiteRtError(
                Status.RUNTIME_FAILURE,
                "the device was opened before this process was forked",
                self._where,
                "Start processes by 'spawn' or 'forkserver', or load models in each of them alone.",
            )
