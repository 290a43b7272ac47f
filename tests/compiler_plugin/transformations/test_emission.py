"""Tests that a transformed model is well-formed, and that nothing unused stays in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import compiled_model as stock_compiled_model
from ai_edge_litert.interpreter import Interpreter

from compiler_plugin.transformations.clean_up import emit, tidy
from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.op import Op
from compiler_plugin.transformations.partial_inference import PartialInference
from litert.core.errors import LiteRtError
from litert.core.quantization import BlockwiseQuantization, Quantization
from litert.model.blob import Blob
from litert.model.builder import ModelBuilder
from litert.model.diff import diff_models
from litert.model.flexbuffer import FlexValue
from litert.model.graph import Buffer, Model, OperatorCode
from litert.model.positions import (
    CONTROL_DEPENDENCIES_KEY,
    read_control_dependencies,
    set_control_dependencies,
)
from litert.model.reader import read_model
from litert.model.table import Table
from litert.model.writer import to_bytes

F32 = ("float32", (1, 4))
X = np.array([[-1, 2, -3, 4]], np.float32)


def open_graphs(model: Model) -> list[Graph]:
    return [Graph(model, s, PartialInference(s)) for s in model.subgraphs]


def emitted(graphs: Sequence[Graph]) -> Model:
    """Emits the graphs; returns their model as read back from its file data."""
    emit_all(graphs)
    return read_model(to_bytes(graphs[0].model))


def emit_all(graphs: Sequence[Graph]) -> None:
    for graph in graphs:
        emit(graph)
    tidy(graphs)


def run(model: Model, x: np.ndarray[Any, Any] = X) -> dict[str, np.ndarray[Any, Any]]:
    """Runs stock LiteRT; returns the outputs by name."""
    interpreter = Interpreter(model_content=to_bytes(model))
    for detail in interpreter.get_input_details():
        interpreter.resize_tensor_input(detail["index"], x.shape)
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], x)
    interpreter.invoke()
    return {d["name"]: interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()}


def names(model: Model) -> list[str]:
    return [op.name for op in model.subgraphs[0].ops]


def two_results() -> Model:
    """Builds x -> ABS -> a and x -> NEG -> n; both are results."""
    b = ModelBuilder()
    x = b.input("x", *F32)
    b.output(b.op("ABS", [x], [("a", *F32)]), b.op("NEG", [x], [("n", *F32)]))
    b.signature("main", {"in": x}, {"abs": b.graph.outputs[0], "neg": b.graph.outputs[1]})
    return b.build()


def test_a_model_that_nothing_changed_stays_as_it_is() -> None:
    b = ModelBuilder()
    x, w = b.input("x", *F32), b.constant("w", np.ones(4, np.float32))
    b.output(b.op("ADD", [x, w], [("y", *F32)]), x)
    b.metadata("note", b"text")
    before = to_bytes(b.build())
    model = read_model(before)
    emit_all(open_graphs(model))
    assert to_bytes(model) == before


def test_what_nothing_has_goes_also_where_the_file_had_it() -> None:
    b = ModelBuilder()
    x, w = b.input("x", *F32), b.constant("w", np.ones(4, np.float32))
    b.constant("unused", np.zeros(100, np.float32))
    b.tensor("loose", *F32)
    b.output(b.op("NEG", [b.op("ADD", [x, w], [("s", *F32)])], [("y", *F32)]))
    b.metadata("note", b"text")
    b.metadata("note", b"another text")
    model = b.build()
    model.operator_codes.append(OperatorCode(32, "Unused"))
    (graph,) = open_graphs(model)
    add, neg = graph.nodes
    neg.in_port(0).connect(graph.parameters[0].out_port(0))
    graph.clean_up()
    after = emitted([graph])
    assert names(after) == ["NEG"] and not add.is_alive
    assert [tensor.name for tensor in after.subgraphs[0].tensors] == ["x", "y"]
    assert [code.builtin_code for code in after.operator_codes] == [59]
    assert [bytes(buffer.blob) for buffer in after.buffers if buffer.blob] == [b"another text"]


def test_ops_are_in_an_order_that_runs_and_metadata_follow_them() -> None:
    b = ModelBuilder()
    x = b.input("x", *F32)
    first, second = (b.custom(name, [x], [(name.lower(), *F32)]) for name in ("A", "B"))
    b.output(b.op("ADD", [first, second], [("y", *F32)]))
    b.metadata(CONTROL_DEPENDENCIES_KEY, b"")
    model = b.build()
    set_control_dependencies(model, [[(0, 1)]])
    (graph,) = open_graphs(model)
    node = graph.create_op("EXP", [None])
    graph.parameters[0].out_port(0).get_connection().insert_node(node)
    after = emitted([graph])
    assert names(after) == ["EXP", "A", "B", "ADD"]
    assert read_control_dependencies(after) == [[(1, 2)]]


def test_equal_constants_that_were_added_are_one() -> None:
    b = ModelBuilder()
    x, w = b.input("x", *F32), b.constant("w", np.full(4, 2, np.float32))
    y = b.op("MUL", [x, w], [("m", *F32)])
    for index in range(3):
        y = b.op("ABS", [y], [(f"a{index}", *F32)])
    b.output(y)
    (graph,) = open_graphs(b.build())
    for node in graph.get_op_nodes(op="ABS"):
        scale = graph.create_op("MUL", [node.in_port(0).get_source(), np.float32(0.5)])
        node.in_port(0).connect(scale.out_port(0))
    assert graph.constants()[0].out_port(0).data.get_value() is not None  # reads w's data
    last = graph.create_op("MUL", [graph.results[0].in_port(0).get_source(), np.full(4, 2, "f4")])
    graph.results[0].in_port(0).connect(last.out_port(0))
    after = emitted([graph])
    constants = {t for op in after.ops() for t in op.inputs if t and t.is_constant}
    assert len(constants) == 3  # w, 0.5, and one that shares w's buffer
    assert len({tensor.buffer for tensor in constants}) == 2
    np.testing.assert_array_equal(run(after)["a2"], np.abs(X) / 2)


def test_data_that_nobody_read_are_not_compared() -> None:
    class Unread(Blob):
        @property
        def view(self) -> memoryview:
            raise AssertionError("read")

    b = ModelBuilder()
    x = b.input("x", *F32)
    for index in range(2):
        x = b.op("ADD", [x, b.constant(f"w{index}", np.ones(4, "f4"))], [(f"y{index}", *F32)])
    b.output(x)
    model = b.build()
    for buffer in model.buffers[1:]:
        buffer.blob = Unread(bytes(16))
    graph = Graph(model, model.subgraphs[0])
    graph.get_op_nodes(op="ADD")[0].fused_activation_function = "RELU"
    emit_all([graph])
    assert len(model.buffers) == 3


@pytest.mark.parametrize("static_shape", [False, True])
def test_an_input_that_became_a_result_is_copied_by_an_op(static_shape: bool) -> None:
    model = two_results()
    graph = Graph(model, model.subgraphs[0], static_shape=static_shape)
    graph.get_op_nodes(op="ABS")[0].out_port(0).get_connection().set_source(
        graph.parameters[0].out_port(0)
    )
    graph.clean_up()
    after = emitted([graph])
    assert names(after) == (["NEG", "RESHAPE"] if static_shape else ["NEG", "SHAPE", "RESHAPE"])
    for x in [X] if static_shape else [X, np.tile(X, (3, 1))]:
        found = run(after, x)
        np.testing.assert_array_equal(found["a"], x)
        np.testing.assert_array_equal(found["n"], -x)


def test_one_tensor_that_became_two_results_is_two_again() -> None:
    model = two_results()
    (graph,) = open_graphs(model)
    neg = graph.get_op_nodes(op="NEG")[0]
    graph.results[0].in_port(0).connect(neg.out_port(0))
    graph.clean_up()
    after = emitted([graph])
    assert [tensor.name for tensor in after.subgraphs[0].outputs] == ["a", "n"]
    assert [(name, t.name) for name, t in after.signatures[0].outputs] == [
        ("abs", "a"), ("neg", "n"),
    ]  # fmt: skip
    found = run(after)
    np.testing.assert_array_equal(found["a"], -X)
    np.testing.assert_array_equal(found["n"], -X)


def test_stocks_compiled_model_fills_results_that_an_edit_made_one(tmp_path: Any) -> None:
    """Without an op between input and output, stock's `CompiledModel` does not write the output buffers."""
    model = two_results()
    (graph,) = open_graphs(model)
    for result in graph.results:
        result.in_port(0).connect(graph.parameters[0].out_port(0))
    emit_all([graph])
    path = tmp_path / "model.tflite"
    path.write_bytes(to_bytes(model))
    compiled = stock_compiled_model.CompiledModel.from_file(str(path))
    inputs, outputs = compiled.create_input_buffers(0), compiled.create_output_buffers(0)
    inputs[0].write(X)
    compiled.run_by_index(0, inputs, outputs)
    for output in outputs:
        np.testing.assert_array_equal(output.read(4, np.float32), X.ravel())


def test_a_constant_may_be_several_results_under_their_names() -> None:
    model = two_results()
    (graph,) = open_graphs(model)
    value = graph.create_const(X)
    for result in graph.results:
        result.in_port(0).connect(value.out_port(0))
    graph.clean_up()
    after = emitted([graph])
    assert names(after) == []
    assert [tensor.name for tensor in after.subgraphs[0].outputs] == ["a", "n"]
    assert len({tensor.buffer for tensor in after.subgraphs[0].outputs}) == 1
    np.testing.assert_array_equal(run(after)["n"], X)


def test_results_that_changed_places_keep_their_names() -> None:
    model = two_results()
    (graph,) = open_graphs(model)
    first, second = (result.in_port(0).get_source() for result in graph.results)
    assert first is not None and second is not None
    graph.results[0].in_port(0).connect(second)
    graph.results[1].in_port(0).connect(first)
    found = run(emitted([graph]))
    np.testing.assert_array_equal(found["a"], -X)
    np.testing.assert_array_equal(found["n"], np.abs(X))


def test_a_result_that_is_not_edited_stays_an_input_where_the_file_says_so() -> None:
    b = ModelBuilder()
    x = b.input("x", *F32)
    b.output(x, b.op("ABS", [x], [("y", *F32)]))
    model = b.build()
    (graph,) = open_graphs(model)
    graph.replace_node(graph.nodes[0], graph.create_op("NEG", [graph.parameters[0]]))
    assert names(emitted([graph])) == ["NEG"]


def test_the_results_of_control_flow_may_be_its_inputs() -> None:
    b = ModelBuilder()
    x, condition = b.input("x", *F32), b.input("c", "bool", ())
    branch = b.subgraph("branch")
    branch.output(branch.op("ABS", [branch.input("z", *F32)], [("za", *F32)]))
    b.output(
        b.op(
            "IF", [condition, x], [("y", *F32)],
            then_subgraph_index=branch, else_subgraph_index=branch,
        )
    )  # fmt: skip
    model = b.build()
    graphs = open_graphs(model)
    graphs[1].results[0].in_port(0).connect(graphs[1].parameters[0].out_port(0))
    graphs[1].clean_up()
    emit_all(graphs)
    assert model.subgraphs[1].outputs == model.subgraphs[1].inputs and not model.subgraphs[1].ops


def test_an_op_without_a_type_is_an_error() -> None:
    class Internal(Op):
        op = "Internal"

        def __init__(self, graph: Graph, attrs: Any = None) -> None:
            super().__init__(graph, {"type": None, "in_ports_count": 1, "infer": _as_input}, attrs)

    model = two_results()
    (graph,) = open_graphs(model)
    node = Internal(graph).create_node([graph.parameters[0]])
    graph.results[0].in_port(0).connect(node.out_port(0))
    with pytest.raises(
        LiteRtError,
        match=r"its type is None, and no transformation has replaced it \(op Internal 'a'\)",
    ):
        emit(graph)


def _as_input(node: Any) -> None:
    node.out_port(0).data.set_shape(node.in_port(0).data.get_shape())


def test_attributes_of_custom_ops_become_their_options_and_others_keep_their_bytes() -> None:
    b = ModelBuilder()
    x = b.input("x", *F32)
    made: list[dict[str, FlexValue] | bytes] = [{"alpha": 1.5}, {"alpha": 1.5}, b"\1\2\3\4"]
    for index, options in enumerate(made):
        x = b.custom("MyOp", [x], [(f"y{index}", *F32)], options=options)
    b.output(x)
    model = b.build()
    before = [bytes(op.custom_options) for op in model.ops() if op.custom_options]
    (graph,) = open_graphs(model)
    graph.nodes[0].alpha = 2.5
    graph.nodes[1].visited = graph.nodes[2].visited = True
    after = [bytes(op.custom_options) for op in emitted([graph]).ops() if op.custom_options]
    assert after[1:] == before[1:] and after[0] != before[0]
    again = Graph(model, model.subgraphs[0]).nodes[0]
    assert again.alpha == 2.5


def test_what_no_port_shows_stays_with_its_op() -> None:
    b = ModelBuilder()
    x = b.input("x", *F32)
    scales = b.constant("scales", np.ones(2, np.float32))
    blocks = Quantization(blockwise=BlockwiseQuantization(scales, block_size=2))
    w = b.constant("w", bytes(4), "int8", (1, 4), quantization=blocks)
    table = Table.make("SparsityParameters", traversal_order=(0,))
    sparse = b.constant("sparse", bytes(2), "int8", (1, 4), sparsity=table)
    kept = b.tensor("kept", *F32)
    y = b.custom("MyOp", [x, w, sparse], [("y", *F32)])
    b.output(b.op("ABS", [y], [("z", *F32)]))
    model = b.build()
    op = model.subgraphs[0].ops[0]
    op.intermediates, op.debug_metadata_index, op.mutating_variable_inputs = (kept,), 3, (True,)
    before = read_model(to_bytes(model))
    (graph,) = open_graphs(model)
    node = graph.create_op("EXP", [None])
    graph.parameters[0].out_port(0).get_connection().insert_node(node)
    diff = diff_models(before, emitted([graph]))
    (change,) = diff.subgraphs[0].changed
    assert [c.what for c in change.changes] == ["input 0"] and not diff.changes
    assert [place.name for place in diff.subgraphs[0].added] == ["EXP"]
    assert not diff.subgraphs[0].changes


def test_the_buffers_of_metadata_stay() -> None:
    model = two_results()
    model.metadata_buffers = (Buffer(Blob(b"old")), 7)
    model.buffers.append(model.metadata_buffers[0])
    (graph,) = open_graphs(model)
    graph.replace_node(graph.nodes[0], graph.create_op("EXP", [graph.parameters[0]]))
    after = emitted([graph])
    assert [b.blob and bytes(b.blob) for b in after.metadata_buffers if isinstance(b, Buffer)] == [
        b"old"
    ]


def test_results_that_are_one_tensor_in_the_file_stay_one() -> None:
    b = ModelBuilder()
    x = b.input("x", *F32)
    y = b.op("ABS", [x], [("y", *F32)])
    b.output(y)
    b.signature("main", {"in": x}, {"first": y, "second": y})
    model = b.build()
    (graph,) = open_graphs(model)
    assert len(graph.results) == 2
    exp = graph.create_op("EXP", [graph.parameters[0]])
    graph.nodes[0].out_port(0).get_connection().set_source(exp.out_port(0))
    graph.clean_up()
    after = emitted([graph])
    assert names(after) == ["EXP"]
    assert [tensor.name for _, tensor in after.signatures[0].outputs] == ["y", "y"]
