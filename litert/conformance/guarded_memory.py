"""Host memory that detects accesses beyond its end, because a protected page follows the memory."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

_CANARY = 0xA7
_PROT_NONE, _PROT_READ = 0, 1


class GuardedMemory:
    """A block of memory, with guard bytes directly before and after it; a protected page follows.

    Attributes:
      address: Address of the first byte, which is a multiple of the alignment.
      view: Writable view of the memory.
    """

    def __init__(self, size: int, alignment: int = 64) -> None:
        """Allocates a block of zeros; if `alignment` is 1, the protected page directly follows the block."""
        self.size = size
        page = mmap.PAGESIZE
        self._room = max(1, -(-(size + alignment) // page)) * page
        self._map = mmap.mmap(-1, self._room + page)
        self._pin: Any = ctypes.c_char.from_buffer(self._map)
        self._base = ctypes.addressof(self._pin)
        self._map[: self._room] = bytes([_CANARY]) * self._room
        self._start = (self._room - size) // alignment * alignment
        self.address = self._base + self._start
        self.view = memoryview(self._map)[self._start : self._start + size]
        self.view[:] = bytes(size)
        _protect(self._base + self._room, page, _PROT_NONE)

    def make_read_only(self) -> None:
        """Makes the memory read-only."""
        _protect(self._base, self._room, _PROT_READ)

    def make_forbidden(self) -> None:
        """Makes the memory inaccessible; the memory's addresses are not reused while this object lives."""
        _protect(self._base, self._room, _PROT_NONE)

    def find_damage(self) -> str:
        """Returns a phrase about which guard bytes were overwritten; "" if all guard bytes are intact."""
        before = self._map[: self._start]
        behind = self._map[self._start + self.size : self._room]
        if behind.count(_CANARY) != len(behind):
            return f"bytes after the end of a buffer of {self.size} bytes were written"
        if before.count(_CANARY) != len(before):
            return f"bytes before the start of a buffer of {self.size} bytes were written"
        return ""


def _protect(address: int, size: int, protection: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), protection):
        raise OSError(ctypes.get_errno(), "mprotect failed")
