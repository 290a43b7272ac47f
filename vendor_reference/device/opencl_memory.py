"""Memory for kernels: the host memory itself if the device can use it, otherwise a copy in a device buffer.

An executable stores constants in the same form as the model. Before kernels read a constant, its numbers are
dequantized to float32, and put in the order that the kernels require.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl

from litert.core.element_type import ElementType
from vendor_reference.executable.executable import Constant, Dequantization

Array = np.ndarray[Any, np.dtype[Any]]

VECTOR_ALIGNMENT = 64
"""Alignment for the widest vector access of a CPU, in bytes.

Some drivers accept memory with less alignment and then crash.
"""


class BufferMemory:
    """An OpenCL buffer, which may be a copy of host memory.

    Attributes:
      buffer: OpenCL buffer to pass to kernels; None if the size is 0.
      size_bytes: Size of the memory that a kernel may access, in bytes.
      host: NumPy view of the host memory if the buffer is a copy of host memory; otherwise None.
    """

    __slots__ = ("buffer", "host", "size_bytes")

    def __init__(self, buffer: cl.Buffer | None, size_bytes: int, host: Any = None) -> None:
        self.buffer = buffer
        self.size_bytes = size_bytes
        self.host = host

    def send(self, queue: cl.CommandQueue) -> cl.Event:
        """Enqueues a copy from host memory to the buffer; kernels that are enqueued later see the data."""
        assert self.buffer is not None
        return cl.enqueue_copy(queue, self.buffer, self.host, is_blocking=False)

    def fetch(self, queue: cl.CommandQueue) -> cl.Event:
        """Enqueues a copy from the buffer to host memory, after the kernels that were enqueued earlier."""
        assert self.buffer is not None
        return cl.enqueue_copy(queue, self.host, self.buffer, is_blocking=False)


def read_constant(constant: Constant) -> Array:
    """Returns a constant's data in the form that kernels read, at an aligned address.

    Copies the data only if necessary.
    """
    is_changed = constant.panel or constant.order or constant.dequantization is not None
    stored = _stored_bytes(constant)
    if not is_changed and stored.ctypes.data % VECTOR_ALIGNMENT == 0:
        return stored
    memory = aligned_memory((constant.size_bytes,), stored.dtype)
    write_constant(constant, memory)
    return memory


def write_constant(constant: Constant, memory: Array) -> None:
    """Writes a constant to `memory` in the form that kernels read: dequantized, reordered and packed."""
    stored, how = _stored_bytes(constant), constant.dequantization
    if not memory.size:
        return
    if not constant.panel and not constant.order and how is None:
        memory[:] = stored
        return
    element_type, shape = constant.tensor_type.element_type, constant.tensor_type.shape
    numbers = stored.view(element_type.numpy_dtype).reshape(shape)
    kept = memory.view(np.float32 if how is not None else numbers.dtype)
    order = list(constant.order or range(len(shape)))
    if element_type is ElementType.FLOAT16:
        how = None  # the copy converts it
    if constant.panel:
        if how is not None:
            numbers = _dequantize(numbers, how, np.empty(shape, np.float32))
        _pack(numbers.transpose(order), constant.panel, kept)
        return
    placed = kept.reshape([shape[dim] for dim in order]).transpose(np.argsort(order))
    if how is not None:
        _dequantize(numbers, how, placed)
    else:
        placed[...] = numbers


def _stored_bytes(constant: Constant) -> Array:
    return np.frombuffer(constant.data.view, np.uint8)[: constant.tensor_type.size_bytes]


def _dequantize(numbers: Array, how: Dequantization, result: Array) -> Array:
    """Writes `scale * (q - zero_point)` to `result`; computes in place, without other memory."""
    along = [1] * numbers.ndim
    if len(how.scale) > 1:
        along[how.dimension] = len(how.scale)
    zero_point = np.array(how.zero_point, np.int64).reshape(along)
    scale = np.array(how.scale, np.float32).reshape(along)
    if zero_point.any():
        # The subtraction uses integers, because float32 cannot represent all differences of two int32.
        np.subtract(numbers, zero_point, out=result, casting="unsafe")
    else:
        result[...] = numbers
    result *= scale
    return result


def _pack(numbers: Array, panel: int, memory: Array) -> None:
    """Packs `[K, N]` as `[ceil(N / panel), K, panel]`, padded with zeros; K may be several dimensions."""
    rows = numbers.reshape(-1, numbers.shape[-1])
    packed = memory.reshape(-1, len(rows), panel)
    whole, rest = divmod(rows.shape[1], panel)
    columns = rows[:, : whole * panel].reshape(len(rows), whole, panel)
    packed[:whole] = columns.swapaxes(0, 1)
    packed[whole:, :, :rest] = rows[:, whole * panel :]
    packed[whole:, :, rest:] = 0


def aligned_memory(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Returns a new uninitialized array whose address has the alignment that kernels need."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory = np.empty(size + VECTOR_ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % VECTOR_ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)
