"""Decodes and encodes a custom op's options as a FlexBuffer.

The file does not say whether a custom op's options are a FlexBuffer or a C struct (`raw_options`), and the last
bytes of a C struct may look like those of a FlexBuffer. Options are decoded as a FlexBuffer if all of the
following conditions hold; it is very unlikely that a C struct meets all of them by chance:
  - each offset, width, length, key and string is well-formed, and the keys of maps are sorted;
  - every other byte is a padding zero that aligns the next value;
  - the root is a map, or a vector that is not empty (a single number is not enough, because too many C structs
    look like one).
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
    """Returns the FlexBuffer value of an op's options; None if the options are a C struct or are empty.

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

    Values may be 64-bit numbers, strings, bytes, None, NumPy numbers and arrays, and lists and maps of such
    values.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if a FlexBuffer cannot hold an option's name or value.
    """
    # imported here, because it imports NumPy
    from flatbuffers import flexbuffers  # type: ignore[import-untyped]

    builder = flexbuffers.Builder()
    _add(builder, _as_map(options, "option", where, 0))
    return bytes(builder.Finish())


def as_flex_value(value: object, name: str, where: str = "") -> FlexValue:
    """Converts an option's value to the form in which `find_flexbuffer_options` returns it; lists stay lists."""
    return _as_flex_value(value, f"option '{name}'", where, 0)


def _as_flex_value(value: object, name: str, where: str, depth: int) -> FlexValue:
    if isinstance(value, Enum):
        value = value.value
    elif isinstance(value, (bytearray, memoryview)):
        value = bytes(value)
    elif hasattr(value, "tolist"):  # detects NumPy's numbers and arrays without importing NumPy
        value = value.tolist()
    if depth > _DEPTH:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"{name.partition('[')[0]} is nested more than {_DEPTH} levels deep",
            where,
            "Use fewer levels of lists and maps.",
        )
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
    place = f"in {name}" if depth else f"of an {name}"
    for key, value in options.items():
        if not isinstance(key, str) or not key or "\0" in key:
            raise _error(f"{key!r:.200} is not a valid name {place}", where)
        text = _checked_text(key, f"the name {place}", where)
        values[text] = _as_flex_value(value, f"{name} '{text}'", where, depth + 1)
    return values


def _add(builder: Any, value: FlexValue) -> None:
    """Adds a value as `builder.Add` does, but also accepts non-ASCII names and floats beyond float32."""
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
        "Use 64-bit numbers, strings, bytes, None, and lists and maps of these values.",
    )
