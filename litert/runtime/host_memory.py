"""Memory that the CPU's kernels can work in; what the NPU needs, a vendor's requirements say."""

from __future__ import annotations

import mmap

from dispatch.device_buffer import DeviceBuffer
from dispatch.host_pages import touch_pages
from dispatch.shared_memory import Block
from dispatch.tensor_buffer import TensorBuffer
from litert.core.tensor_type import RankedTensorType

CPU_ALIGNMENT = 16
"""In bytes: constants have no more in a file, and kernels take those where they lie."""

CPU_OVERREAD = 16
"""Bytes past a tensor's end that XNNPACK's kernels may read, and ignore (its XNN_EXTRA_BYTES)."""


class _PaddedMemory:
    """Memory with CPU_OVERREAD bytes behind the buffer that owns it."""

    def __init__(self, memory: object) -> None:
        self.memory = memory


def allocate(
    tensor_type: RankedTensorType, size: int, *, has_all_pages: bool = False
) -> TensorBuffer:
    """A zeroed buffer for any CPU kernel, aligned to a page; `size` is in bytes.

    With `has_all_pages` the system provides all pages now, and not when a run first touches them.
    """
    padded = TensorBuffer.allocate(tensor_type, size + CPU_OVERREAD)
    if has_all_pages:
        assert isinstance(padded.owner, mmap.mmap)
        touch_pages(padded.owner)
    return TensorBuffer(tensor_type, padded.address, size, _PaddedMemory(padded.owner))


def is_fit_for_cpu(buffer: TensorBuffer, size: int) -> bool:
    """Whether CPU kernels can work in the first `size` bytes of a buffer.

    Memory of others that ends with its page will not do: the next page may be nobody's, now or later. Nor will a
    vendor's that is elsewhere each time.
    """
    if isinstance(buffer, DeviceBuffer) and not buffer.is_steady:
        return False
    end = buffer.address + size
    ends_with_page = (end - 1) // mmap.PAGESIZE != (end + CPU_OVERREAD - 1) // mmap.PAGESIZE
    is_padded = isinstance(buffer.owner, (_PaddedMemory, Block))
    return is_padded or (buffer.address % CPU_ALIGNMENT == 0 and not ends_with_page)


def is_read_only(buffer: TensorBuffer) -> bool:
    """Whether a buffer lies in an array that must not be written."""
    flags = getattr(buffer.owner, "flags", None)  # what others own says nothing of it
    return flags is not None and not flags.writeable


def overlap(a: TensorBuffer, b: TensorBuffer) -> bool:
    """Whether two buffers have a byte in common."""
    return a.address < b.address + b.size and b.address < a.address + a.size
