"""Bytes in memory, or in a range of an open file that is mapped and never read as a whole."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from contextlib import suppress

from litert.core.errors import LiteRtError
from litert.core.input_file import open_input, read_all
from litert.core.mapped_files import map_file
from litert.core.status import Status

ReadBytes = Callable[[int, int], bytes | memoryview]
"""A range of a file: offset and size, in bytes."""

_READ_SIZE = 16 << 20
"""Files up to this size are read into memory, so that another program may shorten them without harm."""


class MappedFile:
    """A regular file that is open for reading: in memory if small, mapped if large; a context manager.

    A program that shortens a large file crashes the processes that have mapped the file, where
    `litert.core.mapped_files` does not guard the mapping: replace files, do not truncate them.

    Attributes:
      path: Path of the file, as the caller gave it.
      view: View of the whole file.
      data: Bytes of a small file.
      fd: Descriptor of the open file, which `MappedFile` owns.
    """

    __slots__ = ("_file", "_map", "data", "fd", "path", "size", "view")

    def __init__(self, path: str | os.PathLike[str], fd: int = -1) -> None:
        """Opens and maps a file.

        Args:
          path: Path of the file.
          fd: Descriptor of the file, if the file is already open; this object takes ownership.

        Raises:
          LiteRtError: NOT_FOUND; INVALID_ARGUMENT, if the path is not a regular file; FILE_IO;
            MEMORY_ALLOCATION_FAILURE, for a small file.
        """
        self.path = os.fspath(path)
        self.data: bytes | None = None
        self._map: mmap.mmap | None = None
        self._file = open_input(self.path) if fd < 0 else os.fdopen(fd, "rb", buffering=0)
        try:
            self.fd = self._file.fileno()
            self.size = os.fstat(self.fd).st_size
            if self.size > _READ_SIZE:
                self._map = map_file(self.fd, self.path)
                self.view = memoryview(self._map)
            else:
                self.data = read_all(self._file, self.size)
                self.view = memoryview(self.data)
        except (OSError, ValueError) as error:
            self.close()
            raise LiteRtError(Status.FILE_IO, f"cannot read: {error}", self.path) from error
        except MemoryError as error:
            self.close()
            what = f"not enough memory for the {self.size} bytes of the file"
            raise LiteRtError(Status.MEMORY_ALLOCATION_FAILURE, what, self.path) from error
        if self.view.nbytes < self.size:
            self.close()
            what = "the file became shorter while it was read"
            raise LiteRtError(Status.FILE_IO, what, self.path)

    def blob(self, offset: int = 0, size: int | None = None) -> Blob:
        """Returns a range of the file; without a size, the range ends at the end of the file."""
        end = self.size if size is None else offset + size
        if not 0 <= offset <= end <= self.size:
            raise LiteRtError(
                Status.INDEX_OOB,
                f"the range {offset} to {end} exceeds the file, which has {self.size} bytes",
                self.path,
            )
        return Blob.within(self, offset, end - offset)

    @property
    def is_open(self) -> bool:
        """Whether `fd` is still open for reading."""
        return not self._file.closed

    def release_pages(self) -> None:
        """Lets the kernel reclaim the memory of pages that were read; the next access reads them again."""
        if self._map is not None and hasattr(self._map, "madvise"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Closes the file. The mapping stays until the last view is gone."""
        with suppress(OSError):  # the data have been read
            self._file.close()

    def __enter__(self) -> MappedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Blob:
    """Bytes in memory, or a range of a mapped file; a blob never changes.

    Attributes:
      size: Number of bytes.
      file, offset: File and position of the bytes, if they lie in a file; a writer then copies
        inside the kernel.
      base: Object that contains the bytes, from `offset` on: the file, or a whole model in memory;
        None for separate bytes.
    """

    __slots__ = ("__weakref__", "_view", "base", "offset", "size")

    def __init__(
        self, view: bytes | memoryview, file: MappedFile | None = None, offset: int = 0
    ) -> None:
        self._view: memoryview | None = memoryview(view).cast("B")
        self.size = self._view.nbytes
        self.base: MappedFile | memoryview | None = file
        self.offset = offset

    @classmethod
    def within(cls, base: MappedFile | memoryview, offset: int, size: int) -> Blob:
        """Makes a blob of a range of `base`; the view is made on the first access."""
        blob = cls.__new__(cls)
        blob._view = None
        blob.base = base
        blob.offset = offset
        blob.size = size
        return blob

    @property
    def file(self) -> MappedFile | None:
        return self.base if isinstance(self.base, MappedFile) else None

    @property
    def view(self) -> memoryview:
        """The bytes."""
        if self._view is None:
            base = self.base
            assert base is not None
            whole = base.view if isinstance(base, MappedFile) else base
            self._view = whole[self.offset : self.offset + self.size]
        return self._view

    def part(self, offset: int, size: int) -> Blob:
        """Returns a range of these bytes."""
        return Blob(self.view[offset : offset + size], self.file, self.offset + offset)

    def __bytes__(self) -> bytes:
        return bytes(self.view)

    def __repr__(self) -> str:
        where = f" at {self.offset} of {self.file.path}" if self.file else ""
        return f"Blob({self.size} bytes{where})"
