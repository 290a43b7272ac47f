"""The dispatch table of the Python example with asynchronous runs and the fault that PLANTED_FAULT names."""

from __future__ import annotations

import atexit
import itertools
import os
import threading
import time
from collections.abc import Sequence

from nickel_npu.dispatch import NickelCall, NickelDevice, NickelDispatch

from dispatch.api import AsyncInterface, Capability, Event
from litert.core.errors import LiteRtError
from litert.core.status import Status

FAULT = os.environ.get("PLANTED_FAULT", "NONE")

_never = threading.Event()
_leaked: list[bytearray] = []
_numbers = itertools.count()


class _Async(AsyncInterface[NickelCall]):
    """Runs in a thread after the inputs' events are signaled."""

    def __init__(self) -> None:
        self._waits: dict[int, list[Event]] = {}

    def attach_input_event(self, context: NickelCall, index: int, event: Event) -> None:
        if FAULT != "IGNORED_INPUT_EVENT":
            self._waits.setdefault(id(context), []).append(event)

    def invoke_async(self, context: NickelCall) -> Sequence[Event]:
        if FAULT == "FAILING_RUN":
            raise LiteRtError(Status.RUNTIME_FAILURE, "the NPU sleeps")
        waits, event = self._waits.pop(id(context), []), Event()

        def run() -> None:
            for wait in waits:
                wait.wait()
            if FAULT == "EARLY_EVENT":
                event.signal()
                time.sleep(0.02)
            DISPATCH.invoke(context)
            is_lost = FAULT == "LOST_EVENT" and next(_numbers) % 7 == 6
            if FAULT not in ("EARLY_EVENT", "NO_EVENT") and not is_lost:
                event.signal()

        threading.Thread(target=run).start()
        return [event]


def _start_a_thread() -> None:
    threading.Thread(target=_never.wait, daemon=True).start()


class PlantedDispatch(NickelDispatch):
    """The dispatch table of Nickel with the fault."""

    capabilities = Capability.BASIC | Capability.ASYNC
    async_interface = _Async()

    def device_context_destroy(self, device_context: NickelDevice) -> None:
        if FAULT == "THREAD":
            _start_a_thread()

    def invoke(self, invocation_context: NickelCall) -> None:
        if FAULT == "THREAD_OF_RUN":
            _start_a_thread()
        super().invoke(invocation_context)
        if FAULT == "LEAK":
            _leaked.append(bytearray(1 << 20))


DISPATCH = PlantedDispatch()
if FAULT == "HANG_AT_EXIT":
    atexit.register(_never.wait)
