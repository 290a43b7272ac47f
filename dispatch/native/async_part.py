"""The asynchronous part of a dispatch library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dispatch.api import AsyncInterface, Event
from dispatch.native.answers import check_answer
from dispatch.native.contexts import NativeCall
from dispatch.native.events import CustomEvent, FenceEvent
from dispatch.native.runtime_context import RuntimeContext
from litert.abi.definitions import ffi
from litert.abi.handles import address_of


class NativeAsyncInterface(AsyncInterface[NativeCall]):
    """Starts runs on a library's device."""

    def __init__(self, functions: Any, runtime: RuntimeContext) -> None:
        """Takes cffi's `LiteRtDispatchAsyncInterface*`, and what its events are made with."""
        self._functions = functions
        self._runtime = runtime

    def attach_input_event(self, invocation_context: NativeCall, index: int, event: Event) -> None:
        if not isinstance(event, (CustomEvent, FenceEvent)):
            event.wait()  # of a thread of the host's, which no driver can wait for
            return
        handle = self._runtime.handles.put(event)
        invocation_context.input_events.append(handle)
        check_answer(
            self._functions.attach_input_event(
                invocation_context.handle, index, ffi.cast("LiteRtEvent", handle)
            )
        )

    def invoke_async(self, invocation_context: NativeCall) -> Sequence[Event]:
        number = invocation_context.num_outputs
        made = ffi.new("LiteRtEvent[]", number)
        handles = self._runtime.handles
        # The library may look at a run's events until the next one begins.
        for handle in invocation_context.run_events:
            handles.drop(handle)
        invocation_context.run_events = invocation_context.input_events
        invocation_context.input_events = []
        check_answer(self._functions.invoke_async(invocation_context.handle, number, made))
        invocation_context.run_events += map(address_of, made)
        return [handles.get(handle, Event) for handle in made]
