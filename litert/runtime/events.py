"""Events of several calls, waited for as one."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from dispatch.event import Event
from litert.core.errors import LiteRtError
from litert.core.status import Status


class JoinedEvent(Event):
    """Happens when the last of several events has."""

    def __init__(self, events: Sequence[Event]) -> None:
        super().__init__()
        self._events = events

    def is_signaled(self) -> bool:
        return all(event.is_signaled() for event in self._events)

    def wait(self, timeout_s: float | None = None) -> None:
        wait_for_all(self._events, timeout_s)


def wait_for_all(events: Iterable[Event], timeout_s: float | None = None) -> None:
    """Waits for events; then raises the first error that one of them failed with.

    Args:
      events: to wait for.
      timeout_s: for all of them together; None is for ever.

    Raises:
      LiteRtError: TIMEOUT_EXPIRED, or an event's; RUNTIME_FAILURE for any other exception.
    """
    end = None if timeout_s is None else time.monotonic() + timeout_s
    failure: Exception | None = None
    for event in events:
        try:
            event.wait(None if end is None else max(0.0, end - time.monotonic()))
        except Exception as error:
            failure = failure or error
    if isinstance(failure, LiteRtError):
        raise failure
    if failure is not None:  # an event of a vendor's own
        what = f"the run failed: {type(failure).__name__}: {failure}"
        raise LiteRtError(Status.RUNTIME_FAILURE, what) from failure
