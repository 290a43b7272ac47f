"""Allocates and checks host memory for CPU kernels; a vendor's requirements describe only memory for the NPU."""

from __future__ import annotations

import mmap

from dispatch.device_buffer import DeviceBuffer
from dispatch.host_pages import touch_pages
from dispatch.shared_memory import Block
from dispatch.tensor_buffer import TensorBuffer
from litert.core.tensor_type import RankedTensorType

CPU_ALIGNMENT = 16
"""Alignment that CPU kernels need, in bytes.

Constants, which kernels use in place in the file, may have only this alignment.
"""

CPU_OVERREAD = 16
"""Number of bytes after a tensor's end that XNNPACK's kernels may read (XNN_EXTRA_BYTES in XNNPACK)."""


class _PaddedMemory:
    """Memory that is followed by CPU_OVERREAD bytes of the buffer that owns both."""

    def __init__(self, memory: object) -> None:
        self.memory = memory


def allocate(
    tensor_type: RankedTensorType, size: int, *, has_all_pages: bool = False
) -> TensorBuffer:
    """Allocates a zeroed buffer of `size` bytes that any CPU kernel can use, aligned to a page.

    With `has_all_pages`, the system allocates all pages now instead of at the first access in a run.
    """
    padded = TensorBuffer.allocate(tensor_type, size + CPU_OVERREAD)
    if has_all_pages:
        assert isinstance(padded.owner, mmap.mmap)
        touch_pages(padded.owner)
    return TensorBuffer(tensor_type, padded.address, size, _PaddedMemory(padded.owner))


def is_fit_for_cpu(buffer: TensorBuffer, size: int) -> bool:
    """Returns whether CPU kernels can use the first `size` bytes of a buffer in place.

    CPU kernels cannot use memory of other owners if it ends at the end of a page, since the next page may be
    unmapped at any time. CPU kernels also cannot use vendor memory whose address changes between accesses.
    """
    if isinstance(buffer, DeviceBuffer) and not buffer.is_steady:
        return False
    end = buffer.address + size
    ends_with_page = (end - 1) // mmap.PAGESIZE != (end + CPU_OVERREAD - 1) // mmap.PAGESIZE
    is_padded = isinstance(buffer.owner, (_PaddedMemory, Block))
    return is_padded or (buffer.address % CPU_ALIGNMENT == 0 and not ends_with_page)


def is_read_only(buffer: TensorBuffer) -> bool:
    """Returns whether a buffer shares the memory of a read-only array."""
    # The owner of foreign memory does not say whether it is read-only
    flags = getattr(buffer.owner, "flags", None)
    return flags is not None and not flags.writeable


def overlap(a: TensorBuffer, b: TensorBuffer) -> bool:
    """Returns whether the memory of two buffers overlaps."""
    return a.address < b.address + b.size and b.address < a.address + a.size
