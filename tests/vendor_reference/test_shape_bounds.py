"""Tests the largest shape of each tensor: given, derived from op to op, or missing with a reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from litert.core.formula import Formula
from litert.core.output_shape import SameShape
from litert.model.builder import ModelBuilder
from litert.model.graph import Tensor
from tests.vendor_reference.layers import custom_layer
from vendor_reference.compiler.largest_shapes import Bounds, find_bounds
from vendor_reference.custom_layers.custom_layer import CustomLayer, LayerFile, ShapeKernel
from vendor_reference.custom_layers.kernel_spec import ShapeArgument, TensorArgument

CL = LayerFile("k.cl", b"__kernel void k() {}", is_asset=True)
BOUND = (8, 20, 30, 4)


class Graph:
    """A model with an input `x` of shape [?, ?, ?, 4]."""

    def __init__(self) -> None:
        self.builder = ModelBuilder()
        self.x: Tensor = self.builder.input(
            "x", "float32", (1, 1, 1, 4), shape_signature=(-1, -1, -1, 4)
        )

    def open(self, name: str, *pattern: int) -> Tensor:
        """Adds a tensor of dynamic shape."""
        shape = [max(d, 1) for d in pattern]
        return self.builder.tensor(name, "float32", shape, shape_signature=pattern)

    def bounds(
        self, given: Mapping[str, Sequence[int]] | None = None, **layers: CustomLayer
    ) -> Bounds:
        model = self.builder.build()
        return find_bounds(model.subgraphs[0], {"x": BOUND} if given is None else given, layers)


def layer(name: str = "Mine", **fields: Any) -> CustomLayer:
    return custom_layer(name, "k.cl", [CL], **fields)


def formulas(*texts: str) -> list[Formula]:
    return [Formula(text) for text in texts]


def shape_of(bounds: Bounds, tensor: Tensor) -> tuple[int, ...]:
    by_name = {t.name: shape for t, shape in bounds.shapes.items()}
    return by_name[tensor.name]


def reason_of(bounds: Bounds, tensor: Tensor) -> str:
    return {t.name: reason for t, reason in bounds.reasons.items()}[tensor.name]


def test_an_input_has_the_bound_that_is_given() -> None:
    graph = Graph()
    assert shape_of(graph.bounds(), graph.x) == BOUND
    without = Graph()
    assert reason_of(without.bounds({}), without.x) == "the tensor is an input of the model"


@pytest.mark.parametrize(
    ("op", "second", "expected"),
    [
        ("NEG", None, BOUND),
        ("ADD", (1, 1, 1, 4), BOUND),
        ("MUL", (9, 1, 1, 1), (9, 20, 30, 4)),
    ],
)
def test_ops_that_broadcast_have_the_largest_of_each(
    op: str, second: tuple[int, ...] | None, expected: tuple[int, ...]
) -> None:
    graph = Graph()
    inputs = [graph.x]
    if second is not None:
        inputs.append(graph.builder.constant("c", np.zeros(second, np.float32)))
    y = graph.builder.op(op, inputs, [graph.open("y", -1, -1, -1, 4)])
    assert shape_of(graph.bounds(), y) == expected


@pytest.mark.parametrize(
    ("padding", "stride", "dilation", "expected"),
    [
        ("SAME", 2, 1, (8, 10, 15, 6)),
        ("VALID", 1, 1, (8, 18, 28, 6)),
        ("VALID", 3, 2, (8, 6, 9, 6)),
    ],
)
def test_a_convolution_slides_its_window(
    padding: str, stride: int, dilation: int, expected: tuple[int, ...]
) -> None:
    graph = Graph()
    weights = graph.builder.constant("w", np.zeros((6, 3, 3, 4), np.float32))
    bias = graph.builder.constant("b", np.zeros(6, np.float32))
    y = graph.builder.op(
        "CONV_2D",
        [graph.x, weights, bias],
        [graph.open("y", -1, -1, -1, 6)],
        padding=padding,
        stride_w=stride,
        stride_h=stride,
        dilation_w_factor=dilation,
        dilation_h_factor=dilation,
    )
    assert shape_of(graph.bounds(), y) == expected


def test_a_pooling_has_its_window_in_its_options() -> None:
    graph = Graph()
    y = graph.builder.op(
        "MAX_POOL_2D", [graph.x], [graph.open("y", -1, -1, -1, 4)],
        padding="VALID", stride_w=2, stride_h=2, filter_width=2, filter_height=3,
    )  # fmt: skip
    assert shape_of(graph.bounds(), y) == (8, 9, 15, 4)


def test_a_reshape_regroups_the_batch() -> None:
    graph = Graph()
    shape = graph.builder.constant("s", np.array([-1, 3], np.int32))
    y = graph.builder.op("RESHAPE", [graph.x, shape], [graph.open("y", -1, 3)])
    assert shape_of(graph.bounds(), y) == (8 * 20 * 30 * 4 // 3, 3)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, BOUND),
        ({"output_shapes": [SameShape(0)]}, BOUND),
        ({"output_shapes": [formulas("B", "Y/2", "((X+15)/16)*16", "4")]}, (8, 10, 32, 4)),
        ({"output_shapes": [formulas("B", "100-Y", "INPUT0_SHAPE[1]%7", "4")]}, (8, 100, 6, 4)),
        ({"shape_kernel": ShapeKernel("calc", [CL])}, BOUND),
    ],
    ids=["looks like its input", "same", "formulas", "not monotonic", "a kernel, like its input"],
)
def test_layers_bound_their_outputs(fields: dict[str, Any], expected: tuple[int, ...]) -> None:
    graph = Graph()
    y = graph.builder.custom("Mine", [graph.x], [graph.open("y", -1, -1, -1, 4)])
    assert shape_of(graph.bounds(Mine=layer(**fields)), y) == expected


OWN = [TensorArgument(False, 0), TensorArgument(True, 0), ShapeArgument(True, 0)]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "the layer of Mine does not say how the tensor's shape is found"),
        ({"arguments": OWN}, "a kernel finds the tensor's shape, and no formula"),
        (
            {"shape_kernel": ShapeKernel("calc", [CL])},
            "a kernel finds the tensor's shape, and no formula",
        ),
        ({"output_shapes": [formulas("X/0", "1")]}, "divides by zero"),
        (
            {"output_shapes": [formulas("B")]},
            "gives the tensor 1 dimensions, but the model declares 2",
        ),
        ({"output_shapes": [SameShape(3)]}, "input 3, but the op has no input 3"),
    ],
)
def test_a_layer_that_does_not_say_is_no_guess(fields: dict[str, Any], reason: str) -> None:
    graph = Graph()
    y = graph.builder.custom("Mine", [graph.x], [graph.open("y", -1, -1)])
    bounds = graph.bounds(Mine=layer(**fields))
    assert reason in reason_of(bounds, y)
    given = Graph()
    y = given.builder.custom("Mine", [given.x], [given.open("y", -1, -1)])
    assert shape_of(given.bounds({"x": BOUND, "y": (5, 6)}, Mine=layer(**fields)), y) == (5, 6)


def test_a_formula_beside_a_kernel_is_its_bound() -> None:
    graph = Graph()
    y = graph.builder.custom("Mine", [graph.x], [graph.open("y", -1, 4)])
    fields: dict[str, Any] = {"arguments": OWN, "output_shapes": [formulas("B*Y*X", "4")]}
    assert shape_of(graph.bounds(Mine=layer(**fields)), y) == (8 * 20 * 30, 4)


def test_what_follows_from_an_unknown_op_is_unknown_with_the_way_there() -> None:
    graph = Graph()
    odd = graph.builder.op("WHERE", [graph.x], [graph.open("odd", -1, 4)])
    y = graph.builder.op("NEG", [odd], [graph.open("y", -1, 4)])
    bounds = graph.bounds()
    assert reason_of(bounds, odd) == "no bound can be derived for the result of WHERE"
    assert reason_of(bounds, y) == "NEG computes the tensor from 'odd', which has no bound"
