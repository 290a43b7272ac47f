"""Tests inference in an NCHW graph: shapes and values are those of stock LiteRT, in the graph's layout."""

from __future__ import annotations

import numpy as np
import pytest

from compiler_plugin.transform_options import Phase
from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.layout_change.change import change_layout
from compiler_plugin.transformations.partial_inference import PartialInference
from litert.core.errors import LiteRtError
from litert.model.builder import ModelBuilder
from litert.model.graph import Model
from tests.compiler_plugin.transformations.layout_change.test_rules import (
    CASES,
    DILATED,
    F,
    conv,
    floats,
    out,
    sandwich,
)


def nchw_graph(model: Model) -> Graph:
    subgraph = model.subgraphs[0]
    change_layout(model, subgraph, "NCHW")
    inference = PartialInference(subgraph, "NCHW")
    return Graph(model, subgraph, inference, stage=Phase.BACK, layout="NCHW")


@pytest.mark.parametrize("name", CASES)
def test_shapes_that_are_inferred_are_those_of_the_change(name: str) -> None:
    graph = nchw_graph(sandwich(CASES[name]))
    wanted = [tensor.shape for op in graph.subgraph.ops for tensor in op.outputs]
    for node in graph.nodes:
        graph.touch(node)
        for tensor in node.model_op.outputs if node.model_op else ():
            tensor.shape = (3,) * len(tensor.shape)
    graph.infer()
    assert [tensor.shape for op in graph.subgraph.ops for tensor in op.outputs] == wanted


def test_a_large_filter_needs_no_data_for_a_shape() -> None:
    b = ModelBuilder()
    x = b.input("x", F, (1, 4, 6, 64))
    b.output(
        b.op("CONV_2D", [x, floats(b, 32, 3, 3, 64), floats(b, 32)], [out(1, 4, 6, 32)], **DILATED)
    )
    graph = nchw_graph(b.build())
    (node,) = graph.get_op_nodes(op="CONV_2D")
    node.stride_h = 2
    assert tuple(node.out_port(0).data.get_shape() or ()) == (1, 32, 2, 6)


def test_values_are_computed_in_the_graphs_layout() -> None:
    b = ModelBuilder()
    b.output(conv(b, b.input("x", F, (1, 2, 2, 3)), 3))
    graph = nchw_graph(b.build())
    values = np.arange(1 * 2 * 2 * 4, dtype=np.float32).reshape(1, 2, 2, 4)
    attributes = {"padding": "VALID", "stride_w": 1, "stride_h": 1}
    sizes = {"filter_width": 4, "filter_height": 2}
    pool = graph.create_op("MAX_POOL_2D", [values], {**attributes, **sizes})
    found = pool.out_port(0).data.get_value()
    np.testing.assert_array_equal(found, values.max(axis=(2, 3), keepdims=True))


def test_what_stock_refuses_names_the_op_of_the_graph() -> None:
    b = ModelBuilder()
    b.output(conv(b, b.input("x", F, (1, 2, 2, 3)), 3, "first"))
    graph = nchw_graph(b.build())
    (node,) = graph.get_op_nodes(op="CONV_2D")
    wrong = graph.create_const(np.zeros((3, 4, 1, 1), np.float32), "wrong")
    node.in_port(1).connect(wrong.out_port(0))
    with pytest.raises(LiteRtError, match="CONV_2D 'first"):
        graph.infer()
