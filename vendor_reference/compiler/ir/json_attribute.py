"""JSON values as attributes, and back: `{order = [0, 3, 1, 2], name = "y", is_constant = true}`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import (
    ArrayAttr,
    BytesAttr,
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

from litert.core.errors import LiteRtError
from litert.core.status import Status

Json: TypeAlias = "Mapping[str, object] | Sequence[object] | str | int | float | bool | None"


def json_attribute(value: object) -> Attribute:
    """The attribute of a JSON value; null is `unit`."""
    if value is None:
        return UnitAttr()
    if isinstance(value, str):
        return StringAttr(value)
    if isinstance(value, bool):
        return IntegerAttr(int(value), i1)
    if isinstance(value, int):
        return IntegerAttr(value, i64)
    if isinstance(value, float):
        return FloatAttr(value, f64)
    if isinstance(value, Mapping):
        return DictionaryAttr({str(name): json_attribute(v) for name, v in value.items()})
    assert isinstance(value, Sequence)
    return ArrayAttr([json_attribute(item) for item in value])


def read_json(attribute: Attribute) -> Json:
    """The JSON value that an attribute stands for.

    Raises:
      LiteRtError: INVALID_ARGUMENT, for an attribute that stands for none.
    """
    if isinstance(attribute, UnitAttr):
        return None
    if isinstance(attribute, StringAttr):
        return attribute.data
    if isinstance(attribute, BytesAttr):  # what the parser makes of a text that is not ASCII
        return attribute.data.decode("utf-8", "replace")
    if isinstance(attribute, IntegerAttr):
        number = int(attribute.value.data)
        return bool(number) if attribute.type == i1 else number
    if isinstance(attribute, FloatAttr):
        return float(attribute.value.data)
    if isinstance(attribute, DictionaryAttr):
        return {name: read_json(value) for name, value in attribute.data.items()}
    if isinstance(attribute, ArrayAttr):
        return [read_json(item) for item in attribute.data]
    raise LiteRtError(Status.INVALID_ARGUMENT, f"{str(attribute)[:60]} stands for no JSON value")
