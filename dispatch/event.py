"""Events: objects with which callers wait for the end of an asynchronous run (LiteRT's `LiteRtEvent`)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence

from litert.core.errors import LiteRtError, describe
from litert.core.status import Status
from litert.host.vendor_call import VendorCall


class Event:
    """An event that stays unsignaled until the first call of `signal` or `fail`; several threads can use it.

    If a vendor's driver has its own events, the vendor derives a class that overrides `wait` and `is_signaled`.

    Attributes:
      run: The call of the vendor's function that made the event. Error messages name the vendor and the function.
        The runtime sets this attribute.
    """

    run: VendorCall | None = None

    def __init__(self) -> None:
        self._done = threading.Event()
        self._error: BaseException | None = None

    def signal(self) -> None:
        """Signals the event, so that all callers of `wait` continue."""
        self._done.set()

    def fail(self, error: BaseException) -> None:
        """Marks the event as failed; `wait` then raises the error as a LiteRtError for every caller."""
        if not self._done.is_set():
            self._error = error
            self._done.set()

    def is_signaled(self) -> bool:
        """Returns whether the event is signaled or failed; `wait` then does not block."""
        return self._done.is_set()

    def wait(self, timeout_s: float | None = None) -> None:
        """Waits until the event is signaled, for at most `timeout_s` seconds; None means no time limit.

        Raises:
          LiteRtError: TIMEOUT_EXPIRED, if the event is not signaled within `timeout_s`; or the error with which
            the event failed.
        """
        if not self._done.wait(timeout_s):
            raise timed_out(timeout_s)
        error = self._error
        if error is None:
            return
        if self.run is not None:
            raise self.run.wrap(error) from error
        if isinstance(error, LiteRtError):
            raise LiteRtError(error.status, error.what, error.where, error.hint) from error
        what = f"the run failed: {describe(error)}"
        raise LiteRtError(Status.RUNTIME_FAILURE, what) from error


def timed_out(timeout_s: float | None) -> LiteRtError:
    """Returns the error for an event that was not signaled within a time limit."""
    limit = "" if timeout_s is None else f" within {timeout_s:g} s"
    return LiteRtError(
        Status.TIMEOUT_EXPIRED,
        f"the event of an asynchronous run was not signaled{limit}",
        hint="Wait again, with a longer timeout.",
    )


class JoinedEvent(Event):
    """An event that is signaled when all events of a list are signaled."""

    def __init__(self, events: Sequence[Event]) -> None:
        super().__init__()
        self._events = events

    def is_signaled(self) -> bool:
        return all(event.is_signaled() for event in self._events)

    def wait(self, timeout_s: float | None = None) -> None:
        wait_for_all(self._events, timeout_s)


def wait_for_all(events: Iterable[Event], timeout_s: float | None = None) -> None:
    """Waits for several events, then raises the error of the first failed event, if any.

    Args:
      events: Events to wait for.
      timeout_s: Time limit for all events together, in seconds; None waits forever.

    Raises:
      LiteRtError: TIMEOUT_EXPIRED, or the error of the first failed event; any other exception becomes
        RUNTIME_FAILURE.
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
    if failure is not None:  # raised by a vendor's own event class
        what = f"the run failed: {type(failure).__name__}: {failure}"
        raise LiteRtError(Status.RUNTIME_FAILURE, what) from failure
