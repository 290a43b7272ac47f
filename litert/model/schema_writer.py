"""Writes tables of the schema into a flatbuffer: fields that may be left out, and data that lie elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from litert.model.absent import is_absent
from litert.model.assembler import Assembler
from litert.model.blob import Blob
from litert.model.placement import SIZE_PREFIX
from litert.model.table_copy import TableCopier

Offsets = list[tuple[int, int]]
"""Slot of each field, and address of what it points at."""

Scalars = list[tuple[int, str, Any]]
"""Slot of each field, its code for `struct`, and its value."""


class SchemaWriter:
    """One flatbuffer, written as tables of the schema.

    Attributes:
      out: the flatbuffer.
      copier: of tables that nobody has changed.
      absolute: address of each ulong that is to hold a place in the file, and the place from the tables' end.
    """

    def __init__(self, inside: Mapping[int, int], outside: Mapping[int, int]) -> None:
        """An empty flatbuffer.

        Args:
          inside: places of data vectors, from the tables' end, by the blob's id.
          outside: places of data behind the flatbuffer.
        """
        self.out = Assembler()
        self.copier = TableCopier(self.out)
        self.absolute: list[tuple[int, int]] = []
        self._inside = inside
        self._outside = outside

    def text_field(self, slot: int, text: str) -> Offsets:
        """A field that is a string, unless it is left out."""
        return [] if is_absent(text) else [(slot, self.out.text(text))]

    def int_field(self, slot: int, numbers: Sequence[int], values: Sequence[object]) -> Offsets:
        """A field that is a vector of ints, unless the values that these stand for are left out."""
        return [] if is_absent(values) else [(slot, self.out.int_vector(tuple(numbers)))]

    def tables_field(
        self, slot: int, addresses: Sequence[int], values: Sequence[object]
    ) -> Offsets:
        """A field that is a vector of tables, unless the values that these stand for are left out."""
        if not addresses and is_absent(values):
            return []
        return [(slot, self.out.offset_vector(addresses))]

    def data_vector(self, blob: Blob) -> int | None:
        """Address of data that lie in the flatbuffer behind its tables; None if they do not."""
        place = self._inside.get(id(blob))
        return None if place is None else SIZE_PREFIX - place

    def table_with_data(self, offsets: Offsets, scalars: Scalars, slot: int, blob: Blob) -> int:
        """Adds a table with the place of data behind the flatbuffer in a slot, and their size in the next one."""
        scalars = [(slot, "Q", 0), (slot + 1, "Q", blob.size), *scalars]
        address = self.out.table(offsets, scalars)
        layout = self.out.layout(
            tuple([slot for slot, _ in offsets]), tuple([(slot, code) for slot, code, _ in scalars])
        )
        self.absolute.append((address - layout.scalar_places[0], self._outside[id(blob)]))
        return address
