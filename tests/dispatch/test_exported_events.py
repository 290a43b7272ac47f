"""Tests a vendor's events as a host sees them through LiteRT's C interface."""

from __future__ import annotations

import gc
import os
import weakref
from typing import Any

import pytest

from dispatch.api import Event
from dispatch.native.exported.async_functions import VendorEvents
from litert.core.errors import LiteRtError
from litert.core.status import Status


class FailedEvent(Event):
    """An event whose state cannot be read."""

    def is_signaled(self) -> bool:
        raise OSError("the device is gone")


class HostOfEvents:
    """A host's functions for events; the host may not support custom events."""

    def __init__(self, status: Status) -> None:
        self.status = status
        self.given: list[Any] = []

    def call(self, slot: str, *arguments: Any) -> None:
        if slot == "set_custom_event":
            self.given.append(arguments[1])
            if self.status:
                raise LiteRtError(self.status, "no custom events")
        elif slot == "create_event_from_sync_fence_fd":
            os.close(arguments[1])  # the host owns the file descriptor


def test_an_event_that_fails_keeps_nobody_waiting(caplog: pytest.LogCaptureFixture) -> None:
    host: Any = HostOfEvents(Status.OK)
    events = VendorEvents()
    events.hand_over(FailedEvent(), host, 0)
    (custom,) = host.given
    assert custom.IsSignaled(custom) == 1
    assert "the device is gone" in caplog.text
    custom.Release(custom)


def test_a_host_without_custom_events_leaves_none_behind() -> None:
    host: Any = HostOfEvents(Status.UNSUPPORTED)
    happened, events = Event(), VendorEvents()
    happened.signal()
    alive = weakref.ref(happened)
    events.hand_over(happened, host, 0)
    del happened
    gc.collect()
    assert alive() is None
