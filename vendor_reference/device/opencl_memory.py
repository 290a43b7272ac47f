"""Memory that kernels use: host memory itself where the device can, else copies of it.

Constants are stored as the model has them; kernels read float32, where they are quantized, in the order they want.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyopencl as cl

from litert.core.element_type import ElementType
from vendor_reference.executable.executable import Constant, Dequantization

Array = np.ndarray[Any, np.dtype[Any]]

VECTOR_ALIGNMENT = 64
"""What a CPU's widest vector access asks for, in bytes; some drivers take any address, and crash on it."""


class BufferMemory:
    """Memory in an OpenCL buffer.

    Attributes:
      buffer: what is a kernel's argument; None for no bytes.
      size_bytes: of what a kernel may touch.
      host: an array over host memory that kernels cannot use, where the buffer is a copy of that; else None.
    """

    __slots__ = ("buffer", "host", "size_bytes")

    def __init__(self, buffer: cl.Buffer | None, size_bytes: int, host: Any = None) -> None:
        self.buffer = buffer
        self.size_bytes = size_bytes
        self.host = host

    def send(self, queue: cl.CommandQueue) -> cl.Event:
        """Copies what the host has written, before kernels run that are enqueued later."""
        assert self.buffer is not None
        return cl.enqueue_copy(queue, self.buffer, self.host, is_blocking=False)

    def fetch(self, queue: cl.CommandQueue) -> cl.Event:
        """Copies what kernels have written."""
        assert self.buffer is not None
        return cl.enqueue_copy(queue, self.host, self.buffer, is_blocking=False)


def read_constant(constant: Constant) -> Array:
    """A constant's bytes or numbers, from an address that suits kernels; not copied where that can be."""
    if constant.panel and constant.size_bytes:
        return _pack(read_constant(replace(constant, panel=0)), constant)
    stored = np.frombuffer(constant.data.view, np.uint8)[: constant.tensor_type.size_bytes]
    if constant.dequantization is not None:
        return _dequantize(constant, stored, constant.dequantization)
    if constant.order:
        memory, placed = _ordered(constant, constant.tensor_type.element_type.numpy_dtype)
        placed[...] = stored.view(memory.dtype).reshape(placed.shape)
        return memory
    if stored.ctypes.data % VECTOR_ALIGNMENT == 0:
        return stored
    copy = aligned_memory(stored.shape, stored.dtype)
    copy[:] = stored
    return copy


def _dequantize(constant: Constant, stored: Array, how: Dequantization) -> Array:
    """`scale * (q - zero_point)`; done in place, so that it takes no memory but the result's."""
    element_type = constant.tensor_type.element_type
    shape = constant.tensor_type.shape
    numbers = stored.view(element_type.numpy_dtype).reshape(shape)
    memory, result = _ordered(constant, np.dtype(np.float32))
    if element_type is ElementType.FLOAT16:
        result[...] = numbers
        return memory
    along = [1] * len(shape)
    if len(how.scale) > 1:
        along[how.dimension] = len(how.scale)
    zero_point = np.array(how.zero_point, np.int64).reshape(along)
    scale = np.array(how.scale, np.float32).reshape(along)
    if zero_point.any():
        # Whole numbers: a float32 has not all that a difference of two int32 can be.
        np.subtract(numbers, zero_point, out=result, casting="unsafe")
    else:
        result[...] = numbers
    result *= scale
    return memory


def _pack(data: Array, constant: Constant) -> Array:
    """`[K, N]` as `[ceil(N / panel), K, panel]`; what lies behind the last column is zero."""
    panel, shape = constant.panel, constant.tensor_type.shape
    last = shape[constant.order[-1] if constant.order else -1]
    dtype = constant.tensor_type.element_type.numpy_dtype
    rows = data.view(np.float32 if constant.dequantization else dtype).reshape(-1, last)
    count = -(-last // panel)
    packed = aligned_memory((count, len(rows), panel), rows.dtype)
    whole = last // panel
    packed[:whole] = rows[:, : whole * panel].reshape(len(rows), whole, panel).swapaxes(0, 1)
    packed[whole:, :, : last - whole * panel] = rows[:, whole * panel :]
    packed[whole:, :, last - whole * panel :] = 0
    return packed


def _ordered(constant: Constant, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Memory for a constant as kernels read it; and that, seen with the dimensions in their own order."""
    shape = constant.tensor_type.shape
    order = list(constant.order or range(len(shape)))
    memory = aligned_memory(tuple(shape[dim] for dim in order), dtype)
    return memory, memory.transpose(np.argsort(order)) if order else memory


def aligned_memory(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array from an address that suits kernels, not cleared."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory = np.empty(size + VECTOR_ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % VECTOR_ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)
