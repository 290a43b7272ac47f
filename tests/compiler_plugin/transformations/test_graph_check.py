"""Tests what the check of a whole graph finds, and how much of the graph it reads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from compiler_plugin.transform_options import Phase
from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.graph_check import check_graph
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.blob import Blob
from litert.model.builder import ModelBuilder
from litert.model.graph import Model, Op, Tensor
from litert.model.table import Table

F32 = ("float32", (1, 4))


def build() -> Model:
    """Builds x -> ABS -> NEG -> MUL(w) -> y, and a second subgraph with its own tensors."""
    b = ModelBuilder()
    x, w = b.input("x", *F32), b.constant("w", np.ones(4, np.float32))
    neg = b.op("NEG", [b.op("ABS", [x], [("abs", *F32)])], [("neg", *F32)])
    b.output(b.op("MUL", [neg, w], [("y", *F32)]))
    b.signature("main", {"in": x}, {"out": b.graph.outputs[0]})
    branch = b.subgraph("branch")
    branch.output(branch.op("EXP", [branch.input("z", *F32)], [("exp", *F32)]))
    return b.build()


def op_of(graph: Graph, name: str) -> Op:
    op = graph.get_op_nodes(op=name)[0].model_op
    assert op is not None
    return op


def foreign(graph: Graph) -> Tensor:
    return graph.model.subgraphs[1].inputs[0]


def _cycle(graph: Graph) -> None:
    graph.get_op_nodes(op="ABS")[0].in_port(0).connect(graph.get_op_nodes(op="MUL")[0].out_port(0))


def _read_foreign(graph: Graph) -> None:
    op_of(graph, "NEG").set_input(0, foreign(graph))


def _read_removed(graph: Graph) -> None:
    neg, removed = graph.get_op_nodes(op="NEG")[0], graph.get_op_nodes(op="ABS")[0]
    assert neg.model_op and removed.model_op
    neg.in_port(0).connect(graph.parameters[0].out_port(0))
    graph.remove_node(removed)
    neg.model_op.set_input(0, removed.model_op.outputs[0])


def _two_writers(graph: Graph) -> None:
    op_of(graph, "ABS").set_output(0, op_of(graph, "NEG").outputs[0])


def _write_input(graph: Graph) -> None:
    op_of(graph, "MUL").set_output(0, graph.subgraph.inputs[0])


def _write_constant(graph: Graph) -> None:
    constant = op_of(graph, "MUL").inputs[1]
    assert constant is not None
    op_of(graph, "ABS").set_output(0, constant)


def _write_foreign(graph: Graph) -> None:
    op_of(graph, "MUL").set_output(0, foreign(graph))


def _shape(graph: Graph) -> None:
    constant = op_of(graph, "MUL").inputs[1]
    assert constant is not None
    constant.shape = (5,)


def _no_type(graph: Graph) -> None:
    graph.create_op("EXP", [graph.parameters[0]], name="untyped")


def _foreign_output(graph: Graph) -> None:
    graph.subgraph.outputs[0] = foreign(graph)


def _foreign_signature(graph: Graph) -> None:
    graph.model.signatures[0].inputs[0] = ("in", foreign(graph))


def _result_without_source(graph: Graph) -> None:
    mul = op_of(graph, "MUL")
    mul.set_output(0, graph.create_tensor("elsewhere", ElementType.FLOAT32))


@pytest.mark.parametrize(
    ("edit", "what"),
    [
        (_cycle, "form a cycle, in which each op must run after the next op: .*ABS 'abs' -> .*"),
        (_read_foreign, "NEG 'neg' reads tensor 'z', which does not belong to the subgraph"),
        (_read_removed, "NEG 'neg' reads tensor 'abs', but no op writes this tensor"),
        (_two_writers, "two ops write tensor 'neg'"),
        (_write_input, "MUL 'x' writes tensor 'x', which is an input"),
        (_write_constant, "ABS 'w' writes tensor 'w', which is a constant"),
        (_write_foreign, "MUL 'z' writes tensor 'z', which does not belong to the subgraph"),
        (
            _shape,
            "constant tensor 'w' has 16 bytes of data, but its type .*5xf32.* requires 20 bytes",
        ),
        (_no_type, "the type of tensor 'untyped', which .* writes, is not known"),
        (_foreign_output, "the outputs contain tensor 'z'"),
        (_foreign_signature, "the inputs of signature 'main' contain tensor 'z'"),
        (
            _result_without_source,
            "an output of the model is tensor 'y', but no op writes this tensor",
        ),
    ],
    ids=lambda value: value.__name__[1:] if callable(value) else "",
)
def test_what_does_not_hold_together_is_found(edit: Callable[[Graph], None], what: str) -> None:
    model = build()
    graph = Graph(model, model.subgraphs[0])
    check_graph(graph)
    edit(graph)
    with pytest.raises(LiteRtError, match=what) as error:
        check_graph(graph)
    assert error.value.status is Status.INVALID_GRAPH_INVARIANT


def test_types_may_be_missing_before_they_are_inferred() -> None:
    model = build()
    graph = Graph(model, model.subgraphs[0], stage=Phase.FRONT)
    _no_type(graph)
    check_graph(graph)


def test_what_the_file_leaves_open_is_no_fault_of_a_transformation() -> None:
    b = ModelBuilder()
    state = b.tensor("state", *F32, is_variable=True)
    loose, empty = b.tensor("loose", *F32), b.constant("empty", np.zeros((0, 4), np.float32))
    b.output(b.custom("Odd", [b.input("x", *F32), state, loose, empty, None], [("y", *F32)]))
    model = b.build()
    check_graph(Graph(model, model.subgraphs[0]))


def test_constants_are_measured_and_not_read() -> None:
    class Unread(Blob):
        @property
        def view(self) -> memoryview:
            raise AssertionError("read")

    b = ModelBuilder()
    x = b.input("x", "float32", (2, 3))
    four_bits = b.constant("w", bytes(5), "int4", (3, 3))
    table = Table.make("SparsityParameters")
    sparse = b.constant("s", bytes(4), "float32", (3, 3), sparsity=table)
    y = b.custom("C", [x, four_bits, sparse, b.constant("t", ["a", "b"])], [("y", *F32)])
    b.output(y)
    model = b.build()
    for tensor in model.subgraphs[0].tensors:
        if tensor.is_constant:
            tensor.buffer.blob = Unread(bytes(tensor.data))
    graph = Graph(model, model.subgraphs[0])
    check_graph(graph)
    sparse.sparsity = None
    with pytest.raises(LiteRtError, match="constant tensor 's'"):
        check_graph(graph)
