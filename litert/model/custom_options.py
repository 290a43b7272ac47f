"""Decodes and encodes a custom op's options as a FlexBuffer.

The file does not say whether options are a FlexBuffer or a C struct (`raw_options`), and the bytes
of a struct can end like a FlexBuffer. Options count as a FlexBuffer if all of these conditions
hold, which no struct fulfills by chance:
  - each offset, width, length, key and text is well-formed, and the keys of maps are sorted;
  - every remaining byte is a zero that aligns the next value;
  - the root is a map, or a vector with elements (a single number would match too many structs).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.flexbuffer import FlexValue, read_flexbuffer

_LARGEST_FLOAT = 3.4028234e38
_DEPTH = 32  # limit for nested lists and maps, which readers must follow


def find_flexbuffer_options(
    data: bytes | memoryview,
) -> Mapping[str, FlexValue] | Sequence[FlexValue] | None:
    """Returns the FlexBuffer values in an op's options; None if the options are a C struct, or empty.

    The values of a map are `int`, `float`, `bool`, `str`, `bytes`, None, tuples and maps.
    """
    try:
        root = read_flexbuffer(data, is_whole=True)
    except LiteRtError:
        return None
    if isinstance(root, dict) or (isinstance(root, tuple) and root):
        return root
    return None


def write_flexbuffer_options(options: Mapping[str, object], where: str = "") -> bytes:
    """Encodes options as a FlexBuffer map with sorted keys.

    Values are 64-bit numbers, text, bytes, None, and lists and maps of these; NumPy numbers and
    arrays also work.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if a FlexBuffer cannot hold a name or a value.
    """
    # imported here, because it imports NumPy
    from flatbuffers import flexbuffers  # type: ignore[import-untyped]

    builder = flexbuffers.Builder()
    _add(builder, _as_map(options, "option", where, 0))
    return bytes(builder.Finish())


def as_flex_value(value: object, name: str, where: str = "") -> FlexValue:
    """Returns an option's value as `find_flexbuffer_options` returns it, but lists stay lists."""
    return _as_flex_value(value, f"option '{name}'", where, 0)


def _as_flex_value(value: object, name: str, where: str, depth: int) -> FlexValue:
    if isinstance(value, Enum):
        value = value.value
    elif isinstance(value, (bytearray, memoryview)):
        value = bytes(value)
    elif hasattr(value, "tolist"):  # detects NumPy's numbers and arrays without importing NumPy
        value = value.tolist()
    if depth > _DEPTH:
        raise _error(f"{name} has more than {_DEPTH} nested lists or maps", where)
    if isinstance(value, Mapping):
        return _as_map(value, name, where, depth)
    if isinstance(value, (list, tuple, range)):
        return [
            _as_flex_value(element, f"{name}[{i}]", where, depth + 1)
            for i, element in enumerate(value)
        ]
    if isinstance(value, int) and not isinstance(value, bool):
        if not -(2**63) <= value < 2**63:
            raise _error(f"{name} is {value}, which has more than 64 bits", where)
        return int(value)
    if isinstance(value, str):
        return _checked_text(value, name, where)
    if value is None or isinstance(value, (bool, float, bytes)):
        return value
    raise _error(f"{name} is {value!r:.200}, and a FlexBuffer cannot hold this type", where)


def _as_map(
    options: Mapping[object, object] | Mapping[str, object], name: str, where: str, depth: int
) -> dict[str, FlexValue]:
    values: dict[str, FlexValue] = {}
    for key, value in options.items():
        if not isinstance(key, str) or not key or "\0" in key:
            raise _error(f"{key!r:.200} is not a valid name of an {name}", where)
        text = _checked_text(key, f"the name of an {name}", where)
        values[text] = _as_flex_value(value, f"{name} '{text}'", where, depth + 1)
    return values


def _add(builder: Any, value: FlexValue) -> None:
    """Same as `builder.Add`, which takes only ASCII names and no float beyond float32."""
    if isinstance(value, Mapping):
        with builder.Map():
            for key, element in value.items():
                builder.Key(key.encode())
                _add(builder, element)
    elif isinstance(value, list):
        with builder.Vector():
            for element in value:
                _add(builder, element)
    elif isinstance(value, float) and abs(value) > _LARGEST_FLOAT:
        builder.Float(value, 8)
    else:
        builder.Add(value)


def _checked_text(text: str, name: str, where: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _error(f"{name} is {text!a:.200}, which is not UTF-8", where) from None
    return str(text)


def _error(what: str, where: str) -> LiteRtError:
    return LiteRtError(
        Status.INVALID_ARGUMENT,
        what,
        where,
        "Use 64-bit numbers, text, bytes, None, and lists and maps of these.",
    )
