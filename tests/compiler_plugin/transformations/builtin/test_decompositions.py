"""Tests the decomposition of HARD_SWISH, PRELU and GELU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from litert.core.quantization import Quantization
from litert.model.builder import ModelBuilder
from tests.compiler_plugin.transformations.builtin.rewrites import build, check_same, transform

SHAPE = (1, 6, 7, 4)


def test_hard_swish_becomes_sums_and_products() -> None:
    def make(b: ModelBuilder) -> Any:
        return b.op("HARD_SWISH", [b.input("x", "float32", SHAPE)], [("y", "float32", SHAPE)])

    ops, matches = check_same(make, "decompose_hard_swish")
    assert ops == ["ADD", "MUL", "MUL"] and matches == {"decompose_hard_swish": 1}


@pytest.mark.parametrize("alpha_shape", [(4,), (1, 1, 4), (6, 7, 4), (1,)])
def test_prelu_becomes_relu_minimum_product_and_sum(alpha_shape: tuple[int, ...]) -> None:
    def make(b: ModelBuilder) -> Any:
        alpha = b.constant(
            "alpha", np.random.default_rng(0).normal(size=alpha_shape).astype(np.float32)
        )
        return b.op("PRELU", [b.input("x", "float32", SHAPE), alpha], [("y", "float32", SHAPE)])

    assert check_same(make, "decompose_prelu")[0] == ["RELU", "MINIMUM", "MUL", "ADD"]


@pytest.mark.parametrize(("approximate", "bend"), [(True, "TANH"), (False, "EXP")])
def test_gelu_becomes_sums_products_and_a_bend(approximate: bool, bend: str) -> None:
    def make(b: ModelBuilder) -> Any:
        return b.op(
            "GELU",
            [b.input("x", "float32", SHAPE)],
            [("y", "float32", SHAPE)],
            approximate=approximate,
        )

    ops, _ = check_same(make, "decompose_gelu")
    assert bend in ops and "GELU" not in ops


@pytest.mark.parametrize("op", ["HARD_SWISH", "PRELU", "GELU"])
def test_quantized_ones_stay(op: str) -> None:
    def make(b: ModelBuilder) -> Any:
        q = Quantization((0.1,), (0,))
        inputs = [b.input("x", "int8", SHAPE, quantization=q)]
        if op == "PRELU":
            inputs.append(b.constant("alpha", np.ones((1, 1, 4), np.int8), quantization=q))
        y = b.tensor("y", "int8", SHAPE, quantization=q)
        b.op(op, inputs, [y])
        return y

    name = f"decompose_{op.lower()}"
    assert check_same(make, name, exact=True) == ([op], {name: 0})


def test_none_runs_without_being_named() -> None:
    model = build(
        lambda b: b.op("HARD_SWISH", [b.input("x", "float32", SHAPE)], [("y", "float32", SHAPE)])
    )
    assert not any(name.startswith("decompose") for name in transform(model, "all"))
    assert [op.name for op in model.subgraphs[0].ops] == ["HARD_SWISH"]


def test_what_was_fused_before_is_taken_apart_all_the_same() -> None:
    def make(b: ModelBuilder) -> Any:
        x = b.input("x", "float32", SHAPE)
        gate = b.op(
            "ADD", [x, b.constant("three", np.float32(3))], [("g", "float32", SHAPE)],
            fused_activation_function="RELU6",
        )  # fmt: skip
        sixth = b.op("MUL", [gate, b.constant("s", np.float32(1 / 6))], [("h", "float32", SHAPE)])
        return b.op("MUL", [x, sixth], [("y", "float32", SHAPE)])

    ops, matches = check_same(make, "fuse_hard_swish", "decompose_hard_swish")
    assert ops == ["ADD", "MUL", "MUL"]
    assert matches == {"fuse_hard_swish": 1, "decompose_hard_swish": 1}
