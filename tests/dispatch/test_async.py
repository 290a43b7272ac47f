"""Tests asynchronous runs, on vendors that implement them and in a thread for other vendors."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from dispatch.call import Call
from dispatch.event import Event
from dispatch.tensor_buffer import TensorBuffer
from litert.core.errors import LiteRtError
from litert.core.status import Status
from tests.dispatch.strict_vendor import (
    FLOATS,
    Context,
    StrictAsyncDispatch,
    StrictDispatch,
    bind_all,
    open_call,
    open_session,
)


class SlowDispatch(StrictDispatch):
    """A vendor whose runs wait for `go`."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def run(self, context: Context) -> None:
        assert self.go.wait(10)
        super().run(context)


def waits(function: Callable[[], object]) -> threading.Thread:
    """Starts a function in a thread, and checks that it has not returned a moment later."""
    thread = threading.Thread(target=function)
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    return thread


def test_a_run_without_waiting_ends_when_its_event_says_so() -> None:
    vendor = SlowDispatch()
    with open_session(vendor) as session:
        call = open_call(session, outputs=2)
        _, first, second = bind_all(call)
        events = call.invoke_async()
        assert len(events) == 2
        assert first.event is events[0] and second.event is events[1]
        assert not events[0].is_signaled()
        vendor.go.set()
        first.wait(10)
        second.wait(10)
        assert first.event is None
        assert list(second.array()) == [1, 1, 1, 1]
    assert not vendor.broken


def test_a_run_on_the_device_ends_when_its_event_says_so() -> None:
    vendor = StrictAsyncDispatch()
    with open_session(vendor) as session:
        call = open_call(session)
        _, target = bind_all(call)
        (event,) = call.invoke_async()
        assert vendor.calls[-3:] == ["set_scheduling_info", "set_options", "invoke_async"]
        assert vendor.count("invoke") == 0
        assert target.event is event and not event.is_signaled()
        vendor.async_interface.finish()
        target.wait(10)
        assert list(target.array()) == [1, 1, 1, 1]
    assert not vendor.broken


def test_a_run_on_the_device_is_told_what_its_inputs_wait_for() -> None:
    vendor = StrictAsyncDispatch()
    with open_session(vendor) as session:
        first, second = open_call(session), open_call(session)
        _, between = bind_all(first)
        bind_all(second)
        second.bind_input(0, between)
        first.invoke_async()
        (event,) = second.invoke_async()
        assert vendor.count("attach_input_event") == 1
        vendor.async_interface.finish()
        event.wait(10)


def test_a_run_in_a_thread_waits_for_its_inputs() -> None:
    vendor = StrictDispatch()
    with open_session(vendor) as session:
        call = open_call(session)
        source, target = bind_all(call)
        source.event = Event()
        (event,) = call.invoke_async()
        assert not event.is_signaled() and vendor.count("invoke") == 0
        source.array()[:] = 5
        source.event.signal()
        target.wait(10)
        assert list(target.array()) == [6, 6, 6, 6]


def test_an_error_in_a_run_reaches_who_waits_and_the_next_run_works() -> None:
    vendor = StrictDispatch()
    with open_session(vendor) as session:
        call = open_call(session)
        _, target = bind_all(call)
        vendor.failing = "invoke"
        (event,) = call.invoke_async()
        for _ in range(2):
            with pytest.raises(LiteRtError, match="ValueError: the queue is full") as error:
                event.wait(10)
            assert "vendor 'Strict', in invoke of 'f'" in error.value.where
        with pytest.raises(LiteRtError, match="the queue is full"):
            target.wait(10)
        vendor.failing = ""
        call.invoke()
        assert target.event is None
        assert list(target.array()) == [1, 1, 1, 1]


def test_a_run_reads_no_input_whose_run_failed() -> None:
    vendor = StrictDispatch()
    with open_session(vendor) as session:
        first, second = open_call(session, name="first"), open_call(session, name="second")
        _, between = bind_all(first)
        bind_all(second)
        second.bind_input(0, between)
        vendor.failing = "invoke"
        (event,) = first.invoke_async()
        with pytest.raises(LiteRtError):
            event.wait(10)
        vendor.failing = ""
        with pytest.raises(LiteRtError, match="the queue is full"):
            second.invoke()
        (event,) = second.invoke_async()
        with pytest.raises(LiteRtError, match="the queue is full"):
            event.wait(10)
        assert vendor.count("invoke") == 1
        first.invoke()
        second.invoke()


def invoke(call: Call) -> None:
    call.invoke()


def bind(call: Call) -> None:
    call.bind_input(0, TensorBuffer.allocate(FLOATS))


def invoke_async(call: Call) -> None:
    call.invoke_async()


def start_metrics(call: Call) -> None:
    call.start_metrics()


def close(call: Call) -> None:
    call.close()


@pytest.mark.parametrize("vendor_type", [SlowDispatch, StrictAsyncDispatch])
@pytest.mark.parametrize("next_use", [invoke, bind, invoke_async, start_metrics, close])
def test_what_comes_after_a_run_waits_for_it(
    vendor_type: type[StrictDispatch], next_use: Callable[[Call], None]
) -> None:
    vendor = vendor_type()
    with open_session(vendor) as session:
        call = open_call(session)
        bind_all(call)
        call.invoke_async()
        calls = len(vendor.calls)
        thread = waits(lambda: next_use(call))
        assert len(vendor.calls) - calls in (0, 1)  # 1 if the thread has reached `invoke` itself
        if isinstance(vendor, StrictAsyncDispatch):
            vendor.async_interface.finish()
        else:
            vendor.go.set()  # type: ignore[attr-defined]
        thread.join(10)
        assert not thread.is_alive()
        if isinstance(vendor, StrictAsyncDispatch):
            vendor.async_interface.finish()  # ends the run of `invoke_async`
    assert not vendor.broken


def test_closing_a_session_waits_for_its_runs() -> None:
    vendor = SlowDispatch()
    session = open_session(vendor)
    call = open_call(session)
    bind_all(call)
    (event,) = call.invoke_async()
    thread = waits(session.close)
    vendor.go.set()
    thread.join(10)
    assert event.is_signaled() and not vendor.open and not vendor.broken


def test_a_session_ends_its_thread() -> None:
    before = threading.active_count()
    with open_session(StrictDispatch()) as session:
        call = open_call(session)
        bind_all(call)
        call.invoke_async()
    assert threading.active_count() <= before


def test_an_event_that_does_not_come_is_given_up() -> None:
    with pytest.raises(
        LiteRtError, match=r"the event of an asynchronous run was not signaled within 0\.01 s"
    ) as error:
        Event().wait(0.01)
    assert error.value.status is Status.TIMEOUT_EXPIRED


@pytest.mark.parametrize("after", ["signal", "fail"])
def test_an_event_happens_once(after: str) -> None:
    event = Event()
    event.signal()
    if after == "fail":
        event.fail(ValueError())
    else:
        event.signal()
    event.wait(0)


def test_an_event_of_a_vendor_may_raise_anything() -> None:
    class Broken(Event):
        def wait(self, timeout_s: float | None = None) -> None:
            raise KeyError("fence")

    buffer = TensorBuffer.allocate(FLOATS)
    buffer.event = Broken()
    with pytest.raises(LiteRtError, match="KeyError: 'fence'"):
        buffer.wait()


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (
            OSError("bus"),
            "RUNTIME_FAILURE: the vendor's code raised OSError: bus (vendor 'Strict', in invoke_async of 'f').",
        ),
        (
            LiteRtError(Status.TIMEOUT_EXPIRED, "no answer", "tile 3", "Wait."),
            "TIMEOUT_EXPIRED: no answer (tile 3; vendor 'Strict', in invoke_async of 'f'). Wait.",
        ),
        (LiteRtError(Status.OK, "well"), "RUNTIME_FAILURE: well (vendor 'Strict', in invoke_async"),
    ],
    ids=["exception", "ours", "status OK"],
)
def test_a_run_that_fails_on_the_device_names_the_vendor(error: Exception, says: str) -> None:
    vendor = StrictAsyncDispatch()
    with open_session(vendor) as session:
        call = open_call(session)
        _, target = bind_all(call)
        (event,) = call.invoke_async()
        vendor.async_interface.running.clear()
        event.fail(error)
        for wait in (event.wait, target.wait):
            with pytest.raises(LiteRtError) as caught:
                wait()
            assert str(caught.value).startswith(says)
            assert caught.value.__cause__ is error
    assert not vendor.broken
