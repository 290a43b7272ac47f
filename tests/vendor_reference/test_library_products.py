"""Compares the library's products with stock LiteRT's plain kernels, in shapes that are rare in random calls."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from litert.core.element_type import ElementType
from tests.vendor_reference.random_ops import Given, OpCase, ints
from tests.vendor_reference.test_library_against_stock import difference, run_npu, run_stock
from vendor_reference.compiler.library.library_op import Attributes, PlacedOp, library_ops
from vendor_reference.compiler.library.views import View

WINDOW = {
    "padding": "SAME", "stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1,
    "fused_activation_function": "NONE",
}  # fmt: skip


def given(*shape: int, is_constant: bool = False) -> Given:
    values = np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)
    return Given(values, is_constant)


def weights(*shape: int) -> Given:
    return given(*shape, is_constant=True)


def convolution(x: Given, w: Given, *bias: Given, **options: object) -> OpCase:
    return OpCase("CONV_2D", [x, w, *bias], {**WINDOW, **options})


def product(x: Given, y: Given, adj_x: bool = False, adj_y: bool = False) -> OpCase:
    return OpCase("BATCH_MATMUL", [x, y], {"adj_x": adj_x, "adj_y": adj_y})


CASES = {
    "one column": convolution(given(1, 9, 9, 3), weights(1, 3, 3, 3), weights(1)),
    "a whole image": convolution(
        given(2, 7, 5, 3), weights(20, 7, 5, 3), weights(20), padding="VALID"
    ),
    "more channels than zeros": convolution(
        Given(np.ones((1, 3, 3, 16_500), np.float32)), weights(17, 1, 1, 16_500), weights(17)
    ),
    "many taps": convolution(
        given(1, 12, 13, 2), weights(17, 7, 7, 2), weights(17), dilation_w_factor=2
    ),
    "a window of two pixels and more stride": convolution(
        given(1, 9, 9, 40), weights(33, 2, 2, 40), weights(33), stride_h=3, stride_w=3
    ),
    "computed weights": convolution(given(1, 9, 9, 3), given(18, 2, 2, 3), weights(18)),
    "a channel in each group": convolution(given(1, 6, 6, 5), weights(15, 3, 3, 1), weights(15)),
    "TANH, which stock leaves out": convolution(
        given(1, 9, 9, 3), weights(18, 2, 2, 3), weights(18), fused_activation_function="TANH"
    ),
    "less spread than stride": OpCase(
        "TRANSPOSE_CONV",
        [ints(1, 12, 8, 2), weights(2, 2, 1, 19), given(1, 3, 3, 19)],
        {"padding": "SAME", "stride_h": 4, "stride_w": 3},
    ),
    "rows in one": OpCase(
        "FULLY_CONNECTED", [given(2, 3, 4, 5), weights(7, 60), None], {"keep_num_dims": False}
    ),
    "computed weights of rows": OpCase("FULLY_CONNECTED", [given(3, 60), given(7, 60), None]),
    "batches of both": product(given(2, 1, 3, 4, 5), given(2, 4, 1, 5, 6)),
    "batches of constants, turned": product(
        given(2, 3, 5, 4), weights(3, 17, 5), adj_x=True, adj_y=True
    ),
    "one row": product(given(1, 300), weights(300, 70)),
}


@pytest.mark.each_driver
@pytest.mark.parametrize("name", CASES)
def test_a_product_is_stocks(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    expected = run_stock([case])
    found = run_npu(tmp_path, [case], [array.shape for array in expected[0]])
    assert difference(case, expected[0][0], found[0][0]) == ""


def fused(*shapes: tuple[int, ...], **attributes: str | bool) -> PlacedOp:
    """Returns a 3 x 3 convolution with further operands, as `fuse-layers` makes it."""
    image, taps = (1, 8, 8, 6), (6, 3, 3, 6)
    views = [View.dense(ElementType.FLOAT32, shape) for shape in (image, taps, *shapes, image)]
    own: Attributes = {
        "strides": (1, 1), "dilations": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1),
        "activation": "NONE", "is_constant": True, "has_bias": True,
    }  # fmt: skip
    return PlacedOp.of(views, 1, {**own, **attributes})


def test_further_operands_are_told_by_attributes() -> None:
    rule, image = library_ops()["CONV_2D"], (1, 8, 8, 6)
    call = fused((6,), image, (1, 1, 6), residual="before", activation="PRELU")
    assert rule.mismatch(call) == ""
    fields = dict(rule.kernel(call).commands[-1].fields)
    places = {name: fields[name] for name in ("bias", "residual", "slopes", "result")}
    assert places == {"bias": 2, "residual": 3, "slopes": 4, "result": 5}
    assert (fields["residual_mode"], fields["residual_row"]) == (1, 48)
    call = fused(image, has_bias=False, residual="behind")
    assert rule.mismatch(call) == "" and rule.port_mismatch(3, 1) == ""


@pytest.mark.parametrize(
    "call",
    [
        fused((6,), (1, 8, 8, 6)),
        fused((6,), residual="before"),
        fused((6,), (1, 8, 7, 6), residual="before"),
        fused((6,), (1, 8, 8, 6), residual="beside"),
        fused((6,), (2, 1, 3), activation="PRELU"),
        fused((6,), activation="PRELU"),
        fused((6,), activation="SIGN_BIT"),
    ],
)
def test_further_operands_that_do_not_fit_are_refused(call: PlacedOp) -> None:
    assert len(library_ops()["CONV_2D"].mismatch(call)) > 10
