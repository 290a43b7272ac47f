"""Tests that inferred shapes, types and values are those of stock's interpreter, and that no more than needed is
inferred after an edit.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler_plugin.transformations import stock_inference
from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.node import Node
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.quantization import Quantization
from litert.model.blob import Blob
from litert.model.builder import ModelBuilder
from litert.model.graph import Buffer, Model, Tensor
from litert.model.reader import read_model
from litert.model.writer import to_bytes
from tests.compiler_plugin.transformations.graphs import graph_of, static_graph_of
from tests.compiler_plugin.transformations.shape_models import shape_models

Shapes = dict[str, tuple[int, ...]]


def infer_all(graph: Graph) -> None:
    for node in graph.nodes:
        node.touch()
    graph.infer()


def shapes_of(model: Model) -> Shapes:
    return {t.name: t.shape for op in model.ops() for t in op.outputs}


def signature(tensor: Tensor) -> tuple[int, ...]:
    return tensor.shape_signature or tensor.shape


def stock_shapes(model: Model, sizes: Sequence[Sequence[int]] = ()) -> Shapes:
    """Returns the shapes in stock's interpreter after a run with inputs of the given sizes."""
    interpreter = Interpreter(
        model_content=to_bytes(model),
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    for details, size in zip(interpreter.get_input_details(), sizes, strict=False):
        interpreter.resize_tensor_input(details["index"], size)
    interpreter.allocate_tensors()
    interpreter.invoke()
    raw = interpreter._interpreter
    tensors = model.subgraphs[0].tensors
    return {
        tensor.name: tuple(raw.TensorSize(index, 0).tolist())
        for index, tensor in enumerate(tensors)
        if tensor.producer is not None
    }


@given(model=shape_models())
@settings(max_examples=60)
def test_all_shapes_are_those_that_stock_has_on_the_whole_model(model: Model) -> None:
    try:
        infer_all(graph_of(model))
    except LiteRtError as error:
        with pytest.raises(RuntimeError) as refused:
            stock_shapes(model)
        assert error.what.split(": ")[1] in str(refused.value)
        return
    assert shapes_of(model) == stock_shapes(model)


@given(model=shape_models(resizable=True))
@settings(max_examples=60)
def test_a_dimension_that_is_said_to_be_known_is_so_at_every_size(model: Model) -> None:
    graph = graph_of(model)
    try:
        infer_all(graph)
    except LiteRtError:
        with pytest.raises(RuntimeError):
            stock_shapes(model)
        return
    with suppress(RuntimeError):  # the initial size may be too small for the ops
        assert shapes_of(model) == stock_shapes(model)
    unknown = [i for i, size in enumerate(signature(graph.subgraph.inputs[0])) if size < 0]
    seen = {t.name: [signature(t)] for op in model.ops() for t in op.outputs}
    for tried in (5, 12, 31):
        size = list(graph.subgraph.inputs[0].shape)
        for index in unknown:
            size[index] = tried + index
        with suppress(RuntimeError):
            for name, shape in stock_shapes(model, [size]).items():
                seen[name].append(shape)
    for name, (said, *shapes) in seen.items():
        for dimension, known in enumerate(said):
            assert known == -1 or {s[dimension] for s in shapes} <= {known}, name


def test_shapes_of_real_networks_are_those_of_the_file(networks: Path) -> None:
    for path in sorted(networks.glob("*.tflite")):
        with read_model(path) as model:
            graph = graph_of(model)
            expected = shapes_of(model)
            for node in graph.nodes:
                if not node.is_custom:
                    for tensor in node.output_tensors:
                        tensor.shape, tensor.shape_signature = (), None
            infer_all(graph)
            assert shapes_of(model) == expected, path.name
            assert all(t.shape_signature is None for op in model.ops() for t in op.outputs)


def three_ops() -> Model:
    """Builds x [1, 8, 8, 4] -> RELU -> MAX_POOL_2D -> ABS."""
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 8, 8, 4))
    relu = b.op("RELU", [x], [("relu", "float32", (1, 8, 8, 4))])
    pool = b.op(
        "MAX_POOL_2D", [relu], [("pool", "float32", (1, 4, 4, 4))],
        padding="SAME", stride_w=2, stride_h=2, filter_width=2, filter_height=2,
    )  # fmt: skip
    b.output(b.op("ABS", [pool], [("abs", "float32", (1, 4, 4, 4))]))
    return b.build()


def node(graph: Graph, name: str) -> Node:
    found = graph.find_node(name)
    assert found is not None
    return found


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The names of the ops in each region that stock LiteRT infers."""
    from compiler_plugin.transformations import shape_probe

    found: list[list[str]] = []
    prepare = stock_inference.prepare

    def watched(ops: Any, *args: Any) -> Any:
        found.append([op.name for op in ops])
        return prepare(ops, *args)

    monkeypatch.setattr(shape_probe, "prepare", watched)
    return found


def test_nothing_is_inferred_where_nothing_was_touched(asked: list[list[str]]) -> None:
    graph = graph_of(three_ops())
    assert node(graph, "pool").out_port(0).data.get_shape() == (1, 4, 4, 4)
    graph.infer()
    assert asked == []


def test_an_edit_that_changes_no_shape_stops_where_it_is(asked: list[list[str]]) -> None:
    graph = graph_of(three_ops())
    node(graph, "pool").filter_width = 3
    graph.infer()
    assert asked == [["MAX_POOL_2D"]]


def test_a_changed_shape_goes_as_far_as_it_changes_something(asked: list[list[str]]) -> None:
    graph = graph_of(three_ops())
    node(graph, "pool").stride_w = 1
    assert node(graph, "abs").out_port(0).data.get_shape() == (1, 4, 8, 4)
    assert asked == [["MAX_POOL_2D"], ["ABS"]]


def test_a_new_op_gets_shape_type_and_quantization() -> None:
    b = ModelBuilder()
    scale = Quantization([0.5], [3])
    x = b.input("x", "int8", (1, 4, 4, 2), quantization=scale)
    b.output(b.op("ABS", [x], [b.tensor("y", "int8", (1, 4, 4, 2), quantization=scale)]))
    graph = graph_of(b.build())
    reshape = graph.create_op("RESHAPE", [graph.parameters[0], np.array([-1, 2], np.int32)])
    largest = graph.create_op("ARG_MAX", [reshape, np.int32(1)], {"output_type": "INT32"})
    port = reshape.out_port(0)
    assert port.data.get_shape() == (16, 2)
    assert port.get_data_type() is ElementType.INT8 and port.quantization == scale
    assert largest.out_port(0).data.get_shape() == (16,)
    assert largest.out_port(0).get_data_type() is ElementType.INT32


def test_an_op_that_stock_refuses_is_an_error_that_names_it() -> None:
    graph = graph_of(three_ops())
    graph.create_op("ADD", [node(graph, "relu"), node(graph, "pool")], name="sum")
    with pytest.raises(LiteRtError, match=r"stock LiteRT refuses .*ADD 'sum', inputs: 'relu'"):
        graph.infer()
    assert graph.touched


def test_an_op_that_stock_does_not_know_is_an_error_that_names_it() -> None:
    graph = graph_of(three_ops())
    node(graph, "pool").version = 77
    node(graph, "relu").touch()
    with pytest.raises(LiteRtError, match=r"MAX_POOL_2D.*version '77'.*MAX_POOL_2D 'pool'"):
        graph.infer()


def test_quantize_needs_a_type_that_nobody_can_guess() -> None:
    graph = graph_of(three_ops())
    quantize = graph.create_op("QUANTIZE", [node(graph, "relu")])
    with pytest.raises(LiteRtError, match=r"the type of output 0 of QUANTIZE .*is not known"):
        graph.infer()
    quantize.out_port(0).set_data_type(ElementType.INT8)
    quantize.out_port(0).quantization = Quantization([0.1], [0])
    assert quantize.out_port(0).data.get_shape() == (1, 8, 8, 4)


# Ops that stock LiteRT cannot infer.


def with_custom_op() -> Model:
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 8))
    other = b.input("other", "float32", (1, 9))
    relu = b.op("RELU", [x], [("relu", "float32", (1, 8))])
    mine = b.custom("Mine", [relu], [("mine", "float32", (2, 3))])
    b.output(b.op("ABS", [mine], [("abs", "float32", (2, 3))]), other)
    return b.build()


def test_a_custom_op_keeps_the_shapes_of_the_file_while_its_inputs_are_the_same() -> None:
    graph = graph_of(with_custom_op())
    infer_all(graph)
    assert node(graph, "abs").out_port(0).data.get_shape() == (2, 3)
    square = graph.create_op("SQUARE", [node(graph, "relu")])
    node(graph, "mine").in_port(0).connect(square.out_port(0))
    assert node(graph, "abs").out_port(0).data.get_shape() == (2, 3)


def test_a_custom_op_whose_input_has_changed_needs_a_definition() -> None:
    graph = graph_of(with_custom_op())
    node(graph, "mine").in_port(0).connect(graph.parameters[1].out_port(0))
    with pytest.raises(
        LiteRtError,
        match=r"the output shapes of Mine 'mine' are not known: input 0 is FLOAT32 \[1, 9\], "
        r"but the model file contains the output shapes only for FLOAT32 \[1, 8\]",
    ):
        graph.infer()


def test_a_custom_op_with_one_more_input_needs_a_definition() -> None:
    graph = graph_of(with_custom_op())
    mine = node(graph, "mine")
    before = len(mine.in_ports())
    mine.add_input_port(before).connect(graph.parameters[1].out_port(0))
    with pytest.raises(
        LiteRtError,
        match=rf"the op has {before + 1} inputs, but the model file contains the output shapes only for "
        rf"{before} input",
    ):
        graph.infer()


def test_a_user_op_infers_itself_between_ops_of_stock() -> None:
    graph = graph_of(with_custom_op())
    mine = node(graph, "mine")
    mine.infer = lambda n: n.out_port(0).data.set_shape((*n.in_port(0).data.get_shape(), 7))
    mine.in_port(0).connect(graph.parameters[1].out_port(0))
    assert node(graph, "abs").out_port(0).data.get_shape() == (1, 9, 7)


def test_a_value_that_a_user_op_finds_goes_on_through_stock() -> None:
    graph = graph_of(with_custom_op())
    mine = graph.create_op("Sizes", [node(graph, "relu")], is_custom=True)
    mine.infer = lambda n: n.out_port(0).data.set_value(np.array([4, 2], np.int32))
    mine.data_type = ElementType.INT32
    reshape = graph.create_op("RESHAPE", [graph.parameters[0], mine])
    assert reshape.out_port(0).data.get_shape() == (4, 2)


def test_a_user_op_with_unknown_dimensions_is_inferred_for_each_size_that_is_tried() -> None:
    """ADD reads the user op, which doubles the rows, and a CONCATENATION of as many, which stock LiteRT infers."""
    b = ModelBuilder()
    x = b.input("x", "float32", (3, 8), shape_signature=(-1, 8))
    b.output(b.op("ABS", [x], [b.tensor("y", "float32", (3, 8), shape_signature=(-1, 8))]))
    graph = graph_of(b.build())

    def infer(n: Node) -> None:
        rows, columns = n.in_port(0).data.get_shape() or (-1, -1)
        n.out_port(0).data.set_shape((-1 if rows == -1 else 2 * rows, columns))

    mine = graph.create_op("Twice", [graph.parameters[0]], is_custom=True)
    mine.infer = infer
    both = graph.create_op("CONCATENATION", [graph.parameters[0]] * 2, {"axis": 0})
    total = graph.create_op("ADD", [mine, both])
    assert mine.out_port(0).data.get_shape() == (-1, 8)
    assert mine.out_port(0).tensor.shape == (6, 8)
    assert total.out_port(0).data.get_shape() == (-1, 8)
    assert total.out_port(0).tensor.shape == (6, 8)


# Values.


def test_a_value_is_computed_by_stock_from_constants_alone() -> None:
    graph = graph_of(three_ops())
    two, three = (
        graph.create_const(np.array([2, 2.5], np.float32)),
        graph.create_const(np.float32(3)),
    )
    product = graph.create_op("MUL", [two, three])
    root = graph.create_op("SQRT", [product])
    value = root.out_port(0).data.get_value()
    assert value is not None and np.array_equal(value, np.sqrt(np.array([6, 7.5], np.float32)))
    three.out_port(0).data.set_value(np.float32(2))
    value = root.out_port(0).data.get_value()
    assert value is not None and np.array_equal(value, np.sqrt(np.array([4, 5], np.float32)))
    assert node(graph, "abs").out_port(0).data.get_value() is None


def resizable() -> Model:
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 8), shape_signature=(-1, 8))
    b.output(b.op("ABS", [x], [("y", "float32", (1, 8))]))
    return b.build()


def test_the_value_of_an_unknown_dimension_is_unknown_and_of_a_known_one_known() -> None:
    graph = graph_of(resizable())
    shape = graph.create_op("SHAPE", [graph.parameters[0]], {"out_type": "INT32"})
    rows, columns = (graph.create_op("GATHER", [shape, np.int32(i)], {"axis": 0}) for i in range(2))
    assert shape.out_port(0).data.get_value() is None
    assert rows.out_port(0).data.get_value() is None
    value = columns.out_port(0).data.get_value()
    assert value is not None and value == 8


def test_a_resized_input_changes_all_that_is_computed_from_its_shape() -> None:
    graph = graph_of(resizable())
    shape = graph.create_op("SHAPE", [graph.parameters[0]], {"out_type": "INT32"})
    twice = graph.create_op("MUL", [shape, np.array([2, 1], np.int32)])
    zeros = graph.create_op("FILL", [twice, np.float32(0)])
    assert zeros.out_port(0).data.get_shape() == (-1, 8)
    assert zeros.out_port(0).tensor.shape == (2, 8)
    graph.parameters[0].out_port(0).data.set_shape((5, 6))
    assert zeros.out_port(0).data.get_shape() == (10, 6)


def test_a_shape_that_depends_on_data_keeps_what_the_file_says() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 8))
    zero = b.constant("zero", np.float32(0))
    more = b.op("GREATER", [x, zero], [("more", "bool", (1, 8))])
    where = b.tensor("where", "int64", (1, 2), shape_signature=(-1, 2))
    b.op("WHERE", [more], [where])
    b.output(b.op("NEG", [where], [("neg", "int64", ())]))
    graph = graph_of(b.build())
    infer_all(graph)
    assert node(graph, "where").out_port(0).data.get_shape() == (-1, 2)
    assert node(graph, "neg").out_port(0).data.get_shape() == (-1, 2)


def test_a_shape_that_depends_on_constant_data_is_known() -> None:
    graph = graph_of(three_ops())
    where = graph.create_op("WHERE", [np.array([True, False, True])])
    negative = graph.create_op("NEG", [where])
    assert negative.out_port(0).data.get_shape() == (2, 1)


def test_static_shapes_are_unknown_only_where_they_depend_on_data() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 8), shape_signature=(-1, 8))
    mine = b.custom("Mine", [x], [b.tensor("mine", "float32", (1, 8), shape_signature=(-1, 8))])
    more = b.tensor("more", "bool", (1, 8), shape_signature=(-1, 8))
    b.op("GREATER", [mine, b.constant("zero", np.float32(0))], [more])
    where = b.tensor("where", "int64", (1, 2), shape_signature=(-1, 2))
    b.op("WHERE", [more], [where])
    b.output(b.op("NEG", [where], [b.tensor("neg", "int64", (1, 2), shape_signature=(-1, 2))]))
    graph = static_graph_of(b.build())
    shapes = {n.name: n.out_port(0).data.get_shape() for n in graph.nodes}
    assert shapes == {"mine": (1, 8), "more": (1, 8), "where": (-1, 2), "neg": (-1, 2)}


# Weights.


class UnreadBlob(Blob):
    """Data that must not be read."""

    __slots__ = ()

    @property
    def view(self) -> memoryview:
        raise AssertionError("weights were read")


def test_weights_are_not_read() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 64))
    w = b.constant("w", np.zeros((8, 64), np.float32))
    y = b.op("FULLY_CONNECTED", [x, w, None], [("y", "float32", ())])
    b.output(b.op("SOFTMAX", [y], [("z", "float32", ())], beta=1.0))
    model = b.build()
    blob = UnreadBlob.within(memoryview(b""), 0, 8 * 64 * 4)
    w.buffer = Buffer(blob)
    graph = graph_of(model)
    infer_all(graph)
    assert node(graph, "z").out_port(0).data.get_shape() == (1, 8)


def test_a_chain_of_two_thousand_ops_is_few_regions(asked: list[list[str]]) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 8, 8, 4))
    for index in range(2000):
        x = b.op("RELU" if index % 2 else "ABS", [x], [(f"t{index}", "float32", ())])
    b.output(x)
    graph = graph_of(b.build())
    graph.nodes[0].touch()
    graph.infer()
    assert x.shape == (1, 8, 8, 4)
    assert len(asked) < 20


# Edits.


def edit(graph: Graph, draw: Any) -> None:
    """Changes an input's shape, an attribute, a constant or what an op reads."""
    kind = draw(st.sampled_from(["input", "stride", "pads", "insert", "bypass"]))
    if kind == "input":
        rows, columns = draw(st.integers(3, 12)), draw(st.integers(3, 12))
        batch = graph.parameters[0].out_port(0).tensor.shape[0]
        graph.parameters[0].out_port(0).data.set_shape((batch, rows, columns, 3))
    elif kind == "stride":
        for node in graph.get_op_nodes(op="MAX_POOL_2D")[:1]:
            node.stride_w = draw(st.integers(1, 3))
    elif kind == "pads":
        for node in graph.get_op_nodes(op="PAD")[:1]:
            sides = [[0, 0], [draw(st.integers(0, 3)), 1], [1, 0], [0, 0]]
            port = node.in_port(1).get_source()
            assert port is not None
            port.data.set_value(np.array(sides, np.int32))
    else:
        node = draw(st.sampled_from(graph.nodes))
        port = node.out_port(0)
        if port.tensor.element_type is not ElementType.FLOAT32:
            return
        if kind == "insert":
            pads = np.array([[0, 0], [1, 0], [0, 0], [0, 0]], np.int32)
            if len(port.data.get_shape() or ()) == 4:
                port.get_connection().insert_node(graph.create_op("PAD", [None, pads]))
        else:
            source = node.in_port(0).get_source()
            if source is not None and source.get_data_type() is ElementType.FLOAT32:
                port.get_connection().set_source(source)


def inferred_anew(model: Model) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    copy = read_model(to_bytes(model))
    for op in copy.ops():
        for tensor in op.outputs:
            tensor.shape, tensor.shape_signature = (), None
    infer_all(graph_of(copy))
    return {t.name: (t.shape, signature(t)) for op in copy.ops() for t in op.outputs}


@given(data=st.data(), resizable=st.booleans())
@settings(max_examples=40)
def test_what_edits_leave_is_what_inference_finds_anew(data: Any, resizable: bool) -> None:
    model = data.draw(shape_models(resizable=resizable))
    graph = graph_of(model)
    try:
        infer_all(graph)
        for _ in range(data.draw(st.integers(1, 6))):
            edit(graph, data.draw)
            graph.infer()
    except LiteRtError as error:
        assert "stock LiteRT refuses" in error.what
        return
    graph.topological_sort()
    found = {t.name: (t.shape, signature(t)) for op in model.ops() for t in op.outputs}
    assert found == inferred_anew(model)


def with_control_flow() -> Model:
    b = ModelBuilder()
    condition = b.input("condition", "bool", (1,))
    x = b.input("x", "float32", (2, 3))
    b.input("other", "float32", (2, 5))
    for name in ("yes", "no"):
        branch = b.subgraph(name)
        y = branch.op(
            "ABS",
            [branch.input(f"{name}_x", "float32", (2, 3))],
            [(f"{name}_y", "float32", (2, 3))],
        )
        branch.output(y)
    chosen = b.op(
        "IF",
        [condition, x],
        [("chosen", "float32", (2, 3))],
        then_subgraph_index=1,
        else_subgraph_index=2,
    )
    b.output(b.op("NEG", [chosen], [("y", "float32", (2, 3))]))
    return b.build()


def test_control_flow_keeps_the_shapes_of_the_file_while_its_inputs_are_the_same() -> None:
    graph = graph_of(with_control_flow())
    infer_all(graph)
    chosen = node(graph, "chosen")
    chosen.in_port(1).connect(graph.create_op("EXP", [graph.parameters[1]]).out_port(0))
    assert node(graph, "y").out_port(0).data.get_shape() == (2, 3)
    chosen.in_port(1).connect(graph.parameters[2].out_port(0))
    with pytest.raises(
        LiteRtError, match=r"shapes of IF 'chosen' are not known: input 1 is FLOAT32 \[2, 5\]"
    ) as error:
        graph.infer()
    assert "Keep the number of inputs" in error.value.hint  # only custom ops can have an `infer`


def test_a_value_that_is_too_large_to_be_looked_at_is_not_computed() -> None:
    graph = graph_of(three_ops())
    small, large = (
        graph.create_op("FILL", [np.array([size], np.int32), np.float32(3)])
        for size in (4, 5 << 20)
    )
    value = small.out_port(0).data.get_value()
    assert value is not None and value.tolist() == [3] * 4
    assert large.out_port(0).data.get_shape() == (5 << 20,)
    assert large.out_port(0).data.get_value() is None


def test_asking_for_a_value_in_a_cycle_names_its_members() -> None:
    b = ModelBuilder()
    first = b.op("NEG", [b.input("x", "float32", (2,))], [("first", "float32", (2,))])
    second = b.op("ABS", [first], [("second", "float32", (2,))])
    b.output(second)
    model = b.build()
    model.subgraphs[0].ops[0].set_input(0, second)
    node = graph_of(model).find_node("second")
    assert node is not None
    with pytest.raises(LiteRtError, match=r"2 ops form a cycle, .*ABS 'second'"):
        node.out_port(0).data.get_value()


def test_unknown_dimensions_are_found_where_new_ops_stand_behind_their_readers() -> None:
    b = ModelBuilder()
    shape, unknown = (1, 4, 4, 2), (-1, 4, 4, 2)
    x = b.input("x", "float32", shape, shape_signature=unknown)
    tensors = [b.tensor(name, "float32", shape, shape_signature=unknown) for name in "abcd"]
    a = b.custom("Swish", [x], [tensors[0]])
    pool: dict[str, Any] = {
        "padding": "SAME",
        "stride_w": 1,
        "stride_h": 1,
        "filter_width": 1,
        "filter_height": 1,
    }
    y = b.op("MAX_POOL_2D", [a], [tensors[1]], **pool)
    z = b.custom("Swish", [y], [tensors[2]])
    b.output(b.op("TANH", [z], [tensors[3]]))
    graph = graph_of(b.build())
    for swish in graph.get_op_nodes(op="Swish"):
        source = swish.in_port(0).get_source()
        gate = graph.create_op("LOGISTIC", [graph.create_op("MUL", [source, 1.5])])
        graph.replace_node(swish, graph.create_op("MUL", [source, gate]))
    graph.infer()
    assert {node.out_port(0).data.get_shape() for node in graph.nodes} == {unknown}


@pytest.mark.parametrize("make_graph", [graph_of, static_graph_of])
def test_variables_and_their_handles_stay_as_in_the_file(make_graph: Any) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (3,))
    handle = b.op("VAR_HANDLE", [], [("handle", "resource", ())], shared_name="v")
    b.op("ASSIGN_VARIABLE", [handle, x], [])
    value = b.op("READ_VARIABLE", [handle], [("value", "float32", (3,))])
    b.output(b.op("NEG", [value], [("y", "float32", (7,))]))
    model = b.build()
    infer_all(make_graph(model))
    assert shapes_of(model) == {"handle": (), "value": (3,), "y": (3,)}


@pytest.mark.parametrize("make_graph", [graph_of, static_graph_of])
def test_a_file_whose_ops_are_in_no_order_is_sorted(make_graph: Any) -> None:
    b = ModelBuilder()
    y = b.input("x", "float32", (2, 3))
    for index in range(5):
        y = b.op("NEG", [y], [(f"y{index}", "float32", (2, 3))])
    b.output(y)
    model = b.build()
    ops = model.subgraphs[0].ops
    ops[:] = [ops[index] for index in (3, 0, 4, 2, 1)]
    graph = make_graph(model)
    infer_all(graph)
    graph.topological_sort()
    assert [node.name for node in graph.nodes] == ["y0", "y1", "y2", "y3", "y4"]
