"""Sizes that a run tells, as an executable has them.

In JSON a number is itself, dimension `d` of shape `s` is `[s, d]`, and an operation `["+", lhs, rhs]`.
"""

from __future__ import annotations

from litert.core.checked_json import JsonNode
from litert.core.sizes import MOST, Dimension, Operation, Size

_OPERATORS = ("+", "-", "*", "/", "%")
_DEPTH = 200


def dump_size(size: Size) -> object:
    """A size as `json` writes it."""
    if isinstance(size, Dimension):
        return [size.shape, size.index]
    if isinstance(size, Operation):
        return [size.operator, dump_size(size.lhs), dump_size(size.rhs)]
    return size


def parse_size(node: JsonNode, depth: int = 0) -> Size:
    """A size that `dump_size` has written; whether its dimensions are there is for the caller to see.

    Raises:
      LiteRtError: the node's, for anything else.
    """
    if not isinstance(node.value, list):
        return node.integer(0, MOST)
    if depth > _DEPTH:
        raise node.error(f"more than {_DEPTH} operations in each other")
    parts = node.items(2, 3)
    if len(parts) == 2:
        return Dimension(parts[0].integer(0, 2**31 - 1), parts[1].integer(0, 15))
    operator = parts[0].text(_OPERATORS)
    return Operation(operator, parse_size(parts[1], depth + 1), parse_size(parts[2], depth + 1))
