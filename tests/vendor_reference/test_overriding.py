"""Tests builtin ops that a custom layer replaces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from litert.model.builder import ModelBuilder
from litert.model.graph import Subgraph
from tests.vendor_reference.layers import custom_layer
from vendor_reference.compiler.op_selection import find_refusal, select_ops
from vendor_reference.compiler.overriding import overriding_notes
from vendor_reference.custom_layers.custom_layer import CustomLayer, Define, LayerFile
from vendor_reference.custom_layers.value_sources import FlexOption

SHAPE = (1, 4)
ACTIVATION = "fused_activation_function"


def layer(name: str, **fields: Any) -> CustomLayer:
    source = fields.pop("source", b"__kernel void k() {}")
    return custom_layer(name, "my.xml", [LayerFile("k.cl", source)], title="Mine", **fields)


def chain(*names: str, **options: Any) -> Subgraph:
    """Returns a chain of ops that all have these `options`."""
    b = ModelBuilder()
    x = b.input("x", "float32", SHAPE)
    for index, name in enumerate(names):
        x = b.op(
            name, [x, x] if name == "ADD" else [x], [(f"t{index}", "float32", SHAPE)], **options
        )
    b.output(x)
    return b.build().subgraphs[0]


def answers(subgraph: Subgraph, **layers: CustomLayer) -> list[str]:
    """Returns the reason for each op that is refused; "" if the op is taken."""
    selected = select_ops(subgraph, layers)
    return [selected.refused.get(op, "") for op in subgraph.ops]


def test_a_builtin_op_with_a_layer_is_taken() -> None:
    subgraph = chain("RELU", "TANH", "RELU")
    found = answers(subgraph, RELU=layer("RELU"))
    assert found[0] == found[2] == "" and found[1].startswith("a builtin op;")
    assert find_refusal(subgraph.ops[0], {"RELU": layer("RELU")}) == ""


def test_a_custom_op_goes_before_a_builtin_op_of_its_name() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", SHAPE)
    relu = b.op("RELU", [x], [("a", "float32", SHAPE)])
    b.output(b.custom("RELU", [relu], [("b", "float32", SHAPE)]))
    found = answers(b.build().subgraphs[0], RELU=layer("RELU"))
    assert found[0].startswith("a builtin op;") and found[1] == ""


def test_an_op_with_a_fused_activation_stays_unless_the_layer_reads_it() -> None:
    subgraph = chain("ADD", fused_activation_function="RELU")
    (refusal,) = answers(subgraph, ADD=layer("ADD"))
    assert refusal == (
        "the op has a fused RELU, which my.xml would skip: the kernel must compute the activation, and read "
        "the activation's name from the option 'fused_activation_function'"
    )
    reads = Define("ACTIVATION", FlexOption(ACTIVATION))
    assert answers(subgraph, ADD=layer("ADD", defines=[reads])) == [""]
    source = b"__kernel void ADD() { if (PARAM_fused_activation_function) {} }"
    assert answers(subgraph, ADD=layer("ADD", defines_options=True, source=source)) == [""]
    assert answers(subgraph, ADD=layer("ADD", defines_options=True))[0].startswith(
        "the op has a fused"
    )
    assert answers(chain("ADD"), ADD=layer("ADD")) == [""]


def test_the_dequantize_of_a_constant_is_not_overridden() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", SHAPE)
    stored = b.constant("stored", np.zeros(SHAPE, np.float16))
    b.output(
        b.op(
            "ADD",
            [x, b.op("DEQUANTIZE", [stored], [("w", "float32", SHAPE)])],
            [("y", "float32", SHAPE)],
        )
    )
    found = answers(b.build().subgraphs[0], DEQUANTIZE=layer("DEQUANTIZE"))
    assert "ADD reads the result, and stays on the CPU" in found[0]


def test_the_report_says_what_overriding_costs() -> None:
    subgraph = chain("ADD", "RELU", "RELU", "TANH")
    layers = {"RELU": layer("RELU")}
    taken = select_ops(subgraph, layers).taken
    assert list(overriding_notes(taken, layers)) == [
        "RELU: 2 builtin ops are overridden by layer 'Mine' of my.xml. This loses the CPU's own kernels "
        "(XNNPACK), and their fusing with ADD, TANH. 2 tensors pass between CPU and NPU because the ops "
        "are on the NPU. Override ops only if the model becomes faster: litert-npu benchmark measures how fast "
        "the model is."
    ]


@pytest.mark.parametrize("names", [("TANH",), ("ADD", "TANH")])
def test_there_is_nothing_to_say_where_nothing_is_overridden(names: tuple[str, ...]) -> None:
    subgraph = chain(*names)
    taken = select_ops(subgraph, {"RELU": layer("RELU")}).taken
    assert not list(overriding_notes(taken, {"RELU": layer("RELU")}))
