"""Tests ops with windows: which calls they refuse, and windows in larger tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from litert.model.builder import ModelBuilder
from tests.vendor_reference.library_runs import Case, one_op, run_library, run_stock
from vendor_reference.compiler.library.library_op import library_ops
from vendor_reference.compiler.library.views import View

DEPTHWISE = {
    "padding": "VALID", "stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1,
    "depth_multiplier": 1,
}  # fmt: skip
POOL = {"padding": "VALID", "stride_h": 1, "stride_w": 1, "filter_height": 3, "filter_width": 3}


def refusal(
    name: str, shapes: list[tuple[int, ...]], result: tuple[int, ...], **options: Any
) -> str:
    """Returns the library's reason to refuse an op; its first input is an image, the others are constants."""
    b = ModelBuilder()
    x = b.input("x", "float32", shapes[0])
    weights = [b.constant(f"w{i}", np.ones(s, np.float32)) for i, s in enumerate(shapes[1:])]
    _, op = one_op(name, [x, *weights], [b.tensor("y", "float32", result)], b, **options)
    return library_ops()[name].refusal(op)


@pytest.mark.parametrize(
    ("shapes", "result", "options", "reason"),
    [
        ([(1, 5, 5, 4), (1, 3, 3, 4), (4,)], (1, 3, 3, 4), {}, ""),
        ([(1, 5, 5, 4), (1, 3, 3, 6), (6,)], (1, 3, 3, 6), {}, "the result tensor<"),
        ([(1, 5, 5, 4), (2, 3, 3, 4), (4,)], (1, 3, 3, 4), {}, "the result tensor<"),
        ([(1, 5, 5, 4), (1, 3, 3, 4), (5,)], (1, 3, 3, 4), {}, "the result tensor<"),
        ([(1, 5, 5, 4), (1, 3, 3, 4), (4,)], (1, 4, 3, 4), {}, "the result tensor<"),
        ([(1, 2, 5, 4), (1, 3, 3, 4), (4,)], (1, 1, 3, 4), {}, "the result tensor<"),
        ([(1, 5, 5, 4), (3, 3, 4), (4,)], (1, 3, 3, 4), {}, "an operand or the result is not a tensor of rank 4"),
        ([(1, 5, 5, 4), (1, 3, 3, 4)], (1, 3, 3, 4), {"stride_h": 0}, "windows of size"),
        ([(1, 5, 5, 4), (1, 3, 3, 4)], (1, 3, 3, 4), {"dilation_w_factor": -1}, "windows of size"),
        ([(1, 5, 5, 4)], (1, 3, 3, 4), {}, "the op has 1 input and 1 output, but must have 2 to 3 inputs"),
    ],
    ids=[
        "right", "channels", "two filters", "bias", "result", "window larger than input", "rank", "stride 0",
        "dilation -1", "no weights",
    ],
)  # fmt: skip
def test_weights_that_do_not_fit_are_refused(
    shapes: list[tuple[int, ...]], result: tuple[int, ...], options: dict[str, int], reason: str
) -> None:
    said = refusal("DEPTHWISE_CONV_2D", shapes, result, **(DEPTHWISE | options))
    assert said.startswith(reason) and bool(said) == bool(reason)


@pytest.mark.parametrize("name", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
@pytest.mark.parametrize(
    ("shape", "options"),
    [((1, 2, 3, 4), {}), ((1, 5, 5, 4), {"filter_width": 0}), ((1, 5, 5, 4), {"stride_w": 0})],
    ids=["window larger than input", "no window", "stride 0"],
)
def test_windows_of_no_pixels_are_refused(
    name: str, shape: tuple[int, ...], options: dict[str, int]
) -> None:
    assert refusal(name, [shape], (1, 1, 1, 4), **(POOL | options))


def test_a_window_may_read_and_write_parts_of_tensors(device: Any) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (2, 6, 7, 9))
    model, op = one_op("MAX_POOL_2D", [x], [b.tensor("y", "float32", (2, 4, 5, 9))], b, **POOL)
    image = np.random.default_rng(0).normal(size=x.shape).astype(np.float32)
    views = [
        View.dense(x.element_type, (2, 8, 9, 13)).part((0, 1, 1, 3), (2, 6, 7, 9)),
        View.dense(x.element_type, (2, 4, 5, 20)).part((0, 0, 0, 11), (2, 4, 5, 9)),
    ]
    (result,) = run_library(device, [Case(op, [image], views)])
    np.testing.assert_array_equal(result, run_stock(model, [image])[0])
