"""Tests that shape bounds must name tensors of the model that have unknown dimensions."""

from __future__ import annotations

import pytest

from compiler_plugin.checks import check_shape_bounds
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.graph import Model


@pytest.fixture
def model() -> Model:
    builder = ModelBuilder()
    x = builder.input("image:0", "float32", (2, 3, 1), shape_signature=(-1, 3, -1))
    fixed = builder.input("fixed", "float32", (4,))
    inner = builder.tensor("inner", "float32", (1,), shape_signature=(-1,))
    builder.output(builder.op("NEG", [fixed], [("y", "float32", (4,))]))
    builder.output(builder.custom("Some", [x], [inner]))
    return builder.build()


def test_bounds_fit_what_the_model_leaves_open(model: Model) -> None:
    check_shape_bounds(model, {})
    check_shape_bounds(model, {"image:0": [100, 3, 300], "inner": [7]})


@pytest.mark.parametrize(
    ("name", "bound", "what", "hint"),
    [
        ("imag", [1], "no tensor 'imag'", "'image:0' (tensor<?x3x?xf32>)"),
        (
            "fixed",
            [4],
            "'fixed' has a fixed shape, tensor<4xf32>",
            "dynamic shape: 'image:0' (tensor<?x3x?xf32>), 'inner' (tensor<?xf32>).",
        ),
        (
            "image:0",
            [100, 3],
            "the shape bound 100x3 does not fit tensor 'image:0' of type tensor<?x3x?xf32>",
            "each unknown dimension",
        ),
        (
            "image:0",
            [100, 4, 5],
            "the shape bound 100x4x5 does not fit",
            "repeat the known dimensions",
        ),
        (
            "image:0",
            [1, 3, 5],
            "shape bound 1x3x5 of tensor 'image:0' is smaller than the tensor's shape in the model file, 2x3x1",
            "at least",
        ),
    ],
)
def test_other_bounds_are_refused(
    model: Model, name: str, bound: list[int], what: str, hint: str
) -> None:
    with pytest.raises(LiteRtError) as error:
        check_shape_bounds(model, {name: bound})
    assert error.value.status is Status.INVALID_TOOL_CONFIG
    assert what in error.value.what and hint in error.value.hint
    assert "--shape_bounds" in error.value.where
