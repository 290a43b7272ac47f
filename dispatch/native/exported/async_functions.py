"""The functions of `LiteRtDispatchAsyncInterface` over a table in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dispatch.event import Event
from dispatch.native.exported.arguments import need
from dispatch.native.exported.contexts import InvocationContext
from dispatch.native.exported.events import HostEvent, VendorEvents
from dispatch.native.exported.functions import Functions
from litert.core.errors import LiteRtError
from litert.core.status import Status


class AsyncFunctions:
    """Runs that do not wait."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._events = VendorEvents()

    def by_slot(self) -> Mapping[str, Callable[..., Any]]:
        """The functions."""
        return {"attach_input_event": self._attach_input_event, "invoke_async": self._invoke_async}

    def _attach_input_event(self, handle: int, index: int, event: int) -> None:
        call = self._functions.handles.get(handle, InvocationContext)
        call.port("input", index)
        if not event:
            raise LiteRtError(Status.INVALID_ARGUMENT, "the event is NULL")
        self._functions.vendor.call(
            "attach_input_event", call.context, index, HostEvent(call.device.host, event)
        )

    def _invoke_async(self, handle: int, num_events: int, out: Any) -> None:
        call = self._functions.handles.get(handle, InvocationContext)
        if num_events != len(call.outputs):
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"room for {num_events} events, where there are {len(call.outputs)} outputs",
                f"function '{call.function_name}'",
            )
        if num_events:
            need(out)
        call.check_ready()
        vendor = self._functions.vendor
        events = vendor.call("invoke_async", call.context)
        if (
            not isinstance(events, Sequence)
            or len(events) != num_events
            or not all(isinstance(event, Event) for event in events)
        ):
            raise vendor.nonsense(
                f"invoke_async of '{call.function_name}'",
                f"it returned {events!r:.80}, not {num_events} events",
                "Return a list with one Event for each output.",
            )
        environment = self._functions.environment
        made = [self._events.hand_over(event, call.device.host, environment) for event in events]
        for index, event in enumerate(made):
            out[index] = event
