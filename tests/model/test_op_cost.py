"""Tests arithmetic and memory traffic of ops against numbers from TFLite's converter and manual calculations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from litert.model.builder import ModelBuilder
from litert.model.builtin_options import BUILTIN_NUMBERS
from litert.model.graph import Tensor
from litert.model.op_cost import NO_COST, KnownCost, OpCost, find_cost
from litert.model.reader import read_model

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
"""The counts in `get-arithmetic-count.mlir`, a test of TFLite's converter."""


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
    """Adds an LSTM with 4 steps of 2 sequences of 3 numbers, and 5 units: 4 gates with 5x3 and 5x5 matrices."""
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


def cost_in(build: Build, index: int = 0) -> OpCost:
    b = ModelBuilder()
    build(b)
    return find_cost(list(b.build().ops())[index])


def test_four_bit_weights_are_half_a_byte() -> None:
    def build(b: ModelBuilder) -> None:
        w = b.constant("w", bytes(8 * 6 // 2), "int4", (8, 6))
        b.op("FULLY_CONNECTED", [b.input("x", "int8", (2, 6)), w, None], [("y", "int8", (2, 8))])

    assert cost_of(build) == OpCost(2 * 8 * 6, 0, 2 * 6 + 24 + 2 * 8)


def test_what_is_read_twice_counts_once() -> None:
    def build(b: ModelBuilder) -> None:
        x = b.input("x", *CUBE)
        b.op("MUL", [x, x], [("y", *CUBE)])

    assert cost_of(build).bytes == 2 * 4000


def test_a_gather_reads_no_more_of_its_table_than_it_writes() -> None:
    def build(b: ModelBuilder) -> None:
        table = b.constant("t", np.zeros((1000, 16), np.float32))
        b.op("GATHER", [table, b.input("i", "int32", (3,))], [("y", "float32", (3, 16))])

    assert cost_of(build) == OpCost(0, 0, 2 * 3 * 16 * 4 + 3 * 4)


def test_sparse_weights_are_read_as_they_are_stored(networks: Path) -> None:
    with read_model(networks / "face_detection_full_range_sparse.tflite") as model:
        op = next(op for op in model.ops() if op.name == "DENSIFY")
        stored, dense = len(op.inputs[0].data), op.outputs[0].type.size_bytes  # type: ignore[union-attr]
        assert find_cost(op) == OpCost(0, 0, stored + dense) and stored < dense


def test_a_dynamic_dimension_makes_what_depends_on_it_unknown() -> None:
    def build(b: ModelBuilder) -> None:
        x = b.input("x", "float32", (1, 6), shape_signature=(-1, 6))
        y = b.tensor("y", "float32", (1, 8), shape_signature=(-1, 8))
        b.op("FULLY_CONNECTED", [x, weights(b, 8, 6), None], [y])

    assert cost_of(build) == OpCost(None, None, None)


def test_a_custom_op_has_traffic_alone() -> None:
    cost = cost_of(lambda b: b.custom("My", [b.input("x", *CUBE)], [("y", *CUBE)]))
    assert cost == OpCost(None, None, 8000) and cost.arithmetic is None
    assert KnownCost.of([cost, OpCost(1, 2, 3)]) == KnownCost(1, 2, 8003, num_unknown=1)


def test_strings_have_no_size() -> None:
    assert (
        cost_of(lambda b: b.custom("My", [b.input("x", "string", (2,))], [("y", *CUBE)])).bytes
        is None
    )


def test_ops_that_call_subgraphs_take_nothing_themselves() -> None:
    def build(b: ModelBuilder) -> None:
        body = b.subgraph("body")
        body.output(body.op("ADD", [body.input("a", *CUBE)] * 2, [("s", *CUBE)]))
        b.op(
            "WHILE",
            [b.input("x", *CUBE)],
            [("y", *CUBE)],
            cond_subgraph_index=1,
            body_subgraph_index=1,
        )

    assert cost_in(build) == NO_COST
    assert cost_in(build, 1) == OpCost(0, 1000, 8000)


@pytest.mark.parametrize("name", sorted(BUILTIN_NUMBERS))
def test_a_damaged_op_of_any_name_has_some_answer(name: str) -> None:
    """Tries the op without inputs and outputs, without inputs, with dimensions of 0, and with scalars."""
    empty = ("float32", (0, 0, 0, 0))
    for make in (
        lambda b: b.op(name, [], []),
        lambda b: b.op(name, [None] * 4, [("y", *CUBE)]),
        lambda b: b.op(name, [b.input("x", *empty)] * 4, [("y", *empty)]),
        lambda b: b.op(name, [b.input("x", "float32", ())] * 4, [("y", "float32", ())]),
    ):
        cost = cost_of(make)
        assert all(
            number is None or number >= 0 for number in (cost.macs, cost.operations, cost.bytes)
        )


def test_networks_agree_with_a_count_of_each_output_s_products(networks: Path) -> None:
    """Counts the products from stock's shapes: each output element is a sum of products with one filter."""
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    for path in sorted(networks.glob("*.tflite")):
        stock = interpreter.Interpreter(str(path))
        shapes = {t["index"]: t["shape"] for t in stock.get_tensor_details()}
        products = 0
        for op in stock._get_ops_details():
            if op["op_name"] not in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
                continue
            filters, outputs = shapes[op["inputs"][1]], shapes[op["outputs"][0]]
            per_filter = filters[1:3] if op["op_name"] == "DEPTHWISE_CONV_2D" else filters[1:]
            products += int(np.prod(outputs)) * int(np.prod(per_filter))
        with read_model(path) as model:
            assert KnownCost.of(map(find_cost, model.ops())).macs == products, path.name
