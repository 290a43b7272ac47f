"""Tests that activations are fused into the op before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from litert.core.quantization import Quantization
from litert.model.builder import ModelBuilder
from tests.compiler_plugin.transformations.builtin.rewrites import check_same

SHAPE = (1, 4, 4, 3)


def conv(b: ModelBuilder, x: Any, **options: Any) -> Any:
    random = np.random.default_rng(1)
    weights = b.constant("w", random.normal(size=(3, 3, 3, 3)).astype(np.float32))
    bias = b.constant("b", random.normal(size=3).astype(np.float32))
    return b.op(
        "CONV_2D", [x, weights, bias], [("conv", "float32", SHAPE)],
        **{"padding": "SAME", "stride_w": 1, "stride_h": 1, **options},
    )  # fmt: skip


@pytest.mark.parametrize("activation", ["RELU", "RELU6", "RELU_N1_TO_1"])
def test_a_relu_moves_into_the_convolution_before_it(activation: str) -> None:
    def make(b: ModelBuilder) -> Any:
        return b.op(
            activation, [conv(b, b.input("x", "float32", SHAPE))], [("y", "float32", SHAPE)]
        )

    assert check_same(make, "fuse_activation") == (["CONV_2D"], {"fuse_activation": 1})


@pytest.mark.parametrize("host", ["ADD", "SUB", "MUL", "DIV"])
def test_a_relu_moves_into_arithmetic(host: str) -> None:
    def make(b: ModelBuilder) -> Any:
        x, y = b.input("x", "float32", SHAPE), b.input("y", "float32", SHAPE)
        return b.op(
            "RELU6", [b.op(host, [x, y], [("h", "float32", SHAPE)])], [("z", "float32", SHAPE)]
        )

    assert check_same(make, "fuse_activation")[0] == [host]


@pytest.mark.parametrize("host", ["MAX_POOL_2D", "AVERAGE_POOL_2D"])
def test_a_relu_moves_into_a_pool(host: str) -> None:
    def make(b: ModelBuilder) -> Any:
        pool = b.op(
            host, [b.input("x", "float32", SHAPE)], [("h", "float32", (1, 2, 2, 3))],
            padding="VALID", stride_w=2, stride_h=2, filter_width=2, filter_height=2,
        )  # fmt: skip
        return b.op("RELU", [pool], [("y", "float32", (1, 2, 2, 3))])

    assert check_same(make, "fuse_activation")[0] == [host]


def test_a_relu_stays_when_the_convolution_has_a_second_reader() -> None:
    def make(b: ModelBuilder) -> Any:
        c = conv(b, b.input("x", "float32", SHAPE))
        return b.op("RELU", [c], [("y", "float32", SHAPE)]), b.op(
            "NEG", [c], [("z", "float32", SHAPE)]
        )

    assert check_same(make, "fuse_activation") == (
        ["CONV_2D", "RELU", "NEG"],
        {"fuse_activation": 0},
    )


def test_a_relu_stays_when_the_convolution_is_a_result() -> None:
    def make(b: ModelBuilder) -> Any:
        c = conv(b, b.input("x", "float32", SHAPE))
        return b.op("RELU", [c], [("y", "float32", SHAPE)]), c

    assert check_same(make, "fuse_activation")[1] == {"fuse_activation": 0}


def test_a_relu_stays_behind_another_activation() -> None:
    def make(b: ModelBuilder) -> Any:
        c = conv(b, b.input("x", "float32", SHAPE), fused_activation_function="RELU_N1_TO_1")
        return b.op("RELU6", [c], [("y", "float32", SHAPE)])

    assert check_same(make, "fuse_activation")[1] == {"fuse_activation": 0}


@pytest.mark.parametrize(("scale", "count"), [(0.1, 1), (0.2, 0)])
def test_a_quantized_relu_moves_only_where_it_rounds_nothing(scale: float, count: int) -> None:
    def make(b: ModelBuilder) -> Any:
        q = Quantization((0.1,), (3,))
        x, y = (b.input(n, "int8", (2, 8), quantization=q) for n in "xy")
        h = b.tensor("h", "int8", (2, 8), quantization=q)
        z = b.tensor("z", "int8", (2, 8), quantization=Quantization((scale,), (3,)))
        b.op("ADD", [x, y], [h], version=2)
        b.op("RELU", [h], [z], version=2)
        return z

    ops, matches = check_same(make, "fuse_activation", exact=True)
    assert matches == {"fuse_activation": count} and len(ops) == 2 - count
