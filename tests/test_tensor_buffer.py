"""Tests features of tensor buffers that stock LiteRT's buffers do not have."""

from __future__ import annotations

import gc
from contextlib import suppress

import ml_dtypes
import numpy as np
import pytest

from litert.compiled_model import CompiledModel
from litert.core.errors import LiteRtError
from litert.model.builder import ModelBuilder
from litert.model.writer import to_bytes
from litert.tensor_buffer import TensorBuffer


def model_of(element_type: str, shape: tuple[int, ...] = (2, 2)) -> CompiledModel:
    """Builds a model whose output has the same data as its input."""
    builder = ModelBuilder()
    x = builder.input("x", element_type, shape)
    size = builder.constant("size", np.array(shape, np.int32))
    builder.output(builder.op("RESHAPE", [x, size], [("y", element_type, shape)]))
    return CompiledModel.from_buffer(to_bytes(builder.build()))


@pytest.mark.parametrize("element_type", ["int64", "int16", "float64", "uint32", "uint64"])
def test_a_type_that_stock_cannot_write_is_written_where_the_tensor_has_it(
    element_type: str,
) -> None:
    model = model_of(element_type)
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    array = np.arange(4).astype(element_type).reshape(2, 2)
    inputs[0].write(array)
    model.run_by_index(0, inputs, outputs)
    np.testing.assert_array_equal(outputs[0].read((2, 2), element_type), array)
    np.testing.assert_array_equal(model.run({"x": array})["y"], array)
    with pytest.raises(
        ValueError, match=f"Unsupported dtype: complex64; the tensor has type {element_type}"
    ):
        inputs[0].write(array.astype(np.complex64))


def test_an_array_over_the_memory_sees_what_is_written_and_keeps_it_alive() -> None:
    buffer = model_of("float32").create_input_buffers(0)[0]
    array = buffer.array()
    buffer.write(np.array([[1, 2], [3, 4]], np.float32))
    array[0, 0] = 7
    buffer.destroy()
    del buffer
    gc.collect()
    np.testing.assert_array_equal(array, [[7, 2], [3, 4]])


def test_the_caller_s_memory_lives_as_long_as_the_buffer() -> None:
    buffer = TensorBuffer.create_from_host_memory(np.full(1000, 3, np.float32))
    gc.collect()
    assert buffer.read(1000, np.float32).sum() == 3000


def test_the_caller_s_memory_is_shared_wherever_it_lies() -> None:
    array = np.zeros(9, np.float32)[1:]  # stock copies arrays that are not 64-byte aligned
    buffer = TensorBuffer.create_from_host_memory(array)
    array[:] = 5
    np.testing.assert_array_equal(buffer.read(8, np.float32), array)
    buffer.write(np.arange(8, dtype=np.float32))
    np.testing.assert_array_equal(array, np.arange(8))


def test_small_floats_keep_their_bits() -> None:
    array = np.array([1, -2, 0.5, 240], ml_dtypes.bfloat16)
    buffer = TensorBuffer.create_from_host_memory(array)
    assert buffer.get_tensor_details() == {"dtype": "bfloat16", "shape": [4]}
    np.testing.assert_array_equal(buffer.read(4, ml_dtypes.bfloat16), array)


@pytest.mark.parametrize("element_type", ["int64", "int16", "float64", "uint32"])
def test_the_caller_s_memory_may_be_of_a_type_that_stock_has_not(element_type: str) -> None:
    given, got = np.arange(64).astype(element_type), np.zeros(64, element_type)
    model = model_of(element_type, (64,))
    buffers = [TensorBuffer.create_from_host_memory(array) for array in (given, got)]
    model.run_by_index(0, buffers[:1], buffers[1:])
    np.testing.assert_array_equal(got, given)


def test_a_buffer_is_an_array_for_numpy() -> None:
    buffer = model_of("float32").create_input_buffers(0)[0]
    np.asarray(buffer)[...] = [[1, 2], [3, 4]]
    np.testing.assert_array_equal(buffer.read(4, np.float32), [1, 2, 3, 4])
    assert np.shares_memory(np.asarray(buffer), buffer.array())
    assert not np.shares_memory(np.array(buffer), buffer.array())
    assert np.asarray(buffer, np.int8).tolist() == [[1, 2], [3, 4]]
    np.testing.assert_array_equal(np.add(buffer, buffer), [[2, 4], [6, 8]])
    with pytest.raises(ValueError, match="could not broadcast"):
        np.asarray(buffer)[...] = np.zeros(3)
    with pytest.raises(ValueError, match="without a copy"):
        buffer.__array__(np.int8, copy=False)


def test_another_library_shares_the_memory_by_dlpack() -> None:
    buffer = model_of("float32").create_input_buffers(0)[0]
    buffer.write(np.array([[1, 2], [3, 4]], np.float32))
    assert buffer.__dlpack_device__() == buffer.array().__dlpack_device__()
    shared = np.from_dlpack(buffer)
    buffer.write(np.array([7], np.float32))
    buffer.destroy()
    del buffer
    gc.collect()
    np.testing.assert_array_equal(shared, [[7, 2], [3, 4]])


def test_an_array_over_read_only_memory_is_read_only() -> None:
    array = np.arange(4, dtype=np.float32)
    array.flags.writeable = False
    buffer = TensorBuffer.create_from_host_memory(array)
    assert np.asarray(buffer).tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="read-only"):
        buffer.array()[0] = 1
    with suppress(BufferError):  # raised by NumPy before 2.1
        assert not np.from_dlpack(buffer).flags.writeable


def test_a_buffer_says_what_it_is() -> None:
    buffer = model_of("int16").create_input_buffers(0)[0]
    assert repr(buffer) == "TensorBuffer(int16[2, 2], 8 bytes)"
    assert (
        repr(TensorBuffer.create_from_host_memory(np.zeros((2, 3))))
        == "TensorBuffer(float64[6], 48 bytes)"
    )
    buffer.destroy()
    assert repr(buffer) == "TensorBuffer(destroyed)"
    for use in (np.asarray, np.from_dlpack):
        with pytest.raises(LiteRtError, match="destroyed"):
            use(buffer)


def test_a_tensor_of_texts_has_no_buffer() -> None:
    builder = ModelBuilder()
    x = builder.input("x", "string", (1,))
    shape = builder.constant("shape", np.array([1], np.int32))
    builder.output(builder.op("RESHAPE", [x, shape], [("y", "string", (1,))]))
    model = CompiledModel.from_buffer(to_bytes(builder.build()))
    with pytest.raises(LiteRtError, match="STRING, which has no fixed size"):
        model.create_input_buffers(0)
