"""Tests patterns on random graphs: planted and cut-out patterns are found, and rewrites keep the outputs."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any as Anything

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.graph_check import check_graph
from compiler_plugin.transformations.matcher import find_match
from compiler_plugin.transformations.node import Node, OutPort
from compiler_plugin.transformations.pattern import (
    COMMUTATIVE,
    Any,
    Const,
    Match,
    Pattern,
    check_pattern,
)
from compiler_plugin.transformations.replacement import OpReplacement, PatternReplacement
from litert.model.graph import Tensor
from tests.compiler_plugin.transformations.graphs import find_matches
from tests.compiler_plugin.transformations.sketch import Sketch, run_stock

UNARY = ("RELU", "TANH", "LOGISTIC", "NEG", "ABS")
BINARY = ("ADD", "MUL", "SUB", "MAXIMUM")
SEEDS = st.integers(0, 2**32 - 1)


def plant_swish(s: Sketch, x: Tensor, r: random.Random) -> Tensor:
    """Adds x / (1 + exp(-beta * x)); the graph has no other DIV."""
    scaled = s("MUL", *r.sample([x, -r.choice([0.5, 1.0, 1.5])], 2))
    return s("DIV", x, s("ADD", *r.sample([1.0, s("EXP", scaled)], 2)))


def build(r: random.Random, swishes: int = 0, ops: int = 20) -> tuple[Graph, int]:
    """Builds a random graph; returns it and the number of its swishes."""
    s = Sketch()
    values = [s.input("x"), s.input("y")]
    for index in r.sample(range(ops + swishes), ops + swishes):
        x, y = r.choice(values), r.choice(values)
        if index < swishes:
            made = plant_swish(s, x, r)
        elif index % 4 == 0:
            halves = s.several("SPLIT", 3, x, outputs=2, num_splits=2, name=f"halves_{len(values)}")
            made = s("CONCATENATION", *(r.choice(halves) for _ in range(2)), axis=3)
        elif index % 4 == 1:
            made = s(r.choice(UNARY), x)
        else:
            made = s(r.choice(BINARY), *r.choice([(x, y), (x, r.random()), (r.random(), x)]))
        values.append(made)
    outputs = r.sample(values[2:], r.randint(1, 4))
    return s.graph(*outputs), swishes


class SpellSwish(PatternReplacement):
    """x / (1 + exp(-beta * x)) is x * sigmoid(beta * x)."""

    pattern = Match(
        "DIV",
        Any("x"),
        Match("ADD", Const(value=1.0), Match("EXP", Match("MUL", Any("x"), Const("beta")))),
        name="div",
    )

    def rewrite(self, graph: Graph, x: OutPort, beta: Node) -> Node:
        value = beta.out_port(0).data.get_value()
        assert value is not None
        scaled = graph.create_op("MUL", [x, -value])
        return graph.create_op("MUL", [x, graph.create_op("LOGISTIC", [scaled])])


@given(seed=SEEDS, count=st.integers(0, 6))
@settings(max_examples=60, deadline=None)
def test_as_many_are_found_as_were_planted(seed: int, count: int) -> None:
    graph, planted = build(random.Random(seed), count)
    found = list(find_matches(graph, SpellSwish.pattern))
    assert len(found) == planted
    assert [match.nodes[0] for match in found] == graph.get_op_nodes(op="DIV")


def cut_out(root: Node, r: random.Random) -> Match:
    """Makes a pattern from an op and some of the ops that it reads, with commutative inputs in any order."""
    made: dict[Node, Match] = {}

    def make(port: OutPort | None) -> Pattern | None:
        if port is None:
            return None
        node = port.node
        if node.is_const:
            return Const() if r.random() < 0.5 else Const(value=port.data.get_value())
        if not node.is_op or r.random() < 0.3:
            return Any(f"end_{node.id}_{port.index}")
        if node in made and made[node].output == port.index:
            return made[node]
        return make_op(node, port.index)

    def make_op(node: Node, output: int = 0) -> Match:
        inputs = (
            [make(p.get_source()) for p in node.in_ports().values()] if r.random() < 0.8 else []
        )
        if node.op in COMMUTATIVE and r.random() < 0.5:
            inputs.reverse()
        name = f"op_{node.id}" if r.random() < 0.7 else ""
        made[node] = Match(node.op, *inputs, name=name, output=output)
        return made[node]

    return make_op(root)


@given(seed=SEEDS)
@settings(max_examples=80, deadline=None)
def test_what_is_cut_out_of_a_graph_fits_where_it_was(seed: int) -> None:
    r = random.Random(seed)
    graph, _ = build(r, 1)
    root = r.choice(graph.nodes)
    pattern = cut_out(root, r)
    match = find_match(pattern, root)
    assert match is not None and match.nodes[0] is root
    for name in check_pattern(pattern):
        value = match.named[name]
        if name.startswith("op_"):
            assert isinstance(value, Node)
        else:
            assert isinstance(value, OutPort)
    assert root in [found.nodes[0] for found in find_matches(graph, pattern)]


class Renew(OpReplacement):
    """Each op becomes another of the same kind."""

    op = (*UNARY, *BINARY, "SPLIT", "CONCATENATION")

    def replace_op(self, graph: Graph, node: Node) -> Node | list[OutPort] | None:
        if node.soft_get("is_new"):
            return None
        sources = [port.get_source() for port in node.in_ports().values()]
        outputs = len(node.out_ports())
        made = graph.create_op(node.op, sources, node.attributes(), outputs=outputs)
        made.is_new = True
        return made if self.as_node else list(made.out_ports().values())

    as_node = True


class Negate(PatternReplacement):
    """a - b is a + (-b), which is the same to the last bit."""

    pattern = Match("SUB", Any("a"), Any("b"))

    def rewrite(self, graph: Graph, a: OutPort, b: OutPort) -> Node:
        return graph.create_op("ADD", [a, graph.create_op("NEG", [b])])


def run(graph: Graph, folder: str, seed: int) -> list[np.ndarray[Anything, Anything]]:
    """Checks a graph, and runs it in stock LiteRT; returns the outputs."""
    graph.infer()
    check_graph(graph)
    return run_stock(graph, Path(folder) / "model.tflite", seed)


@given(seed=SEEDS, as_node=st.booleans())
@settings(max_examples=25, deadline=None)
def test_equal_sub_graphs_leave_what_stock_computes(seed: int, as_node: bool) -> None:
    r = random.Random(seed)
    graph, planted = build(r, r.randint(0, 3))
    names = [tensor.name for tensor in graph.subgraph.outputs]
    with tempfile.TemporaryDirectory() as folder:
        before = run(graph, folder, seed)
        renew = Renew()
        renew.as_node = as_node
        others = [node for node in graph.nodes if node.op not in ("DIV", "EXP")]
        subtractions = [node for node in others if node.op == "SUB"]
        assert renew.find_and_replace_pattern(graph) == len(others)
        assert Negate().find_and_replace_pattern(graph) == len(subtractions)
        after = run(graph, folder, seed)
        assert all(np.array_equal(x, y) for x, y in zip(before, after, strict=True))
        assert SpellSwish().find_and_replace_pattern(graph) == planted
        again = run(graph, folder, seed)
    assert [tensor.name for tensor in graph.subgraph.outputs] == names
    for x, y in zip(before, again, strict=True):
        assert np.allclose(x, y, rtol=0, atol=1e-5 * max(1.0, float(np.abs(x).max())))
