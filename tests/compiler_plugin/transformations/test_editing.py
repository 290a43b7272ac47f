"""Tests `edit_model`, which opens a model as graphs for the duration of a `with` block."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from compiler_plugin.transformations import Graph, Node, Op, OpReplacement, Phase, edit_model
from litert.core.errors import LiteRtError
from litert.model.builder import ModelBuilder
from litert.model.graph import Model
from litert.model.writer import write_model

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "05_transformations"


def build() -> Model:
    b = ModelBuilder()
    x = b.input("x", "float32", (2, 3))
    y = b.op("RELU", [b.op("EXP", [x], [("e", "float32", (2, 3))])], [("y", "float32", (2, 3))])
    b.output(y)
    b.signature("main")
    return b.build()


class ReluToRelu6(OpReplacement):
    op = "RELU"

    def replace_op(self, graph: Graph, node: Node) -> Node:
        return graph.create_op("RELU6", [node.in_port(0).get_source()])


@pytest.mark.parametrize("stage", list(Phase))
def test_a_script_changes_a_model_and_stock_runs_it(tmp_path: Path, stage: Phase) -> None:
    model = build()
    with edit_model(model, stage=stage) as (graph,):
        (exp,) = graph.get_op_nodes(op="EXP")
        exp.out_port(0).get_connection().insert_node(graph.create_op("MUL", [exp, 0.5]))
        assert ReluToRelu6().find_and_replace_pattern(graph) == 1
        if stage is not Phase.FRONT:
            assert graph.get_op_nodes(op="MUL")[0].out_port(0).data.get_shape() == (2, 3)
    write_model(model, tmp_path / "out.tflite")
    stock = Interpreter(str(tmp_path / "out.tflite"))
    stock.allocate_tensors()
    x = np.linspace(-2, 3, 6, dtype=np.float32).reshape(2, 3)
    stock.set_tensor(stock.get_input_details()[0]["index"], x)
    stock.invoke()
    found = stock.get_tensor(stock.get_output_details()[0]["index"])
    np.testing.assert_allclose(found, np.clip(np.exp(x) / 2, 0, 6), rtol=1e-6)


def test_ops_of_extensions_are_known_within() -> None:
    model = build()
    with edit_model(model, [str(EXAMPLE)]) as (graph,):
        norm = Op.get_op_class_by_name("RmsNorm")(graph, {"epsilon": 0.5}).create_node([None])
        graph.get_op_nodes(op="EXP")[0].out_port(0).get_connection().insert_node(norm)
    assert [op.name for op in model.subgraphs[0].ops] == ["EXP", "RmsNorm", "RELU"]
    with pytest.raises(LiteRtError, match="no op is named 'RmsNorm'"):
        Op.get_op_class_by_name("RmsNorm")


def test_a_graph_that_is_not_whole_is_an_error_when_the_block_ends() -> None:
    with pytest.raises(LiteRtError), edit_model(build()) as (graph,):
        graph.get_op_nodes(op="EXP")[0].in_port(0).disconnect()
