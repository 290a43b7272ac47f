"""Arithmetic and memory traffic of ops, against numbers of TFLite's converter and by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from litert.model.builder import ModelBuilder
from litert.model.graph import Tensor
from litert.model.op_cost import OpCost, find_cost

Build = Callable[[ModelBuilder], object]
CUBE = ("float32", (10, 10, 10))
SQUARE = ("float32", (10, 10))


def weights(b: ModelBuilder, *shape: int) -> Tensor:
    return b.constant("w", np.zeros(shape, np.float32))


def convolution(b: ModelBuilder) -> None:
    inputs = [b.input("x", "float32", (256, 32, 32, 3)), weights(b, 16, 3, 3, 3), weights(b, 16)]
    b.op("CONV_2D", inputs, [("y", "float32", (256, 32, 32, 16))], padding="SAME")


def depthwise_convolution(b: ModelBuilder) -> None:
    inputs = [b.input("x", "float32", (1, 112, 112, 3)), weights(b, 1, 3, 3, 32), weights(b, 32)]
    b.op("DEPTHWISE_CONV_2D", inputs, [("y", "float32", (1, 112, 112, 32))], padding="SAME")


def fully_connected(b: ModelBuilder) -> None:
    inputs = [b.input("x", "float32", (1, 37)), weights(b, 40, 37), weights(b, 40)]
    b.op("FULLY_CONNECTED", inputs, [("y", "float32", (1, 40))])


def transposed_convolution(b: ModelBuilder) -> None:
    shape = b.constant("shape", np.array([1, 64, 84, 32], np.int32))
    inputs = [shape, weights(b, 32, 4, 4, 128), b.input("x", "float32", (1, 32, 42, 128))]
    b.op("TRANSPOSE_CONV", inputs, [("y", "float32", (1, 64, 84, 32))], stride_h=2, stride_w=2)


def pool(b: ModelBuilder) -> None:
    image = ("float32", (1, 10, 10, 3))
    b.op("MAX_POOL_2D", [b.input("x", *image)], [("y", *image)], filter_height=3, filter_width=3)


def many_added(b: ModelBuilder) -> None:
    b.op("ADD_N", [b.input(name, *SQUARE) for name in "abc"], [("y", *SQUARE)])


def broadcast(b: ModelBuilder) -> None:
    b.op("ADD", [b.input("x", *CUBE), b.input("c", "float32", (10,))], [("y", *CUBE)])


def unary(name: str) -> Build:
    return lambda b: b.op(name, [b.input("x", *SQUARE)], [("y", *SQUARE)])


CONVERTER = {
    "CONV_2D": (convolution, 230686720),
    "DEPTHWISE_CONV_2D": (depthwise_convolution, 7626752),
    "FULLY_CONNECTED": (fully_connected, 3000),
    "TRANSPOSE_CONV": (transposed_convolution, 176160768),
    "ADD": (broadcast, 1000),
    "ADD_N": (many_added, 200),
    "MAX_POOL_2D": (pool, 2700),
    "LOGISTIC": (unary("LOGISTIC"), 6400),
    "SOFTMAX": (unary("SOFTMAX"), 6400),
    "TANH": (unary("TANH"), 6400),
    "L2_NORMALIZATION": (unary("L2_NORMALIZATION"), 300),
}
"""The numbers of `get-arithmetic-count.mlir`."""


def cost_of(build: Build) -> OpCost:
    b = ModelBuilder()
    build(b)
    (op,) = b.build().ops()
    return find_cost(op)


@pytest.mark.parametrize("name", CONVERTER)
def test_arithmetic_is_what_the_converter_counts(name: str) -> None:
    build, count = CONVERTER[name]
    assert cost_of(build).arithmetic == count


def matrix_product(b: ModelBuilder, adj_x: bool = False) -> None:
    lhs = b.input("x", "float32", (2, 5, 3) if adj_x else (2, 3, 5))
    b.op(
        "BATCH_MATMUL",
        [lhs, b.input("y", "float32", (2, 5, 7))],
        [("z", "float32", (2, 3, 7))],
        adj_x=adj_x,
    )


def lstm(b: ModelBuilder) -> None:
    """4 steps of 2 sequences of 3 numbers, to 5: four gates with matrices of 5x3 and 5x5."""
    x = b.input("x", "float32", (4, 2, 3))
    gates = [weights(b, 5, 3) for _ in range(4)] + [weights(b, 5, 5) for _ in range(4)]
    biases = [weights(b, 5) for _ in range(4)]
    inputs = [x, *gates, None, None, None, *biases]
    b.op("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [("y", "float32", (4, 2, 5))])


BY_HAND = {
    "a matrix product": (matrix_product, OpCost(2 * 3 * 7 * 5, 0, 4 * (30 + 70 + 42))),
    "transposed first": (lambda b: matrix_product(b, True), OpCost(210, 0, 4 * 142)),
    "an LSTM": (
        lstm,
        OpCost(8 * 4 * (15 + 25), 0, 4 * (24 + 4 * (15 + 25 + 5) + 40)),
    ),
    "a convolution's traffic": (
        convolution,
        OpCost(
            256 * 32 * 32 * 16 * 27,
            256 * 32 * 32 * 16,
            4 * (256 * 32 * 32 * 3 + 16 * 27 + 16 + 256 * 32 * 32 * 16),
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_HAND)
def test_costs_are_those_by_hand(name: str) -> None:
    build, cost = BY_HAND[name]
    assert cost_of(build) == cost
