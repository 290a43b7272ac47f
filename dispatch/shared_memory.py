"""Tensor memory in an anonymous file that two processes share; the system provides a page at its first access."""

from __future__ import annotations

import mmap
import os
import threading
from collections import deque
from contextlib import suppress

from dispatch.host_pages import touch_pages
from dispatch.tensor_buffer import TensorBuffer
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.host.service import seal_size

_LEAST_BYTES = 64 << 20
_BEHIND = 64
"""Number of unused bytes after each tensor; needed because CPU kernels may read slightly past a tensor's end."""


class SharedMemory:
    """Allocates tensor buffers in shared memory; the memory of a buffer is freed after the buffer's last use.

    Attributes:
      fd: File descriptor of the shared file; a process that maps the file cannot change the file's size.
      size: Size of the file in bytes, which limits the total size of all buffers.
    """

    def __init__(self, most_bytes: int) -> None:
        """Creates the shared file of `most_bytes`; the file is smaller if the process may not use so much memory.

        Raises:
          LiteRtError: MEMORY_ALLOCATION_FAILURE.
        """
        self._lock = threading.Lock()
        self._freed: deque[tuple[int, int]] = deque()  # filled by any thread that releases a buffer
        self.size = _round_up(most_bytes)
        self.fd = -1
        self.fd = os.memfd_create("litert-npu", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            self._map = self._map_all()
            seal_size(self.fd)
        except OSError as error:
            os.close(self.fd)
            raise LiteRtError(
                Status.MEMORY_ALLOCATION_FAILURE, f"no shared memory: {error.strerror}"
            ) from error
        import numpy as np  # here, since `dispatch` is imported by commands that run nothing

        self._address: int = np.frombuffer(self._map, np.uint8).ctypes.data
        self._free: list[tuple[int, int]] = [(0, self.size)]

    def allocate(self, tensor_type: RankedTensorType, size: int | None = None) -> TensorBuffer:
        """Allocates a zeroed buffer that is aligned to a page; `size` is in bytes.

        Raises:
          LiteRtError: MEMORY_ALLOCATION_FAILURE.
        """
        size = tensor_type.size_bytes if size is None else size
        taken = _round_up(size + _BEHIND)
        offset = self._take(taken)
        return TensorBuffer(tensor_type, self._address + offset, size, Block(self, offset, taken))

    def find(self, buffer: TensorBuffer) -> int | None:
        """Returns the offset of a buffer's bytes in the shared file; None if the buffer is not in this memory."""
        offset = buffer.address - self._address
        return offset if 0 <= offset <= self.size - max(buffer.size, 1) else None

    def close(self) -> None:
        """Closes the shared file; the memory of existing buffers stays valid."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __del__(self) -> None:
        self.close()

    def touch(self, offset: int, size: int) -> None:
        """Requests the pages of a range from the system now, so that no run waits for pages."""
        touch_pages(self._map, offset, size)

    def give_back(self, offset: int, size: int) -> None:
        """Frees the memory of a buffer."""
        with suppress(OSError, ValueError):
            self._map.madvise(mmap.MADV_REMOVE, offset, size)
        self._freed.append((offset, size))

    def _map_all(self) -> mmap.mmap:
        while True:
            try:
                os.ftruncate(self.fd, self.size)
                return mmap.mmap(self.fd, self.size, mmap.MAP_SHARED | _NORESERVE)
            except OSError:
                if self.size <= _LEAST_BYTES:
                    raise
                self.size = _round_up(self.size // 2)

    def _take(self, size: int) -> int:
        with self._lock:
            if self._freed:
                self._join_freed()
            for index, (start, room) in enumerate(self._free):
                if room >= size:
                    self._free[index : index + 1] = (
                        [(start + size, room - size)] if room > size else []
                    )
                    return start
        raise LiteRtError(
            Status.MEMORY_ALLOCATION_FAILURE,
            f"cannot allocate {size} bytes for a tensor: the device's process may use only {self.size} bytes "
            "for all tensors",
            hint="Increase the memory limit (Options.device_memory_bytes, --device_memory).",
        )

    def _join_freed(self) -> None:
        while self._freed:
            self._free.append(self._freed.popleft())
        joined: list[tuple[int, int]] = []
        for start, size in sorted(self._free):
            if joined and sum(joined[-1]) == start:
                joined[-1] = joined[-1][0], joined[-1][1] + size
            else:
                joined.append((start, size))
        self._free = joined


_NORESERVE = 0x4000
"""The constant `MAP_NORESERVE` for `mmap`, which Python has only since version 3.11."""


class Block:
    """A part of the shared memory, which is freed after its last use.

    Attributes:
      offset, size: Offset and size of the part in the shared file, in bytes.
    """

    __slots__ = ("_memory", "offset", "size")

    def __init__(self, memory: SharedMemory, offset: int, size: int) -> None:
        self._memory = memory
        self.offset = offset
        self.size = size

    def touch(self) -> None:
        """Requests the part's pages from the system now."""
        self._memory.touch(self.offset, self.size)

    def __del__(self) -> None:
        self._memory.give_back(self.offset, self.size)


def _round_up(size: int) -> int:
    return size + -size % mmap.PAGESIZE
