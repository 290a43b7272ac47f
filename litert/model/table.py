"""Tables of the schema, whose fields have names; a table is decoded from a file on access, or made from values.

As in the schema, an absent vector or string differs from an empty vector or string. Absent values have classes of
their own, and compare equal to empty values; only the writer distinguishes the two.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model import schema
from litert.model.flatbuffer import OUTSIDE, FlatbufferBytes
from litert.model.schema_types import Field, FieldKind, TableSchema, table_schema, union_numbers


class AbsentText(str):
    """An absent string of a table."""

    __slots__ = ()


class AbsentVector(tuple[Any, ...]):
    """An absent vector of a table."""

    __slots__ = ()


class AbsentList(list[Any]):
    """A list that counts as an absent vector until an element is appended."""

    __slots__ = ()


NO_TEXT: Final = AbsentText()
NO_VECTOR: Final = AbsentVector()


def is_absent(value: Sequence[object]) -> bool:
    """Returns whether a value stands for an absent field."""
    return not value and isinstance(value, AbsentText | AbsentVector | AbsentList)


class Table:
    """One table of the TFLite schema, such as `Conv2DOptions`; its values do not change.

    The fields have the same names as in the schema, such as `stride_w`. The value of a table or a union is a
    `Table`; the value of a vector
    is a tuple, or a `memoryview` for a vector of bytes.

    Attributes:
      type_name: Name of the table in the schema.
      source, position: File that contains the table, and the table's position in the file; the writer copies the
        table from there.
      values: Values of the fields, if the table was made from values.
    """

    __slots__ = ("position", "source", "type_name", "values")

    def __init__(self, type_name: str, source: FlatbufferBytes, position: int) -> None:
        """Makes an object for a table in a file; new tables are made by `make`."""
        self.type_name = type_name
        self.source: FlatbufferBytes | None = source
        self.position = position
        self.values: Mapping[str, Any] | None = None

    @classmethod
    def make(cls, type_name: str, **fields: Any) -> Table:
        """Makes a table from values of fields; a field that is omitted or None has the schema's default.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the schema lacks the table or one of the fields, or if a field cannot
            hold its value.
        """
        shape = table_schema(type_name)
        values: dict[str, Any] = {}
        for name, value in fields.items():
            field = shape.field(name)
            if value is not None:
                values[name] = _checked(shape, field, value)
            if field.kind is FieldKind.UNION:
                values.pop(f"{name}_type", None)
                if value is not None:
                    values[f"{name}_type"] = union_numbers(field.type_name)[value.type_name]
        table = cls.__new__(cls)
        table.type_name = type_name
        table.source = None
        table.position = 0
        table.values = {name: values[name] for name in shape.fields if name in values}
        return table

    def get(self, field: str) -> Any:
        """Returns a field's value; an absent field has the schema's default (None for tables and vectors).

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the schema lacks the field; INVALID_FLATBUFFER, if the table is
            damaged.
        """
        found = table_schema(self.type_name).field(field)
        if self.values is not None:
            return self.values.get(field, found.default)
        return self._decode(found)

    def fields(self) -> Mapping[str, Any]:
        """Returns the values of all fields that are present, by name, in the order of the schema.

        Raises:
          LiteRtError: INVALID_FLATBUFFER, if the table is damaged.
        """
        if self.values is not None:
            return self.values
        return {
            field.name: self._decode(field)
            for field in table_schema(self.type_name).fields.values()
            if self._offset(field)
        }

    def with_fields(self, **changes: Any) -> Table:
        """Returns a copy of the table with new values in some fields; the value None removes a field."""
        fields = dict(self.fields())
        for name, field in table_schema(self.type_name).fields.items():
            if field.kind is FieldKind.UNION:  # the union's own field sets this field again
                fields.pop(f"{name}_type", None)
        return Table.make(self.type_name, **{**fields, **changes})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        return self.type_name == other.type_name and self.fields() == other.fields()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = {
            name: f"<{value.nbytes} bytes>" if isinstance(value, memoryview) else repr(value)
            for name, value in self.fields().items()
        }
        values = ", ".join(f"{name}={value}" for name, value in fields.items())
        return f"{self.type_name}({values})"

    def _offset(self, field: Field) -> int:
        """Returns a field's offset from the table's position; 0 if the field is absent."""
        assert self.source is not None
        try:
            offsets = self.source.fields(self.position)
        except struct.error:
            raise self.source.damaged(OUTSIDE, self.type_name) from None
        return offsets[field.slot] if field.slot < len(offsets) else 0

    def _decode(self, field: Field) -> Any:
        offset = self._offset(field)
        if not offset:
            return field.default
        source = self.source
        assert source is not None
        place = self.position + offset
        try:
            if field.kind is FieldKind.SCALAR:
                return struct.unpack_from(f"<{field.code}", source.view, place)[0]
            target = source.target(place)
            if field.kind is FieldKind.VECTOR:
                if field.code == "B":
                    _, start, end = source.span(target, 1)
                    return source.view[start:end]
                return source.numbers(target, field.code, field.element_size)
            if field.kind is FieldKind.STRING:
                return source.text(target)
            if field.kind is FieldKind.TABLES:
                return tuple(
                    Table(field.type_name, source, position) for position in source.tables(target)
                )
            if field.kind is FieldKind.TABLE:
                return Table(field.type_name, source, target)
            type_name = schema.UNIONS[field.type_name].get(self.get(f"{field.name}_type"))
            return Table(type_name, source, target) if type_name not in (None, "NONE") else None
        except struct.error:
            raise source.damaged(OUTSIDE, f"{field.name} of {self.type_name}") from None


def _checked(shape: TableSchema, field: Field, value: Any) -> Any:
    """Checks a value for a field, and converts the value to the form that `Table` stores."""
    kind = field.kind
    try:
        if kind is FieldKind.SCALAR:
            if field.code == "?":
                return bool(value)
            if field.code == "f":
                return float(value)
            struct.pack(f"<{field.code}", value)
            return int(value)
        if kind is FieldKind.VECTOR:
            if field.code == "B" and isinstance(value, bytes | bytearray | memoryview):
                return memoryview(bytes(value))
            struct.pack(f"<{len(value)}{field.code}", *value)
            return memoryview(bytes(value)) if field.code == "B" else tuple(value)
    except (struct.error, TypeError, ValueError, OverflowError) as error:
        raise _unfit(shape, field, value) from error
    types = union_numbers(field.type_name) if kind is FieldKind.UNION else (field.type_name,)

    def fits(each: object) -> bool:
        return isinstance(each, Table) and each.type_name in types

    if kind is FieldKind.STRING and isinstance(value, str):
        return value
    if kind in (FieldKind.TABLE, FieldKind.UNION) and fits(value):
        return value
    if kind is FieldKind.TABLES and isinstance(value, Sequence) and all(map(fits, value)):
        return tuple(value)
    raise _unfit(shape, field, value)


def _unfit(shape: TableSchema, field: Field, value: Any) -> LiteRtError:
    return LiteRtError(
        Status.INVALID_ARGUMENT,
        f"{shape.type_name}.{field.name} has type {field.type_name} and cannot hold {value!r:.200}",
    )
