"""Tests that pads are fused into convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from litert.core.quantization import Quantization
from litert.model.builder import ModelBuilder
from tests.compiler_plugin.transformations.builtin.rewrites import check_same


def padded_conv(
    b: ModelBuilder,
    size: int,
    taps: int,
    stride: int,
    dilation: int,
    before: int,
    after: int,
    *,
    op: str = "CONV_2D",
    paddings: Any = None,
    value: Any = None,
) -> Any:
    """Adds a convolution of an image of `size` by 9 that is padded along its height."""
    x = b.input("x", "float32", (1, size, 9, 2))
    amounts = [[0, 0], [before, after], [0, 0], [0, 0]] if paddings is None else paddings
    shape = tuple(s + sum(a) for s, a in zip((1, size, 9, 2), amounts, strict=True))
    inputs = [x, b.constant("paddings", np.array(amounts, np.int32))]
    if value is not None:
        inputs.append(b.constant("value", np.float32(value)))
    pad = b.op("PAD" if value is None else "PADV2", inputs, [("pad", "float32", shape)])
    random = np.random.default_rng(taps)
    depthwise = op == "DEPTHWISE_CONV_2D"
    kernel = (1, taps, 1, 2) if depthwise else (3, taps, 1, 2)
    weights = b.constant("w", random.normal(size=kernel).astype(np.float32))
    bias = b.constant("b", random.normal(size=2 if depthwise else 3).astype(np.float32))
    rows = (shape[1] - (taps - 1) * dilation - 1) // stride + 1
    out = (1, rows, shape[2], 2 if depthwise else 3)
    return b.op(
        op, [pad, weights, bias], [("y", "float32", out)],
        padding="VALID", stride_h=stride, stride_w=1, dilation_h_factor=dilation,
        **({"depth_multiplier": 1} if depthwise else {}),
    )  # fmt: skip


@pytest.mark.parametrize("op", ["CONV_2D", "DEPTHWISE_CONV_2D"])
def test_a_pad_moves_into_the_convolution_behind_it(op: str) -> None:
    ops, matches = check_same(lambda b: padded_conv(b, 8, 3, 1, 1, 1, 1, op=op), "fuse_pad")
    assert ops == [op] and matches == {"fuse_pad": 1}


def test_a_row_too_many_that_no_window_reaches_does_not_matter() -> None:
    assert check_same(lambda b: padded_conv(b, 8, 3, 2, 1, 0, 2), "fuse_pad")[0] == ["CONV_2D"]


@pytest.mark.parametrize(
    ("arguments", "more"),
    [
        ((8, 3, 2, 1, 1, 1), {}),  # SAME would pad only at the end
        ((8, 3, 1, 1, 2, 0), {}),
        ((8, 3, 1, 1, 1, 1), {"value": 1.0}),
        ((8, 3, 1, 1, 0, 0), {"paddings": [[0, 0], [1, 1], [1, 0], [0, 0]]}),
    ],
    ids=["another start", "one side", "another value", "the other axis"],
)
def test_a_pad_that_is_not_the_convolutions_own_stays(arguments: Any, more: Any) -> None:
    matches = check_same(lambda b: padded_conv(b, *arguments, **more), "fuse_pad")[1]
    assert matches == {"fuse_pad": 0}


def test_padding_with_a_zero_of_its_own_moves_too() -> None:
    ops, _ = check_same(lambda b: padded_conv(b, 8, 3, 1, 1, 1, 1, value=0.0), "fuse_pad")
    assert ops == ["CONV_2D"]


def test_a_pad_that_others_read_stays_for_them() -> None:
    def make(b: ModelBuilder) -> Any:
        y = padded_conv(b, 8, 3, 1, 1, 1, 1)
        return y, b.op("NEG", [y.producer.inputs[0]], [("z", "float32", (1, 10, 9, 2))])

    ops, matches = check_same(make, "fuse_pad")
    assert matches == {"fuse_pad": 1} and sorted(ops) == ["CONV_2D", "NEG", "PAD"]


def test_a_quantized_pad_moves_without_a_bit_changed() -> None:
    def make(b: ModelBuilder) -> Any:
        q = Quantization((0.1,), (5,))
        x = b.input("x", "int8", (1, 6, 6, 2), quantization=q)
        pad = b.tensor("pad", "int8", (1, 8, 8, 2), quantization=q)
        b.op(
            "PAD", [x, b.constant("p", np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32))], [pad]
        )
        w = b.constant(
            "w", np.random.default_rng(0).integers(-9, 9, (3, 3, 3, 2)).astype(np.int8),
            quantization=Quantization((0.02, 0.03, 0.04), (0, 0, 0)),
        )  # fmt: skip
        bias = b.constant(
            "b",
            np.arange(3, dtype=np.int32),
            quantization=Quantization((0.002, 0.003, 0.004), (0, 0, 0)),
        )
        y = b.tensor("y", "int8", (1, 6, 6, 3), quantization=Quantization((0.05,), (-2,)))
        b.op("CONV_2D", [pad, w, bias], [y], version=3, padding="VALID", stride_h=1, stride_w=1)
        return y

    ops, _ = check_same(make, "fuse_pad", exact=True)
    assert ops == ["CONV_2D"]


@settings(deadline=None, max_examples=60)
@given(
    size=st.integers(4, 12),
    taps=st.integers(1, 4),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 2),
    before=st.integers(0, 3),
    after=st.integers(0, 4),
)
def test_whatever_the_sizes_the_result_is_the_same(
    size: int, taps: int, stride: int, dilation: int, before: int, after: int
) -> None:
    assume(size + before + after > (taps - 1) * dilation)
    check_same(lambda b: padded_conv(b, size, taps, stride, dilation, before, after), "fuse_pad")
