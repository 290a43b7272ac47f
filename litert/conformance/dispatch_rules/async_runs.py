"""Checks asynchronous runs: the events that runs return and wait for, and a run that cannot begin."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from dispatch.event import Event
from dispatch.native.library_events import FenceEvent
from litert.abi.definitions import ffi
from litert.abi.handles import address_of
from litert.conformance.case import make_data
from litert.conformance.checks import BrokenRuleError, Check, Rules, Stage, UnseenError
from litert.conformance.dispatch_subject import CheckedCall, DispatchSubject
from litert.core.errors import LiteRtError
from litert.core.status import Status

_ASYNC = 2
_RUNS = 8  # some drivers occasionally lose an event
_LATE_S = 0.1  # the input comes after this delay: a vendor that does not wait has read it by then


def need_async(subject: DispatchSubject) -> None:
    """Raises `UnseenError` if the vendor does not support asynchronous runs."""
    if not subject.ready().answer("get_capabilities", "int") & _ASYNC:
        raise UnseenError("the vendor's capabilities lack Async")


def run_async(subject: DispatchSubject, call: CheckedCall) -> list[bytes]:
    """Runs a call asynchronously with the current inputs, waits for the events, and returns the outputs."""
    number = len(call.outputs)
    made = ffi.new("LiteRtEvent[]", number)
    call.table.succeed("invoke_async", call.context, number, made)
    handles = call.table.host.runtime.handles
    for index, handle in enumerate(made):
        if not handle:
            raise BrokenRuleError(f"invoke_async returns no event for output {index}")
        try:
            handles.get(handle, Event).wait(subject.wait_s)
        except LiteRtError as error:
            if error.status is not Status.TIMEOUT_EXPIRED:
                raise
            what = f"the event of output {index} was not signaled within {subject.wait_s:g} s"
            raise BrokenRuleError(what) from error
    for address in set(map(address_of, made)):
        handles.drop(address)
    return call.read()


def _broken_at_last(what: str) -> BrokenRuleError:
    """Makes a finding after a pause, so that an unfinished run ends and does not crash the next check."""
    time.sleep(_LATE_S)
    return BrokenRuleError(what)


def _events(subject: DispatchSubject) -> None:
    need_async(subject)
    with subject.call() as call:
        expected = call.run(subject.case.data)
        for _ in range(_RUNS):
            for buffer in call.outputs:
                buffer.write(b"\x55" * buffer.size)
            if run_async(subject, call) != expected:
                raise _broken_at_last("the outputs are wrong after the events were signaled")


def _input_event(subject: DispatchSubject, step: int) -> None:
    """Writes each input only after the run began, and then signals the input's event."""
    need_async(subject)
    case = max([subject.case, *subject.cases], key=lambda case: len(case.inputs))
    data = case.data
    other = [make_data(tensor_type, 20 + i) for i, tensor_type in enumerate(case.inputs)]
    with subject.call(case) as call:
        expected = call.run(data)
        if call.run(other) == expected:
            raise UnseenError("the outputs do not change when the inputs change")
        with _late(call, data, step):
            found = run_async(subject, call)
        if found != expected:
            raise BrokenRuleError("a run reads an input before the input's event is signaled")
        call.write(other)
        if run_async(subject, call) == expected:
            raise BrokenRuleError("a run does not read inputs whose event was detached")


@contextmanager
def _late(call: CheckedCall, data: Sequence[bytes], step: int) -> Iterator[None]:
    """Attaches an event to each input; a thread then writes the inputs one by one and signals the events."""
    handles = call.table.host.runtime.handles
    fences = [FenceEvent(os.eventfd(0), owns_fd=True) for _ in call.inputs]
    given = [handles.put(fence) for fence in fences]

    def come() -> None:
        for index in range(len(data))[::step]:
            time.sleep(_LATE_S)
            call.inputs[index].write(data[index])
            os.eventfd_write(fences[index].fd, 1)

    thread = threading.Thread(target=come)
    thread.start()  # the vendor may wait from here on
    try:
        for index, handle in enumerate(given):
            event = ffi.cast("LiteRtEvent", handle)
            call.table.succeed("attach_input_event", call.context, index, event)
        yield
    finally:
        thread.join()
    for handle in given:
        handles.drop(handle)


def _missing(subject: DispatchSubject) -> None:
    need_async(subject)
    with subject.call() as call:
        expected = call.run(subject.case.data)
        handle, number = call.inputs[0].registered, len(call.outputs)
        call.table.succeed("detach_input", call.context, 0, handle)
        made = ffi.new("LiteRtEvent[]", number)
        if not call.table.call("invoke_async", call.context, number, made):
            raise _broken_at_last("invoke_async returns OK although input 0 is detached")
        if any(made):
            raise BrokenRuleError("invoke_async fails, but returns an event")
        call.table.succeed("attach_input", call.context, 0, handle)
        if run_async(subject, call) != expected:
            raise BrokenRuleError("the outputs are wrong after input 0 was attached again")


_BASE = ("api.loads", "api.interface", "initialize.no_options", "dispatch.runs")
ASYNC_RUNS = (*_BASE, "invoke.repeatable", "capabilities.parts", "async.events")
"""Names of the rules that the checks of asynchronous runs need."""

RULES = Rules(
    Stage.OPTIONAL_PARTS,
    (
        Check("async.events", _events, needs=ASYNC_RUNS[:-1]),
        *(
            Check("async.input_event", partial(_input_event, step=step), case, ASYNC_RUNS)
            for case, step in (("the first input first", 1), ("the last input first", -1))
        ),
        Check("async.missing", _missing, needs=ASYNC_RUNS),
    ),
)
