"""Maps zeroed pages of host memory for tensors; the system provides each page at the first access."""

from __future__ import annotations

import mmap
from contextlib import suppress

from litert.core.errors import LiteRtError
from litert.core.status import Status

_HUGE_PAGE = 2 << 20
"""Size in bytes of a huge memory page on x86-64 and most aarch64 machines."""

_POPULATE_WRITE = 23
"""The constant `MADV_POPULATE_WRITE` for `madvise`, which Linux has since version 5.14."""


def map_pages(size: int) -> mmap.mmap:
    """Maps new memory that is aligned to a page; `size` is in bytes and may be 0.

    The first access to a page is slow. The first access to a huge page takes a tenth of the time that the first
    accesses to the small pages in its place would take.
    """
    is_large = size >= _HUGE_PAGE // 2 and hasattr(mmap, "MADV_HUGEPAGE")
    if is_large:
        size += -size % _HUGE_PAGE  # Linux aligns only whole huge pages to them
    try:
        # Private, because the first access to shared memory, the default, is slower.
        memory = mmap.mmap(-1, max(size, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError) as error:
        what = f"the system cannot provide {size} bytes of memory for tensors"
        hint = "Check the size, or free some memory."
        raise LiteRtError(Status.MEMORY_ALLOCATION_FAILURE, what, hint=hint) from error
    if is_large:
        with suppress(OSError):  # a kernel without huge pages
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def touch_pages(memory: mmap.mmap, offset: int = 0, size: int | None = None) -> None:
    """Requests all pages of a mapping from the system now, so that no run waits for pages."""
    with suppress(OSError):
        memory.madvise(_POPULATE_WRITE, offset, len(memory) - offset if size is None else size)
