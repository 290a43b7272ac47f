"""Reads FlexBuffers into Python values; raises an error if a FlexBuffer is damaged in any way.

Format: https://flatbuffers.dev/flexbuffers_internals. The package `flatbuffers` also has a reader, but that reader
  trusts its input (and imports NumPy). The reader in this module accepts any bytes: it checks each offset, width,
  length and key, and the size of the input limits its running time.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from litert.core.errors import LiteRtError
from litert.core.status import Status

FlexValue: TypeAlias = (
    "bool | int | float | str | bytes | Sequence[FlexValue] | Mapping[str, FlexValue] | None"
)
"""A FlexBuffer value in Python: a map is a `dict`, a vector a `tuple`, a blob `bytes`, a key or string a `str`."""

_MAX_DEPTH = 64

_NULL, _INT, _UINT, _FLOAT, _KEY, _STRING = range(6)
_INDIRECT_INT, _INDIRECT_UINT, _INDIRECT_FLOAT, _MAP, _VECTOR = range(6, 11)
_VECTOR_INT, _VECTOR_STRING = 11, 15  # VECTOR_STRING is deprecated, but still read
_VECTOR_INT2, _VECTOR_FLOAT4 = 16, 24  # tuples of 2, 3 and 4 ints, uints and floats
_BLOB, _BOOL, _VECTOR_BOOL = 25, 26, 36


def read_flexbuffer(
    data: bytes | memoryview, where: str = "", *, is_whole: bool = False
) -> FlexValue:
    """Returns the root value of a FlexBuffer, which is at the end of the data.

    If `is_whole` is true, each byte must belong to a value, or must be a padding zero that aligns the next value.
    FlexBuffer builders write only such bytes. The last bytes of a C struct may look like a FlexBuffer, but the
    struct also contains other bytes.

    Raises:
      LiteRtError: INVALID_FLATBUFFER, if the data are not a well-formed FlexBuffer; the error contains `where`.
    """
    return _Reader(data, where).root(is_whole)


class _Reader:
    """Reads one buffer, and records which bytes it has read."""

    def __init__(self, data: bytes | memoryview, where: str) -> None:
        self._data = bytes(data)
        self._where = where
        self._budget = len(self._data)  # values that do not overlap take at least a byte each
        self._texts: dict[tuple[int, int], str] = {}  # builders share keys and strings
        self._spans: list[tuple[int, int]] = []

    def root(self, is_whole: bool) -> FlexValue:
        data = self._data
        if len(data) < 3:
            raise self._error(f"{len(data)} bytes are too few for a FlexBuffer")
        width = data[-1]
        if width not in (1, 2, 4, 8) or len(data) < width + 2:
            raise self._error(f"the root has the invalid width {width}")
        at = len(data) - 2 - width
        self._span(at, len(data))
        value = self._value(at, width, data[-2], 0)
        if is_whole and not self._covers_all():
            raise self._error("some bytes do not belong to any value")
        return value

    def _covers_all(self) -> bool:
        """Returns whether all bytes were read, except for the padding zeros."""
        end = 0
        for start, stop in sorted(set(self._spans)):
            gap = self._data[end:start]
            if len(gap) >= 8 or any(gap):
                return False
            end = max(end, stop)
        return end == len(self._data)

    def _value(self, at: int, parent_width: int, packed_type: int, depth: int) -> FlexValue:
        """Returns the value whose slot of `parent_width` bytes lies at `at`."""
        kind, width = packed_type >> 2, 1 << (packed_type & 3)
        if kind <= _FLOAT or kind == _BOOL:
            return self._scalar(at, parent_width, kind)
        target = at - self._unsigned(at, parent_width)
        if kind == _KEY:
            return self._key(target)
        if target % width:
            raise self._error(f"the value at {target} is not aligned to {width} bytes")
        if _INDIRECT_INT <= kind <= _INDIRECT_FLOAT:
            self._span(target, target + width)
            return self._scalar(target, width, kind - _INDIRECT_INT + _INT)
        if kind in (_STRING, _BLOB):
            return self._bytes(target, width, kind)
        if depth == _MAX_DEPTH:
            raise self._error(f"values are nested more than {_MAX_DEPTH} levels deep")
        if kind == _MAP:
            return self._map(target, width, depth + 1)
        return self._vector(target, width, kind, depth + 1)

    def _scalar(self, at: int, width: int, kind: int) -> FlexValue:
        if kind == _FLOAT:
            if width < 4:
                raise self._error(f"a float has the invalid width {width}")
            self._check(at, at + width)
            number: float = struct.unpack_from("<f" if width == 4 else "<d", self._data, at)[0]
            return number
        value = self._unsigned(at, width)
        if kind == _INT and value >> (8 * width - 1):
            return value - (1 << 8 * width)
        if kind in (_BOOL, _NULL) and value > (kind == _BOOL):
            raise self._error(f"{'a bool' if kind == _BOOL else 'a null'} has the value {value}")
        return None if kind == _NULL else bool(value) if kind == _BOOL else value

    def _map(self, target: int, width: int, depth: int) -> dict[str, FlexValue]:
        prefix = target - 3 * width  # offset of the keys, their width, number of values
        keys_at = prefix - self._unsigned(prefix, width)
        keys_width = self._unsigned(prefix + width, width)
        self._span(prefix, target)
        if keys_width not in (1, 2, 4, 8) or keys_at % keys_width:
            raise self._error(
                f"the map at {target} has an invalid list of keys at {keys_at}, of width {keys_width}"
            )
        keys = self._elements(keys_at, keys_width, _KEY, depth)
        values = self._elements(target, width, None, depth)
        if len(keys) != len(values):
            raise self._error(f"the map at {target} has {len(keys)} keys, but {len(values)} values")
        names = [str(key) for key in keys]
        encoded = [name.encode() for name in names]
        if any(a >= b for a, b in pairwise(encoded)):
            raise self._error(f"the map at {target} has unsorted keys")
        return dict(zip(names, values, strict=True))

    def _vector(self, target: int, width: int, kind: int, depth: int) -> tuple[FlexValue, ...]:
        if kind == _VECTOR:
            return self._elements(target, width, None, depth)
        if _VECTOR_INT <= kind <= _VECTOR_STRING:
            return self._elements(target, width, kind - _VECTOR_INT + _INT, depth)
        if kind == _VECTOR_BOOL:
            return self._elements(target, width, _BOOL, depth)
        if _VECTOR_INT2 <= kind <= _VECTOR_FLOAT4:
            length, element = divmod(kind - _VECTOR_INT2, 3)
            return self._slots(target, width, length + 2, element + _INT, depth)
        raise self._error(f"the type {kind} does not exist in FlexBuffers")

    def _elements(
        self, target: int, width: int, element: int | None, depth: int
    ) -> tuple[FlexValue, ...]:
        """Reads a vector; its length is stored before its elements."""
        length = self._unsigned(target - width, width)
        self._span(target - width, target)
        return self._slots(target, width, length, element, depth)

    def _slots(
        self, target: int, width: int, length: int, element: int | None, depth: int
    ) -> tuple[FlexValue, ...]:
        """Reads elements of the type `element`; for None, one type byte for each element follows the elements."""
        types_at = target + length * width
        end = types_at + (length if element is None else 0)
        self._span(target, end)
        self._spend(length)
        if element is None:
            types: Sequence[int] = self._data[types_at:end]
        else:
            # A string's width is the width of its length, which typed vectors do not store: the
            # width is 1.
            types = (element << 2,) * length
        return tuple(
            self._value(target + i * width, width, kind, depth) for i, kind in enumerate(types)
        )

    def _bytes(self, target: int, width: int, kind: int) -> str | bytes:
        if (target, kind) in self._texts:
            return self._texts[target, kind]
        size = self._unsigned(target - width, width)
        end = target + size + (kind == _STRING)
        self._span(target - width, end)
        self._spend(size)
        if kind == _BLOB:
            return self._data[target:end]
        if self._data[end - 1]:
            raise self._error(f"the string at {target} lacks a zero at its end")
        return self._text(target, target + size, kind)

    def _key(self, target: int) -> str:
        if (target, _KEY) in self._texts:
            return self._texts[target, _KEY]
        self._check(target, target)
        end = self._data.find(b"\0", target)
        if end < 0:
            raise self._error(f"the key at {target} lacks an end")
        self._span(target, end + 1)
        self._spend(end - target)
        return self._text(target, end, _KEY)

    def _text(self, start: int, end: int, kind: int) -> str:
        try:
            text = self._data[start:end].decode()
        except UnicodeDecodeError:
            raise self._error(f"the string at {start} is not UTF-8") from None
        self._texts[start, kind] = text
        return text

    def _unsigned(self, at: int, width: int) -> int:
        self._check(at, at + width)
        return int.from_bytes(self._data[at : at + width], "little")

    def _span(self, start: int, end: int) -> None:
        self._check(start, end)
        self._spans.append((start, end))

    def _check(self, start: int, end: int) -> None:
        if not 0 <= start <= end <= len(self._data):
            raise self._error(f"the value at {start} to {end} exceeds the {len(self._data)} bytes")

    def _spend(self, amount: int) -> None:
        self._budget -= amount
        if self._budget < 0:
            raise self._error("some values overlap")

    def _error(self, what: str) -> LiteRtError:
        return LiteRtError(
            Status.INVALID_FLATBUFFER,
            f"the data are not a FlexBuffer: {what}",
            self._where,
            "If the op's options are a C struct, read each field of the struct instead.",
        )
