"""Implements `LiteRtDispatchAsyncInterface` by calls of a Python dispatch table, and converts events.

Events of the host (`LiteRtEvent`) become Python events for the vendor, and events of the vendor become
`LiteRtEvent` objects.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from dispatch.event import Event
from dispatch.native.exported.functions import Functions
from dispatch.native.exported.host import Host, need
from dispatch.native.exported.objects import ExportedCall
from litert.abi.definitions import ffi
from litert.abi.handles import address_of
from litert.abi.status_codes import answering, status_of
from litert.core.counts import count_text
from litert.core.errors import LiteRtError
from litert.core.status import Status

_LOG = logging.getLogger(__name__)
_CUSTOM = 5  # LiteRtEventType


class HostEvent(Event):
    """An event of the host; the host keeps the event until the run that waits for it has ended."""

    def __init__(self, host: Host, handle: int) -> None:
        super().__init__()
        self._host = host
        self._handle = handle

    def is_signaled(self) -> bool:
        try:
            self.wait(0)
        except LiteRtError as error:
            return error.status is not Status.TIMEOUT_EXPIRED
        return True

    def wait(self, timeout_s: float | None = None) -> None:
        milliseconds = -1 if timeout_s is None else int(timeout_s * 1000)
        self._host.call("wait_event", self._handle, milliseconds)


class VendorEvents:
    """Converts events of the vendor to custom events of the host; an event lives until the host releases it."""

    def __init__(self) -> None:
        self._events: dict[int, _CustomEvent] = {}
        self._callbacks = {
            "Retain": ffi.callback("void(*)(uintptr_t)", self._retain),
            "Release": ffi.callback("void(*)(uintptr_t)", self._release),
            "Wait": ffi.callback("void(*)(uintptr_t, int64_t)", self._wait),
            "IsSignaled": ffi.callback("int(*)(uintptr_t)", self._is_signaled),
            "GetNative": ffi.callback("void*(*)(uintptr_t)", lambda _: ffi.NULL),
        }

    def hand_over(self, event: Event, host: Host, environment: int) -> int:
        """Returns a new event of the host for an event of the vendor.

        If the host does not support custom events, waits for the vendor's event, and returns a signaled event of
        the host.
        """
        handle = ffi.new("LiteRtEvent*")
        try:
            host.call("create_managed_event", environment, _CUSTOM, handle)
            custom = _CustomEvent(event, self._callbacks)
            self._events[custom.address] = custom
            try:
                host.call("set_custom_event", handle[0], custom.struct)
            except LiteRtError:
                del self._events[custom.address]
                raise
        except LiteRtError as error:
            if error.status not in (Status.UNSUPPORTED, Status.INVALID_ARGUMENT):
                raise
            event.wait()
            host.call("create_event_from_sync_fence_fd", environment, os.eventfd(1), True, handle)
        return address_of(handle[0])

    def _retain(self, address: int) -> None:
        self._events[address].uses += 1

    def _release(self, address: int) -> None:
        custom = self._events[address]
        custom.uses -= 1
        if custom.uses <= 0:
            del self._events[address]

    def _wait(self, address: int, milliseconds: int) -> None:
        timeout_s = None if milliseconds < 0 else milliseconds / 1000
        # The host does not get the error; the error is logged.
        answering(self._events[address].event.wait, "wait", _LOG)(timeout_s)

    def _is_signaled(self, address: int) -> int:
        try:
            return int(self._events[address].event.is_signaled())
        except Exception as error:  # so that later callers need not wait
            says = "the vendor's event counts as finished, because its function is_signaled failed"
            status_of(error, _LOG, says)
            return 1


class _CustomEvent:
    """A `LiteRtCustomEventT`, and the vendor's event that it represents."""

    def __init__(self, event: Event, callbacks: dict[str, Any]) -> None:
        self.event = event
        self.uses = 0  # the host retains the event
        self.struct = ffi.new("LiteRtCustomEvent")
        self.address = address_of(self.struct)
        types = dict(ffi.typeof(self.struct).item.fields)
        for name, callback in callbacks.items():
            setattr(self.struct, name, ffi.cast(types[name].type, callback))


class AsyncFunctions:
    """The C functions for asynchronous runs."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._events = VendorEvents()

    def attach_input_event(self, handle: int, index: int, event: int) -> None:
        call = self._functions.handles.get(handle, ExportedCall)
        call.port("input", index)
        need(event, "the event")
        self._functions.vendor.call(
            "attach_input_event", call.context, index, HostEvent(call.device.host, event)
        )

    def invoke_async(self, handle: int, num_events: int, out: Any) -> None:
        call = self._functions.handles.get(handle, ExportedCall)
        if num_events != len(call.outputs):
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the host expects {count_text(num_events, 'event')}, but the NPU call has "
                f"{count_text(len(call.outputs), 'output')}",
                f"function '{call.function_name}'",
            )
        if num_events:
            need(out)
        call.check_ready()
        events = self._functions.vendor.start(call.context, call.function_name, num_events)
        environment = self._functions.environment
        made = [self._events.hand_over(event, call.device.host, environment) for event in events]
        for index, event in enumerate(made):
            out[index] = event
