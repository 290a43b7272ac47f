"""Patterns in the form of the Model Optimizer: `pattern()` returns named nodes and the edges between them.

    dict(
        nodes=[("mul", dict(op="MUL")), ("sigmoid", dict(op="LOGISTIC"))],
        edges=[("sigmoid", "mul", {"in": 1})],
    )

These patterns are converted to patterns of `pattern.py`. As in the Model Optimizer, each name in a pattern matches
a different node, and the matched nodes must not have additional edges between them. A node of kind `data` is the
tensor between two ops, or an input of the pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any, NamedTuple, TypeAlias

from compiler_plugin.transformations import pattern as parts
from compiler_plugin.transformations.data_node import DataNode
from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.matcher import Bound, find_candidates, find_match
from compiler_plugin.transformations.node import Node, OutPort
from compiler_plugin.transformations.node_attributes import ENDS, RESULT, is_same_value
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.suggestion import did_you_mean

Found: TypeAlias = "dict[str, Node | DataNode]"
"""A match: maps each name in the pattern to its node."""

_DATA = "data"


class Edge(NamedTuple):
    """An edge of a pattern: one op reads an output of another op. Input index and output index are optional."""

    source: str
    reader: str
    in_port: int | None
    out_port: int | None


@dataclass(frozen=True, slots=True)
class EdgePattern:
    """A checked pattern.

    Attributes:
      nodes: Attributes that each node must have, by node name; a value may also be a condition.
      edges: Edges between ops, and edges from data nodes that no op of the pattern writes.
      data: Op and output index for each data node that an op of the pattern writes.
    """

    nodes: Mapping[str, Mapping[str, Any]]
    edges: Sequence[Edge]
    data: Mapping[str, tuple[str, int | None]]

    @property
    def ops(self) -> list[str]:
        """The names of the ops in the pattern."""
        names = [attributes.get("op") for attributes in self.nodes.values()]
        return [name for name in names if isinstance(name, str)]

    def find_matches(self, graph: Graph) -> Iterator[Found]:
        """Yields at most one match for each choice of the last ops; the graph may change between matches."""
        if not set(self.ops) <= {*graph.op_names, *ENDS}:
            return
        roots = self._make_patterns(graph)
        for nodes in product(*(find_candidates(graph, root.ops) for root in roots)):
            if not all(node.is_alive for node in nodes):
                continue
            pairs = list(zip(roots, nodes, strict=True))
            match = find_match(*pairs[0], pairs[1:], self._is_whole)
            if match is not None:
                yield self._as_found(match.named)

    def _make_patterns(self, graph: Graph) -> list[parts.Match]:
        """Returns the last ops of the pattern, as patterns with nested inputs."""
        made: dict[str, parts.Pattern] = {}

        def make(name: str) -> parts.Pattern:
            if name not in made:
                edges = [edge for edge in self.edges if edge.reader == name]
                made[name] = self._make_part(graph, name, [(make(e.source), e) for e in edges])
            return made[name]

        read = {edge.source for edge in self.edges}
        ops = [name for name in self.nodes if name not in self.data]
        roots = [make(name) for name in ops if name not in read]
        assert all(isinstance(root, parts.Match) for root in roots)  # as `read_edge_pattern` checks
        return [root for root in roots if isinstance(root, parts.Match)]

    def _make_part(
        self, graph: Graph, name: str, edges: Sequence[tuple[parts.Pattern, Edge]]
    ) -> parts.Pattern:
        attributes = self.nodes[name]
        if attributes.get("kind") == _DATA:
            return parts.Any(name, where=lambda port: _holds(DataNode(port), attributes))
        op = attributes.get("op")
        is_first = not edges and any(edge.source == name for edge in self.edges)
        if is_first and (op is None or op in ENDS):  # a first node need not be an op
            return parts.Any(name, where=lambda port: _holds(port.node, attributes))
        ops = [op] if isinstance(op, str) else [o for o in graph.op_names if op is None or op(o)]
        written = [(n, out or 0) for n, (op_name, out) in self.data.items() if op_name == name]

        def fits(node: Node) -> bool:
            return _holds(node, attributes) and all(
                _holds(DataNode(node.out_port(out)), self.nodes[data]) for data, out in written
            )

        return EdgeMatch(ops or [f"no {name}"], edges, name=name, where=fits)

    def _is_whole(self, named: Mapping[str, Bound]) -> bool:
        """Whether the names match different nodes, and all edges between these nodes are in the pattern."""
        things = {_thing(bound) if self._is_op(name) else bound for name, bound in named.items()}
        if len(things) != len(named):
            return False
        readers = [thing for thing in things if isinstance(thing, Node)]
        sources = [port.get_source() for node in readers for port in node.in_ports().values()]
        count = sum(
            source is not None and (source in things or source.node in things) for source in sources
        )
        return count == len(self.edges)

    def _is_op(self, name: str) -> bool:
        return self.nodes[name].get("kind") != _DATA

    def _as_found(self, named: Mapping[str, Bound]) -> Found:
        found: Found = {}
        for name, bound in named.items():
            if isinstance(bound, OutPort) and not self._is_op(name):
                found[name] = DataNode(bound)
            elif isinstance(thing := _thing(bound), Node):
                found[name] = thing
        for name, (writer, out) in self.data.items():
            node = found[writer]
            assert isinstance(node, Node)
            found[name] = DataNode(node.out_port(out or 0))
        return found


class EdgeMatch(parts.Match):
    """Pattern for an op whose inputs are given as edges; an edge without an index matches any input."""

    __slots__ = ("edges",)

    def __init__(
        self,
        ops: Sequence[str],
        edges: Sequence[tuple[parts.Pattern, Edge]],
        *,
        name: str,
        where: Callable[[Node], object],
    ) -> None:
        super().__init__(ops, *(part for part, _ in edges), name=name, where=where)
        self.edges = edges
        self.output = None

    def find_orders(self, op: str, ports: Sequence[OutPort | None]) -> Sequence[parts.Order]:
        """Returns all possible assignments of edges to the inputs of an op; the inputs read the given ports."""
        orders = []
        fixed = {edge.in_port for _, edge in self.edges}
        free = [index for index in range(len(ports)) if index not in fixed]
        loose = sum(edge.in_port is None for _, edge in self.edges)
        for chosen in permutations(free, loose):
            left = iter(chosen)
            indices = [e.in_port if e.in_port is not None else next(left) for _, e in self.edges]
            read = [ports[index] if index < len(ports) else None for index in indices]
            pairs = list(zip(self.edges, read, strict=True))
            if all(p is not None and edge.out_port in (None, p.index) for (_, edge), p in pairs):
                orders.append([(part, port) for (part, _), port in pairs])
        return orders


def read_edge_pattern(given: object) -> EdgePattern:
    """Checks the return value of `pattern()`.

    Raises:
      LiteRtError: INVALID_TRANSFORMATION, if the value is not a pattern.
    """
    if not isinstance(given, Mapping) or not {"nodes", "edges"} <= given.keys():
        what = f"the value must be a dict with the keys 'nodes' and 'edges', but is {given!r:.100}"
        raise _bad(what, "Return dict(nodes=[...], edges=[...]).")
    nodes: dict[str, Mapping[str, Any]] = {}
    for entry in given["nodes"]:
        name, attributes = (*entry, {})[:2] if isinstance(entry, tuple | list) else (entry, None)
        if not isinstance(name, str) or not isinstance(attributes, Mapping):
            raise _bad(
                f"the list 'nodes' contains {entry!r:.100}, which is not a pair of a name and a dict",
                "Write each node as such a pair, for example ('mul', dict(op='MUL')).",
            )
        if name in nodes:
            raise _bad(
                f"the list 'nodes' contains two nodes with the name '{name}'",
                "Rename one of the nodes.",
            )
        nodes[name] = attributes
    edges = [_read_edge(entry, nodes) for entry in given["edges"]]
    is_data = {name for name, attributes in nodes.items() if attributes.get("kind") == _DATA}
    data: dict[str, tuple[str, int | None]] = {}
    for edge in edges:
        if edge.reader in is_data:
            if edge.reader in data or edge.source in is_data:
                raise _bad(
                    f"data node '{edge.reader}' must have exactly one incoming edge, and this edge must start "
                    "at an op",
                    "Keep one edge from an op to the data node, and remove the node's other incoming edges.",
                )
            data[edge.reader] = edge.source, edge.out_port
    between: list[Edge] = []
    for edge in edges:
        source, out = data.get(edge.source, (edge.source, edge.out_port))
        if edge.reader not in is_data:
            between.append(Edge(source, edge.reader, edge.in_port, out))
    pattern = EdgePattern(nodes, between, data)
    read = {edge.source for edge in between}
    for name in nodes.keys() - read - data.keys():
        if name in is_data or nodes[name].get("op") in ENDS:
            can_be_read = nodes[name].get("op") != RESULT
            raise _bad(
                f"the pattern ends with node '{name}', but must end with an op",
                f"Add an op that reads node '{name}', or remove the node."
                if can_be_read
                else f"Remove node '{name}'.",
            )
    if not nodes:
        raise _bad("the pattern has no ops", "Add an op to the list 'nodes'.")
    if _has_circle(between):
        raise _bad("the edges of the pattern form a cycle", "Remove an edge of the cycle.")
    return pattern


def _read_edge(entry: Any, nodes: Mapping[str, object]) -> Edge:
    if not isinstance(entry, tuple | list) or len(entry) not in (2, 3):
        raise _bad(
            f"the list 'edges' contains {entry!r:.100}, which is not an edge",
            "Write each edge as (node that is read, node that reads, {'in': number of the reader's input}).",
        )
    source, reader, ports = (*entry, {})[:3]
    for name in (source, reader):
        if name not in nodes:
            raise _bad(
                f"edge {entry!r:.100} contains '{name}', but the list 'nodes' has no node of this name",
                did_you_mean(str(name), nodes, "Correct the edge, or add the node to the list."),
            )
    if not isinstance(ports, Mapping):  # older versions of MO have only the number
        ports = {"in": ports}
    if unknown := ports.keys() - {"in", "out"}:
        raise _bad(
            f"edge {entry!r:.100} has an unknown attribute: {', '.join(sorted(map(repr, unknown)))}",
            "Use only the attributes 'in' and 'out' for edges.",
        )
    return Edge(source, reader, ports.get("in"), ports.get("out"))


def _has_circle(edges: Sequence[Edge]) -> bool:
    left = list(edges)
    while True:
        readers = {edge.reader for edge in left}
        kept = [edge for edge in left if edge.source in readers]
        if len(kept) == len(left):
            return bool(left)
        left = kept


def _holds(node: Node | DataNode, wanted: Mapping[str, Any]) -> bool:
    """Whether a node fulfils all conditions on its attributes."""
    for name, value in wanted.items():
        if name == "kind" and isinstance(node, Node):
            continue
        if isinstance(node, Node) and not node.has(name):
            return False
        found = node.soft_get(name, None)
        if not (value(found) if callable(value) else is_same_value(found, value)):
            return False
    return True


def _thing(bound: Bound) -> Node | None:
    return bound.node if isinstance(bound, OutPort) else bound


def _bad(what: str, hint: str = "") -> LiteRtError:
    return LiteRtError(Status.INVALID_TRANSFORMATION, what, "return value of pattern()", hint)
