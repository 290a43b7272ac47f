"""The end of a run on an OpenCL device, as an event."""

from __future__ import annotations

import time
from collections.abc import Callable

import pyopencl as cl

from dispatch.event import Event
from litert.core.errors import LiteRtError
from litert.core.status import Status

_POLL_S = 50e-6
_COMPLETE = 0
"""`CL_COMPLETE`; what is not done yet is greater, an error is less."""


class OpenClEvent(Event):
    """An OpenCL event.

    Attributes:
      context: that it is in: runs in the same one can wait for it on the device.
      event: OpenCL's.
    """

    def __init__(
        self, context: cl.Context, event: cl.Event, failure: Callable[[cl.Error], LiteRtError]
    ) -> None:
        """Wraps an event; `failure` says in our words what went wrong."""
        super().__init__()
        self.context = context
        self.event = event
        self._failure = failure

    def is_signaled(self) -> bool:
        return self.event.command_execution_status <= _COMPLETE

    def wait(self, timeout_s: float | None = None) -> None:
        if timeout_s is not None:
            deadline = time.monotonic() + timeout_s
            while not self.is_signaled():
                if time.monotonic() >= deadline:
                    raise LiteRtError(Status.TIMEOUT_EXPIRED, f"no event after {timeout_s} s")
                time.sleep(_POLL_S)
        try:
            self.event.wait()
        except cl.Error as error:
            raise self._failure(error) from error
