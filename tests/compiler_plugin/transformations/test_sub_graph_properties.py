"""Tests random sub-graphs of random graphs: valid ones are found, others refused, and a copy computes the same."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.graph_check import check_graph
from compiler_plugin.transformations.node import Node, OutPort
from compiler_plugin.transformations.replacement_config import MatchKind, ReplacementDescription
from compiler_plugin.transformations.sub_graph_match import SubgraphMatch
from compiler_plugin.transformations.sub_graph_replacement import (
    SubgraphReplacement,
    assign_descriptions,
)
from compiler_plugin.transformations.sub_graph_search import matching_instances
from litert.core.errors import LiteRtError
from litert.core.status import Status
from tests.compiler_plugin.transformations.sketch import Sketch, run_stock

SEEDS = st.integers(0, 2**32 - 1)
UNARY = ("RELU", "TANH", "LOGISTIC", "NEG", "ABS")
BINARY = ("ADD", "MUL", "SUB", "MAXIMUM")


def build(r: random.Random, ops: int) -> Graph:
    """Builds a random graph with some ops in scope `in`."""
    s = Sketch()
    values = [s.input("x"), s.input("y")]
    threshold = r.choice([0.2, 0.5, 0.8])
    for index in range(ops):
        recent = values[-4:]
        name = f"{'in' if r.random() < threshold else 'out'}/op_{index}"
        if r.random() < 0.5:
            made = s(r.choice(UNARY), r.choice(recent), name=name)
        else:
            made = s(r.choice(BINARY), r.choice(recent), r.choice([*recent, 0.5]), name=name)
        values.append(made)
    return s.graph(*r.sample(values[2:], r.randint(1, min(3, ops))))


def readers_of(node: Node) -> list[Node]:
    return [r.node for port in node.out_ports().values() for r in port.get_destinations()]


def comes_back(nodes: list[Node]) -> bool:
    """Returns whether a path leads out of a set of ops and back into it; searches from each op in turn."""
    inside = set(nodes)
    for start in nodes:
        waiting = [reader for reader in readers_of(start) if reader not in inside]
        seen = set(waiting)
        while waiting:
            for reader in readers_of(waiting.pop()):
                if reader in inside:
                    return True
                if reader not in seen:
                    seen.add(reader)
                    waiting.append(reader)
    return False


class Copy(SubgraphReplacement):
    """A sub-graph becomes a copy of itself."""

    replacement_id = "copy"

    def replace_sub_graph(self, graph: Graph, match: SubgraphMatch) -> list[OutPort | Node | None]:
        made: dict[OutPort, OutPort] = {}
        for node in match.nodes:
            sources = [port.get_source() for port in node.in_ports().values()]
            inputs = [made.get(source, source) for source in sources if source is not None]
            copy = graph.create_op(node.op, inputs, node.attributes())
            made[node.out_port(0)] = copy.out_port(0)
        return [made[port] for port in match.outputs]


def check_copy(graph: Graph, description: ReplacementDescription, seed: int) -> None:
    """Replaces a sub-graph by a copy; checks the number of ops, the names of the outputs and the values."""
    count = len(graph.nodes)
    (match,) = matching_instances(graph, description)
    kept = {port.name for port in match.outputs}
    names = [tensor.name for tensor in graph.subgraph.outputs]
    with tempfile.TemporaryDirectory() as folder:
        before = run_stock(graph, Path(folder) / "before.tflite", seed)
        copy = Copy()
        assign_descriptions([copy], [description])
        assert copy.find_and_replace_pattern(graph) == 1
        graph.infer()
        check_graph(graph)
        assert len(graph.nodes) == count
        assert kept <= {node.name for node in graph.nodes}
        assert [tensor.name for tensor in graph.subgraph.outputs] == names
        after = run_stock(graph, Path(folder) / "after.tflite", seed)
    assert all(np.array_equal(x, y) for x, y in zip(before, after, strict=True))


@given(seed=SEEDS, ops=st.integers(1, 14))
@settings(max_examples=60, deadline=None)
def test_a_scope_is_found_as_it_is_or_refused_where_it_comes_back(seed: int, ops: int) -> None:
    graph = build(random.Random(seed), ops)
    scope = ReplacementDescription("copy", MatchKind.SCOPE, ["in"])
    inside = [node for node in graph.nodes if node.name.startswith("in/")]
    if not inside:
        assert not list(matching_instances(graph, scope))
        return
    if comes_back(inside):
        try:
            list(matching_instances(graph, scope))
        except LiteRtError as error:
            assert error.status is Status.INVALID_ARGUMENT and "reads its own results" in error.what
            return
        raise AssertionError("a scope that comes back was found")
    (match,) = matching_instances(graph, scope)
    assert match.nodes == inside
    sources = {port.get_source() for node in inside for port in node.in_ports().values()}
    assert set(match.inputs) == {
        s for s in sources if s is not None and s.node not in inside and not s.node.is_const
    }
    outward = [node for node in inside if any(r not in inside for r in readers_of(node))]
    assert match.outputs == [node.out_port(0) for node in outward]
    check_copy(graph, scope, seed)


@given(seed=SEEDS, ops=st.integers(2, 14), with_start=st.booleans(), with_end=st.booleans())
@settings(max_examples=80, deadline=None)
def test_points_enclose_a_sub_graph_that_can_be_replaced_or_are_refused(
    seed: int, ops: int, with_start: bool, with_end: bool
) -> None:
    r = random.Random(seed)
    graph = build(r, ops)
    names = [node.name for node in graph.nodes]
    start = r.sample([*names, "x", "y"], r.randint(1, 3))
    end = r.sample(names, r.randint(1, 2))
    points = ReplacementDescription(
        "copy", MatchKind.POINTS, (), start, end,
        includes_start_points=with_start, includes_end_points=with_end,
    )  # fmt: skip
    try:
        (match,) = matching_instances(graph, points)
    except LiteRtError as error:
        assert error.status is Status.INVALID_ARGUMENT
        return
    inside = set(match.nodes)
    assert not comes_back(match.nodes)
    for node in match.nodes:
        assert (node.name not in start or with_start) and (node.name not in end or with_end)
        for port in node.in_ports().values():
            source = port.get_source()
            assert source is not None
            assert source.node in inside or source.node.is_const or source in match.inputs
    if match.outputs:
        check_copy(graph, points, seed)
