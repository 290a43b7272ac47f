"""Tests which changes a pattern may not make to a graph, and how the graph is cleaned up after a pattern."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler_plugin.native.graph_builder import GraphBuilder, order_ops
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.builtin_options import BUILTIN_NUMBERS
from litert.model.graph import Model, Tensor
from litert.model.reader import read_model
from litert.model.writer import to_bytes

NEG, ADD, RELU = (BUILTIN_NUMBERS[name] for name in ("NEG", "ADD", "RELU"))
F32 = ("float32", (2,))


def _model() -> Model:
    """Returns the model x -> NEG a -> RELU b -> ADD(b, constant) c."""
    b = ModelBuilder()
    x = b.input("x", *F32)
    a = b.op("NEG", [x], [("a", *F32)])
    r = b.op("RELU", [a], [("b", *F32)])
    b.output(b.op("ADD", [r, b.constant("k", [1.0, 2.0], "float32", (2,))], [("c", *F32)]))
    return b.build()


def _find(model: Model, name: str) -> Tensor:
    return next(t for t in model.subgraphs[0].tensors if t.name == name)


def _new_tensor(build: GraphBuilder, name: str) -> Tensor:
    tensor = Tensor(name, ElementType.FLOAT32, (2,), build.empty_buffer)
    build.add_tensor(tensor)
    return tensor


def _two_writers(model: Model, build: GraphBuilder) -> None:
    build.add_op(NEG, [_find(model, "x")], [_find(model, "b")])


def _two_new_writers(model: Model, build: GraphBuilder) -> None:
    build.erase(model.subgraphs[0].ops[1])
    for _ in range(2):
        build.add_op(NEG, [_find(model, "x")], [_find(model, "b")])


def _writes_an_input(model: Model, build: GraphBuilder) -> None:
    build.add_op(NEG, [_find(model, "a")], [_find(model, "x")])


def _writes_a_constant(model: Model, build: GraphBuilder) -> None:
    build.add_op(NEG, [_find(model, "x")], [_find(model, "k")])


def _loses_an_output(model: Model, build: GraphBuilder) -> None:
    build.erase(model.subgraphs[0].ops[2])


def _reads_what_nobody_writes(model: Model, build: GraphBuilder) -> None:
    build.add_op(NEG, [_new_tensor(build, "n")], [_new_tensor(build, "m")])


def _closes_a_cycle(model: Model, build: GraphBuilder) -> None:
    build.erase(model.subgraphs[0].ops[0])
    build.add_op(NEG, [_find(model, "b")], [_find(model, "a")])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_two_writers, "two ops would write tensor 'b'"),
        (_two_new_writers, "two ops would write tensor 'b'"),
        (
            _writes_an_input,
            "op NEG would write tensor 'x', which is a constant or an input of the subgraph",
        ),
        (
            _writes_a_constant,
            "op NEG would write tensor 'k', which is a constant or an input of the subgraph",
        ),
        (
            _loses_an_output,
            "no op would write tensor 'c', which is still in use, because the transformation erases the op "
            "that writes the tensor",
        ),
        (_reads_what_nobody_writes, "a new op reads tensor 'n', but no op would write the tensor"),
        (_closes_a_cycle, "would depend on its own output"),
    ],
)
def test_a_change_that_breaks_the_graph_is_refused(
    change: Callable[[Model, GraphBuilder], None], says: str
) -> None:
    model = _model()
    build = GraphBuilder(model, model.subgraphs[0])
    change(model, build)
    with pytest.raises(LiteRtError, match=says) as error:
        build.apply()
    assert error.value.status is Status.INVALID_GRAPH_INVARIANT


def test_no_input_gets_data_and_only_ops_of_the_subgraph_go() -> None:
    model = _model()
    build = GraphBuilder(model, model.subgraphs[0])
    with pytest.raises(
        LiteRtError, match="tensor 'x', but the tensor is neither new nor an op's output"
    ):
        build.set_data(_find(model, "x"), b"12345678")
    with pytest.raises(LiteRtError, match="erases op NEG, which is not in the subgraph"):
        build.erase(_model().subgraphs[0].ops[0])


def test_what_nothing_has_any_more_is_dropped() -> None:
    model = _model()
    subgraph = model.subgraphs[0]
    build = GraphBuilder(model, subgraph)
    unused = _new_tensor(build, "unused")
    build.erase(subgraph.ops[1])
    build.erase(subgraph.ops[2])
    build.add_op(NEG, [_find(model, "a")], [_find(model, "c")])
    build.apply()
    assert [op.name for op in subgraph.ops] == ["NEG", "NEG"]
    assert [t.name for t in subgraph.tensors] == ["x", "a", "c"]
    assert unused not in subgraph.tensors
    assert len(model.buffers) == 1
    assert {code.builtin_code for code in model.operator_codes} == {NEG}


def test_an_op_that_is_needed_before_its_place_moves_up() -> None:
    model = _model()
    subgraph = model.subgraphs[0]
    build = GraphBuilder(model, subgraph)  # RELU is added before NEG, whose output it reads
    second = _new_tensor(build, "second")
    build.erase(subgraph.ops[1])
    build.add_op(RELU, [second], [_find(model, "b")])
    build.add_op(NEG, [_find(model, "a")], [second])
    build.apply()
    assert [[t.name for t in op.outputs] for op in subgraph.ops] == [
        ["a"],
        ["second"],
        ["b"],
        ["c"],
    ]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_any_order_of_ops_becomes_one_that_can_run(reads: list[int], random: object) -> None:
    b = ModelBuilder()
    tensors = [b.input("x", *F32)]
    for index, back in enumerate(reads):
        source = tensors[max(len(tensors) - 1 - back, 0)]
        tensors.append(b.op("NEG", [source], [(f"t{index}", *F32)]))
    b.output(tensors[-1])
    ops = list(b.build().subgraphs[0].ops)
    shuffled = list(ops)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    ordered = order_ops(shuffled)
    place = {op: index for index, op in enumerate(ordered)}
    assert set(ordered) == set(ops)
    for op in ordered:
        for tensor in op.inputs:
            assert tensor is not None
            assert tensor.producer is None or place[tensor.producer] < place[op]
    assert order_ops(ordered) == ordered


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=6))
def test_changes_leave_a_model_that_can_be_written_and_read(
    changes: list[tuple[int, bool]],
) -> None:
    model = _model()
    subgraph = model.subgraphs[0]
    for number, (place, with_constant) in enumerate(changes):
        op = subgraph.ops[place % len(subgraph.ops)]
        build = GraphBuilder(model, subgraph)
        between = _new_tensor(build, f"between{number}")
        build.erase(op)
        (source, *_), (result, *_) = op.inputs, op.outputs
        assert source is not None
        build.add_op(NEG, [source], [between])
        second = [between]
        if with_constant:
            constant = _new_tensor(build, f"constant{number}")
            build.set_data(constant, bytes(8))
            second.append(constant)
        build.add_op(ADD if with_constant else RELU, second, [result])
        build.apply()
    names = [op.name for op in subgraph.ops]
    read = read_model(to_bytes(model))
    assert [op.name for op in read.subgraphs[0].ops] == names
    assert len(names) == 3 + len(changes)
    for tensor in read.subgraphs[0].tensors:
        assert tensor.producer or tensor.is_constant or tensor in read.subgraphs[0].inputs
