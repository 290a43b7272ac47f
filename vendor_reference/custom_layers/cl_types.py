"""Element types in OpenCL C."""

from __future__ import annotations

from collections.abc import Mapping

from litert.core.element_type import ElementType
from litert.model.raw_options import RAW_TYPES

_E = ElementType

CL_TYPES: Mapping[ElementType, str] = {
    _E.FLOAT32: "float", _E.FLOAT16: "half", _E.FLOAT64: "double",
    _E.INT8: "char", _E.UINT8: "uchar", _E.BOOL: "uchar",
    _E.INT16: "short", _E.UINT16: "ushort", _E.INT32: "int", _E.UINT32: "uint",
    _E.INT64: "long", _E.UINT64: "ulong",
}  # fmt: skip
"""The OpenCL C type of each tensor element type that kernels can read."""

STRUCT_FORMATS: Mapping[ElementType, str] = {
    _E.FLOAT32: "f", _E.FLOAT64: "d", _E.INT8: "b", _E.UINT8: "B", _E.INT16: "h",
    _E.UINT16: "H", _E.INT32: "i", _E.UINT32: "I", _E.INT64: "q", _E.UINT64: "Q",
}  # fmt: skip
"""Format character of Python's `struct` for each element type that numbers in a layer description can have."""

NUMBER_TYPES: Mapping[str, ElementType] = {t.name.lower(): t for t in STRUCT_FORMATS}
"""Element types that numbers in a layer description can have, by their names there, for example `float32`."""

FIELD_TYPES: Mapping[str, ElementType] = {t.name.lower(): t for t in RAW_TYPES}
"""Element types that fields of a C struct can have, by the names that layer descriptions use."""
