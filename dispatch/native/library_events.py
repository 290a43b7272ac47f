"""Events that a dispatch library and this host share: sync fences, and the library's own event structs."""

from __future__ import annotations

import os
import select
from typing import Any

from dispatch.event import Event, timed_out
from litert.abi.definitions import ffi
from litert.abi.handles import Handles
from litert.core.errors import VENDOR_REPAIRS, LiteRtError
from litert.core.status import Status

_UNKNOWN, _SYNC_FENCE_FD, _CUSTOM = 0, 1, 5  # LiteRtEventType
_FOREVER = -1  # ms


class FenceEvent(Event):
    """A sync fence: a file descriptor that becomes readable when the event is signaled."""

    def __init__(self, fd: int, *, owns_fd: bool) -> None:
        super().__init__()
        self.fd = fd
        self._owns_fd = owns_fd

    def is_signaled(self) -> bool:
        return self._poll(0)

    def wait(self, timeout_s: float | None = None) -> None:
        if not self._poll(_milliseconds(timeout_s)):
            raise timed_out(timeout_s)

    def _poll(self, timeout_ms: int) -> bool:
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        found = poll.poll(timeout_ms)
        if found and found[0][1] & (select.POLLERR | select.POLLNVAL):
            raise LiteRtError(
                Status.RUNTIME_FAILURE, f"the sync fence with file descriptor {self.fd} failed"
            )
        return bool(found)

    def __del__(self) -> None:
        if self._owns_fd:
            os.close(self.fd)


class CustomEvent(Event):
    """An event of a library, in the form of a C struct that begins with function pointers."""

    def __init__(self) -> None:
        super().__init__()
        self.custom = ffi.NULL  # `LiteRtCustomEvent`, until the library has set it

    def is_signaled(self) -> bool:
        self._check_set()
        return not self.custom.IsSignaled or bool(self.custom.IsSignaled(self.custom))

    def wait(self, timeout_s: float | None = None) -> None:
        self._check_set()
        if not self.custom.Wait:
            raise LiteRtError(
                Status.RUNTIME_FAILURE,
                "the custom event of the vendor's library has no function Wait",
                hint=VENDOR_REPAIRS,
            )
        self.custom.Wait(self.custom, _milliseconds(timeout_s))
        if timeout_s is not None and not self.is_signaled():
            raise timed_out(timeout_s)

    def _check_set(self) -> None:
        if not self.custom:
            raise LiteRtError(
                Status.RUNTIME_FAILURE,
                "the vendor's library created a custom event, but did not call set_custom_event",
                hint=VENDOR_REPAIRS,
            )

    def __del__(self) -> None:
        if self.custom and self.custom.Release:
            self.custom.Release(self.custom)


class Events:
    """Events for which a library has handles; the library creates the events, and the host releases them."""

    def __init__(self, handles: Handles) -> None:
        self._handles = handles

    def create_managed_event(self, environment: int, event_type: int, event: Any) -> Status | None:
        if event_type != _CUSTOM:
            return Status.UNSUPPORTED
        event[0] = self._handles.put(CustomEvent())
        return None

    def create_event_from_sync_fence_fd(
        self, environment: int, fd: int, owns_fd: bool, event: Any
    ) -> None:
        if fd < 0:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the vendor's library passes the invalid file descriptor {fd} for an event",
                hint=VENDOR_REPAIRS,
            )
        event[0] = self._handles.put(FenceEvent(fd, owns_fd=owns_fd))

    def get_event_event_type(self, event: int, event_type: Any) -> None:
        found = self._handles.get(event, Event)
        kinds = {FenceEvent: _SYNC_FENCE_FD, CustomEvent: _CUSTOM}
        event_type[0] = kinds.get(type(found), _UNKNOWN)

    def get_event_sync_fence_fd(self, event: int, fd: Any) -> None:
        fd[0] = self._handles.get(event, FenceEvent).fd

    def set_custom_event(self, event: int, custom: Any) -> None:
        self._handles.get(event, CustomEvent).custom = custom

    def get_custom_event(self, event: int, custom: Any) -> None:
        custom[0] = self._handles.get(event, CustomEvent).custom

    def wait_event(self, event: int, timeout_ms: int) -> None:
        found = self._handles.get(event, Event)
        found.wait(None if timeout_ms < 0 else timeout_ms / 1000)


def _milliseconds(timeout_s: float | None) -> int:
    return _FOREVER if timeout_s is None else max(0, round(timeout_s * 1000))
