"""Finds matches of a pattern in a graph, from the last op of the pattern back to its inputs."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from typing import TypeAlias

from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.node import Node, OutPort
from compiler_plugin.transformations.node_attributes import is_same_value
from compiler_plugin.transformations.pattern import (
    Between,
    Const,
    Match,
    Pattern,
)
from litert.core.quantization import QuantizationKind
from litert.model.tensor_data import Array

Bound: TypeAlias = Node | OutPort | None
"""What a part of a pattern has matched: an op or constant, a port, or None for an omitted input."""

_Bindings: TypeAlias = dict[Pattern | str, Bound]
"""Maps parts of a pattern, and names of parts, to what they have matched."""

IsWhole: TypeAlias = Callable[[Mapping[str, Bound]], bool]
"""A condition on the whole match; its argument maps each name in the pattern to what the name has matched."""

_Goals: TypeAlias = "tuple[Pattern | IsWhole | None, OutPort | None, _Goals] | None"
"""A linked list of what must still match: patterns with their ports, and last a condition on the match."""

_TOLERANCE = 1e-6
"""Relative tolerance for numbers, because floats in a file have at most 32 bits."""

_UNBOUND = object()


@dataclass(frozen=True, slots=True)
class PatternMatch:
    """A match of a pattern in a graph.

    Attributes:
      named: Maps each name in the pattern to what it has matched.
      nodes: Ops that `Match` patterns have matched, without duplicates; the last op of the pattern comes first.
    """

    named: Mapping[str, Bound]
    nodes: Sequence[Node]


def find_match(
    pattern: Match,
    root: Node,
    others: Sequence[tuple[Match, Node]] = (),
    is_whole: IsWhole | None = None,
) -> PatternMatch | None:
    """Matches a pattern against `root` and the ops before it; returns None if the pattern does not match.

    The pattern must have passed `check_pattern`. Conditions, and values of constants, are tested last.

    Args:
      pattern: Pattern to match; its parts may have names.
      root: Node that the last op of the pattern must match.
      others: Further last ops, if the pattern has several, each with the node that it must match.
      is_whole: Condition on the whole match, or None.
    """
    goals: _Goals = (is_whole, None, None) if is_whole else None
    for other, node in others:
        goals = (other, node.out_port(0), goals)
    bindings: _Bindings = {}
    if not _fits_node(pattern, root) or not _bind(pattern, root, bindings):
        return None
    found = (
        _solve_inputs(pattern, root, goals, bindings) if pattern.inputs else _solve(goals, bindings)
    )
    if found is None:
        return None
    named = _named(found)
    nodes = dict.fromkeys(v for v in found.values() if isinstance(v, Node) and v.is_op)
    return PatternMatch(named, list(nodes))


def find_candidates(graph: Graph, ops: Sequence[str]) -> list[Node]:
    """Returns the nodes with one of the given op names, in execution order."""
    if len(ops) == 1:
        return graph.get_op_nodes(op=ops[0])
    found = {node for op in ops for node in graph.get_op_nodes(op=op)}
    return [node for node in graph.nodes if node in found] if found else []


def _solve(goals: _Goals, bindings: _Bindings) -> _Bindings | None:
    """Matches all goals, and then checks conditions and values; returns None if there is no match."""
    while goals is not None:
        pattern, port, goals = goals
        if pattern is None:
            if port is not None:
                return None
        elif callable(pattern):
            if not pattern(_named(bindings)):
                return None
        elif port is None:  # the input is left out
            is_optional = not isinstance(pattern, Match) and pattern.optional
            if not is_optional or not _bind(pattern, None, bindings):
                return None
        elif isinstance(pattern, Match):
            node = port.node
            if pattern.output not in (None, port.index):
                return None
            if pattern in bindings:
                if bindings[pattern] is not node:
                    return None
                continue
            if not _fits_node(pattern, node) or not _bind(pattern, node, bindings):
                return None
            if pattern.inputs:
                return _solve_inputs(pattern, node, goals, bindings)
        elif isinstance(pattern, Const):
            if not port.node.is_const or not _bind(pattern, port.node, bindings):
                return None
        elif not _bind(pattern, port, bindings):
            return None
    return bindings if _all_hold(bindings) else None


def _solve_inputs(
    pattern: Match, node: Node, goals: _Goals, bindings: _Bindings
) -> _Bindings | None:
    """Matches the inputs of an op, in each possible order, and then all goals."""
    find_port = node.graph.out_port_of
    ports = [None if tensor is None else find_port(tensor) for tensor in node.input_tensors]
    orders = pattern.find_orders(node.op, ports)
    for order in orders:
        further = goals
        for entry, port in reversed(order):
            further = (entry, port, further)
        found = _solve(further, bindings.copy() if order is not orders[-1] else bindings)
        if found is not None:
            return found
    return None


def _named(bindings: _Bindings) -> dict[str, Bound]:
    return {key: value for key, value in bindings.items() if isinstance(key, str)}


def _bind(pattern: Pattern, value: Bound, bindings: _Bindings) -> bool:
    """Records the match of a part; returns False if the part or its name already has another match."""
    for key in (pattern, pattern.name) if pattern.name else (pattern,):
        known = bindings.get(key, _UNBOUND)
        if known is not _UNBOUND and known != value:
            return False
        bindings[key] = value
    return True


def _fits_node(pattern: Match, node: Node) -> bool:
    """Whether an op matches a pattern, without a check of inputs and conditions."""
    if node.op not in pattern.ops:
        return False
    for name, wanted in pattern.attributes.items():
        if not node.has(name) or not _is_wanted(node[name], wanted):
            return False
    if pattern.uses is None:
        return True
    uses = sum(len(port.get_destinations()) for port in node.out_ports().values())
    return uses in pattern.uses if isinstance(pattern.uses, range) else uses == pattern.uses


def _is_wanted(value: typing.Any, wanted: typing.Any) -> bool:
    if callable(wanted):
        return bool(wanted(value))
    if isinstance(wanted, range | Between):
        return isinstance(value, int | float) and value in wanted
    if isinstance(wanted, tuple) and not isinstance(value, tuple):
        return any(_is_wanted(value, one) for one in wanted)
    if isinstance(value, float) and isinstance(wanted, int | float):
        return isclose(value, wanted, rel_tol=_TOLERANCE)
    if isinstance(wanted, list):
        wanted = tuple(wanted)
    if isinstance(wanted, tuple) and any(isinstance(one, tuple | list) for one in wanted):
        return any(_is_wanted(value, one) for one in wanted)
    return is_same_value(value, wanted)


def _all_hold(bindings: _Bindings) -> bool:
    """Whether the conditions of users and the values of constants match."""
    for pattern, value in bindings.items():
        if isinstance(pattern, str) or value is None:
            continue
        if isinstance(pattern, Const) and not _is_constant_wanted(pattern, value):
            return False
        condition: Callable[..., object] | None = pattern.where
        if condition is not None and not condition(value):
            return False
    return True


def _is_constant_wanted(pattern: Const, node: Bound) -> bool:
    assert isinstance(node, Node)
    shape = node.out_port(0).tensor.shape
    if callable(pattern.shape):
        if not pattern.shape(shape):
            return False
    elif pattern.shape is not None and (
        len(pattern.shape) != len(shape)
        or any(w is not None and w != d for w, d in zip(pattern.shape, shape, strict=True))
    ):
        return False
    if pattern.value is None:
        return True
    quantization = node.out_port(0).quantization
    stands_for_others = quantization is not None and quantization.kind is not QuantizationKind.NONE
    if stands_for_others and not callable(pattern.value):
        return False
    value = node.out_port(0).data.get_value()
    return value is not None and _is_value_wanted(value, pattern.value)


def _is_value_wanted(value: Array, wanted: typing.Any) -> bool:
    import numpy as np

    if callable(wanted):
        return bool(wanted(value))
    if not value.size and not isinstance(wanted, Sequence | np.ndarray):
        return False
    if isinstance(wanted, range | Between):
        return all(one in wanted for one in value.ravel().tolist())
    if isinstance(wanted, int | float):
        try:  # usually, the first element is enough to decide
            if not isclose(value.flat[0], wanted, rel_tol=_TOLERANCE):
                return False
        except TypeError:  # text
            return bool(np.all(value == wanted))
        return value.size == 1 or _is_close(value, np.asarray(wanted))
    expected = np.asarray(wanted)
    return expected.shape == value.shape and _is_close(value, expected)


def _is_close(value: typing.Any, expected: Array) -> bool:
    import numpy as np

    try:
        found, wanted = np.asarray(value).astype(np.float64), expected.astype(np.float64)
    except (TypeError, ValueError):  # text
        return bool(np.all(value == expected))
    return bool(np.isclose(found, wanted, rtol=_TOLERANCE, atol=0.0).all())
