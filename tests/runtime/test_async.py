"""Tests asynchronous runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dispatch.api import AsyncInterface, Capability
from dispatch.event import Event, JoinedEvent
from litert.compiled_model import CompiledModel
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.environment import Environment
from litert.tensor_buffer import TensorBuffer
from tests.runtime.conftest import Load
from tests.runtime.npu_models import FLOAT, NpuModelBuilder, cpu_around_npu, one_call

X = np.array([[1, 2, 3, 4]], np.float32)


def sleeper(*, adds: bool) -> bytes:
    """Returns a model whose NPU call waits for the gate; with `adds`, an ADD on the CPU follows."""
    builder = NpuModelBuilder()
    x = builder.input("x", FLOAT, (1, 4))
    y = builder.npu("sleep", [x], [("y", FLOAT, (1, 4))])
    if adds:
        y = builder.op("ADD", [y, y], [("z", FLOAT, (1, 4))])
    builder.output(y)
    return builder.bytes()


@pytest.fixture
def gate(vendor: Any) -> Iterator[Any]:
    """The event that the vendor's function `sleep` waits for."""
    event = vendor.invoke.__globals__["GATE"]
    event.clear()
    yield event
    event.set()


@pytest.mark.parametrize("adds", [False, True], ids=["NPU alone", "with the CPU"])
def test_a_run_goes_on_while_the_caller_does(load: Load, gate: Any, adds: bool) -> None:
    model = load(sleeper(adds=adds))
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    inputs[0].write(X)
    event = model.run_async_by_index(0, inputs, outputs)
    assert not event.is_signaled()
    assert outputs[0].event is not None
    with pytest.raises(LiteRtError) as error:
        event.wait(0.01)
    assert error.value.status is Status.TIMEOUT_EXPIRED
    gate.set()
    np.testing.assert_array_equal(outputs[0].read((1, 4), np.float32), X * (1 + adds))
    event.wait()
    assert event.is_signaled()
    assert outputs[0].event is None


@pytest.mark.parametrize("adds", [False, True], ids=["NPU alone", "with the CPU"])
def test_what_a_run_reads_is_waited_for(load: Load, gate: Any, adds: bool) -> None:
    first, second = load(sleeper(adds=adds)), load(cpu_around_npu())
    inputs, between = first.create_input_buffers(0), first.create_output_buffers(0)
    results = [second.create_output_buffers(0) for _ in range(2)]
    inputs[0].write(X)
    first.run_async_by_index(0, inputs, between)
    ended = second.run_async_by_index(0, between, results[0])
    assert not ended.is_signaled()
    gate.set()
    second.run_by_index(0, between, results[1])
    for outputs in results:
        np.testing.assert_array_equal(outputs[0].read((1, 4), np.float32), 6 * X * (1 + adds))


@pytest.mark.parametrize("make", [one_call, cpu_around_npu], ids=["NPU alone", "with the CPU"])
def test_an_error_comes_with_the_event_and_the_next_run_is_good(
    load: Load, vendor: Any, make: Any
) -> None:
    model = load(make())
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    inputs[0].write(X)
    vendor.failing["double"] = LiteRtError(Status.RUNTIME_FAILURE, "the device has no power")
    event = model.run_async_by_index(0, inputs, outputs)
    with pytest.raises(LiteRtError, match="the device has no power"):
        event.wait()
    with pytest.raises(LiteRtError, match="the device has no power"):
        outputs[0].read(4, np.float32)
    model.run_async_by_index(0, inputs, outputs).wait()
    np.testing.assert_array_equal(outputs[0].array(), X * (2 if make is one_call else 6))


def test_runs_follow_each_other(load: Load) -> None:
    model = load(cpu_around_npu())
    runs = []
    for factor in range(5):
        inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
        inputs[0].write(factor * X)
        runs.append((factor, model.run_async_by_index(0, inputs, outputs), outputs))
    for factor, event, outputs in runs:
        event.wait()
        np.testing.assert_array_equal(outputs[0].array(), 6 * factor * X)


def test_arrays_come_with_a_future(load: Load, vendor: Any) -> None:
    model = load(cpu_around_npu())
    futures = [model.run_async({"x": factor * X}) for factor in range(3)]
    for factor, future in enumerate(futures):
        np.testing.assert_array_equal(future.result(20)["z"], 6 * factor * X)
    vendor.failing["double"] = LiteRtError(Status.RUNTIME_FAILURE, "the device has no power")
    with pytest.raises(LiteRtError, match="the device has no power"):
        model.run_async({"x": X}).result(20)


def test_memory_in_another_shape_is_waited_for_too(load: Load, gate: Any) -> None:
    model = load(sleeper(adds=False))
    inputs = model.create_input_buffers(0)
    inputs[0].write(X)
    outputs = [TensorBuffer.create_from_host_memory(np.zeros(4, np.float32))]
    model.run_async_by_index(0, inputs, outputs)
    assert outputs[0].event is not None
    gate.set()
    np.testing.assert_array_equal(outputs[0].read((1, 4), np.float32), X)


def test_a_buffer_that_is_being_written_is_written_again_afterwards(load: Load, gate: Any) -> None:
    slow, quick = load(sleeper(adds=False)), load(cpu_around_npu())
    inputs, outputs = slow.create_input_buffers(0), slow.create_output_buffers(0)
    inputs[0].write(X)
    slow.run_async_by_index(0, inputs, outputs)
    threading.Timer(0.02, gate.set).start()
    quick.run_by_index(0, inputs, outputs)
    np.testing.assert_array_equal(outputs[0].array(), 6 * X)


def test_closing_waits_for_what_is_under_way(load: Load, gate: Any) -> None:
    model = load(sleeper(adds=True))
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    inputs[0].write(X)
    event = model.run_async_by_index(0, inputs, outputs)
    gate.set()
    model.close()
    assert event.is_signaled()
    np.testing.assert_array_equal(outputs[0].array(), 2 * X)


def test_a_run_ends_though_nobody_holds_the_model(environment: Environment, gate: Any) -> None:
    model = CompiledModel.from_buffer(sleeper(adds=True), environment=environment)
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    inputs[0].write(X)
    event = model.run_async_by_index(0, inputs, outputs)
    del model
    gate.set()
    event.wait(20)
    np.testing.assert_array_equal(outputs[0].array(), 2 * X)


def test_a_model_may_be_closed_when_its_run_is_done(load: Load) -> None:
    model = load(one_call())
    closed = threading.Event()

    def close(_: object) -> None:  # runs in the model's worker thread
        model.close()
        closed.set()

    gate = threading.Event()
    model._worker.submit(gate.wait)  # keeps the run from ending before the callback is added
    model.run_async({"x": X}).add_done_callback(close)
    late = model.run_async({"x": X})
    gate.set()
    assert closed.wait(20)
    with pytest.raises(LiteRtError, match="the model is closed"):
        late.result()


class _Wire(Event):
    """An event of a driver that raises an exception of its own."""

    def wait(self, timeout_s: float | None = None) -> None:
        raise OSError("the connection to the device is lost")


def test_what_a_driver_s_event_raises_is_an_error_of_ours() -> None:
    done = [Event(), Event()]
    for event in done:
        event.signal()
    with pytest.raises(
        LiteRtError, match="the run failed: OSError: the connection to the device is lost"
    ) as error:
        JoinedEvent([done[0], _Wire(), done[1]]).wait()
    assert error.value.status is Status.RUNTIME_FAILURE


class _Driver(AsyncInterface[Any]):
    """A driver that runs a call at once; the test signals the call's events."""

    def __init__(self, vendor: Any) -> None:
        self.vendor = vendor
        self.started: list[list[Event]] = []
        self.awaited: list[Event] = []

    def attach_input_event(self, invocation_context: Any, index: int, event: Event) -> None:
        self.awaited.append(event)

    def invoke_async(self, invocation_context: Any) -> list[Event]:
        self.vendor.invoke(invocation_context)
        events = [Event() for _ in range(invocation_context.num_outputs)]
        self.started.append(events)
        return events


def test_a_driver_s_own_events_order_its_calls(
    load: Load, vendor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = _Driver(vendor)
    monkeypatch.setattr(type(vendor), "async_interface", driver)
    monkeypatch.setattr(type(vendor), "capabilities", Capability.BASIC | Capability.ASYNC)
    builder = NpuModelBuilder()
    x = builder.input("x", FLOAT, (1, 4))
    y = builder.npu("double", [x], [("y", FLOAT, (1, 4))])
    builder.output(builder.npu("double", [y], [("z", FLOAT, (1, 4))]))
    model = load(builder.bytes())
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    inputs[0].write(X)
    event = model.run_async_by_index(0, inputs, outputs)
    (first,), (second,) = driver.started
    assert driver.awaited == [first]  # the device waits for the first call, not the host
    first.signal()
    assert not event.is_signaled()
    second.signal()
    np.testing.assert_array_equal(outputs[0].read((1, 4), np.float32), 4 * X)


def test_a_driver_s_event_that_raises_does_not_fail_the_next_run(
    load: Load, vendor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Torn(_Driver):
        def invoke_async(self, invocation_context: Any) -> list[Event]:
            return [_Wire() for _ in super().invoke_async(invocation_context)]

    monkeypatch.setattr(type(vendor), "async_interface", Torn(vendor))
    monkeypatch.setattr(type(vendor), "capabilities", Capability.BASIC | Capability.ASYNC)
    model = load(one_call())
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    inputs[0].write(X)
    for into in (outputs, model.create_output_buffers(0)):  # the same buffers, then new ones
        event = model.run_async_by_index(0, inputs, outputs)
        with pytest.raises(LiteRtError, match="OSError: the connection to the device is lost"):
            event.wait()
        model.run_by_index(0, inputs, into)
        np.testing.assert_array_equal(into[0].array(), 2 * X)
