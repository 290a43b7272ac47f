"""Reads and writes a custom op's options as the bytes of a C struct, in little-endian byte order."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from litert.core.counts import count_text, names_text
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status

RAW_FORMATS = {
    ElementType.BOOL: "?", ElementType.INT8: "b", ElementType.UINT8: "B", ElementType.INT16: "h",
    ElementType.UINT16: "H", ElementType.INT32: "i", ElementType.UINT32: "I",
    ElementType.INT64: "q", ElementType.UINT64: "Q", ElementType.FLOAT16: "e",
    ElementType.FLOAT32: "f", ElementType.FLOAT64: "d",
}  # fmt: skip
"""Format characters of the Python module `struct`, by element type."""

RAW_TYPES: Sequence[ElementType] = tuple(RAW_FORMATS)
"""Types that a field of a C struct may have; a C enum is an INT32, and a `bool` takes one byte."""

RawValue: TypeAlias = bool | int | float | tuple[bool | int | float, ...]

Declaration: TypeAlias = tuple[str, ElementType | str] | tuple[str, ElementType | str, int]
"""Name of a field, its type (such as `"int32"`), and the number of its elements if the field is an array."""


@dataclass(frozen=True, slots=True)
class RawField:
    """A field of a C struct.

    Attributes:
      offset: Offset of the field from the start of the struct, in bytes; C compilers align a field to the size of
        its elements.
      count: Number of elements if the field is an array; None if the field is a single number.
    """

    name: str
    element_type: ElementType
    offset: int
    count: int | None = None

    @property
    def layout(self) -> str:
        """The field's format for the Python module `struct`."""
        return f"<{self.count or ''}{RAW_FORMATS[self.element_type]}"

    @property
    def end(self) -> int:
        """Offset of the first byte after the field."""
        return self.offset + struct.calcsize(self.layout)


def raw_fields(*declarations: Declaration) -> Sequence[RawField]:
    """Returns the fields of a C struct, at the offsets that a C compiler chooses.

    Args:
      declarations: For each field, a tuple of its name and its type, such as `("scale", "float32")`; for an array,
        also the number of elements.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if a field has an unsupported type, or is an array without elements.
    """
    fields: list[RawField] = []
    end = 0
    for name, type_name, *count in declarations:
        element_type = _element_type(name, type_name)
        size = element_type.bits // 8
        field = RawField(name, element_type, -(-end // size) * size, *count)
        _check(field, "")
        fields.append(field)
        end = field.end
    return fields


def read_raw_fields(
    data: bytes | memoryview, fields: Sequence[RawField], where: str = ""
) -> dict[str, RawValue]:
    """Returns the values of fields by name; the value of an array is a tuple.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the type of a field is not in `RAW_TYPES`, or if a field extends beyond the
        options' end.
    """
    values: dict[str, RawValue] = {}
    for field in fields:
        _check(field, where)
        if field.end > len(data):
            raise _error(
                f"the field '{field.name}' begins at byte {field.offset} and has "
                f"{count_text(field.end - field.offset, 'byte')}, but the options have only "
                f"{count_text(len(data), 'byte')}",
                where,
                "Give each field the type and offset that it has in the C struct.",
            )
        found = struct.unpack_from(field.layout, data, field.offset)
        values[field.name] = found[0] if field.count is None else found
    return values


def write_raw_fields(
    values: Mapping[str, object],
    fields: Sequence[RawField],
    data: bytes | memoryview = b"",
    where: str = "",
) -> bytes:
    """Encodes values as the bytes of a C struct; a number may be a NumPy number, and an array may be a list.

    Bytes between and after the fields are copied from `data`; without `data`, these bytes are zero.

    Returns:
      The bytes of the C struct; their number is the larger of the struct's `sizeof` and the size of `data`.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if a field cannot hold its value, if `values` lacks a field, or if `fields`
        lacks the name of a value.
    """
    known = [field.name for field in fields]
    for name in values:
        if name not in known:
            raise _error(
                f"the C struct has no field '{name}'", where, f"{names_text('field', known)}."
            )
    written = bytearray(data)
    written.extend(bytes(max(0, _struct_size(fields) - len(written))))
    for field in fields:
        _check(field, where)
        if values.get(field.name) is None:
            raise _error(f"the field '{field.name}' of the C struct has no value", where)
        struct.pack_into(field.layout, written, field.offset, *_elements(field, values, where))
    return bytes(written)


def _struct_size(fields: Sequence[RawField]) -> int:
    """Returns `sizeof` of the struct, which includes padding after the last field."""
    end = max((field.end for field in fields), default=0)
    size = max((field.element_type.bits // 8 for field in fields), default=1)
    return -(-end // size) * size


def _elements(
    field: RawField, values: Mapping[str, object], where: str
) -> Sequence[bool | int | float]:
    """Returns the elements of a field's value; checks each element, so that error messages contain the element."""
    value = values[field.name]
    if hasattr(value, "tolist"):  # detects NumPy's types without importing NumPy
        value = value.tolist()
    elements = [value] if field.count is None else value
    count = field.count or 1
    type_name = field.element_type.name.lower()
    if not isinstance(elements, (list, tuple)) or len(elements) != count:
        raise _error(
            f"the field '{field.name}' must have {count_text(count, 'element')} of type {type_name}, but "
            f"the value is {value!r:.200}",
            where,
        )
    for element in elements:
        try:
            if isinstance(element, bool) != (field.element_type is ElementType.BOOL):
                raise TypeError
            struct.pack(f"<{RAW_FORMATS[field.element_type]}", element)
        except (struct.error, OverflowError, TypeError):
            raise _error(
                f"the field '{field.name}' has type {type_name}, which cannot hold "
                f"{element!r:.200}",
                where,
            ) from None
    return elements


def _element_type(name: str, type_name: ElementType | str) -> ElementType:
    found = (
        type_name
        if isinstance(type_name, ElementType)
        else ElementType.__members__.get(type_name.upper())
    )
    if found is None or found not in RAW_TYPES:
        raise _no_type(name, type_name if isinstance(type_name, str) else type_name.name, "")
    return found


def _check(field: RawField, where: str) -> None:
    if field.element_type not in RAW_TYPES:
        raise _no_type(field.name, field.element_type.name, where)
    if field.offset < 0 or (field.count is not None and field.count < 1):
        mistake = f"offset {field.offset}" if field.offset < 0 else f"count {field.count}"
        raise _error(
            f"the field '{field.name}' has the invalid {mistake}",
            where,
            "Give each field the offset that it has in the C struct, and give the number of "
            "elements of each array.",
        )


def _no_type(name: str, type_name: str, where: str) -> LiteRtError:
    return _error(
        f"field '{name}' has the unsupported type {type_name}",
        where,
        f"Use one of {', '.join(t.name.lower() for t in RAW_TYPES)}.",
    )


def _error(what: str, where: str, hint: str = "") -> LiteRtError:
    return LiteRtError(Status.INVALID_ARGUMENT, what, where, hint)
