"""Builds a flatbuffer from its end to its start, so that the target of each offset exists before the offset.

An object's address is its distance from the end of the flatbuffer: an object with address 64 begins 64 bytes
before the end. Data that other modules write may follow the flatbuffer; their addresses are negative. The size of
the flatbuffer is a multiple of 64, so that these data can be aligned.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

ALIGNMENT = 64
BYTES_ALIGNMENT = 16
"""Alignment of all byte vectors, in bytes: enough for any data in a byte vector, such as a C struct."""

_i32 = struct.Struct("<i").pack
_u32 = struct.Struct("<I").pack
_INT_VECTORS = [struct.Struct(f"<I{count}i").pack for count in range(9)]


class TableLayout(NamedTuple):
    """The layout of tables that have the same fields: the offset to the vtable, then other offsets and scalars.

    Attributes:
      pack: Function that packs the whole table.
      places: Positions of the table's offset fields, in bytes from the start of the table.
      scalar_places: Positions of the table's scalar fields, in bytes from the start of the table.
      size: Size of the table, in bytes.
      alignment: Alignment, in bytes, that the table needs so that all its fields are aligned.
      vtable: Address of the vtable.
    """

    pack: Any  # of `struct.Struct`
    places: tuple[int, ...]
    scalar_places: tuple[int, ...]
    size: int
    alignment: int
    vtable: int


class Assembler:
    """A flatbuffer under construction.

    Attributes:
      size: Number of bytes added so far, which is also the address of the last object.
    """

    __slots__ = ("_chunks", "_int_vectors", "_layouts", "_vtables", "size")

    def __init__(self) -> None:
        self.size = 0
        self._chunks: list[bytes] = []
        self._vtables: dict[bytes, int] = {}
        self._layouts: dict[tuple[tuple[int, ...], tuple[tuple[int, str], ...]], TableLayout] = {}
        self._int_vectors: dict[tuple[int, ...], int] = {}

    def add(self, data: bytes, alignment: int = 4, lead: int = 0) -> int:
        """Adds bytes and returns their address, which is chosen so that the byte at index `lead` is aligned."""
        size = self.size + len(data)
        padding = (lead - size) % alignment
        self._chunks.append(data + bytes(padding) if padding else data)
        self.size = size = size + padding
        return size

    def text(self, text: str) -> int:
        """Adds a string."""
        data = text.encode("utf-8", "surrogateescape")
        count = len(data)
        data = _u32(count) + data + bytes(4 - count % 4)  # one zero at least
        self._chunks.append(data)
        self.size = size = self.size + len(data)
        return size

    def byte_vector(self, data: bytes | memoryview) -> int:
        """Adds a vector of bytes."""
        return self.add(_u32(len(data)) + bytes(data), BYTES_ALIGNMENT, 4)

    def int_vector(self, numbers: tuple[int, ...]) -> int:
        """Adds a vector of 32-bit integers."""
        count = len(numbers)
        if count < len(_INT_VECTORS):
            data = _INT_VECTORS[count](count, *numbers)
        else:
            data = struct.pack(f"<I{count}i", count, *numbers)
        self._chunks.append(data)
        self.size = size = self.size + len(data)
        return size

    def shared_int_vector(self, numbers: tuple[int, ...]) -> int:
        """Adds a vector of 32-bit integers, or reuses an equal vector, because most shapes occur many times."""
        address = self._int_vectors.get(numbers)
        if address is None:
            address = self._int_vectors[numbers] = self.int_vector(numbers)
        return address

    def offset_vector(self, addresses: Sequence[int]) -> int:
        """Adds a vector of offsets to objects that were added before."""
        count = len(addresses)
        first = self.size + 4 * count
        offsets = [first - 4 * i - address for i, address in enumerate(addresses)]
        self._chunks.append(struct.pack(f"<I{count}I", count, *offsets))
        self.size = first + 4
        return self.size

    def vtable(self, offsets: tuple[int, ...], table_size: int) -> int:
        """Adds a vtable, or reuses an equal vtable."""
        count = len(offsets)
        data = struct.pack(f"<{count + 2}H", 4 + 2 * count, table_size, *offsets)
        address = self._vtables.get(data)
        if address is None:
            address = self._vtables[data] = self.add(data)
        return address

    def layout(self, offsets: tuple[int, ...], scalars: tuple[tuple[int, str], ...]) -> TableLayout:
        """Returns the layout of a table that has offsets in some slots, and scalars, by `struct` code, in others.

        The table has no padding between its fields if the caller lists larger scalars first.
        """
        found = self._layouts.get((offsets, scalars))
        if found is not None:
            return found
        vtable = [0] * (max((*offsets, *(slot for slot, _ in scalars)), default=-1) + 1)
        pattern = f"<i{len(offsets)}I"
        size, alignment = 4, 4
        for slot in offsets:
            vtable[slot] = size
            size += 4
        for slot, code in scalars:
            width = struct.calcsize("<" + code)
            padding = -size % width
            pattern += f"{padding}x{code}"
            vtable[slot] = size + padding
            size += padding + width
            alignment = max(alignment, width)
        padding = -size % alignment
        size += padding
        made = self._layouts[offsets, scalars] = TableLayout(
            struct.Struct(f"{pattern}{padding}x").pack,
            tuple(vtable[slot] for slot in offsets),
            tuple(vtable[slot] for slot, _ in scalars),
            size,
            alignment,
            self.vtable(tuple(vtable), size),
        )
        return made

    def pack(self, layout: TableLayout, targets: Sequence[int], *scalars: Any) -> int:
        """Adds a table with this layout; `targets` are the addresses to which the table's offsets point."""
        pack, places, _, size, alignment, vtable = layout
        address = self.size + size
        if alignment > 4:
            address += -address % alignment
            self._chunks.append(bytes(address - size - self.size))
        offsets = [address - place - target for place, target in zip(places, targets)]  # noqa: B905 (speed)
        self._chunks.append(pack(vtable - address, *offsets, *scalars))
        self.size = address
        return address

    def table(
        self, offsets: Sequence[tuple[int, int]], scalars: Sequence[tuple[int, str, Any]] = ()
    ) -> int:
        """Adds a table from (slot, target address) pairs and from (slot, `struct` code, value) scalars."""
        layout = self.layout(
            tuple([slot for slot, _ in offsets]), tuple([(slot, code) for slot, code, _ in scalars])
        )
        return self.pack(layout, [target for _, target in offsets], *[v for _, _, v in scalars])

    def copied_table(self, vtable: int, body: bytes, position: int, alignment: int) -> int:
        """Adds a copy of a table from another flatbuffer.

        Args:
          vtable: Address of the table's vtable in this flatbuffer.
          body: Bytes of the table without the offset to its vtable; their number is a multiple of 4.
          position: Position of the table in the other flatbuffer, in bytes; a multiple of 4.
          alignment: Alignment of the table's largest field, in bytes; the copy keeps the alignment
            of all fields.
        """
        address = self.size + 4 + len(body)
        padding = -(position + address) % alignment
        self.size = address = address + padding
        self._chunks.append(_i32(vtable - address) + body + bytes(padding))
        return address

    def finish(
        self, root: int, identifier: bytes, alignment: int = ALIGNMENT, reserved: bytes = b""
    ) -> bytearray:
        """Returns the whole flatbuffer, whose size is padded to a multiple of `alignment`.

        The bytes `reserved` are placed after the file identifier.
        """
        size = self.size + 8 + len(reserved)
        padding = -size % alignment
        size += padding
        head = _u32(size - root) + identifier + reserved + bytes(padding)
        self._chunks.append(head)
        self.size = size
        return bytearray(b"".join(reversed(self._chunks)))
