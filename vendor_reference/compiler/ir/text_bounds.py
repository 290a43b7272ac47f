"""Bounds of IR text: what is small as a text, and endless once read, is refused before it costs time or memory."""

from __future__ import annotations

import re
from math import prod

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    BFloat16Type,
    DictionaryAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
)
from xdsl.ir import Attribute, ParametrizedAttribute

MAX_TEXT_BYTES = 64 << 20
_MAX_INTEGER_BITS = 64
_FLOATS = (BFloat16Type, Float16Type, Float32Type, Float64Type)
_MAX_DEPTH = 64
_MAX_DIGITS = 64
_MAX_WORDS = 1 << 20
"""Names and numbers, and likewise escapes: a parser takes up to 30 us for one. A network of 350 ops has 14,000."""

_MAX_ALIASED = 1 << 16
_MAX_DENSE_ELEMENTS = 1 << 20
"""Of all constants, beyond the length of the text: `dense<0.0>` is a few characters, its elements are memory."""

_TOKEN = re.compile(
    r"""//[^\n]*|"[^"\\\n\v\f]*(?:\\(?:["nt\\]|[0-9A-Fa-f]{2})[^"\\\n\v\f]*)*"|"""
    r"""->|(?P<quote>")|(?P<open>[(\[{<])|(?P<close>[)\]}>])|"""
    rf"""(?P<number>0[xX][0-9A-Fa-f]{{{_MAX_DIGITS + 1},}}|(?<![0-9])[0-9]{{{_MAX_DIGITS + 1},}})|"""
    r"""(?P<word>\b(?=\w))"""
)
"""A comment or a text in quotes as MLIR has it; a quote that begins none, a bracket, too long a number, or the
place before a word."""


def find_excess(text: str) -> tuple[int, str] | None:
    """The first place that no parser should see, and what is wrong there; None for a text within the bounds.

    A text in quotes must end: xDSL's own search for the end takes years.
    """
    if text.count("\\") > _MAX_WORDS:  # before the search, which takes memory for each
        return text.index("\\"), f"more than {_MAX_WORDS} escapes in the text"
    depth = words = 0
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "word":
            words += 1
            if words > _MAX_WORDS:
                what = f"more than {_MAX_WORDS} names and numbers in the text"
                return token.start(), f"{what}: large constants are written as dense_resource<name>"
        elif kind == "open":
            depth += 1
            if depth > _MAX_DEPTH:
                return token.start(), f"brackets nested deeper than {_MAX_DEPTH}"
        elif kind == "close":
            depth -= 1
        elif kind == "number":
            return token.start(), f"a number of more than {_MAX_DIGITS} digits"
        elif kind == "quote":
            what = (
                "a text in quotes that does not end in its line, or has an escape that there is not"
            )
            return token.start(), what
    return None


def find_type_excess(ir_type: Attribute | None) -> str:
    """What is wrong with a number's type that Python computes slowly, or not at all; "" for any other."""
    if isinstance(ir_type, IntegerType) and ir_type.width.data > _MAX_INTEGER_BITS:
        return f"an integer of more than {_MAX_INTEGER_BITS} bits"
    if isinstance(ir_type, AnyFloat) and not isinstance(ir_type, _FLOATS):
        return f"{ir_type} is no type of a level"
    return ""


class Expansion:
    """Counts what a text stands for beyond its own length: parts of aliases, and elements of constants."""

    def __init__(self, text_length: int) -> None:
        self._extents: dict[int, tuple[int, int]] = {}
        self._aliased = 0
        self._elements = -text_length

    def define(self, attribute: Attribute) -> str:
        """Remembers what an alias stands for, which must live on; returns what is wrong, "" for nothing."""
        self._extents[id(attribute)] = size, height = self._extent(attribute)
        if height > _MAX_DEPTH:
            return f"aliases nested deeper than {_MAX_DEPTH}"
        return "" if size <= _MAX_ALIASED else _TOO_MANY

    def use(self, attribute: Attribute) -> str:
        """Counts a use of an alias; returns what is wrong."""
        size, _ = self._extents.get(id(attribute), (1, 1))
        self._aliased += size - 1
        return "" if self._aliased <= _MAX_ALIASED else _TOO_MANY

    def add_constant(self, shape: tuple[int, ...]) -> str:
        """Counts a constant of a shape; returns what is wrong."""
        if any(dim > _MAX_ALL for dim in shape) or (count := prod(shape)) > _MAX_ALL:
            return f"a constant of more than {_MAX_ALL} elements in the text"
        self._elements += count
        if self._elements <= _MAX_DENSE_ELEMENTS:
            return ""
        return (
            f"constants of more than {_MAX_DENSE_ELEMENTS} elements that the text does not spell out: "
            "larger ones are written as dense_resource<name>"
        )

    def _extent(self, attribute: Attribute) -> tuple[int, int]:
        """How many attributes it has in itself, and in how many levels."""
        known = self._extents.get(id(attribute))
        if known is not None:
            return known
        extents = [self._extent(part) for part in _parts(attribute)]
        return 1 + sum(size for size, _ in extents), 1 + max((h for _, h in extents), default=0)


_MAX_ALL = MAX_TEXT_BYTES
_TOO_MANY = f"aliases that stand for more than {_MAX_ALIASED} attributes"


def _parts(attribute: Attribute) -> list[Attribute]:
    if isinstance(attribute, ArrayAttr):
        return list(attribute.data)
    if isinstance(attribute, DictionaryAttr):
        return list(attribute.data.values())
    return list(attribute.parameters) if isinstance(attribute, ParametrizedAttribute) else []
