"""Finds the sub-graphs that a configuration describes by a prefix of op names, or by start and end points.

The name of a node is the name of its first output tensor, without a `:0` at the end. If the converter has merged
ops, the name has several parts (`model/a/Relu;model/a/BiasAdd`), and each part can match. A sub-graph must not
read tensors that depend on its own results, because no single op could then replace the sub-graph.

This search differs from the Model Optimizer's search in three ways. A scope ends at a `/`. Each different string
that matches the regular expression of a scope leads to a separate sub-graph. Ops after the start points belong to
the sub-graph only if an end point depends on them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate

from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.node import Node, OutPort
from compiler_plugin.transformations.replacement_config import MatchKind, ReplacementDescription
from compiler_plugin.transformations.sub_graph_match import (
    SubgraphMatch,
    description_error,
    name_paths,
)


def matching_instances(
    graph: Graph, description: ReplacementDescription
) -> Iterator[SubgraphMatch]:
    """Yields the sub-graphs that match a description, in the execution order of their first ops.

    The caller may replace each sub-graph before it requests the next sub-graph.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if there is no op between the points, if ops outside the sub-graph read a port
        that is not an output, or if the sub-graph reads tensors that depend on its own results.
    """
    if description.match_kind is MatchKind.POINTS:
        places = _find_places(graph)
        match = _find_between(graph, description)
        if match is not None:
            _check_enclosed(match, places)
            yield match
        return
    for scope in description.scopes:
        places = _find_places(graph)  # again, since the graph has changed
        for text, nodes in _find_scopes(graph, scope).items():
            alive = [node for node in nodes if node.is_alive]
            if alive:
                match = SubgraphMatch(graph, description, alive, text, scope)
                _check_enclosed(match, places)
                yield match


def _find_places(graph: Graph) -> dict[Node, int]:
    graph.sort_ops()
    return {node: place for place, node in enumerate(graph.nodes)}


def _find_scopes(graph: Graph, expression: str) -> dict[str, list[Node]]:
    """Returns the ops of each scope: the shortest part of a name, up to a `/`, that an expression matches."""
    takes = cache(re.compile(expression).fullmatch)
    found: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for path in name_paths(node.name):
            parts = [part for part in accumulate(path.split("/"), "{}/{}".format) if part]
            scope = next(filter(takes, parts or [path]), None)
            if scope is not None:
                found.setdefault(scope, []).append(node)
                break
    return found


def _find_between(graph: Graph, description: ReplacementDescription) -> SubgraphMatch | None:
    """Finds the sub-graph between the points; returns None if the graph has none of the points."""
    names = _names(graph)
    wanted = [*description.start_points, *description.end_points]
    missing = [name for name in wanted if name not in names]
    if len(missing) == len(wanted):
        return None
    if missing:
        raise description_error(
            description,
            f"the model has no node '{missing[0]}', although it has the node "
            f"'{next(name for name in wanted if name in names)}' of the same description",
            "Correct the name in start_points or end_points.",
        )
    for name in wanted:
        if len(names[name]) > 1:
            raise description_error(
                description,
                f"{len(names[name])} nodes of the model have the name '{name}'",
                "In start_points and end_points, use names that only one node has.",
            )
    starts = list(dict.fromkeys(names[name][0] for name in description.start_points))
    ends = list(dict.fromkeys(names[name][0] for name in description.end_points))
    for end in ends:
        if not end.is_op:
            raise description_error(
                description,
                f"end point '{end.name}' must be an op, but is a {end.op}",
                "Write the name of an op in end_points.",
            )
    inside = _walk_back(description, starts, ends)
    _check_reached(description, starts, ends, inside)
    if not description.includes_start_points:
        inside -= set(starts)
    if not description.includes_end_points:
        inside -= set(ends)
    nodes = [node for node in graph.nodes if node in inside]
    if not nodes:
        raise description_error(
            description,
            "there is no op between the start points and the end points",
            "Correct start_points or end_points.",
        )
    first: list[OutPort] = []
    for start in starts:
        if start in inside:
            first += [p for p in _sources(start) if p.node not in inside and not p.node.is_const]
        else:
            first += start.out_ports().values()
    outputs: list[OutPort] = []
    for end in ends:
        outputs += end.out_ports().values() if end in inside else _sources(end)
    outputs = [port for port in dict.fromkeys(outputs) if port.node in inside]
    return SubgraphMatch(
        graph, description, nodes, first_inputs=list(dict.fromkeys(first)), outputs=outputs
    )


def _sources(node: Node) -> list[OutPort]:
    sources = [port.get_source() for port in node.in_ports().values()]
    return [source for source in sources if source is not None]


def _readers(node: Node) -> list[Node]:
    return [reader.node for port in node.out_ports().values() for reader in port.get_destinations()]


def _names(graph: Graph) -> dict[str, list[Node]]:
    """Returns nodes by name: ops, and inputs and constants whose name no op has."""
    names: dict[str, list[Node]] = {}
    for nodes in (graph.nodes, [*graph.parameters, *graph.constants()]):
        new: dict[str, list[Node]] = {}
        for node in nodes:
            for name in dict.fromkeys((node.name, *name_paths(node.name))):
                new.setdefault(name, []).append(node)
        names = {**new, **names}
    return names


def _walk_back(
    description: ReplacementDescription, starts: Sequence[Node], ends: Sequence[Node]
) -> set[Node]:
    """Returns the ops that end points depend on, up to and including the start points."""
    inside: set[Node] = set()
    waiting = list(ends)
    while waiting:
        node = waiting.pop()
        if node in inside:
            continue
        if node.op == "Parameter":
            if node in starts:
                continue
            raise description_error(
                description,
                f"a path from the model input '{node.name}' to the end points contains no start point",
                "Add a start point after that input, or add the input as a start point.",
            )
        if not node.is_op:
            continue
        inside.add(node)
        if node not in starts:
            waiting.extend(source.node for source in _sources(node))
    return inside


def _check_reached(
    description: ReplacementDescription,
    starts: Sequence[Node],
    ends: Sequence[Node],
    inside: set[Node],
) -> None:
    """Checks that each start point leads to an end point, and that each end point depends on a start point."""
    reached = _walk_forward(starts, inside)
    for end in ends:
        if end not in reached:
            raise description_error(
                description,
                f"no start point leads to end point '{end.name}'",
                "Add a start point that leads to this end point.",
            )
    for start in starts:
        if start not in inside and inside.isdisjoint(_readers(start)):
            raise description_error(
                description,
                f"start point '{start.name}' leads to no end point",
                "Remove that start point.",
            )


def _walk_forward(starts: Iterable[Node], inside: set[Node]) -> set[Node]:
    reached = set(starts)
    waiting = list(reached)
    while waiting:
        node = waiting.pop()
        new = [n for n in _readers(node) if n in inside and n not in reached]
        reached.update(new)
        waiting += new
    return reached


def _check_enclosed(match: SubgraphMatch, places: Mapping[Node, int]) -> None:
    """Refuses a sub-graph that reads tensors that depend on its own outputs."""
    inside = set(match.nodes)
    last = max(places[node] for node in match.nodes)
    came_from: dict[Node, Node] = {}
    waiting = list(match.nodes)
    while waiting:
        node = waiting.pop()
        for reader in _readers(node):
            if reader in inside:
                if node not in inside:
                    raise match.error(
                        "the sub-graph reads its own results through ops outside of it, on the path "
                        f"{_way(node, came_from)} -> '{reader.name}'",
                        "Add all ops on this path to the sub-graph, or remove the first or last op of the path "
                        "from the sub-graph.",
                    )
            elif reader not in came_from and places.get(reader, -1) < last:
                came_from[reader] = node
                waiting.append(reader)


def _way(node: Node, came_from: dict[Node, Node]) -> str:
    names = [node.name]
    while node in came_from:
        node = came_from[node]
        names.append(node.name)
    return " -> ".join(f"'{name}'" for name in reversed(names))
