"""Plans the positions of the data that follow the tables in a file; keeps the order in the source file.

Blobs that are close together in a source file have the same distances in the new file, so that a single copy moves
all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from litert.model.blob import Blob, MappedFile, ReadBytes

ALIGNMENT = 64
"""Alignment of byte code, and of data after the flatbuffer, in bytes."""

PAGE = 4096
_LARGE = 1 << 20  # for such data, padding is worth the faster copy
_DATA_ALIGNMENT = 16  # alignment of the schema; neighbours keep their relative alignment
_MAX_GAP = 64  # a gap between neighbours is copied along, and overwritten where it differs
SIZE_PREFIX = 4
"""Size in bytes of the number that is stored before a vector and contains the vector's length."""


class Region:
    """A region of the file that contains one blob after the other.

    Attributes:
      places: Position of each blob by its Python `id`, in bytes from the end of the tables.
      blobs: Blobs in the order of their positions; each blob occurs once.
      end: End of the last blob, in bytes from the end of the tables.
      prefix: Number of bytes before each blob that are reserved for the blob's size.
      has_pages: Whether each blob's position keeps its remainder modulo the page size, because the operating
        system's kernel copies whole pages fastest; if so, the end of the tables must be a multiple of `PAGE`.
    """

    __slots__ = ("blobs", "end", "has_pages", "places", "prefix")

    def __init__(self, start: int, prefix: int = 0) -> None:
        self.places: dict[int, int] = {}
        self.blobs: list[Blob] = []
        self.end = start
        self.prefix = prefix
        self.has_pages = False

    @classmethod
    def in_flatbuffer(cls, blobs: Iterable[Blob]) -> Region:
        """Makes a region for vectors of bytes in the flatbuffer, directly after the tables."""
        region = cls(0, SIZE_PREFIX)
        region._fill(blobs, _DATA_ALIGNMENT)
        return region

    @classmethod
    def behind(cls, blobs: Iterable[Blob], start: int) -> Region:
        """Makes a region for data after the flatbuffer."""
        region = cls(start)
        region._fill(blobs, ALIGNMENT)
        return region

    def append(self, blob: Blob, alignment: int) -> int:
        """Adds a blob at the end unless the region already contains the blob; returns the blob's position."""
        if id(blob) not in self.places:
            self._add(blob, self._next(alignment))
        return self.places[id(blob)]

    def _fill(self, blobs: Iterable[Blob], alignment: int) -> None:
        """Adds blobs to the region; equal blobs are added once."""
        bases: dict[int, list[Blob]] = {}  # groups by the object that contains the blobs
        for blob in {id(blob): blob for blob in blobs}.values():
            bases.setdefault(id(blob.base), []).append(blob)
        for group in bases.values():
            is_large = sum(blob.size for blob in group) >= _LARGE
            self.has_pages |= is_large
            if group[0].base is None:
                for blob in group:
                    self._add(blob, self._next(alignment))
            else:
                self._fill_from_base(group, alignment, is_large)

    def _fill_from_base(self, blobs: list[Blob], alignment: int, is_large: bool) -> None:
        """Adds blobs that are ranges of one file, or of one model in memory."""
        shift: int | None = None  # distance of the last blob from its base to here
        for blob in sorted(blobs, key=lambda blob: (blob.offset, blob.size)):
            first = self.end + self.prefix
            if shift is not None and first <= blob.offset + shift <= self.end + _MAX_GAP:
                place = blob.offset + shift
            elif is_large and (shift is None or blob.size >= _LARGE):
                place = first + (blob.offset - first) % PAGE
            else:
                place = self._next(alignment)
            if place % _DATA_ALIGNMENT:
                place = self._next(alignment)
            self._add(blob, place)
            shift = place - blob.offset

    def _next(self, alignment: int) -> int:
        first = self.end + self.prefix
        return first + -first % alignment

    def _add(self, blob: Blob, place: int) -> None:
        self.places[id(blob)] = place
        self.blobs.append(blob)
        self.end = place + blob.size


class Run(NamedTuple):
    """A range of a source file that is copied unchanged, except for gaps.

    Attributes:
      gaps: Gaps between the blobs of the range. Each gap has a position in the source file, and the bytes that
        replace the source's bytes there.
    """

    file: MappedFile
    source: int
    target: int
    size: int
    gaps: list[tuple[int, bytes]]


class Plan:
    """The plan for writing a file; bytes that the plan does not set are zero.

    Attributes:
      texts: Positions in the new file, and bytes that are written there after the ranges in `runs` were copied.
      size: Size of the whole file, in bytes.
      runs: Ranges of source files that are copied.
      finish: Function that computes bytes from the rest of the file; these bytes are written last. None if there
        are no such bytes.
    """

    __slots__ = ("finish", "runs", "size", "texts")

    def __init__(
        self, texts: Iterable[tuple[int, bytes | bytearray | memoryview]], size: int
    ) -> None:
        self.texts = list(texts)
        self.size = size
        self.runs: list[Run] = []
        self.finish: Callable[[ReadBytes], tuple[int, bytes]] | None = None

    def add_region(self, region: Region, start: int) -> None:
        """Plans the copies of a region's data; the region's positions count from the file position `start`."""
        prefix_size = region.prefix
        file: MappedFile | None = None
        source = target = end = 0  # start of the run, if there is a file
        gaps: list[tuple[int, bytes]] = []
        for blob in region.blobs:
            place = start + region.places[id(blob)]
            prefix = blob.size.to_bytes(prefix_size, "little") if prefix_size else b""
            base = blob.base
            gap = place - end
            if (
                file is not None
                and file is base
                and blob.offset - source == place - target
                and prefix_size <= gap <= _MAX_GAP
            ):
                if gap:
                    gaps.append((blob.offset - gap, bytes(gap - prefix_size) + prefix))
                end = place + blob.size
                continue
            if file is not None:
                self.runs.append(Run(file, source, target, end - target, gaps))
                file = None
            if prefix:
                self.texts.append((place - prefix_size, prefix))
            if isinstance(base, MappedFile) and blob.size:
                file, source, target, end, gaps = base, blob.offset, place, place + blob.size, []
            else:
                self.texts.append((place, blob.view))
        if file is not None:
            self.runs.append(Run(file, source, target, end - target, gaps))
