"""Converts plain Python data to attributes, and simple attributes to Python values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from xdsl.dialects.builtin import (
    ArrayAttr,
    BytesAttr,
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute

from vendor_reference.compiler.ir.assembly import number


def plain_attribute(value: object) -> Attribute:
    """Converts plain Python data to an attribute.

    None becomes `unit`, a tuple of numbers becomes `array<...>`, and attributes stay unchanged.
    """
    if isinstance(value, Attribute):
        return value
    if value is None:
        return UnitAttr()
    if isinstance(value, str):
        return StringAttr(value)
    if isinstance(value, bool):
        return IntegerAttr(int(value), i1)
    if isinstance(value, int):
        return number(value)
    if isinstance(value, float):
        return FloatAttr(value, f64)
    if isinstance(value, tuple):
        is_real = any(isinstance(item, float) for item in value)
        return DenseArrayBase.from_list(f64 if is_real else i64, value)
    if isinstance(value, Mapping):
        return DictionaryAttr({str(name): plain_attribute(v) for name, v in value.items()})
    assert isinstance(value, Sequence)
    return ArrayAttr([plain_attribute(item) for item in value])


def plain_value(attribute: Attribute) -> object:
    """Converts an attribute to None, a string or a number; other attributes stay unchanged."""
    if isinstance(attribute, UnitAttr):
        return None
    if isinstance(attribute, StringAttr):
        return attribute.data
    if isinstance(attribute, BytesAttr):  # the parser's form of a text that is not ASCII
        with suppress(UnicodeDecodeError):
            return attribute.data.decode()
    if isinstance(attribute, IntegerAttr):
        value = int(attribute.value.data)
        return bool(value) if attribute.type == i1 else value
    return float(attribute.value.data) if isinstance(attribute, FloatAttr) else attribute
