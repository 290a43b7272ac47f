"""Memory that kernels use: host memory itself where the device can, else copies of it."""

from __future__ import annotations

import ctypes
from typing import Any

import pyopencl as cl

VECTOR_ALIGNMENT = 64
"""What a CPU's widest vector access asks for, in bytes; some drivers take any address, and crash on it."""


class BufferMemory:
    """Memory in an OpenCL buffer.

    Attributes:
      buffer: what is a kernel's argument; None for no bytes.
      size_bytes: of what a kernel may touch.
      is_copy: whether `send` and `fetch` have something to do.
    """

    __slots__ = ("buffer", "is_copy", "size_bytes")

    def __init__(self, buffer: cl.Buffer | None, size_bytes: int, is_copy: bool = False) -> None:
        self.buffer = buffer
        self.size_bytes = size_bytes
        self.is_copy = is_copy

    def send(self, queue: cl.CommandQueue) -> None:
        """Enqueues what must happen before kernels see what the host has written."""

    def fetch(self, queue: cl.CommandQueue) -> None:
        """Enqueues what must happen before the host sees what kernels have written."""


class CopiedMemory(BufferMemory):
    """A buffer of the device's, for host memory that kernels cannot use."""

    __slots__ = ("_device", "_host")

    def __init__(self, context: cl.Context, host: Any) -> None:
        """Makes the buffer; its contents come with `send`.

        Args:
          context: of the device.
          host: an array over host memory.
        """
        size = ctypes.sizeof(host)
        self._device = cl.Buffer(context, cl.mem_flags.READ_WRITE, size)
        self._host = host
        super().__init__(self._device, size, is_copy=True)

    def send(self, queue: cl.CommandQueue) -> None:
        cl.enqueue_copy(queue, self._device, self._host, is_blocking=False)

    def fetch(self, queue: cl.CommandQueue) -> None:
        cl.enqueue_copy(queue, self._host, self._device, is_blocking=False)


def share_memory(
    context: cl.Context, address: int, size_bytes: int, in_place: bool
) -> BufferMemory:
    """Host memory for inputs and outputs.

    Args:
      context: of the device.
      address: of the memory, which must live as long as the result.
      size_bytes: of the memory.
      in_place: whether kernels can use host memory, at addresses that suit them.
    """
    if not size_bytes:
        return BufferMemory(None, 0)
    host = (ctypes.c_ubyte * size_bytes).from_address(address)
    if not in_place or address % VECTOR_ALIGNMENT:
        return CopiedMemory(context, host)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
    return BufferMemory(cl.Buffer(context, flags, hostbuf=host), size_bytes)


def load_memory(context: cl.Context, data: Any, size_bytes: int, in_place: bool) -> BufferMemory:
    """Constant data: where it lies, if kernels can use it there, else a copy.

    Args:
      context: of the device.
      data: bytes or an array, which the result keeps where it is used in place.
      size_bytes: of the data.
      in_place: as in `share_memory`; the data is aligned.
    """
    if not size_bytes:
        return BufferMemory(None, 0)
    use = cl.mem_flags.USE_HOST_PTR if in_place else cl.mem_flags.COPY_HOST_PTR
    return BufferMemory(cl.Buffer(context, cl.mem_flags.READ_ONLY | use, hostbuf=data), size_bytes)
