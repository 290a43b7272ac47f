"""Tests replacements of ops and patterns: what takes their place, what is removed or kept, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any as Anything

import numpy as np
import pytest

from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.node import Node, OutPort
from compiler_plugin.transformations.pattern import Any, Const, Match
from compiler_plugin.transformations.replacement import OpReplacement, PatternReplacement
from litert.core.errors import LiteRtError
from litert.core.quantization import Quantization
from litert.core.status import Status
from litert.model.graph import Tensor
from tests.compiler_plugin.transformations.sketch import Sketch, run_stock


class FuseSwish(PatternReplacement):
    """x / (1 + exp(-beta * x)) becomes one op."""

    pattern = Match(
        "DIV",
        Any("x"),
        Match("ADD", Const(value=1.0), Match("EXP", Match("MUL", Any("x"), Const("beta")))),
        name="div",
    )

    def rewrite(self, graph: Graph, x: OutPort, beta: Node) -> Node:
        value = beta.out_port(0).data.get_value()
        assert value is not None
        attributes = {"beta": -float(value)}
        return graph.create_op("Swish", [x], attributes, is_custom=True)


def swish(s: Sketch, x: Tensor, beta: float, name: str = "y") -> Tensor:
    exp = s("EXP", s("MUL", x, -beta), name=f"{name}/exp")
    return s("DIV", x, s("ADD", exp, 1.0, name=f"{name}/add"), name=name)


def ops(graph: Graph) -> list[str]:
    graph.topological_sort()
    return [node.op for node in graph.nodes]


def test_a_pattern_becomes_one_op_that_keeps_the_name_and_type_of_the_last() -> None:
    s = Sketch()
    graph = s.graph(swish(s, s.input(), 1.5))
    assert FuseSwish().find_and_replace_pattern(graph) == 1
    (node,) = graph.nodes
    assert (node.op, node.name, node.beta) == ("Swish", "y", 1.5)
    assert node.out_port(0).tensor.shape == (1, 2, 2, 4)
    assert graph.subgraph.outputs == [node.out_port(0).tensor]


def test_the_same_in_a_model_of_several_custom_ops_keeps_an_order_that_can_run() -> None:
    s = Sketch()
    x = s("First", s.input())
    x = s("Second", swish(s, x, 1.0, "a"))
    x = swish(s, s("TANH", swish(s, x, 2.0, "b")), 3.0, "c")
    graph = s.graph(s("Last", x))
    assert FuseSwish().find_and_replace_pattern(graph) == 3
    assert ops(graph) == ["First", "Swish", "Second", "Swish", "TANH", "Swish", "Last"]


def test_an_op_with_side_effects_takes_the_place_of_another_among_its_kind() -> None:
    s = Sketch()
    x = s.input()
    graph = s.graph(s("First", x), s("Flatten", x), s("Last", x))

    class Write(OpReplacement):
        op = "Flatten"

        def replace_op(self, graph: Graph, node: Node) -> Node:
            return graph.create_op("Flat", [graph.parameters[0]], is_custom=True)

    assert Write().find_and_replace_pattern(graph) == 1
    assert ops(graph) == ["First", "Flat", "Last"]


def test_an_op_that_is_read_outside_stays_when_the_last_one_is_replaced() -> None:
    s = Sketch()
    y = swish(s, s.input(), 1.0)
    exp = next(t for t in s.builder.graph.tensors if t.name == "y/exp")
    graph = s.graph(y, s("RELU", exp))
    assert FuseSwish().find_and_replace_pattern(graph) == 1
    assert sorted(ops(graph)) == ["EXP", "MUL", "RELU", "Swish"]


def make(rewrite: Callable[..., Anything], pattern: Match | None = None) -> PatternReplacement:
    """Makes a replacement of RELU, or of another pattern, by the result of a function."""
    wanted = pattern or Match("RELU", Any("x"), name="relu")

    class Rewritten(PatternReplacement):
        pattern = wanted

        def rewrite(self, graph: Graph, **named: Anything) -> Anything:
            return rewrite(graph, **named)

    return Rewritten()


def test_none_without_an_edit_is_no_match() -> None:
    s = Sketch()
    graph = s.graph(s("RELU", s.input()))
    edits = graph.edit_count
    assert make(lambda graph, **_: None).find_and_replace_pattern(graph) == 0
    assert graph.edit_count == edits and ops(graph) == ["RELU"]


def test_an_existing_port_takes_the_place_of_an_op_that_does_nothing(tmp_path: Path) -> None:
    s = Sketch()
    x = s.input()
    tanh = s("TANH", x)
    graph = s.graph(s("ADD", tanh, s("RELU", tanh)), s("RELU", x, name="public"))
    assert make(lambda graph, x, relu: x).find_and_replace_pattern(graph) == 2
    assert ops(graph) == ["TANH", "ADD"]
    first, second = run_stock(graph, tmp_path / "m.tflite")
    assert np.allclose(first, 2 * np.tanh(second))


def test_an_op_that_only_the_replaced_one_reads_gets_its_name_and_quantization() -> None:
    s = Sketch()
    b = s.builder
    x = b.input("x", "int8", (4,), quantization=Quantization([0.5], [0]))
    inner = b.op("TANH", [x], [("inner", "int8", (4,))])
    outer = b.tensor("outer", "int8", (4,), quantization=Quantization([0.25], [3]))
    b.op("RELU", [inner], [outer])
    graph = s.graph(outer)
    fuse = make(
        lambda graph, tanh, relu: tanh, Match("RELU", Match("TANH", name="tanh"), name="relu")
    )
    assert fuse.find_and_replace_pattern(graph) == 1
    (tanh,) = graph.nodes
    assert tanh.op == "TANH" and tanh.name == "outer"
    assert tanh.out_port(0).quantization == Quantization([0.25], [3])


@pytest.mark.parametrize("asks", [False, True], ids=["front", "middle"])
def test_what_is_new_gets_the_name_though_other_new_ops_read_it(asks: bool) -> None:
    s = Sketch()
    halves = s.several("SPLIT", 3, s.input(), outputs=2, num_splits=2, name="halves")
    graph = s.graph(s("ADD", s("NEG", halves[0]), halves[1]))

    def chain(graph: Graph, x: OutPort) -> Sequence[Node]:
        first = graph.create_op(
            "SLICE", [x, np.zeros(4, np.int32), np.array([1, 2, 2, 2], np.int32)]
        )
        if asks:  # asking for a shape sorts the graph
            assert first.out_port(0).data.get_shape() == (1, 2, 2, 2)
        return [first, graph.create_op("ABS", [first])]

    pattern = Match("SPLIT", Const(), Any("x"))
    assert make(chain, pattern).find_and_replace_pattern(graph) == 1
    graph.infer()
    assert [(node.op, node.name) for node in graph.nodes if "halves" in node.name] == [
        ("SLICE", "halves_0"), ("ABS", "halves_1"),
    ]  # fmt: skip


def test_the_node_itself_is_a_change_in_place() -> None:
    s = Sketch()
    graph = s.graph(s("LEAKY_RELU", s.input(), alpha=0.5))

    def sharpen(graph: Graph, leaky: Node) -> Node | None:
        if leaky.alpha < 0.1:
            return None
        leaky.alpha /= 2
        return leaky

    halve = make(sharpen, Match("LEAKY_RELU", name="leaky"))
    assert halve.find_and_replace_pattern(graph) == 3
    assert graph.nodes[0].alpha == 0.0625


def test_a_change_in_place_that_is_there_already_is_no_match() -> None:
    s = Sketch()
    graph = s.graph(s("LEAKY_RELU", s.input(), alpha=0.5))

    def always(graph: Graph, leaky: Node) -> Node:
        leaky.alpha = 0.25
        return leaky

    change = make(always, Match("LEAKY_RELU", name="leaky"))
    assert change.find_and_replace_pattern(graph) == 1
    assert change.find_and_replace_pattern(graph) == 0


def test_what_is_connected_by_hand_counts_and_what_nobody_reads_goes() -> None:
    s = Sketch()
    graph = s.graph(s("TANH", s("RELU", s.input())))

    def by_hand(graph: Graph, relu: Node, x: OutPort) -> None:
        elu = graph.create_op("ELU", [x])
        relu.out_port(0).get_connection().set_source(elu.out_port(0))

    assert make(by_hand).find_and_replace_pattern(graph) == 1
    assert ops(graph) == ["ELU", "TANH"]


def test_an_op_of_several_outputs_is_replaced_by_a_node_or_by_a_port_for_each(
    tmp_path: Path,
) -> None:
    s = Sketch()
    halves = s.several("SPLIT", 3, s.input(), outputs=2, num_splits=2, name="halves")
    graph = s.graph(s("SUB", halves[0], halves[1], name="y"))
    before = run_stock(graph, tmp_path / "before.tflite")
    pattern = Match("SPLIT", Const("axis"), Any("x"), name="split", num_splits=2)

    def resplit(graph: Graph, axis: Node, x: OutPort, split: Node) -> Node | None:
        if split.soft_get("is_new"):
            return None
        made = graph.create_op("SPLIT", [axis, x], {"num_splits": 2}, outputs=2)
        made.is_new = True
        return made

    assert make(resplit, pattern).find_and_replace_pattern(graph) == 1
    assert ops(graph) == ["SPLIT", "SUB"]

    def slices(graph: Graph, x: OutPort, **_: Anything) -> Sequence[OutPort | Node]:
        made = [
            graph.create_op(
                "SLICE", [x, np.array([0, 0, 0, at], np.int32), np.array([1, 2, 2, 2], np.int32)]
            )
            for at in (0, 2)
        ]
        return [made[0].out_port(0), made[1]]

    assert make(slices, pattern).find_and_replace_pattern(graph) == 1
    assert ops(graph) == ["SLICE", "SLICE", "SUB"]
    assert {node.name for node in graph.nodes} == {"halves_0", "halves_1", "y"}
    (after,) = run_stock(graph, tmp_path / "after.tflite")
    assert np.array_equal(before[0], after)


def test_outputs_that_change_places_are_read_as_they_were_before(tmp_path: Path) -> None:
    s = Sketch()
    x = s.input()
    graph = s.graph(s("SUB", s("RELU", x, name="a"), s("TANH", x, name="b"), name="y"))
    relu, tanh = graph.get_op_nodes(op="RELU")[0], graph.get_op_nodes(op="TANH")[0]
    from compiler_plugin.transformations.replacement import Replacer

    (before,) = run_stock(graph, tmp_path / "before.tflite")
    ports = [relu.out_port(0), tanh.out_port(0)]
    Replacer(graph, "swap").replace(ports, ports[::-1], graph.creation_count)
    (after,) = run_stock(graph, tmp_path / "after.tflite")
    assert np.array_equal(before, -after)


def test_new_matches_that_a_rewrite_makes_are_found() -> None:
    """The rewrite removes two NEG in a row; of five in a row, one is left."""
    s = Sketch()
    x = s.input()
    for _ in range(5):
        x = s("NEG", x)
    graph = s.graph(x)
    cancel = make(lambda graph, x: x, Match("NEG", Match("NEG", Any("x"))))
    assert cancel.find_and_replace_pattern(graph) == 2
    assert ops(graph) == ["NEG"]


def test_a_match_that_a_rewrite_elsewhere_makes_possible_is_found() -> None:
    """NEG and RELU read TANH; the rewrite of RELU needs a TANH with one reader, so NEG must be removed first."""
    s = Sketch()
    tanh = s("TANH", s.input())
    graph = s.graph(s("ADD", s("RELU", tanh), s("NEG", tanh)))

    class Rewrites(PatternReplacement):
        pattern = Match(
            ("RELU", "NEG"), Any("x", where=lambda p: p.node.op != "ELU"), name="reader"
        )

        def rewrite(self, graph: Graph, reader: Node, x: OutPort) -> Node | OutPort | None:
            if reader.op == "NEG":
                return graph.parameters[0].out_port(0)
            return graph.create_op("ELU", [x]) if len(x.get_destinations()) == 1 else None

    assert Rewrites().find_and_replace_pattern(graph) == 2
    assert sorted(ops(graph)) == ["ADD", "ELU", "TANH"]


def test_rewrites_without_an_end_are_an_error_with_the_name() -> None:
    s = Sketch()
    graph = s.graph(s("RELU", s.input()))
    forever = make(lambda graph, x, relu: graph.create_op("RELU", [x]))
    with pytest.raises(LiteRtError) as error:
        forever.find_and_replace_pattern(graph)
    assert "does not end" in error.value.what and "1021 rewrites" in error.value.what
    assert error.value.where == "transformation 'rewritten'" and error.value.hint


class ReplaceFlatten(OpReplacement):
    """Flatten becomes a reshape to a row."""

    op = ("Flatten", "Flatten2")

    def replace_op(self, graph: Graph, node: Node) -> Node | None:
        if node.soft_get("axis", 1) != 1:
            return None
        source = node.in_port(0).get_source()
        assert source is not None
        return graph.create_op("RESHAPE", [source, np.array([1, -1], np.int32)])


def test_an_op_is_replaced_where_the_class_has_something_for_it() -> None:
    s = Sketch()
    x = s.input()
    graph = s.graph(s("Flatten", x), s("Flatten2", x, axis=1), s("Flatten", x, axis=2))
    assert ReplaceFlatten().find_and_replace_pattern(graph) == 2
    assert ops(graph) == ["RESHAPE", "RESHAPE", "Flatten"]
    assert [t.name for t in graph.subgraph.outputs] == ["flatten_1", "flatten2_2", "flatten_3"]


def foreign(graph: Graph, **_: Anything) -> Node:
    s = Sketch()
    return s.graph(s("ABS", s.input())).nodes[0]


def removed(graph: Graph, x: OutPort, **_: Anything) -> Node:
    node = graph.create_op("ABS", [x])
    graph.remove_node(node)
    return node


def two_outputs(graph: Graph, x: OutPort, **_: Anything) -> Node:
    return graph.create_op("SPLIT", [3, x], {"num_splits": 2}, outputs=2)


def removed_root(graph: Graph, relu: Node, x: OutPort) -> Node:
    elu = graph.create_op("ELU", [x])
    relu.out_port(0).get_connection().set_source(elu.out_port(0))
    graph.remove_node(relu)
    return elu


WRONG: dict[str, tuple[Callable[..., Anything], str]] = {
    "removed_the_op_itself": (removed_root, "the transformation has removed RELU '"),
    "a_name": (lambda graph, **_: "y", "the transformation returns 'y', which cannot replace RELU"),
    "too_many": (
        lambda graph, x, **_: [x, x],
        "the transformation returns 2 ports, but RELU 'relu_1' has 1 output",
    ),
    "none_for_one_that_is_read": (
        lambda graph, **_: [None],
        "the transformation returns None for output 0",
    ),
    "an_array": (
        lambda graph, **_: [3.0],
        "the transformation returns 3.0, which cannot replace an output",
    ),
    "outputs": (two_outputs, "with 2 outputs, but RELU 'relu_1' has only 1 output"),
    "outputs_in_a_list": (
        lambda *a, **k: [two_outputs(*a, **k)],
        "which does not have exactly one output",
    ),
    "another_graph": (foreign, "which is in another graph"),
    "removed": (removed, "which was removed from the graph"),
    "reads_it": (
        lambda graph, relu, **_: graph.create_op("ABS", [relu]),
        "which cannot replace output 0 of RELU 'relu_1', because ABS 'abs' reads this output",
    ),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG.keys())
def test_what_cannot_take_the_place_is_refused(case: tuple[Callable[..., Anything], str]) -> None:
    rewrite, what = case
    s = Sketch()
    graph = s.graph(s("RELU", s.input()))
    with pytest.raises(LiteRtError) as error:
        make(rewrite).find_and_replace_pattern(graph)
    assert error.value.status is Status.INVALID_TRANSFORMATION
    assert what in error.value.what and error.value.where == "transformation 'rewritten'"


def test_a_class_is_checked_when_it_is_made() -> None:
    with pytest.raises(
        LiteRtError, match=r"rewrite has the parameter 'y'.*class WrongName.*parts are mul, x"
    ):

        class WrongName(PatternReplacement):
            pattern = Match("MUL", Any("x"), Any(), name="mul")

            def rewrite(self, graph: Graph, y: OutPort) -> None: ...

    with pytest.raises(LiteRtError, match=r"must be a Match, but is .*class WrongPattern"):

        class WrongPattern(PatternReplacement):
            pattern = {"nodes": [("op", {"op": "MUL"})], "edges": []}  # type: ignore[assignment]  # noqa: RUF012

            def rewrite(self, graph: Graph) -> None: ...

    with pytest.raises(LiteRtError, match=r"no operator 'CONV2D' \(class WrongOp\)\. Did you"):

        class WrongOp(OpReplacement):
            op = "CONV2D"

            def replace_op(self, graph: Graph, node: Node) -> None: ...


def test_a_class_without_a_pattern_is_a_base_for_others() -> None:
    class Base(PatternReplacement):
        def rewrite(self, graph: Graph, x: OutPort) -> OutPort:
            return x

    with pytest.raises(TypeError, match="abstract"):
        Base()  # type: ignore[abstract]
    with pytest.raises(LiteRtError, match="rewrite has the parameter 'x'"):

        class Derived(Base):
            pattern = Match("RELU", Any())
