"""A custom op's options, decoded: a FlexBuffer, or the fields of a C struct.

The file does not say which of the two they are, and a struct can end like a FlexBuffer. They are taken for a
FlexBuffer where all of these hold, which no struct meets by chance:
  - each offset, width, length, key and text in them is well-formed, and map keys are sorted;
  - no byte is left over but zeros that align the next value;
  - the root is a map, or a vector with elements (a lone number would be too easy to meet).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.flexbuffer import FlexValue, is_whole_flexbuffer, read_flexbuffer

RAW_FORMATS = {
    ElementType.BOOL: "?", ElementType.INT8: "b", ElementType.UINT8: "B", ElementType.INT16: "h",
    ElementType.UINT16: "H", ElementType.INT32: "i", ElementType.UINT32: "I",
    ElementType.INT64: "q", ElementType.UINT64: "Q", ElementType.FLOAT16: "e",
    ElementType.FLOAT32: "f", ElementType.FLOAT64: "d",
}  # fmt: skip
"""Codes of `struct`, by element type."""

RAW_TYPES: Sequence[ElementType] = tuple(RAW_FORMATS)
"""What a field of a C struct may be; enums are INT32, and `bool` takes a byte."""


@dataclass(frozen=True, slots=True)
class RawField:
    """A field of a C struct.

    Attributes:
      offset: of its first byte in the struct; compilers align a field to its size.
    """

    name: str
    element_type: ElementType
    offset: int


def find_flexbuffer_options(
    data: bytes | memoryview,
) -> Mapping[str, FlexValue] | Sequence[FlexValue] | None:
    """The FlexBuffer that options are; None where they are a C struct, or nothing.

    A map's values are `int`, `float`, `bool`, `str`, `bytes`, None, tuples and maps.
    """
    if not is_whole_flexbuffer(data):
        return None
    root = read_flexbuffer(data)
    if isinstance(root, dict) or (isinstance(root, tuple) and root):
        return root
    return None


def read_raw_fields(
    data: bytes | memoryview, fields: Sequence[RawField], where: str = ""
) -> dict[str, bool | int | float]:
    """Fields of options that are a C struct, little-endian as on all devices TFLite runs on.

    Raises:
      LiteRtError: INVALID_ARGUMENT, for a field of another type than `RAW_TYPES`, or one that is not within
        the options.
    """
    values: dict[str, bool | int | float] = {}
    for field in fields:
        layout = RAW_FORMATS.get(field.element_type)
        if layout is None:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"field '{field.name}' is of type {field.element_type.name}",
                where,
                f"Use one of {', '.join(t.name.lower() for t in RAW_TYPES)}.",
            )
        end = field.offset + struct.calcsize(f"<{layout}")
        if not 0 <= field.offset < end <= len(data):
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"field '{field.name}' at bytes {field.offset} to {end} of options that have "
                f"{len(data)} bytes",
                where,
                "Give each field its offset in the C struct.",
            )
        (values[field.name],) = struct.unpack_from(f"<{layout}", data, field.offset)
    return values
