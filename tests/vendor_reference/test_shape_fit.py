"""Tests that `output_shapes` that contradict the model's output are refused before any bound is needed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from litert.core.formula import Formula
from litert.core.output_shape import OutputShape, SameShape
from litert.model.builder import ModelBuilder
from litert.model.graph import Op
from tests.vendor_reference.layers import custom_layer
from vendor_reference.compiler.shape_rules import shapes_misfit
from vendor_reference.custom_layers.custom_layer import CustomLayer, LayerFile

GIVE = "the layer's output_shapes give output 0"


def op(result: Sequence[int]) -> Op:
    """Returns an op with input shape [?, 5, ?, 4] and output shape `result`."""
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 5, 1, 4), shape_signature=(-1, 5, -1, 4))
    shape = [max(size, 1) for size in result]
    b.output(
        b.custom("Mine", [x], [b.tensor("y", "float32", shape, shape_signature=tuple(result))])
    )
    return b.build().subgraphs[0].ops[0]


def layer(*shapes: OutputShape | None) -> CustomLayer:
    file = LayerFile("k.cl", b"__kernel void k() {}", is_asset=True)
    return custom_layer("Mine", "k.cl", [file], output_shapes=shapes)


def formulas(*texts: str) -> list[Formula]:
    return [Formula(text) for text in texts]


@pytest.mark.parametrize(
    ("shapes", "reason"),
    [
        ([formulas("B", "Y*2")], f"{GIVE} 2 dimensions, but the model declares 4"),
        (
            [formulas("B", "X", "Y", "F+1")],
            f"{GIVE} the size 5 in dimension 3, but the model declares 4",
        ),
        ([formulas("B", "X", "Y", "F/0")], f"{GIVE} no shape: formula 'F/0' divides by zero"),
        (
            [SameShape(4)],
            f"{GIVE} no shape: the output must have the shape of input 4, but the op has no input 4",
        ),
        ([None, SameShape(0)], "the layer has 2 output_shapes, but the op has 1 output"),
    ],
    ids=["rank", "a fixed dimension", "no value", "no input", "too many"],
)
def test_what_no_bound_can_mend_is_told_as_it_is(
    shapes: Sequence[OutputShape | None], reason: str
) -> None:
    assert shapes_misfit(op((-1, -1, -1, 4)), layer(*shapes)).startswith(reason)


@pytest.mark.parametrize(
    "shapes", [[formulas("B", "X", "Y*2", "4")], [SameShape(0)], [None], []], ids=str
)
def test_what_a_run_may_fit_is_not_refused(shapes: Sequence[OutputShape | None]) -> None:
    assert shapes_misfit(op((-1, -1, -1, 4)), layer(*shapes)) == ""


def test_outputs_that_the_model_fixes_need_no_rule_that_fits() -> None:
    assert shapes_misfit(op((1, 2)), layer(formulas("B"), SameShape(3))) == ""
