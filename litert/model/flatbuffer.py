"""A flatbuffer's bytes, read with every offset checked.

Offsets may share what they point at, so that a small damaged file could unfold into gigabytes: who reads all of a
file has a `Budget`. Format: https://flatbuffers.dev/internals.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from litert.core.errors import LiteRtError
from litert.core.status import Status

MAX_SLOTS = 64
"""Of a vtable that are looked at; no table of the schema comes near."""

i8 = struct.Struct("<b").unpack_from
i32 = struct.Struct("<i").unpack_from
u32 = struct.Struct("<I").unpack_from
u64 = struct.Struct("<Q").unpack_from
_two_u16 = struct.Struct("<HH").unpack_from

_FREE_BYTES = 1 << 18
_SHARING = 2  # how often, on average, a byte may be read
_TABLE_SIZE = 8  # of the smallest, with the offset to it
_NODE_SIZE = 24  # of the smallest tensor or op that says something


class FlatbufferBytes:
    """The bytes of one flatbuffer; tables in it are known by their position.

    Attributes:
      view: the whole file, also what lies behind the flatbuffer.
      where: the file, for errors.
    """

    __slots__ = ("_vtables", "size", "view", "where")

    def __init__(self, view: memoryview, where: str) -> None:
        self.view = view
        self.size = view.nbytes
        self.where = where
        self._vtables: dict[int, tuple[int, ...]] = {}

    def fields(self, table: int) -> tuple[int, ...]:
        """The offsets of a table's fields from its position, by slot; 0 is absent, as is a slot past the end."""
        vtable = table - i32(self.view, table)[0]
        found = self._vtables.get(vtable)
        if found is None:
            found = self.vtable(vtable)
            self._vtables[vtable] = found
        return found

    def vtable(self, vtable: int) -> tuple[int, ...]:
        """A vtable's offsets, at most `MAX_SLOTS` of them."""
        if not 0 <= vtable <= self.size - 4:
            raise self.damaged(f"a vtable at {vtable}, outside the file")
        size, _ = _two_u16(self.view, vtable)
        if size < 4 or vtable + size > self.size:
            raise self.damaged(f"a vtable at {vtable} of {size} bytes")
        slots = min((size - 4) // 2, MAX_SLOTS)
        return struct_of(f"<{slots}H").unpack_from(self.view, vtable + 4)

    def target(self, place: int) -> int:
        """What the offset at `place` points at."""
        offset: int = u32(self.view, place)[0]
        return place + offset

    def span(self, vector: int, element_size: int) -> tuple[int, int, int]:
        """Number of elements, start and end of a vector's (or string's) elements, all in the file."""
        count: int = u32(self.view, vector)[0]
        start = vector + 4
        end = start + count * element_size
        if end > self.size:
            raise self.damaged(f"a vector at {vector} of {count} elements, past the file's end")
        return count, start, end

    def numbers(self, vector: int, code: str, element_size: int) -> tuple[int | float | bool, ...]:
        """A vector of scalars."""
        count, start, _ = self.span(vector, element_size)
        return struct.unpack_from(f"<{count}{code}", self.view, start)

    def text(self, string: int) -> str:
        """A string; bytes that are not UTF-8 become lone surrogates, as in Python's file names."""
        _, start, end = self.span(string, 1)
        return str(self.view[start:end], "utf-8", "surrogateescape")

    def tables(self, vector: int) -> list[int]:
        """Where the tables of a vector are."""
        count, start, _ = self.span(vector, 4)
        offsets = struct.unpack_from(f"<{count}I", self.view, start)
        return [start + 4 * index + offset for index, offset in enumerate(offsets)]

    def damaged(self, what: str, place: str = "") -> LiteRtError:
        """The error for bytes that make no sense; the caller raises it."""
        where = ", ".join(part for part in (self.where, place) if part)
        return LiteRtError(
            Status.INVALID_FLATBUFFER,
            what,
            where,
            "The file is damaged, or not a TFLite model: get it again from where it came.",
        )


class Budget:
    """How much of a file may be read, if nothing in it is read over and over."""

    __slots__ = ("_bytes_left", "_nodes_left", "_source")

    def __init__(self, source: FlatbufferBytes) -> None:
        self._source = source
        self._bytes_left = source.size * _SHARING + _FREE_BYTES
        self._nodes_left = (source.size + _FREE_BYTES) // _NODE_SIZE

    def spend_nodes(self, count: int) -> None:
        """Counts tensors and ops, the largest objects that a few bytes become."""
        self._nodes_left -= count
        if self._nodes_left < 0:
            raise self._source.damaged(
                f"more tensors and ops than a file of {self._source.size} bytes can hold"
            )

    def spend_tables(self, count: int) -> None:
        """Counts tables."""
        self.spend_bytes(count * _TABLE_SIZE)

    def spend_bytes(self, count: int) -> None:
        """Counts bytes of vectors and strings."""
        self._bytes_left -= count
        if self._bytes_left < 0:
            raise self._source.damaged(
                f"more data than a file of {self._source.size} bytes can hold"
            )


OUTSIDE = "an offset that points outside the file"
"""What a `struct.error` means, where offsets are followed."""


@lru_cache(maxsize=256)
def struct_of(pattern: str) -> struct.Struct:
    """A compiled pattern; those of short vectors come again and again."""
    return struct.Struct(pattern)
