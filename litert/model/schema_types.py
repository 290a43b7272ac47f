"""Represents the schema's tables as objects, with the slot, type and default of each field.

The schema's definitions are parsed on first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import NamedTuple

from litert.core.counts import names_text
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model import schema

IDENTIFIER = b"TFL3"
"""File identifier of this schema, bytes 4 to 7 of a file."""

_SCALARS = {  # the type's code for `struct`, and its size
    "bool": ("?", 1), "byte": ("b", 1), "ubyte": ("B", 1), "short": ("h", 2), "ushort": ("H", 2),
    "int": ("i", 4), "uint": ("I", 4), "long": ("q", 8), "ulong": ("Q", 8), "float": ("f", 4),
}  # fmt: skip


class FieldKind(Enum):
    """The kind of a field's value."""

    SCALAR = 0
    STRING = 1
    VECTOR = 2
    TABLE = 3
    TABLES = 4
    UNION = 5


class Field(NamedTuple):
    """A field of a table.

    Attributes:
      slot: Index of the field in the vtable.
      code: Format character of the Python module `struct` for a scalar or for the elements of a vector; "I" for an
        offset.
      size: Size of the field in the table, in bytes.
      element_size: Size of an element in bytes, if the field is a vector.
      default: Value that an absent scalar field has; None for fields of other kinds.
      type_name: Name of the schema's table, union or enum that is the type of the field.
    """

    name: str
    slot: int
    kind: FieldKind
    code: str
    size: int
    element_size: int
    default: int | float | bool | None
    type_name: str


class TableSchema(NamedTuple):
    """The schema of a table: its fields by slot (None for a deprecated slot) and by name."""

    type_name: str
    slots: tuple[Field | None, ...]
    fields: dict[str, Field]

    def field(self, name: str) -> Field:
        """Returns the field with this name; raises INVALID_ARGUMENT if there is none."""
        found = self.fields.get(name)
        if found is None:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the table {self.type_name} has no field '{name}'",
                hint=f"{names_text('field', list(self.fields))}.",
            )
        return found


@cache
def table_schema(type_name: str) -> TableSchema:
    """Returns a table's schema; raises INVALID_ARGUMENT if the schema lacks the table."""
    text = schema.TABLES.get(type_name)
    if text is None:
        raise LiteRtError(Status.INVALID_ARGUMENT, f"the TFLite schema has no table '{type_name}'")
    slots = tuple(_field(slot, entry) for slot, entry in enumerate(text.split()))
    return TableSchema(type_name, slots, {field.name: field for field in slots if field})


@cache
def union_numbers(union: str) -> Mapping[str, int]:
    """Maps the name of each table that a union may hold to the table's number in the union."""
    return {type_name: number for number, type_name in schema.UNIONS[union].items()}


def enum_name(enum: str, value: int) -> str:
    """Returns the name of an enum's value; if the schema has no name for the value, returns the number as text."""
    return schema.ENUMS[enum].get(value, str(value))


def _field(slot: int, entry: str) -> Field | None:
    name, _, text = entry.partition(":")
    if name == "_":
        return None
    type_name, _, default_text = text.partition("=")
    scalar = _SCALARS.get(schema.ENUM_BASES.get(type_name, type_name))
    if scalar:
        code, size = scalar
        default: int | float | bool = float(default_text or 0)
        if code != "f":
            default = bool(default) if code == "?" else int(default)
        return Field(name, slot, FieldKind.SCALAR, code, size, 0, default, type_name)
    if type_name.startswith("["):
        element = type_name[1:-1]
        if element in _SCALARS:
            code, size = _SCALARS[element]
            return Field(name, slot, FieldKind.VECTOR, code, 4, size, None, element)
        return Field(name, slot, FieldKind.TABLES, "I", 4, 4, None, element)
    kind = (
        FieldKind.STRING
        if type_name == "string"
        else FieldKind.UNION
        if type_name in schema.UNIONS
        else FieldKind.TABLE
    )
    return Field(name, slot, kind, "I", 4, 0, None, type_name)
