"""Tests tensor buffers, and arrays over their memory, whoever owns the memory."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from dispatch.tensor_buffer import ALIGNMENT, TensorBuffer
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType

NUMPY_TYPES = [t for t in ElementType if t.bits >= 8]


@pytest.mark.parametrize("element_type", NUMPY_TYPES, ids=lambda t: t.name)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (2, 3)])
def test_an_array_has_type_shape_and_zeros(
    element_type: ElementType, shape: tuple[int, ...]
) -> None:
    buffer = TensorBuffer.allocate(RankedTensorType.of(element_type, shape))
    array = buffer.array()
    assert array.shape == shape and array.dtype == element_type.numpy_dtype
    assert array.nbytes == buffer.size == buffer.view.nbytes
    assert not array.any()
    assert buffer.address % ALIGNMENT == 0


def test_an_empty_tensor_needs_no_address() -> None:
    buffer = TensorBuffer(RankedTensorType.of(ElementType.FLOAT32, (0, 3)), 0, 0)
    assert buffer.array().shape == (0, 3)
    assert buffer.view.nbytes == 0


def test_a_buffer_without_memory_has_no_array() -> None:
    buffer = TensorBuffer(RankedTensorType.of(ElementType.FLOAT32, (4,)), 0, 16)
    for read in (buffer.array, buffer.copy, lambda: buffer.view):
        with pytest.raises(
            LiteRtError, match=r"the buffer of type tensor<4xf32> \(16 bytes\) has no memory yet"
        ):
            read()


def test_a_wrapped_array_is_the_buffers_memory() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    buffer = TensorBuffer.wrap(array)
    assert buffer.address == array.ctypes.data
    buffer.array()[1, 2] = 9
    assert array[1, 2] == 9
    assert buffer.view.tobytes() == array.tobytes()


def test_a_buffer_larger_than_its_tensor_shows_the_tensor() -> None:
    buffer = TensorBuffer.allocate(RankedTensorType.of(ElementType.INT32, (3,)), size=64)
    assert buffer.array().shape == (3,)
    assert buffer.view.nbytes == 64


def test_a_buffer_smaller_than_its_tensor_has_no_array() -> None:
    buffer = TensorBuffer.allocate(RankedTensorType.of(ElementType.INT32, (3,)), size=4)
    with pytest.raises(LiteRtError, match=r"4 bytes, but .* needs 12 bytes") as error:
        buffer.array()
    assert error.value.status is Status.RUNTIME_FAILURE


def test_an_array_and_a_view_outlive_their_buffer() -> None:
    rows = RankedTensorType.of(ElementType.UINT8, (1 << 20,))
    array = TensorBuffer.allocate(rows).array()
    view = TensorBuffer.allocate(rows).view
    gc.collect()
    array[:] = 7  # with freed memory, this would crash the process
    view[-1] = 7
    assert array.min() == view[-1] == 7


@pytest.mark.parametrize("element_type", [ElementType.INT4, ElementType.STRING])
def test_types_without_numpy_have_bytes_only(element_type: ElementType) -> None:
    buffer = TensorBuffer.allocate(RankedTensorType.of(element_type, (8,)))
    assert buffer.view.nbytes == buffer.size
    with pytest.raises(LiteRtError, match="NumPy has no type for"):
        buffer.array()


@pytest.mark.parametrize("size", [1 << 62, 1 << 70])
def test_memory_that_there_is_not_is_an_error_with_a_status(size: int) -> None:
    with pytest.raises(LiteRtError, match=str(size)) as error:
        TensorBuffer.allocate(RankedTensorType.of(ElementType.UINT8, (1,)), size)
    assert error.value.status is Status.MEMORY_ALLOCATION_FAILURE
