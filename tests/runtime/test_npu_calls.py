"""Tests NPU calls between CPU ops: memory, order, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from litert.compiled_model import CompiledModel
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.tensor_buffer import TensorBuffer
from tests.runtime.conftest import Load
from tests.runtime.npu_models import FLOAT, NpuModelBuilder, cpu_around_npu, one_call

X = np.array([[1, 2, 3, 4]], np.float32)


def run_buffers(model: CompiledModel, *arrays: np.ndarray[Any, Any]) -> list[Any]:
    """Runs a model on buffers that the model creates, and returns the outputs as arrays."""
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    for buffer, array in zip(inputs, arrays, strict=True):
        buffer.write(array)
    model.run_by_index(0, inputs, outputs)
    return [buffer.array() for buffer in outputs]


@pytest.mark.parametrize(
    "settings",
    [{}, {"alignment": 1}, {"alignment": 4096}, {"padding": 100}, {"alignment": 256, "padding": 1}],
    ids=str,
)
def test_the_vendor_gets_memory_as_it_asks(load: Load, vendor: Any, settings: Any) -> None:
    model = load(cpu_around_npu(**settings))
    for value in (X, -X):
        np.testing.assert_array_equal(model.run({"x": value})["z"], 6 * value)
    (call,) = vendor.calls
    for buffer in (call.inputs[0], call.outputs[0]):
        assert buffer.size >= 16 + settings.get("padding", 0)
        assert buffer.address % settings.get("alignment", 64) == 0


@pytest.mark.parametrize("settings", [{}, {"alignment": 4096}, {"padding": 100}], ids=str)
def test_a_model_s_own_buffers_go_to_the_vendor_as_they_are(
    load: Load, vendor: Any, settings: Any
) -> None:
    model = load(one_call(**settings))
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    inputs[0].write(X)
    model.run_by_index(0, inputs, outputs)
    (call,) = vendor.calls
    assert call.inputs[0].address == inputs[0].array().ctypes.data
    assert call.outputs[0].address == outputs[0].array().ctypes.data
    np.testing.assert_array_equal(outputs[0].array(), 2 * X)


def test_a_buffer_is_registered_once_for_many_runs(load: Load, vendor: Any) -> None:
    model = load(cpu_around_npu())
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    model.run_by_index(0, inputs, outputs)
    registered = list(vendor.registered)
    for _ in range(3):
        model.run_by_index(0, inputs, outputs)
    assert vendor.registered == registered
    assert len(registered) == 2


def test_the_caller_s_memory_is_used_without_a_copy(load: Load, vendor: Any) -> None:
    model = load(one_call(alignment=16))
    source, result = aligned((1, 4), 16), aligned((1, 4), 16)
    inputs = [TensorBuffer.create_from_host_memory(source)]
    outputs = [TensorBuffer.create_from_host_memory(result)]
    source[:] = X
    model.run_by_index(0, inputs, outputs)
    (call,) = vendor.calls
    assert call.inputs[0].address == source.ctypes.data
    assert call.outputs[0].address == result.ctypes.data
    source[:] = 5
    model.run_by_index(0, inputs, outputs)
    np.testing.assert_array_equal(result, np.full((1, 4), 10, np.float32))


@pytest.mark.parametrize("offset", [0, 4, 16, 60])
@pytest.mark.parametrize("make", [one_call, cpu_around_npu], ids=lambda f: f.__name__)
def test_the_caller_s_memory_may_lie_anywhere(load: Load, make: Any, offset: int) -> None:
    factor = 2 if make is one_call else 6
    model = load(make())
    source, result = aligned((1, 4), 64, offset), aligned((1, 4), 64, offset)
    inputs = [TensorBuffer.create_from_host_memory(source)]
    outputs = [TensorBuffer.create_from_host_memory(result)]
    for value in (X, X + 1):
        source[:] = value
        model.run_by_index(0, inputs, outputs)
        np.testing.assert_array_equal(result, factor * value)


def test_inputs_keep_their_order(load: Load) -> None:
    builder = NpuModelBuilder()
    x, y = builder.input("x", FLOAT, (4,)), builder.input("y", FLOAT, (4,))
    builder.output(builder.npu("subtract", [y, x], [("z", FLOAT, (4,))]))
    model = load(builder.bytes())
    (z,) = run_buffers(model, X[0], X[0] * 3)
    np.testing.assert_array_equal(z, X[0] * 2)


def test_one_tensor_may_be_both_inputs(load: Load) -> None:
    builder = NpuModelBuilder()
    x = builder.input("x", FLOAT, (4,))
    builder.output(builder.npu("subtract", [x, x], [("z", FLOAT, (4,))]))
    (z,) = run_buffers(load(builder.bytes()), X[0])
    np.testing.assert_array_equal(z, np.zeros(4, np.float32))


def test_an_output_that_nobody_reads_is_written_all_the_same(load: Load) -> None:
    builder = NpuModelBuilder()
    x = builder.input("x", FLOAT, (4,))
    _, negative = builder.npu("split", [x], [("a", FLOAT, (4,)), ("b", FLOAT, (4,))])
    builder.output(negative)
    (z,) = run_buffers(load(builder.bytes()), X[0])
    np.testing.assert_array_equal(z, -X[0])


def test_calls_follow_each_other_without_the_cpu(load: Load, vendor: Any) -> None:
    builder = NpuModelBuilder()
    x = builder.input("x", FLOAT, (1, 4))
    y = builder.npu("double", [x], [("y", FLOAT, (1, 4))])
    a, b = builder.npu("split", [y], [("a", FLOAT, (1, 4)), ("b", FLOAT, (1, 4))])
    builder.output(builder.npu("subtract", [a, b], [("z", FLOAT, (1, 4))]))
    model = load(builder.bytes())
    np.testing.assert_array_equal(model.run({"x": X})["z"], 4 * X)
    assert [call.num_runs for call in vendor.calls] == [1, 1, 1]
    assert len(vendor.registered) == 5  # x, y, a, b, z: all calls share a tensor's buffer


def test_a_constant_may_be_an_input(load: Load) -> None:
    builder = NpuModelBuilder()
    x = builder.input("x", FLOAT, (1, 4))
    c = builder.constant("c", X)
    builder.output(builder.npu("subtract", [x, c], [("z", FLOAT, (1, 4))]))
    np.testing.assert_array_equal(load(builder.bytes()).run({"x": 3 * X})["z"], 2 * X)


def test_a_constant_dequantize_may_feed_a_call(load: Load) -> None:
    builder = NpuModelBuilder()
    x = builder.input("x", FLOAT, (1, 4))
    half = builder.constant("half", X.astype(np.float16))
    weights = builder.op("DEQUANTIZE", [half], [("weights", FLOAT, (1, 4))])
    y = builder.npu("subtract", [x, weights], [("y", FLOAT, (1, 4))])
    builder.output(builder.op("ADD", [y, y], [("z", FLOAT, (1, 4))]))
    model = load(builder.bytes())
    for value in (X, 5 * X):
        np.testing.assert_array_equal(model.run({"x": value})["z"], 2 * (value - X))


def test_an_output_that_is_an_input_too_is_handed_through(load: Load) -> None:
    builder = NpuModelBuilder()
    x = builder.input("x", FLOAT, (1, 4))
    builder.output(builder.npu("double", [x], [("y", FLOAT, (1, 4))]), x)
    y, same = run_buffers(load(builder.bytes()), X)
    np.testing.assert_array_equal(y, 2 * X)
    np.testing.assert_array_equal(same, X)


def test_input_and_output_may_be_one_buffer(load: Load) -> None:
    model = load(cpu_around_npu())
    (buffer,) = model.create_input_buffers(0)
    buffer.write(X)
    model.run_by_index(0, [buffer], [buffer])
    np.testing.assert_array_equal(buffer.array(), 6 * X)


def test_buffers_may_change_from_run_to_run(load: Load) -> None:
    model = load(cpu_around_npu())
    pairs = [(model.create_input_buffers(0), model.create_output_buffers(0)) for _ in range(3)]
    for factor, (inputs, _) in enumerate(pairs):
        inputs[0].write(factor * X)
    for _ in range(2):
        for factor, (inputs, outputs) in enumerate(pairs):
            model.run_by_index(0, inputs, outputs)
            np.testing.assert_array_equal(outputs[0].array(), 6 * factor * X)


def test_a_destroyed_buffer_s_memory_is_not_used_again(load: Load) -> None:
    model = load(cpu_around_npu())
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    model.run_by_index(0, inputs, outputs)
    inputs[0].destroy()
    with pytest.raises(ValueError, match="destroyed"):
        model.run_by_index(0, inputs, outputs)
    inputs = model.create_input_buffers(0)
    inputs[0].write(X)
    model.run_by_index(0, inputs, outputs)
    np.testing.assert_array_equal(outputs[0].array(), 6 * X)


def test_an_error_in_a_call_names_it_and_the_next_run_is_good(load: Load, vendor: Any) -> None:
    model = load(cpu_around_npu())
    for _ in range(2):
        vendor.failing["double"] = LiteRtError(Status.TIMEOUT_EXPIRED, "the device hangs")
        with pytest.raises(LiteRtError, match=r"the device hangs.*'Test'.*'double'") as error:
            model.run({"x": X})
        assert error.value.status is Status.TIMEOUT_EXPIRED
        np.testing.assert_array_equal(model.run({"x": X})["z"], 6 * X)


def test_any_exception_of_a_vendor_is_an_error(load: Load, vendor: Any) -> None:
    model = load(one_call())
    vendor.failing["double"] = ZeroDivisionError("oh")
    with pytest.raises(LiteRtError, match="ZeroDivisionError: oh"):
        model.run({"x": X})


def test_ctrl_c_in_a_call_ends_the_run(load: Load, vendor: Any) -> None:
    model = load(cpu_around_npu())
    vendor.failing["double"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        model.run({"x": X})
    np.testing.assert_array_equal(model.run({"x": X})["z"], 6 * X)


def aligned(shape: tuple[int, ...], alignment: int, offset: int = 0) -> np.ndarray[Any, Any]:
    """Returns an array inside a page, `offset` bytes after a multiple of `alignment`."""
    size = int(np.prod(shape)) * 4
    memory = np.zeros(size + 2 * 4096, np.uint8)
    start = -memory.ctypes.data % 4096 + 1024 + offset
    array = memory[start : start + size].view(np.float32).reshape(shape)
    assert array.ctypes.data % alignment == offset % alignment
    return array
