"""Writes tables of the schema to a flatbuffer: copies tables from a file, or makes new tables from values.

The writer omits absent fields. The constant data are written separately from the tables. Most tables of options
contain only a few numbers; the writer copies the bytes of such a table, whatever its type.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from litert.model.assembler import BYTES_ALIGNMENT, Assembler
from litert.model.blob import Blob
from litert.model.flatbuffer import OUTSIDE, Budget, FlatbufferBytes, i32
from litert.model.placement import SIZE_PREFIX
from litert.model.schema_types import Field, FieldKind, table_schema
from litert.model.table import Table, is_absent

Offsets = list[tuple[int, int]]
"""Pairs of a field's slot and the address to which the field's offset points."""

Scalars = list[tuple[int, str, Any]]
"""Triples of a field's slot, its format character for the Python module `struct`, and its value."""

# Average size of a table that is copied unchanged: real tables have no gaps.
_MAX_FIELD_SIZE = 16


class SchemaWriter:
    """A writer of tables of the schema to one flatbuffer.

    Attributes:
      out: The flatbuffer under construction.
      absolute: Maps the address of each 64-bit file position in the tables to the data's distance from the end of
        the tables.
    """

    def __init__(self, inside: Mapping[int, int], outside: Mapping[int, int]) -> None:
        """Takes data positions in and after the flatbuffer by the blob's `id`; they count from the tables' end."""
        self.out = Assembler()
        self.absolute: list[tuple[int, int]] = []
        self._inside = inside
        self._outside = outside
        self._budgets: dict[FlatbufferBytes, Budget] = {}
        self._plans: dict[tuple[str, FlatbufferBytes, int], tuple[int, int, int]] = {}

    def text_field(self, slot: int, text: str) -> Offsets:
        """Adds a string field, unless the field is absent."""
        return [] if is_absent(text) else [(slot, self.out.text(text))]

    def int_field(self, slot: int, numbers: Sequence[int], values: Sequence[object]) -> Offsets:
        """Adds a field with a vector of ints, unless the field is absent."""
        return [] if is_absent(values) else [(slot, self.out.int_vector(tuple(numbers)))]

    def tables_field(
        self, slot: int, addresses: Sequence[int], values: Sequence[object]
    ) -> Offsets:
        """Adds a field with a vector of tables, unless the field is absent."""
        if not addresses and is_absent(values):
            return []
        return [(slot, self.out.offset_vector(addresses))]

    def data_vector(self, blob: Blob) -> int | None:
        """Returns the address of data that follow the tables in the flatbuffer; None for data in other places."""
        place = self._inside.get(id(blob))
        return None if place is None else SIZE_PREFIX - place

    def table_with_data(self, offsets: Offsets, scalars: Scalars, slot: int, blob: Blob) -> int:
        """Adds a table that refers to external data by their position (in `slot`) and size (in the next slot)."""
        scalars = [(slot, "Q", 0), (slot + 1, "Q", blob.size), *scalars]
        address = self.out.table(offsets, scalars)
        layout = self.out.layout(
            tuple([slot for slot, _ in offsets]), tuple([(slot, code) for slot, code, _ in scalars])
        )
        self.absolute.append((address - layout.scalar_places[0], self._outside[id(blob)]))
        return address

    def copy(self, table: Table) -> int:
        """Copies a table and everything to which its offsets point; returns the address of the copy.

        Raises:
          LiteRtError: INVALID_FLATBUFFER, if the table is damaged.
        """
        source = table.source
        if source is None:
            return self._copy_values(table)
        position = table.position
        view = source.view
        try:
            vtable = position - i32(view, position)[0]
            key = (table.type_name, source, vtable)
            plan = self._plans.get(key)
            if plan is None:
                plan = self._plans[key] = self._plan(table, source.vtable(vtable))
            address, size, alignment = plan
            if size and not position % 4 and position + size <= source.size:
                body = bytes(view[position + 4 : position + size])
                return self.out.copied_table(address, body, position, alignment)
            budget = self._budgets.get(source)
            if budget is None:
                budget = self._budgets[source] = Budget(source)
            budget.spend_tables(1)
            return self._copy_fields(table, source, budget)
        except struct.error:
            raise source.damaged(OUTSIDE, table.type_name) from None

    def _plan(self, table: Table, offsets: tuple[int, ...]) -> tuple[int, int, int]:
        """Returns the vtable's address, the size and the alignment of a table that contains only scalars.

        For a table with offsets, the size is 0.
        """
        slots = table_schema(table.type_name).slots
        end, alignment = 4, 4
        for slot, offset in enumerate(offsets):
            if not offset:
                continue
            field = slots[slot] if slot < len(slots) else None
            if field is None or field.kind is not FieldKind.SCALAR:
                return 0, 0, 0
            end = max(end, offset + field.size)
            alignment = max(alignment, field.size)
        end += -end % 4
        if end > _MAX_FIELD_SIZE * (len(slots) + 1):
            return 0, 0, 0
        return self.out.vtable(offsets, end), end, alignment

    def _copy_fields(self, table: Table, source: FlatbufferBytes, budget: Budget) -> int:
        position = table.position
        present = source.fields(position)
        offsets: list[tuple[int, int]] = []
        scalars: list[tuple[int, str, Any]] = []
        for field in table_schema(table.type_name).fields.values():
            place = present[field.slot] if field.slot < len(present) else 0
            if not place:
                continue
            place += position
            if field.kind is FieldKind.SCALAR:
                code = "I" if field.code == "f" else field.code  # a NaN is written unchanged
                value = struct.unpack_from("<" + code, source.view, place)[0]
                scalars.append((field.slot, code, value))
                continue
            address = self._copy_target(table, field, source.target(place), budget)
            if address:
                offsets.append((field.slot, address))
            else:  # unknown to the schema, like the number in the union
                scalars = [entry for entry in scalars if entry[0] != field.slot - 1]
        return self.out.table(offsets, _largest_first(scalars))

    def _copy_target(self, table: Table, field: Field, target: int, budget: Budget) -> int:
        """Copies the object to which an offset in a file points; returns 0 for a table that the schema lacks."""
        source = table.source
        assert source is not None
        if field.kind in (FieldKind.VECTOR, FieldKind.STRING):
            size = field.element_size or 1
            _, _, end = source.span(target, size)
            budget.spend_bytes(end - target)
            data = bytes(source.view[target:end])
            if field.kind is FieldKind.STRING:
                return self.out.add(data + b"\0")
            return self.out.add(data, _vector_alignment(size), 4)
        if field.kind is FieldKind.TABLES:
            tables = source.tables(target)
            budget.spend_tables(len(tables))
            return self.out.offset_vector(
                [self.copy(Table(field.type_name, source, position)) for position in tables]
            )
        value: Table | None = table.get(field.name)
        return 0 if value is None else self.copy(value)

    def _copy_values(self, table: Table) -> int:
        assert table.values is not None
        fields = table_schema(table.type_name).fields
        offsets: list[tuple[int, int]] = []
        scalars: list[tuple[int, str, Any]] = []
        for name, value in table.values.items():
            field = fields[name]
            if field.kind is not FieldKind.SCALAR:
                offsets.append((field.slot, self._add_value(field, value)))
            elif value != field.default:
                scalars.append((field.slot, field.code, value))
        return self.out.table(offsets, _largest_first(scalars))

    def _add_value(self, field: Field, value: Any) -> int:
        if field.kind is FieldKind.STRING:
            return self.out.text(value)
        if field.kind is FieldKind.TABLES:
            return self.out.offset_vector([self.copy(entry) for entry in value])
        if field.kind is not FieldKind.VECTOR:
            return self.copy(value)
        if field.code == "B":
            return self.out.byte_vector(value)
        data = struct.pack(f"<I{len(value)}{field.code}", len(value), *value)
        return self.out.add(data, _vector_alignment(field.element_size), 4)


def _vector_alignment(element_size: int) -> int:
    return BYTES_ALIGNMENT if element_size == 1 else max(element_size, 4)


def _largest_first(scalars: list[tuple[int, str, Any]]) -> list[tuple[int, str, Any]]:
    return sorted(scalars, key=lambda entry: -struct.calcsize("<" + entry[1]))
