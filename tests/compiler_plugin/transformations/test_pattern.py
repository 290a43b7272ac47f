"""Tests patterns: what each part means, where patterns match, and which patterns are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any as Anything

import numpy as np
import pytest

from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.matcher import PatternMatch
from compiler_plugin.transformations.node import Node, OutPort
from compiler_plugin.transformations.pattern import Any, Between, Const, Match, check_pattern
from compiler_plugin.transformations.replacement import PatternReplacement
from litert.core.errors import LiteRtError
from litert.core.quantization import Quantization
from litert.core.status import Status
from litert.model.graph import Tensor
from tests.compiler_plugin.transformations.graphs import find_matches
from tests.compiler_plugin.transformations.sketch import Sketch

SWISH = Match("MUL", Any("x"), Match("LOGISTIC", Any("x"), name="sigmoid", uses=1), name="mul")


def find(pattern: Match, make: Callable[[Sketch, Tensor], Tensor]) -> list[PatternMatch]:
    sketch = Sketch()
    return list(find_matches(sketch.graph(make(sketch, sketch.input())), pattern))


def test_a_match_hands_on_ops_as_nodes_constants_as_nodes_and_the_rest_as_ports() -> None:
    pattern = Match("ADD", Any("x"), Const("c", 2.0), name="add")
    (match,) = find(pattern, lambda s, x: s("ADD", x, 2.0))
    add, x, c = match.named["add"], match.named["x"], match.named["c"]
    assert isinstance(add, Node) and add is match.nodes[0] and add.op == "ADD"
    assert isinstance(x, OutPort) and x.node.op == "Parameter"
    assert isinstance(c, Node) and c.is_const
    assert match.nodes == [add]


@pytest.mark.parametrize("is_swapped", [False, True], ids=["as_written", "swapped"])
def test_inputs_of_a_commutative_op_match_in_either_order(is_swapped: bool) -> None:
    def swish(s: Sketch, x: Tensor) -> Tensor:
        inputs = [x, s("LOGISTIC", x)]
        return s("MUL", *(reversed(inputs) if is_swapped else inputs))

    (match,) = find(SWISH, swish)
    assert [node.op for node in match.nodes] == ["MUL", "LOGISTIC"]
    assert match.named["sigmoid"] is match.nodes[1]


def test_inputs_of_other_ops_match_as_written_only() -> None:
    pattern = Match("SUB", Const(), Any())
    assert find(pattern, lambda s, x: s("SUB", 1.0, x))
    assert not find(pattern, lambda s, x: s("SUB", x, 1.0))


def test_orders_of_nested_commutative_ops_are_tried_together() -> None:
    """In (a + b) * b with a = relu, only one of the four input orders gives the same `b` in both places."""
    pattern = Match("MUL", Match("ADD", Any("a"), Any("b")), Any("b"))
    for flip in range(4):

        def make(s: Sketch, x: Tensor, flip: int = flip) -> Tensor:
            relu = s("RELU", x)
            add = s("ADD", *([relu, x] if flip & 1 else [x, relu]))
            return s("MUL", *([add, x] if flip & 2 else [x, add]))

        (match,) = find(pattern, make)
        b = match.named["b"]
        assert isinstance(b, OutPort) and b.node.op == "Parameter"


def test_the_same_name_is_the_same_port() -> None:
    assert not find(SWISH, lambda s, x: s("MUL", s("RELU", x), s("LOGISTIC", x)))


def test_the_same_object_is_the_same_node() -> None:
    exp = Match("EXP", Any())
    pattern = Match("DIV", exp, Match("ADD", exp, Const(value=1.0)))

    def shared(s: Sketch, x: Tensor) -> Tensor:
        e = s("EXP", x)
        return s("DIV", e, s("ADD", e, 1.0))

    assert len(find(pattern, shared)) == 1
    assert not find(pattern, lambda s, x: s("DIV", s("EXP", x), s("ADD", s("EXP", x), 1.0)))


def test_uses_counts_readers_and_results_of_the_model() -> None:
    def read_twice(s: Sketch, x: Tensor) -> Tensor:
        sigmoid = s("LOGISTIC", x)
        return s("ADD", s("MUL", x, sigmoid), sigmoid)

    assert not find(SWISH, read_twice)
    sketch = Sketch()
    x = sketch.input()
    sigmoid = sketch("LOGISTIC", x)
    graph = sketch.graph(sketch("MUL", x, sigmoid), sigmoid)
    assert not list(find_matches(graph, SWISH))
    twice = Match("MUL", Any(), Match("LOGISTIC", uses=range(2, 4)))
    assert len(list(find_matches(graph, twice))) == 1
    unlimited = Match("MUL", Any(), Match("LOGISTIC"))
    assert len(list(find_matches(graph, unlimited))) == 1


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        ("SAME", True), ("VALID", False), (("VALID", "SAME"), True),
        (lambda padding: padding.startswith("S"), True),
    ],
    ids=["value", "other", "several", "condition"],
)  # fmt: skip
def test_an_attribute_is_a_value_several_or_a_condition(wanted: object, fits: bool) -> None:
    def pool(s: Sketch, x: Tensor) -> Tensor:
        return s(
            "MAX_POOL_2D",
            x,
            padding="SAME",
            stride_w=1,
            stride_h=1,
            filter_width=3,
            filter_height=3,
        )

    assert bool(find(Match("MAX_POOL_2D", padding=wanted, filter_width=range(2, 4)), pool)) is fits
    assert not find(Match("MAX_POOL_2D", padding=wanted, filter_width=Between(4, 9)), pool)


def test_a_float_attribute_is_as_near_as_32_bits_can_be() -> None:
    def leaky(s: Sketch, x: Tensor) -> Tensor:
        return s("LEAKY_RELU", x, alpha=0.2)

    assert find(Match("LEAKY_RELU", alpha=0.2), leaky)
    assert find(Match("LEAKY_RELU", alpha=Between(0.1, 0.3)), leaky)
    assert not find(Match("LEAKY_RELU", alpha=0.21), leaky)


def test_a_vector_attribute_is_a_tuple_or_one_of_several() -> None:
    def squeeze(s: Sketch, x: Tensor) -> Tensor:
        return s("SQUEEZE", x, squeeze_dims=[0, 1])

    assert find(Match("SQUEEZE", squeeze_dims=(0, 1)), squeeze)
    assert find(Match("SQUEEZE", squeeze_dims=[0, 1]), squeeze)
    assert find(Match("SQUEEZE", squeeze_dims=((2,), (0, 1))), squeeze)
    assert not find(Match("SQUEEZE", squeeze_dims=(1, 0)), squeeze)


def test_attributes_of_custom_ops_and_free_ones_match_too() -> None:
    sketch = Sketch()
    graph = sketch.graph(sketch("MyOp", sketch.input(), gain=3))
    assert list(find_matches(graph, Match("MyOp", gain=3)))
    assert not list(find_matches(graph, Match("MyOp", gain=4)))
    pattern = Match("MyOp", is_seen=True)
    assert not list(find_matches(graph, pattern))
    graph.get_op_nodes(op="MyOp")[0].is_seen = True
    assert list(find_matches(graph, pattern))


def test_one_of_several_ops_matches_in_execution_order() -> None:
    sketch = Sketch()
    x = sketch("RELU6", sketch("TANH", sketch("RELU", sketch.input(), name="a")), name="b")
    graph = sketch.graph(x)
    found = [match.nodes[0].name for match in find_matches(graph, Match(("RELU6", "RELU")))]
    assert found == ["a", "b"]


def conv(s: Sketch, x: Tensor, bias: object = "none") -> Tensor:
    inputs = [x, np.ones((4, 1, 1, 4), np.float32)]
    if not isinstance(bias, str):
        inputs.append(bias)
    return s("CONV_2D", *inputs, padding="SAME", stride_w=1, stride_h=1)


@pytest.mark.parametrize("bias", ["none", None], ids=["missing", "left_out"])
def test_an_input_that_is_left_out_is_none_for_an_optional_pattern(bias: object) -> None:
    optional = Match("CONV_2D", Any("x"), Const("w"), Const("bias", optional=True))
    (match,) = find(optional, lambda s, x: conv(s, x, bias))
    assert match.named["bias"] is None
    assert find(Match("CONV_2D", Any(), Const(), None), lambda s, x: conv(s, x, bias))
    assert find(Match("CONV_2D", Any(), Const()), lambda s, x: conv(s, x, bias))
    needed = Match("CONV_2D", Any(), Const(), Const("bias"))
    assert not find(needed, lambda s, x: conv(s, x, bias))


def test_an_input_that_is_there_is_not_left_out() -> None:
    def with_bias(s: Sketch, x: Tensor) -> Tensor:
        return conv(s, x, np.zeros(4, np.float32))

    optional = Match("CONV_2D", Any("x"), Const("w"), Const("bias", optional=True))
    (match,) = find(optional, with_bias)
    assert isinstance(match.named["bias"], Node)
    assert not find(Match("CONV_2D", Any(), Const(), None), with_bias)
    assert not find(Match("CONV_2D", Any(), Const()), with_bias)
    assert find(Match("CONV_2D", Any(), ...), with_bias)
    assert find(Match("CONV_2D"), with_bias)


@pytest.mark.parametrize(
    ("inputs", "fits"),
    [
        ((...,), True), ((Match("RELU"), ...), True), ((..., Match("TANH")), True),
        ((Match("RELU"), ..., Match("TANH")), True), ((Any(), Any(), Any()), True),
        ((Any(), Any(), Any(), ...), True), ((Any(), Any()), False),
        ((Any(), ..., Any(), Any(), Any()), False), ((..., Match("RELU")), False),
    ],
)  # fmt: skip
def test_dots_stand_for_any_number_of_inputs(inputs: tuple[Anything, ...], fits: bool) -> None:
    def concat(s: Sketch, x: Tensor) -> Tensor:
        return s("CONCATENATION", s("RELU", x), x, s("TANH", x), axis=3)

    assert bool(find(Match("CONCATENATION", *inputs), concat)) is fits


def test_outputs_of_one_op_are_told_apart() -> None:
    """A gated linear unit multiplies the first output of a SPLIT by the sigmoid of the second."""
    pattern = Match(
        "MUL",
        Match("SPLIT", Const(value=3), Any("x"), name="split"),
        Match("LOGISTIC", Match("SPLIT", name="split", output=1)),
    )

    def glu(s: Sketch, x: Tensor, first: int) -> Tensor:
        halves = s.several("SPLIT", 3, x, outputs=2, num_splits=2, name="halves")
        return s("MUL", halves[first], s("LOGISTIC", halves[1 - first]))

    (match,) = find(pattern, lambda s, x: glu(s, x, 0))
    assert [node.op for node in match.nodes] == ["MUL", "SPLIT", "LOGISTIC"]
    assert not find(pattern, lambda s, x: glu(s, x, 1))


def test_uses_of_an_op_of_several_outputs_are_of_all_of_them() -> None:
    def both(s: Sketch, x: Tensor) -> Tensor:
        halves = s.several("SPLIT", 3, x, outputs=2, num_splits=2, name="halves")
        return s("ADD", s("RELU", halves[0]), halves[1])

    assert not find(Match("RELU", Match("SPLIT", uses=1)), both)
    assert find(Match("RELU", Match("SPLIT", uses=2)), both)


ARRAY = np.arange(4, dtype=np.float32)


@pytest.mark.parametrize(
    ("data", "wanted", "fits"),
    [
        (0.5, 0.5, True), (0.5, 0.5 + 1e-8, True), (0.5, 0.501, False), (ARRAY, [0, 1, 2, 3], True),
        (ARRAY, ARRAY[:3], False), (ARRAY, range(4), True), (ARRAY, range(3), False),
        (ARRAY, Between(0, 3), True), (ARRAY, Between(0.5, 3), False), (np.full(4, 6.0), 6, True),
        (ARRAY, 0, False), (ARRAY, lambda value: value.sum() == 6, True), (1e-7, 0, False),
    ],
)  # fmt: skip
def test_a_constant_is_told_by_its_value(data: object, wanted: object, fits: bool) -> None:
    found = find(Match("MUL", Any(), Const(value=wanted)), lambda s, x: s("MUL", x, data))
    assert bool(found) is fits


@pytest.mark.parametrize(
    ("shape", "fits"),
    [((4,), True), ((None,), True), ((), False), ((5,), False), (lambda s: len(s) == 1, True)],
)
def test_a_constant_is_told_by_its_shape(shape: Anything, fits: bool) -> None:
    found = find(Match("MUL", Any(), Const(shape=shape)), lambda s, x: s("MUL", x, ARRAY))
    assert bool(found) is fits


def test_quantized_integers_are_no_numbers_for_a_pattern() -> None:
    sketch = Sketch()
    b = sketch.builder
    scale = Quantization([0.5], [0])
    x = b.input("x", "int8", (4,), quantization=scale)
    one = b.constant("one", np.ones(4, np.int8), quantization=scale)
    y = b.op("ADD", [x, one], [("y", "int8", (4,))])
    graph = sketch.graph(y)
    assert not list(find_matches(graph, Match("ADD", Any(), Const(value=1))))
    assert list(find_matches(graph, Match("ADD", Any(), Const(value=lambda v: (v == 1).all()))))
    assert list(find_matches(graph, Match("ADD", Any(), Const())))


def test_conditions_see_nodes_and_ports_once_the_structure_fits() -> None:
    seen: list[str] = []

    def note(thing: Node | OutPort) -> bool:
        seen.append(str(thing))
        return True

    pattern = Match("MUL", Any("x", where=note), Match("LOGISTIC", where=note), where=note)
    assert not find(pattern, lambda s, x: s("MUL", x, x)) and not seen
    assert find(pattern, lambda s, x: s("MUL", x, s("LOGISTIC", x)))
    assert len(seen) == 3
    never = Match("MUL", Any("x", where=lambda port: False), Any())
    assert not find(never, lambda s, x: s("MUL", x, x))


def test_a_condition_that_says_no_to_one_order_is_asked_about_the_other() -> None:
    is_relu = Any("relu", where=lambda port: port.node.op == "RELU")
    (match,) = find(Match("ADD", is_relu, Any()), lambda s, x: s("ADD", x, s("RELU", x)))
    relu = match.named["relu"]
    assert isinstance(relu, OutPort) and relu.node.op == "RELU"


def test_values_are_read_only_where_the_structure_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    from compiler_plugin.transformations import inferred_graph

    def refuse(*_: object) -> None:
        raise AssertionError("a value was read")

    monkeypatch.setattr(inferred_graph, "decode_constant", refuse)
    pattern = Match("ADD", Const(value=1.0), Match("RELU"))
    assert not find(pattern, lambda s, x: s("ADD", 1.0, s("TANH", x)))


def test_an_input_of_the_model_can_be_named_as_such() -> None:
    pattern = Match("RELU", Match("Parameter", name="input"))
    (match,) = find(pattern, lambda s, x: s("RELU", x))
    assert isinstance(match.named["input"], Node)
    assert [node.op for node in match.nodes] == ["RELU"]  # not the model input
    assert not find(pattern, lambda s, x: s("RELU", s("TANH", x)))


def test_a_graph_may_be_edited_while_matches_are_taken() -> None:
    sketch = Sketch()
    x = sketch.input()
    graph = sketch.graph(sketch("RELU", sketch("RELU", sketch("RELU", x, name="a"), name="b")))
    roots = []

    class SkipInner(PatternReplacement):
        pattern = Match("RELU", Match("RELU", Any("x"), name="inner"), name="outer")

        def rewrite(self, graph: Graph, x: OutPort, inner: Node, outer: Node) -> Node:
            roots.append(outer.name)
            outer.in_port(0).connect(x)
            graph.remove_node(inner)
            return outer

    assert SkipInner().find_and_replace_pattern(graph) == 2
    assert roots == ["b", "relu_3"]
    assert len(graph.nodes) == 1


X = Any("x")
BAD: dict[str, tuple[Callable[[], object], str, str]] = {
    "no_op": (lambda: Match(""), "'' is not the name of an op", "CONV_2D"),
    "no_ops": (lambda: Match(()), "() is not the name of an op", "CONV_2D"),
    "slip": (lambda: Match("CONV2D"), "no operator 'CONV2D'", "'CONV_2D'"),
    "attribute": (lambda: Match("CONV_2D", paddin="SAME"), "no attribute 'paddin'", "'padding'"),
    "enum": (lambda: Match("CONV_2D", padding="same"), "padding cannot be 'same'", "SAME, VALID"),
    "input": (lambda: Match("RELU", "x"), "the input 'x', which is not a pattern", "Any"),  # type: ignore[arg-type]
    "dots": (lambda: Match("CONCATENATION", ..., X, ...), "'...' more than once", ""),
    "uses": (lambda: Match("RELU", uses=-1), "uses=-1", ""),
    "output": (lambda: Match("SPLIT", output=-1), "output=-1", ""),
    "name": (lambda: Any("two words"), "'two words' cannot be the name", "parameter"),
    "reserved": (lambda: Any("graph"), "'graph' cannot be the name", "parameter"),
    "where": (lambda: Any(where=3), "where=3", "function"),  # type: ignore[arg-type]
    "no_pattern": (lambda: check_pattern({"nodes": [], "edges": []}), "must be a Match, but is {", "Match"),
    "method": (lambda: check_pattern(lambda: X), "the pattern must be a Match, but is a function", "Match"),
    "graph": (lambda: Const({"value": 1}), "must be a string, but has type dict", "create_const"),  # type: ignore[arg-type]
    "any": (lambda: check_pattern(X), "must be a Match, but is Any('x')", "Match"),
    "end": (lambda: check_pattern(Match("Result", X)), "is not an op", "End the pattern with an op"),
    "root_output": (
        lambda: check_pattern(Match("SPLIT", output=1)), "no part of the pattern reads its outputs",
        "Remove output=1",
    ),
    "kinds": (lambda: check_pattern(Match("ADD", X, Const("x"))), "the name 'x' stands for both", "Rename"),
    "ops": (
        lambda: check_pattern(Match("ADD", Match("EXP", name="e"), Match("ABS", name="e"))),
        "the name 'e' stands for", "Rename",
    ),
    "itself": (
        lambda: check_pattern(Match("RELU", Match("RELU", name="r"), name="r")), "read itself", "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD.values(), ids=BAD.keys())
def test_what_can_be_no_pattern_is_refused(case: tuple[Callable[[], object], str, str]) -> None:
    make, what, hint = case
    with pytest.raises(LiteRtError) as error:
        make()
    assert error.value.status is Status.INVALID_ARGUMENT
    assert what in error.value.what and hint in error.value.hint


def test_a_custom_op_may_have_a_name_in_capitals() -> None:
    assert Match("NMS").ops == ("NMS",)
    assert Match("MYOP", gain=1).attributes == {"gain": 1}
