"""Maps files and shared memory in a device process; the host passes their file descriptors."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Sequence
from typing import Any

from dispatch.mem_buffer import MemBuffer
from litert.core.machine_code import memory_calls
from litert.core.mapped_files import map_file

_GUARD = 64 << 10
"""Number of protected bytes before and after a tensor; a kernel that accesses a protected byte crashes."""

_NONE, _READ_WRITE = 0, mmap.PROT_READ | mmap.PROT_WRITE
_SHARED, _PRIVATE, _FIXED, _ANONYMOUS, _NORESERVE = 1, 2, 0x10, 0x20, 0x4000
_FAILED = ctypes.c_void_p(-1).value


class MappedTensor:
    """The part of the shared memory that holds a tensor, between protected bytes; unmapped after its last use.

    Attributes:
      address: Address of the first byte.
    """

    def __init__(self, fd: int, offset: int, size: int) -> None:
        """Maps `size` bytes of the shared memory from `offset`, which must be a multiple of the page size."""
        self._libc = memory_calls()
        pages = max(size, 1) + -max(size, 1) % mmap.PAGESIZE
        self._whole = pages + 2 * _GUARD
        start = self._map(0, self._whole, _NONE, _PRIVATE | _ANONYMOUS | _NORESERVE, -1, 0)
        self._start = start
        self.address = self._map(start + _GUARD, pages, _READ_WRITE, _SHARED | _FIXED, fd, offset)

    def __del__(self) -> None:
        if self._start:
            self._libc.munmap(self._start, self._whole)

    _start = 0

    def _map(self, at: int, size: int, access: int, flags: int, fd: int, offset: int) -> int:
        found: int = self._libc.mmap(at, size, access, flags, fd, offset)
        if found == _FAILED:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        return found


class MappedFiles:
    """The files that contain byte code and assets; each file is mapped once."""

    def __init__(self, memory_fd: int) -> None:
        self._memory_fd = memory_fd
        self._files: dict[int, MemBuffer] = {}

    def find(self, place: Sequence[int]) -> MemBuffer:
        """Returns the bytes at `[fd, offset, size]`; an `fd` of -1 means the shared memory."""
        fd, offset, size = place
        if fd < 0:
            mapped: Any = b""
            if size:
                mapped = mmap.mmap(self._memory_fd, size, prot=mmap.PROT_READ, offset=offset)
            return MemBuffer.from_memory(memoryview(mapped))
        if fd not in self._files:
            mapped = map_file(fd, f"/proc/self/fd/{fd}")
            self._files[fd] = MemBuffer.from_memory(memoryview(mapped))
        whole = self._files[fd]
        view = whole.view[offset : offset + size]
        return MemBuffer(fd, whole.base_address, offset, size, view)
