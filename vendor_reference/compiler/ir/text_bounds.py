"""Limits for IR text; text that would take too much time or memory to parse is rejected before parsing."""

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
"""Largest number of names and numbers in a text, and also the largest number of escapes.

The parser takes up to 30 us for each of them. The IR text of a network with 350 ops has 14,000 names and numbers.
"""

_MAX_ALIASED = 1 << 16
_MAX_DENSE_ELEMENTS = 1 << 20
"""Largest amount by which the number of elements in all constants can exceed the length of the text.

A short constant such as `dense<0.0>` can take much memory.
"""

_TOKEN = re.compile(
    r"""//[^\n]*|"[^"\\\n\v\f]*(?:\\(?:["nt\\]|[0-9A-Fa-f]{2})[^"\\\n\v\f]*)*"|"""
    r"""->|(?P<quote>")|(?P<open>[(\[{<])|(?P<close>[)\]}>])|"""
    rf"""(?P<number>0[xX][0-9A-Fa-f]{{{_MAX_DIGITS + 1},}}|(?<![0-9])[0-9]{{{_MAX_DIGITS + 1},}})|"""
    r"""(?P<word>\b(?=\w))"""
)
"""A comment or string in MLIR, a single quote character, a bracket, an overlong number, or the start of a word."""


def find_excess(text: str) -> tuple[int, str] | None:
    """Returns the first position that exceeds a limit, and the reason.

    Returns None for a text within the limits. A string without an end is rejected too, because xDSL's search for
    the end can take years.
    """
    if text.count("\\") > _MAX_WORDS:  # before the search, which takes memory for each
        return text.index("\\"), f"the text has more than {_MAX_WORDS} escapes"
    depth = words = 0
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "word":
            words += 1
            if words > _MAX_WORDS:
                what = f"the text has more than {_MAX_WORDS} names and numbers"
                return token.start(), f"{what}: write large constants as dense_resource<name>"
        elif kind == "open":
            depth += 1
            if depth > _MAX_DEPTH:
                return token.start(), f"the brackets are nested deeper than {_MAX_DEPTH} levels"
        elif kind == "close":
            depth -= 1
        elif kind == "number":
            return token.start(), f"a number has more than {_MAX_DIGITS} digits"
        elif kind == "quote":
            what = "a string does not end in its line, or has an unknown escape"
            return token.start(), what
    return None


def find_type_excess(ir_type: Attribute | None) -> str:
    """Returns the reason why Python cannot compute with a numeric type, or can compute with it only slowly.

    Returns "" for other types.
    """
    if isinstance(ir_type, IntegerType) and ir_type.width.data > _MAX_INTEGER_BITS:
        return f"the integer type has more than {_MAX_INTEGER_BITS} bits"
    if isinstance(ir_type, AnyFloat) and not isinstance(ir_type, _FLOATS):
        return f"the IR does not support type {ir_type}"
    return ""


class Expansion:
    """Counts by how much the IR is larger than its text, because of aliases and constants."""

    def __init__(self, text_length: int) -> None:
        self._extents: dict[int, tuple[int, int]] = {}
        self._aliased = 0
        self._elements = -text_length

    def define(self, attribute: Attribute) -> str:
        """Records the attribute of an alias; the attribute must stay alive. Returns the problem, or ""."""
        self._extents[id(attribute)] = size, height = self._extent(attribute)
        if height > _MAX_DEPTH:
            return f"the aliases are nested deeper than {_MAX_DEPTH} levels"
        return "" if size <= _MAX_ALIASED else _TOO_MANY

    def use(self, attribute: Attribute) -> str:
        """Counts a use of an alias; returns the problem, or ""."""
        size, _ = self._extents.get(id(attribute), (1, 1))
        self._aliased += size - 1
        return "" if self._aliased <= _MAX_ALIASED else _TOO_MANY

    def add_constant(self, shape: tuple[int, ...]) -> str:
        """Counts a constant of a shape; returns the problem, or ""."""
        if any(dim > _MAX_ALL for dim in shape) or (count := prod(shape)) > _MAX_ALL:
            return f"a constant in the text has more than {_MAX_ALL} elements"
        self._elements += count
        if self._elements <= _MAX_DENSE_ELEMENTS:
            return ""
        return (
            f"the number of elements in the text's constants exceeds the text's length by more than "
            f"{_MAX_DENSE_ELEMENTS}: write large constants as dense_resource<name>"
        )

    def _extent(self, attribute: Attribute) -> tuple[int, int]:
        """Returns the number of attributes inside an attribute, and the depth of their nesting."""
        known = self._extents.get(id(attribute))
        if known is not None:
            return known
        extents = [self._extent(part) for part in _parts(attribute)]
        return 1 + sum(size for size, _ in extents), 1 + max((h for _, h in extents), default=0)


_MAX_ALL = MAX_TEXT_BYTES
_TOO_MANY = f"the aliases expand to more than {_MAX_ALIASED} attributes"


def _parts(attribute: Attribute) -> list[Attribute]:
    if isinstance(attribute, ArrayAttr):
        return list(attribute.data)
    if isinstance(attribute, DictionaryAttr):
        return list(attribute.data.values())
    return list(attribute.parameters) if isinstance(attribute, ParametrizedAttribute) else []
