"""Holds bytes in memory, or in a range of a memory-mapped file, of which only the used pages are read."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from contextlib import suppress

from litert.core.errors import LiteRtError, file_error
from litert.core.input_file import open_input, read_all
from litert.core.mapped_files import map_file
from litert.core.status import Status

ReadBytes = Callable[[int, int], bytes | memoryview]
"""A range of a file: offset and size, in bytes."""

_READ_SIZE = 16 << 20
"""Files up to this size are read into memory, so that another program may truncate the files without harm."""


class MappedFile:
    """A context manager for a regular file that is open for reading; only large files are mapped.

    Do not truncate a large file that is mapped; rename a new file over the old file instead. Truncation crashes a
    process that reads the lost bytes, unless `litert.core.mapped_files` guards the process.

    Attributes:
      path: Path of the file as given by the caller.
      view: View of all bytes of the file.
      data: Bytes of a small file; empty for a large file, which is mapped.
      fd: Descriptor of the open file, which `MappedFile` owns.
    """

    __slots__ = ("_file", "_map", "data", "fd", "path", "size", "view")

    def __init__(self, path: str | os.PathLike[str], fd: int = -1) -> None:
        """Opens and maps a file.

        Args:
          path: Path of the file.
          fd: Descriptor of the file, if the file is already open; `MappedFile` takes ownership of the descriptor.

        Raises:
          LiteRtError: NOT_FOUND, if the file does not exist; INVALID_ARGUMENT, if the path is not a regular file;
            FILE_IO, if reading fails; MEMORY_ALLOCATION_FAILURE, if a small file does not fit into memory.
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
        except OSError as error:
            self.close()
            raise file_error(error, "cannot read", self.path) from error
        except ValueError as error:
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
        """Returns a range of the file; the range ends at the end of the file if `size` is None."""
        end = self.size if size is None else offset + size
        if not 0 <= offset <= end <= self.size:
            wrong = f"offset {offset}" if size is None else f"the byte range {offset} to {end}"
            raise LiteRtError(
                Status.INDEX_OOB,
                f"{wrong} exceeds the file, which has {self.size} bytes",
                self.path,
            )
        return Blob.within(self, offset, end - offset)

    @property
    def is_open(self) -> bool:
        """Whether `fd` is still open for reading."""
        return not self._file.closed

    def release_pages(self) -> None:
        """Lets the operating system reclaim the mapped file's pages; the next access reads these pages again."""
        if self._map is not None and hasattr(self._map, "madvise"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Closes the file. The file stays mapped until the last view of its bytes is released."""
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
      file, offset: File that contains the bytes, and their offset in the file; a writer copies these bytes inside
        the operating system's kernel.
      base: Object that contains the bytes from `offset` on: the file, or the bytes of a whole model in memory;
        None if the bytes are not part of a larger object.
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
        """Makes a blob from a range of `base`; the view of the bytes is made on first access."""
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
        """Returns a range of this blob's bytes as a blob."""
        return Blob(self.view[offset : offset + size], self.file, self.offset + offset)

    def __bytes__(self) -> bytes:
        return bytes(self.view)

    def __repr__(self) -> str:
        where = f" at {self.offset} of {self.file.path}" if self.file else ""
        return f"Blob({self.size} bytes{where})"
