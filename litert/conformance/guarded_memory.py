"""Memory that tells when somebody reads or writes beyond its end: no page follows it.

For the conformance checks: what a host hands to a vendor can lie in it.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

_CANARY = 0xA7
_PROT_NONE, _PROT_READ = 0, 1


class GuardedMemory:
    """So many bytes, with known bytes right before and behind them, and then a page that nobody may touch.

    Attributes:
      address: of the first byte, a multiple of the alignment.
      view: of the bytes, writable.
    """

    def __init__(self, size: int, alignment: int = 64) -> None:
        """Allocates zeros; with an alignment of 1 the forbidden page follows at once."""
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
        """Nobody can write it from now on."""
        _protect(self._base, self._room, _PROT_READ)

    def make_forbidden(self) -> None:
        """Nobody can read it, either, from now on; its addresses are not given to others while it lives."""
        _protect(self._base, self._room, _PROT_NONE)

    def find_damage(self) -> str:
        """What somebody wrote around the bytes, in a phrase; "" for nothing."""
        before = self._map[: self._start]
        behind = self._map[self._start + self.size : self._room]
        if behind.count(_CANARY) != len(behind):
            return f"bytes behind the end of a buffer of {self.size} bytes were written"
        if before.count(_CANARY) != len(before):
            return f"bytes before the start of a buffer of {self.size} bytes were written"
        return ""


def _protect(address: int, size: int, protection: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), protection):
        raise OSError(ctypes.get_errno(), "mprotect failed")
