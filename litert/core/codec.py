"""Converts dataclasses to plain data for JSON, and back; the same declaration describes both directions.

    POINT = record(Point, x=integer(0, 100), name=TEXT)
    POINT.dump(Point(3, "a"))  # {"x": 3, "name": "a"}
    POINT.read(node)           # returns a Point, or raises an error with the element's path

The plain data may omit a field that has a default value. A field that has its default value is not written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from litert.core.checked_json import JsonNode
from litert.core.counts import count_text

_Value = TypeVar("_Value")
_Other = TypeVar("_Other")
_Enum = TypeVar("_Enum", bound=Enum)

_NO_DEFAULT = object()
_DIGEST_LENGTH = 64


def _as_it_is(value: object) -> object:
    return value


class Codec(Generic[_Value]):
    """Describes how values of a type are converted to plain data, and back.

    Attributes:
      read: Function that converts a JSON element to a value; raises an error about the element for data that
        `dump` never writes.
      dump: Function that converts a value to plain data.
    """

    __slots__ = ("dump", "read")

    def __init__(
        self,
        read: Callable[[JsonNode], _Value],
        dump: Callable[[_Value], object] = _as_it_is,
    ) -> None:
        self.read = read
        self.dump = dump


TEXT: Codec[str] = Codec(JsonNode.text)
ANY_TEXT: Codec[str] = Codec(lambda node: node.text(for_c=False))
"""Codec for a string that may contain NUL, because no C code reads the string."""
NUMBER: Codec[float] = Codec(JsonNode.number, float)
BOOLEAN: Codec[bool] = Codec(JsonNode.boolean)


def integer(low: int, high: int) -> Codec[int]:
    """Returns a codec for whole numbers from `low` to `high`, both included."""
    return Codec(lambda node: node.integer(low, high), int)


def checked(codec: Codec[_Value], find_mistake: Callable[[_Value], str]) -> Codec[_Value]:
    """Returns a codec that checks values with `find_mistake`, which returns a phrase about the mistake, or ""."""

    def read(node: JsonNode) -> _Value:
        value = codec.read(node)
        if mistake := find_mistake(value):
            raise node.error(mistake)
        return value

    return Codec(read, codec.dump)


def converted(
    codec: Codec[_Value], read: Callable[[_Value], _Other], dump: Callable[[_Other], _Value]
) -> Codec[_Other]:
    """Returns a codec that converts the values of another codec with the functions `read` and `dump`."""
    return Codec(lambda node: read(codec.read(node)), lambda value: codec.dump(dump(value)))


def named(values: Mapping[str, _Value]) -> Codec[_Value]:
    """Returns a codec for the values of a fixed set; the plain data contain the value's name."""
    names = {value: name for name, value in values.items()}
    return Codec(lambda node: values[node.text(values)], names.__getitem__)


def enumeration(kind: type[_Enum]) -> Codec[_Enum]:
    """Returns a codec for the members of an enumeration; the plain data contain the member's value, a string."""
    return named({member.value: member for member in kind})


def nullable(codec: Codec[_Value]) -> Codec[_Value | None]:
    """Returns a codec for values that may also be null."""
    return Codec(
        lambda node: None if node.value is None else codec.read(node),
        lambda value: None if value is None else codec.dump(value),
    )


def array(item: Codec[_Value], least: int = 0, most: int | None = None) -> Codec[Sequence[_Value]]:
    """Returns a codec for lists of `least` to `most` values."""
    return Codec(
        lambda node: [item.read(part) for part in node.items(least, most)],
        lambda values: [item.dump(value) for value in values],
    )


def frozen_array(
    item: Codec[_Value], least: int = 0, most: int | None = None
) -> Codec[tuple[_Value, ...]]:
    """Same as `array`, but reads tuples, which can be part of a dictionary key."""
    return converted(array(item, least, most), tuple, list)


def entries(item: Codec[_Value]) -> Codec[Mapping[str, _Value]]:
    """Returns a codec for mappings from any names to values."""
    return Codec(
        lambda node: {name: item.read(part) for name, part in node.entries().items()},
        lambda values: {name: item.dump(value) for name, value in values.items()},
    )


def row(
    make: Callable[..., _Value], *, least: int | None = None, **parts: Codec[Any]
) -> Codec[_Value]:
    """Returns a codec that writes objects as arrays of attributes, which are the arguments of `make` in order.

    If `least` is given, it reads arrays of at least `least` attributes; `make` has defaults for the others.
    """

    def read(node: JsonNode) -> _Value:
        found = node.items(len(parts) if least is None else least, len(parts))
        return make(*[part.read(item) for part, item in zip(parts.values(), found, strict=False)])

    return Codec(
        read, lambda value: [part.dump(getattr(value, name)) for name, part in parts.items()]
    )


class Renamed:
    """A codec for a dataclass field whose key in the plain data differs from the field's name."""

    __slots__ = ("codec", "key")

    def __init__(self, key: str, codec: Codec[Any]) -> None:
        self.key = key
        self.codec = codec


def record(
    make: type[_Value],
    *,
    check: Callable[[JsonNode, _Value], None] | None = None,
    always: Callable[[_Value], Collection[str]] | None = None,
    required: Collection[str] = (),
    is_open: bool = False,
    fixed: Mapping[str, object] = MappingProxyType({}),
    **fields: Codec[Any] | Renamed,
) -> Codec[_Value]:
    """Returns a codec that writes a dataclass as a JSON object with a key for each field, in this order.

    Args:
      make: Dataclass that is created from the JSON object.
      check: Function that raises an error about the JSON element or a child element, if values contradict each
        other.
      always: Names of the fields that are written even if they have their default values.
      required: Names of the fields that plain data must contain although the fields have default values.
      is_open: Whether the JSON object may have other keys, which are ignored.
      fixed: Values of the fields that are not part of the plain data.
      fields: Codec for each field of the dataclass.
    """
    defaults = {f.name: _default(f) for f in dataclasses.fields(make)}  # type: ignore[arg-type]
    assert defaults.keys() == fields.keys() | fixed.keys(), f"fields of {make.__name__}"
    parts = [
        (name, f.key, f.codec) if isinstance(f, Renamed) else (name, name, f)
        for name, f in fields.items()
    ]
    needed = tuple(k for n, k, _ in parts if defaults[n] is _NO_DEFAULT or n in required)
    optional = tuple(key for _, key, _ in parts if key not in needed)
    readers = {key: (name, codec.read) for name, key, codec in parts}
    writers = [(n, key, codec.dump, defaults[n], defaults[n] == ()) for n, key, codec in parts]

    def read(node: JsonNode) -> _Value:
        values = dict(fixed)
        for key, field in node.fields(needed, optional, is_open).items():
            name, read_field = readers[key]
            values[name] = read_field(field)
        value = make(**values)
        if check is not None:
            check(node, value)
        return value

    def dump(value: _Value) -> object:
        written = always(value) if always is not None else ()
        found: dict[str, object] = {}
        for name, key, dump_field, default, may_be_empty in writers:
            field = getattr(value, name)
            # Empty sequences of any kind are equal.
            is_default = field == default or (may_be_empty and field is not None and not field)
            if not is_default or name in written:
                found[key] = dump_field(field)
        return found

    return Codec(read, dump)


def tagged(kinds: Mapping[str, Codec[Any]], kind_of: Callable[[_Value], str]) -> Codec[_Value]:
    """Returns a codec for objects of several kinds.

    The plain data have exactly one of the keys of `kinds`; this key determines the kind of the object.
    """
    names = ", ".join(kinds)

    def read(node: JsonNode) -> _Value:
        given = [name for name in node.entries() if name in kinds]
        if len(given) != 1:
            found = " and ".join(given) or "none of them"
            raise node.error(
                f"the object must have exactly one of the fields {names}, but has {found}"
            )
        value: _Value = kinds[given[0]].read(node)
        return value

    return Codec(read, lambda value: kinds[kind_of(value)].dump(value))


def hexadecimal(least: int = 0, most: int | None = None) -> Codec[bytes]:
    """Returns a codec that writes bytes as a string of hexadecimal digits."""

    def read(node: JsonNode) -> bytes:
        digits = node.text()
        try:
            data = bytes.fromhex(digits)
        except ValueError:
            raise node.error(
                f"{digits[:40]!r} does not consist of two hexadecimal digits for each byte"
            ) from None
        if len(data) < least or (most is not None and len(data) > most):
            raise node.error(
                f"the text stands for {count_text(len(data), 'byte')}, but must stand for {least} to {most}"
            )
        return data

    return Codec(read, bytes.hex)


def _digest_mistake(digest: str) -> str:
    is_digest = len(digest) == _DIGEST_LENGTH and not set(digest) - set("0123456789abcdef")
    return "" if is_digest else "the value is not a SHA-256 in lower-case hexadecimal digits"


SHA256 = checked(TEXT, _digest_mistake)
"""Codec for a SHA-256 digest in lower-case hexadecimal digits."""


def _default(field: dataclasses.Field[Any]) -> object:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return _NO_DEFAULT if field.default is dataclasses.MISSING else field.default
