"""Passes bytes to another process through a shared temporary file; bytes in the user's files are not copied.

A reference to bytes is a JSON list `[source, offset, size]`. Source 0 is the shared file, to which both processes
append. All further sources are announced to the other process before their first use. The user's files are
announced by path, and large blocks of memory as ranges of the shared file.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from litert.core.errors import LiteRtError, file_error
from litert.core.status import Status
from litert.model.blob import Blob, MappedFile
from litert.model.output import write_at

Reference: TypeAlias = Sequence[int]
Source: TypeAlias = Mapping[str, Any]
"""A JSON object that announces one source of bytes to the other process."""

_COMMON = 0
_ALIGNMENT = 64
_MAPPED = 1 << 20  # larger data is mapped; reading is faster for smaller data


class Exchange:
    """The shared file and the announced sources, as one of the two processes uses them."""

    def __init__(self, fd: int) -> None:
        """Uses the shared file with descriptor `fd`; the caller owns and closes the file."""
        self._fd = fd
        # References by the id of the bytes object; the object is kept so that its id stays unique.
        self._kept: dict[int, tuple[MappedFile | memoryview | Blob, Reference]] = {}
        self._blobs: dict[tuple[int, ...], Blob] = {}  # by reference
        self._sources: list[MappedFile | memoryview] = [memoryview(b"")]
        self._announcements: list[Source] = []

    def refer(self, blob: Blob) -> Reference:
        """Returns a reference to a blob's bytes for the other process; for the same blob, it is always the same.

        Raises:
          LiteRtError: FILE_IO, if the disk has no space for a copy.
        """
        if id(blob) in self._kept:
            return self._kept[id(blob)][1]
        base = blob.base
        if base is not None and (source := self._source_of(base)):
            return [source, blob.offset, blob.size]
        reference = self.put(blob.view)
        self._kept[id(blob)] = blob, reference
        self._blobs[tuple(reference)] = blob
        return reference

    def put(self, data: bytes | memoryview) -> Reference:
        """Appends bytes to the shared file, and returns the reference to them.

        Raises:
          LiteRtError: FILE_IO, if the disk has no space.
        """
        try:
            end = os.fstat(self._fd).st_size
            start = end + -end % _ALIGNMENT
            write_at(self._fd, data, start)
        except OSError as error:
            raise file_error(
                error,
                "cannot write a temporary file",
                "",
                "Free some disk space, or set TMPDIR to a folder on another disk.",
            ) from error
        return [_COMMON, start, len(data)]

    def take(self, reference: Reference) -> Blob:
        """Returns the bytes that a reference refers to; the same reference always gives the same blob."""
        key = tuple(reference)
        blob = self._blobs.get(key)
        if blob is None:
            blob = self._blobs[key] = self.read(reference)
            self._kept[id(blob)] = blob, reference
        return blob

    def read(self, reference: Reference) -> Blob:
        """Returns the same bytes as `take`, but does not store the blob for later calls."""
        source, offset, size = reference
        if source == _COMMON:
            return Blob(self._read_common(offset, size))
        return Blob.within(self._sources[source], offset, size)

    def announce(self) -> list[Source]:
        """Returns announcements for the other process, about sources that were added since the last call."""
        told, self._announcements = self._announcements, []
        return told

    def learn(self, announcements: Sequence[Source]) -> None:
        """Stores the sources that the other process announces.

        Raises:
          LiteRtError: NOT_FOUND or FILE_IO, if a file no longer exists; FILE_IO, if the file has been replaced by
            another file.
        """
        for source in announcements:
            if "path" in source:
                self._add(self._open(source))
            else:
                self._add(self._read_common(*source["common"]))

    def _source_of(self, base: MappedFile | memoryview) -> int:
        """Returns the source number of a file or large memory block; 0 if ranges should be copied one by one."""
        if id(base) in self._kept:
            return self._kept[id(base)][1][0]
        if isinstance(base, MappedFile):
            announcement = _by_path(base) or {"common": self.put(base.view)[1:]}
        elif base.nbytes >= _MAPPED:
            announcement = {"common": self.put(base)[1:]}
        else:
            return _COMMON
        self._announcements.append(announcement)
        return self._add(base)

    def _add(self, base: MappedFile | memoryview) -> int:
        number = len(self._sources)
        self._sources.append(base)
        self._kept[id(base)] = base, [number]
        return number

    def _open(self, source: Source) -> MappedFile:
        file = MappedFile(source["path"])
        if _identity(os.fstat(file.fd)) != source["identity"]:
            raise LiteRtError(
                Status.FILE_IO,
                "another file replaced this file during the compilation",
                file.path,
                "Compile again, and leave the file unchanged until the compilation ends.",
            )
        return file

    def _read_common(self, offset: int, size: int) -> memoryview:
        if size < _MAPPED:
            return memoryview(os.pread(self._fd, size, offset))
        start = offset - offset % mmap.ALLOCATIONGRANULARITY
        whole = mmap.mmap(self._fd, offset + size - start, access=mmap.ACCESS_READ, offset=start)
        return memoryview(whole)[offset - start :]


def _by_path(file: MappedFile) -> Source | None:
    """Returns how another process can open a file; None if it cannot."""
    if not file.is_open:
        return None
    path = os.path.abspath(file.path)
    try:
        identity = _identity(os.stat(path))
    except OSError:
        return None
    if identity != _identity(os.fstat(file.fd)):
        return None
    return {"path": path, "identity": identity}


def _identity(found: os.stat_result) -> list[int]:
    return [found.st_dev, found.st_ino]
