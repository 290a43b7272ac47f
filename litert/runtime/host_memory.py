"""Memory in which the CPU's kernels can work; a vendor's requirements describe memory for the NPU."""

from __future__ import annotations

import mmap

from dispatch.device_buffer import DeviceBuffer
from dispatch.host_pages import touch_pages
from dispatch.shared_memory import Block
from dispatch.tensor_buffer import TensorBuffer
from litert.core.tensor_type import RankedTensorType

CPU_ALIGNMENT = 16
"""Alignment for CPU kernels in bytes.

Constants in a file have no larger alignment, and kernels use them in place.
"""

CPU_OVERREAD = 16
"""Number of bytes past a tensor's end that XNNPACK's kernels may read and ignore (XNN_EXTRA_BYTES in XNNPACK)."""


class _PaddedMemory:
    """Memory with CPU_OVERREAD bytes behind the buffer that owns it."""

    def __init__(self, memory: object) -> None:
        self.memory = memory


def allocate(
    tensor_type: RankedTensorType, size: int, *, has_all_pages: bool = False
) -> TensorBuffer:
    """Makes a zeroed buffer for any CPU kernel, aligned to a page; `size` is in bytes.

    With `has_all_pages`, the system provides all pages now instead of at the first access in a run.
    """
    padded = TensorBuffer.allocate(tensor_type, size + CPU_OVERREAD)
    if has_all_pages:
        assert isinstance(padded.owner, mmap.mmap)
        touch_pages(padded.owner)
    return TensorBuffer(tensor_type, padded.address, size, _PaddedMemory(padded.owner))


def is_fit_for_cpu(buffer: TensorBuffer, size: int) -> bool:
    """Returns whether CPU kernels can work in the first `size` bytes of a buffer.

    Foreign memory that ends at the end of its page does not qualify: the next page may be unmapped,
    now or later. A vendor's memory whose address changes each time does not qualify either.
    """
    if isinstance(buffer, DeviceBuffer) and not buffer.is_steady:
        return False
    end = buffer.address + size
    ends_with_page = (end - 1) // mmap.PAGESIZE != (end + CPU_OVERREAD - 1) // mmap.PAGESIZE
    is_padded = isinstance(buffer.owner, (_PaddedMemory, Block))
    return is_padded or (buffer.address % CPU_ALIGNMENT == 0 and not ends_with_page)


def is_read_only(buffer: TensorBuffer) -> bool:
    """Returns whether a buffer lies in a read-only array."""
    # The owner of foreign memory does not say whether it is read-only
    flags = getattr(buffer.owner, "flags", None)
    return flags is not None and not flags.writeable


def overlap(a: TensorBuffer, b: TensorBuffer) -> bool:
    """Returns whether two buffers share a byte."""
    return a.address < b.address + b.size and b.address < a.address + a.size
