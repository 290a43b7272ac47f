"""Reads a flatbuffer's bytes and checks every offset.

Several offsets may point at the same data, so that a small damaged file could expand to gigabytes. Readers of a
whole file therefore use a `Budget` to limit how much they read. Format: https://flatbuffers.dev/internals.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from litert.core.errors import LiteRtError
from litert.core.status import Status

MAX_SLOTS = 64
"""Largest number of slots that the reader uses in a vtable; the tables of the schema have far fewer slots."""

i8 = struct.Struct("<b").unpack_from
i32 = struct.Struct("<i").unpack_from
u32 = struct.Struct("<I").unpack_from
u64 = struct.Struct("<Q").unpack_from
_two_u16 = struct.Struct("<HH").unpack_from

_FREE_BYTES = 1 << 18
_SHARING = 2  # how often a byte may be read on average
_TABLE_SIZE = 8  # size of the smallest table, with the offset to it
_NODE_SIZE = 24  # size of the smallest tensor or op with content

DAMAGED = "The data are damaged, or are not a TFLite model: copy the model again from its source."
"""Hint of an error about damaged data."""


class FlatbufferBytes:
    """The bytes of one flatbuffer, in which a table is identified by its position.

    Attributes:
      view: View of the whole file, including data after the flatbuffer.
      where: Name of the file, for error messages.
    """

    __slots__ = ("_vtables", "size", "view", "where")

    def __init__(self, view: memoryview, where: str) -> None:
        self.view = view
        self.size = view.nbytes
        self.where = where
        self._vtables: dict[int, tuple[int, ...]] = {}

    def fields(self, table: int) -> tuple[int, ...]:
        """Returns the offset from the table's position to each field of the table, in the order of the slots.

        The offset of an absent field is 0.
        """
        vtable = table - i32(self.view, table)[0]
        found = self._vtables.get(vtable)
        if found is None:
            found = self.vtable(vtable)
            self._vtables[vtable] = found
        return found

    def vtable(self, vtable: int) -> tuple[int, ...]:
        """Returns the offsets in a vtable, at most `MAX_SLOTS` of them."""
        if not 0 <= vtable <= self.size - 4:
            raise self.damaged(f"the vtable at byte {vtable} is outside the file")
        size, _ = _two_u16(self.view, vtable)
        if size < 4 or vtable + size > self.size:
            raise self.damaged(f"the vtable at byte {vtable} has the invalid size {size}")
        slots = min((size - 4) // 2, MAX_SLOTS)
        return struct_of(f"<{slots}H").unpack_from(self.view, vtable + 4)

    def target(self, place: int) -> int:
        """Returns the position to which the offset at position `place` points."""
        offset: int = u32(self.view, place)[0]
        return place + offset

    def span(self, vector: int, element_size: int) -> tuple[int, int, int]:
        """Returns number, start and end of the elements of a vector or string; checks that the file has them."""
        count: int = u32(self.view, vector)[0]
        start = vector + 4
        end = start + count * element_size
        if end > self.size:
            raise self.damaged(
                f"the vector at {vector} has {count} elements, past the end of the file"
            )
        return count, start, end

    def numbers(self, vector: int, code: str, element_size: int) -> tuple[int | float | bool, ...]:
        """Returns the elements of a vector of scalars."""
        count, start, _ = self.span(vector, element_size)
        return struct.unpack_from(f"<{count}{code}", self.view, start)

    def text(self, string: int) -> str:
        """Decodes a string; bytes that are not UTF-8 become lone surrogates, as in Python's file names."""
        _, start, end = self.span(string, 1)
        return str(self.view[start:end], "utf-8", "surrogateescape")

    def tables(self, vector: int) -> list[int]:
        """Returns the positions of the tables in a vector."""
        count, start, _ = self.span(vector, 4)
        offsets = struct.unpack_from(f"<{count}I", self.view, start)
        return [start + 4 * index + offset for index, offset in enumerate(offsets)]

    def damaged(self, what: str, place: str = "") -> LiteRtError:
        """Returns an error about damaged bytes; the caller raises the error."""
        where = ", ".join(part for part in (self.where, place) if part)
        return LiteRtError(
            Status.INVALID_FLATBUFFER,
            what,
            where,
            DAMAGED,
        )


class Budget:
    """Limits how much may be read from a file, so that overlapping parts of the file are not read many times."""

    __slots__ = ("_bytes_left", "_nodes_left", "_source")

    def __init__(self, source: FlatbufferBytes) -> None:
        self._source = source
        self._bytes_left = source.size * _SHARING + _FREE_BYTES
        self._nodes_left = (source.size + _FREE_BYTES) // _NODE_SIZE

    def spend_nodes(self, count: int) -> None:
        """Counts tensors and ops that were read, because each needs much more memory than space in the file."""
        self._nodes_left -= count
        if self._nodes_left < 0:
            raise self._source.damaged(
                f"the file describes more tensors and ops than {self._source.size} bytes can hold"
            )

    def spend_tables(self, count: int) -> None:
        """Counts tables."""
        self.spend_bytes(count * _TABLE_SIZE)

    def spend_bytes(self, count: int) -> None:
        """Counts the bytes of vectors and strings that were read."""
        self._bytes_left -= count
        if self._bytes_left < 0:
            raise self._source.damaged(
                f"the file describes more data than {self._source.size} bytes can hold"
            )


OUTSIDE = "an offset points outside the file"
"""Error message for a `struct.error` that occurs because an offset points outside the file."""


@lru_cache(maxsize=256)
def struct_of(pattern: str) -> struct.Struct:
    """Returns a compiled `struct` pattern; patterns are cached, because those of short vectors occur often."""
    return struct.Struct(pattern)
