"""Tests the built-in transformations together, in every order that their rules allow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler_plugin.transformations.extension_folders import load_extensions
from compiler_plugin.transformations.transformation import find_rules
from litert.model.builder import ModelBuilder
from litert.model.graph import Tensor
from tests.compiler_plugin.transformations.builtin.rewrites import TOLERANCE, build, run, transform

F = "float32"
IMAGE = (1, 6, 6, 4)
LOADED = [item for item in load_extensions(()).transformations if item.name != "fuse_swish"]
"""All transformations except `fuse_swish`, whose op stock LiteRT does not have."""
NAMES = [item.name for item in LOADED]
RULES = [rule for item in LOADED for rule in find_rules(item.transformation)]


def network(b: ModelBuilder) -> tuple[Tensor, Tensor]:
    """Adds something for each transformation to match."""
    random = np.random.default_rng(3)

    def numbers(name: str, *shape: int) -> Tensor:
        return b.constant(name, random.normal(size=shape).astype(np.float32))

    x = b.input("x", F, IMAGE)
    half = b.constant("half", random.normal(size=(4, 3, 3, 4)).astype(np.float16))
    weights = b.op("DEQUANTIZE", [half], [("weights", F, (4, 3, 3, 4))])
    pads = b.constant("pads", np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32))
    padded = b.op("PAD", [x, pads], [("padded", F, (1, 8, 8, 4))])
    strides: dict[str, Any] = {"stride_w": 1, "stride_h": 1, "padding": "VALID"}
    y = b.op("CONV_2D", [padded, weights, numbers("bias", 4)], [("conv", F, IMAGE)], **strides)
    y = b.op("MUL", [y, numbers("scale", 4)], [("scaled", F, IMAGE)])
    y = b.op("ADD", [y, numbers("shift", 4)], [("shifted", F, IMAGE)])
    y = b.op("RELU6", [y], [("relu", F, IMAGE)])
    three = b.constant("three", np.float32(3))
    gate = b.op("ADD", [y, three], [("plus", F, IMAGE)], fused_activation_function="RELU6")
    y = b.op("MUL", [y, gate], [("gated", F, IMAGE)])
    sixth = b.constant("sixth", np.float32(1 / 6))
    y = b.op("MUL", [y, sixth], [("swish", F, IMAGE)])
    shape = b.op(
        "ADD",
        [b.constant("a", [1, 3], "int32"), b.constant("b", [0, 141], "int32")],
        [("ab", "int32", (2,))],
    )
    flat = b.op("RESHAPE", [y, shape], [("flat", F, (1, 144))])
    again = b.op("RESHAPE", [flat, shape], [("again", F, (1, 144))])
    gelu = b.op("GELU", [again], [("gelu", F, (1, 144))], approximate=True)
    slope = numbers("slope", 1, 1, 4)
    prelu = b.op("PRELU", [y, slope], [("prelu", F, IMAGE)])
    return gelu, prelu


def allowed_order(names: list[str]) -> list[str]:
    """Orders the names: takes, at each step, the first one that no rule holds back."""
    left, order = list(names), []
    while left:
        waiting = {rule.second for rule in RULES if rule.first in left}
        order.append(next(name for name in left if name not in waiting))
        left.remove(order[-1])
    return order


@settings(max_examples=12)
@given(st.permutations(NAMES))
def test_every_order_computes_what_the_model_did(names: list[str]) -> None:
    model = build(network)
    expected = run(model)
    counts = transform(model, *allowed_order(names))
    assert sum(counts.values()) >= 6
    for name, value in run(model).items():
        limit = TOLERANCE * float(np.abs(expected[name]).max())
        np.testing.assert_allclose(value, expected[name], rtol=0, atol=limit)


@pytest.mark.parametrize("name", NAMES)
def test_each_alone_computes_what_the_model_did(name: str) -> None:
    model = build(network)
    expected = run(model)
    transform(model, name)
    for output, value in run(model).items():
        limit = TOLERANCE * float(np.abs(expected[output]).max())
        np.testing.assert_allclose(value, expected[output], rtol=0, atol=limit)
