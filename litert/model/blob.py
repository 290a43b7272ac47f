"""Bytes that lie somewhere: in memory, or in a range of an open file that is mapped and never read whole."""

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
"""Bytes of a file: from an offset, so many."""

_READ_SIZE = 16 << 20
"""Up to here a file is read, and a program that makes it shorter meanwhile does no harm."""


class MappedFile:
    """A regular file, open for reading, in memory if it is small and mapped if it is large; a context manager.

    A program that makes a large file shorter ends those that have mapped it, where `litert.core.mapped_files` does
    not guard them: replace files, do not truncate them.

    Attributes:
      path: as it was given.
      view: the whole file.
      data: the bytes of a small one.
      fd: of the open file; `MappedFile` owns it.
    """

    __slots__ = ("_file", "_map", "data", "fd", "path", "size", "view")

    def __init__(self, path: str | os.PathLike[str], fd: int = -1) -> None:
        """Opens and maps a file.

        Args:
          path: of the file.
          fd: of the file, where it is open already; it is this object's then.

        Raises:
          LiteRtError: NOT_FOUND; INVALID_ARGUMENT, for what is no regular file; FILE_IO; MEMORY_ALLOCATION_FAILURE
            for a small one.
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
            what = f"no memory for the {self.size} bytes of the file"
            raise LiteRtError(Status.MEMORY_ALLOCATION_FAILURE, what, self.path) from error
        if self.view.nbytes < self.size:
            self.close()
            what = "the file became shorter while it was read"
            raise LiteRtError(Status.FILE_IO, what, self.path)

    def blob(self, offset: int = 0, size: int | None = None) -> Blob:
        """A range of the file; to its end, where no size is given."""
        end = self.size if size is None else offset + size
        if not 0 <= offset <= end <= self.size:
            raise LiteRtError(
                Status.INDEX_OOB, f"bytes {offset} to {end} of a file of {self.size}", self.path
            )
        return Blob.within(self, offset, end - offset)

    @property
    def is_open(self) -> bool:
        """Whether `fd` may still be read from."""
        return not self._file.closed

    def release_pages(self) -> None:
        """Lets the kernel take back the memory of pages that were looked at; a next look maps them again."""
        if self._map is not None and hasattr(self._map, "madvise"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Closes the file. The mapping lives on until the last view of it is gone."""
        with suppress(OSError):  # what was read is there
            self._file.close()

    def __enter__(self) -> MappedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Blob:
    """Bytes in memory, or a range of a mapped file; never changed once made.

    Attributes:
      size: in bytes.
      file, offset: where they lie in a file, if they do; a writer then copies in the kernel.
      base: what they are a range of, from `offset` on: the file, or a whole model in memory; None for bytes alone.
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
        """A range that lies in `base`; no view is made of it before it is asked for."""
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
        """A range of these bytes."""
        return Blob(self.view[offset : offset + size], self.file, self.offset + offset)

    def __bytes__(self) -> bytes:
        return bytes(self.view)

    def __repr__(self) -> str:
        where = f" at {self.offset} of {self.file.path}" if self.file else ""
        return f"Blob({self.size} bytes{where})"
