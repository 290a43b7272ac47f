"""Puts a flatbuffer together from its end to its start, so that whatever an offset points at is there already.

An address is the distance from the end: an object of address 64 lies 64 bytes before the end. The end itself is a
multiple of 64, where data that are not assembled here follow; their addresses are negative.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.flatbuffer import OUTSIDE, Source, struct_of
from litert.model.schema_types import Field, Kind, table_schema
from litert.model.table import Table

ALIGNMENT = 64
_BYTES_ALIGNMENT = 16  # byte vectors may hold anything: constants, C structs

_i32 = struct.Struct("<i")
_u32 = struct.Struct("<I")


class Layout(NamedTuple):
    """How a table with certain fields is packed.

    Attributes:
      pack: the table, from the offset to its vtable on.
      places: of the fields, from the start of the table, in the order in which they are packed.
      order: which of the fields is packed first, and so on.
      size: in bytes.
      alignment: of the table, so that its fields are aligned.
      vtable: address of the vtable.
    """

    pack: struct.Struct
    places: tuple[int, ...]
    order: tuple[int, ...]
    size: int
    alignment: int
    vtable: int


class Ref(int):
    """A field's value that is an offset, as the address of what it points at."""


class Assembler:
    """A flatbuffer in the making.

    Attributes:
      size: bytes so far: the address of what was added last.
    """

    __slots__ = ("_chunks", "_copies", "_layouts", "_vectors", "_vtables", "size")

    def __init__(self) -> None:
        self.size = 0
        self._chunks: list[bytes] = []
        self._vtables: dict[bytes, int] = {}
        self._layouts: dict[tuple[tuple[int, str], ...], Layout] = {}
        self._vectors: dict[tuple[int, ...], int] = {}
        self._copies: dict[tuple[str, Source, int], tuple[int, int, int]] = {}

    def add(self, data: bytes, alignment: int = 4, lead: int = 0) -> int:
        """Adds bytes; gives their address.

        Args:
          data: the bytes.
          alignment: of the byte that is to be aligned.
          lead: which of the bytes that is.
        """
        size = self.size + len(data)
        padding = (lead - size) % alignment
        self._chunks.append(data + bytes(padding) if padding else data)
        self.size = size = size + padding
        return size

    def text(self, text: str) -> int:
        """Adds a string."""
        data = text.encode("utf-8", "surrogateescape")
        return self.add(_u32.pack(len(data)) + data + b"\0")

    def bytes_vector(self, data: bytes | memoryview, alignment: int = _BYTES_ALIGNMENT) -> int:
        """Adds a vector of bytes."""
        return self.add(_u32.pack(len(data)) + bytes(data), alignment, 4)

    def int_vector(self, numbers: tuple[int, ...]) -> int:
        """Adds a vector of ints; the same one again, if it is there already."""
        address = self._vectors.get(numbers)
        if address is None:
            count = len(numbers)
            data = struct_of(f"<I{count}i").pack(count, *numbers)
            address = self._vectors[numbers] = self.add(data)
        return address

    def ref_vector(self, addresses: Sequence[int]) -> int:
        """Adds a vector of offsets."""
        count = len(addresses)
        size = self.size + 4 * count  # 4-aligned, as `size` is
        self.size = size
        offsets = [size - 4 * i - address for i, address in enumerate(addresses)]
        self._chunks.append(struct.pack(f"<I{count}I", count, *offsets))
        self.size += 4
        return self.size

    def layout(self, fields: tuple[tuple[int, str], ...]) -> Layout:
        """How to pack a table.

        Args:
          fields: slot and `struct` code of each field that is present.
        """
        found = self._layouts.get(fields)
        if found is None:
            found = self._layouts[fields] = self._make_layout(fields)
        return found

    def _make_layout(self, fields: tuple[tuple[int, str], ...]) -> Layout:
        sizes = [struct.calcsize("<" + code) for _, code in fields]
        order = sorted(range(len(fields)), key=lambda i: -sizes[i])
        place, pattern, places = 4, "<i", []
        alignment = max([4, *sizes])
        if alignment == 8:
            pattern, place = "<i4x", 8
        vtable = [0] * (max((slot for slot, _ in fields), default=-1) + 1)
        for i in order:
            places.append(place)
            vtable[fields[i][0]] = place
            pattern += fields[i][1]
            place += sizes[i]
        size = place + -place % 4
        pattern += f"{size - place}x"
        address = self.vtable(tuple(vtable), size)
        return Layout(struct.Struct(pattern), tuple(places), tuple(order), size, alignment, address)

    def vtable(self, offsets: tuple[int, ...], table_size: int) -> int:
        """Adds a vtable; the same one again, if it is there already."""
        count = len(offsets)
        data = struct.pack(f"<{count + 2}H", 4 + 2 * count, table_size, *offsets)
        address = self._vtables.get(data)
        if address is None:
            address = self._vtables[data] = self.add(data, 4)
        return address

    def table(self, fields: Sequence[tuple[int, str, int | float | bool]]) -> int:
        """Adds a table.

        Args:
          fields: slot, `struct` code and value of each field; an offset has a `Ref` as its value.
        """
        layout = self.layout(tuple([(slot, code) for slot, code, _ in fields]))
        address = self.size + layout.size
        address += -address % layout.alignment
        values = []
        for i, place in zip(layout.order, layout.places, strict=True):
            value = fields[i][2]
            values.append(address - place - value if isinstance(value, Ref) else value)
        return self.add(layout.pack.pack(layout.vtable - address, *values), layout.alignment)

    def copy(self, table: Table) -> int:
        """Adds a table of the schema: as it lies in a file, or from its values."""
        if table.values is not None:
            return self._copy_values(table)
        source = table.source
        assert source is not None
        position = table.position
        try:
            source.spend_tables(1)
            vtable = position - _i32.unpack_from(source.view, position)[0]
            key = (table.type_name, source, vtable)
            plan = self._copies.get(key)
            if plan is None:
                plan = self._copies[key] = self._plan(table, source.vtable(vtable))
            address_of_vtable, size, alignment = plan
            if not size or position % 4:
                return self._copy_fields(table, source)
            data = source.view[position + 4 : position + size]
            if len(data) != size - 4:
                raise struct.error
            address = self.size + size
            address += -address % 4
            if alignment == 8:
                address += -(position + address) % 8  # as far from a multiple of 8 as in the file
            padding = address - self.size - size
            self._chunks.append(
                _i32.pack(address_of_vtable - address) + bytes(data) + bytes(padding)
            )
            self.size = address
            return address
        except struct.error:
            raise source.damaged(OUTSIDE, table.type_name) from None

    def _plan(self, table: Table, offsets: tuple[int, ...]) -> tuple[int, int, int]:
        """For tables of scalars, which are copied as they are: vtable, size, alignment.

        The size is 0 for tables that are not.
        """
        slots = table_schema(table.type_name).slots
        end, alignment = 4, 4
        for slot, offset in enumerate(offsets):
            if not offset:
                continue
            field = slots[slot] if slot < len(slots) else None
            if field is None or field.kind is not Kind.SCALAR:
                return 0, 0, 0
            end = max(end, offset + field.size)
            alignment = max(alignment, field.size)
        end += -end % 4
        if end > 16 * (len(slots) + 1):  # gaps that no writer leaves
            return 0, 0, 0
        return self.vtable(offsets, end), end, alignment

    def _copy_fields(self, table: Table, source: Source) -> int:
        """A table field by field."""
        position = table.position
        offsets = source.fields(position)
        fields: list[tuple[int, str, int | float | bool]] = []
        for field in table_schema(table.type_name).fields.values():
            offset = offsets[field.slot] if field.slot < len(offsets) else 0
            if not offset:
                continue
            place = position + offset
            if field.kind is Kind.SCALAR:
                code = "I" if field.code == "f" else field.code  # a NaN comes out as it went in
                fields.append(
                    (field.slot, code, struct.unpack_from("<" + code, source.view, place)[0])
                )
            else:
                address = self._copy_reference(table, field, source, source.target(place))
                if address:
                    fields.append((field.slot, "I", Ref(address)))
                elif fields and fields[-1][0] == field.slot - 1:  # the union's number
                    fields.pop()
        return self.table(fields)

    def _copy_reference(self, table: Table, field: Field, source: Source, target: int) -> int:
        """What an offset in a file points at; 0, if it is a union that holds nothing known."""
        if field.kind in (Kind.VECTOR, Kind.STRING):
            size = field.element_size or 1
            _, _, end = source.span(target, size)
            data = bytes(source.view[target:end])
            if field.kind is Kind.STRING:
                return self.add(data + b"\0")
            return self.add(data, _BYTES_ALIGNMENT if size == 1 else max(size, 4), 4)
        if field.kind is Kind.TABLES:
            return self.ref_vector(
                [self.copy(Table(field.type_name, source, t)) for t in source.tables(target)]
            )
        value: Table | None = table.get(field.name)
        return 0 if value is None else self.copy(value)

    def _copy_values(self, table: Table) -> int:
        assert table.values is not None
        schema = table_schema(table.type_name)
        fields: list[tuple[int, str, int | float | bool]] = []
        for name, value in table.values.items():
            field = schema.fields[name]
            if field.kind is Kind.SCALAR:
                if value != field.default:
                    fields.append((field.slot, field.code, value))
                continue
            if field.kind is Kind.STRING:
                address = self.text(value)
            elif field.kind is Kind.TABLES:
                address = self.ref_vector([self.copy(entry) for entry in value])
            elif field.kind is not Kind.VECTOR:
                address = self.copy(value)
            elif field.code == "B":
                address = self.bytes_vector(value)
            else:
                data = struct.pack(f"<I{len(value)}{field.code}", len(value), *value)
                address = self.add(data, max(field.element_size, 4), 4)
            fields.append((field.slot, "I", Ref(address)))
        return self.table(fields)

    def finish(self, root: int, identifier: bytes) -> bytearray:
        """The whole flatbuffer, its size a multiple of `ALIGNMENT`."""
        self.size += 8
        self.size += -self.size % ALIGNMENT
        head = _u32.pack(self.size - root) + identifier
        parts = [head, bytes(self.size - 8 - sum(map(len, self._chunks)))]
        return bytearray(b"".join([*parts, *reversed(self._chunks)]))

    def too_large(self) -> LiteRtError:
        """The error for a flatbuffer that offsets cannot span; the caller raises it."""
        return LiteRtError(
            Status.SERIALIZATION,
            f"{self.size} bytes of tables, where a flatbuffer has less than 2 GiB",
        )
