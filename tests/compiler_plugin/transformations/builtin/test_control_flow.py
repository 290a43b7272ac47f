"""Tests the built-in transformations in the bodies of WHILE and the branches of IF."""

from __future__ import annotations

from typing import Any

import numpy as np

from litert.model.builder import ModelBuilder, SubgraphBuilder
from litert.model.graph import Model
from tests.compiler_plugin.transformations.builtin.rewrites import TOLERANCE, run, transform

SHAPE = (1, 4, 4, 2)
I32 = ("int32", ())


def block(b: SubgraphBuilder, x: Any, name: str) -> Any:
    """Adds a padded convolution with a scale, a clamp, and a reshape to the same shape."""
    amounts = b.constant(f"{name}/p", np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32))
    padded = b.op("PAD", [x, amounts], [(f"{name}/pad", "float32", (1, 6, 6, 2))])
    random = np.random.default_rng(0)
    weights = b.constant(
        f"{name}/w", random.normal(scale=0.2, size=(2, 3, 3, 2)).astype(np.float16)
    )
    floats = b.op("DEQUANTIZE", [weights], [(f"{name}/f", "float32", (2, 3, 3, 2))])
    bias = b.constant(f"{name}/b", np.ones(2, np.float32))
    conv = b.op(
        "CONV_2D", [padded, floats, bias], [(f"{name}/conv", "float32", SHAPE)],
        padding="VALID", stride_h=1, stride_w=1, dilation_h_factor=1, dilation_w_factor=1,
    )  # fmt: skip
    factor = b.constant(f"{name}/c", np.array([0.5, 2], np.float32))
    scaled = b.op("MUL", [conv, factor], [(f"{name}/scaled", "float32", SHAPE)])
    clamped = b.op("RELU6", [scaled], [(f"{name}/clamped", "float32", SHAPE)])
    shape = b.constant(f"{name}/s", np.array(SHAPE, np.int32))
    return b.op("RESHAPE", [clamped, shape], [(f"{name}/same", "float32", SHAPE)])


MATCHES = ("fuse_pad", "fold_dequantize", "fold_batch_norm", "fuse_activation", "remove_no_ops")


def loop() -> Model:
    """Builds a WHILE of three rounds of a block, followed by another block."""
    b = ModelBuilder()
    x = b.input("x", "float32", SHAPE)
    start = b.constant("start", np.int32(0))
    test, body = b.subgraph("test"), b.subgraph("body")
    outputs = [("rounds", *I32), ("looped", "float32", SHAPE)]
    _, looped = b.op(
        "WHILE", [start, x], outputs, cond_subgraph_index=test.index, body_subgraph_index=body.index
    )
    b.output(block(b, looped, "last"))
    b.signature("serving_default")
    i, _ = test.input("test/i", *I32), test.input("test/x", "float32", SHAPE)
    test.output(test.op("LESS", [i, test.constant("three", np.int32(3))], [("go", "bool", ())]))
    i, x = body.input("body/i", *I32), body.input("body/x", "float32", SHAPE)
    body.output(body.op("ADD", [i, body.constant("one", np.int32(1))], [("body/next", *I32)]))
    body.output(block(body, x, "body"))
    return b.build()


def branches() -> Model:
    """Builds an IF whose branches are a block and the unchanged input."""
    b = ModelBuilder()
    x = b.input("x", "float32", SHAPE)
    axes = b.constant("axes", np.array([0, 1, 2, 3], np.int32))
    total = b.op("SUM", [x, axes], [("total", "float32", ())])
    condition = b.op("GREATER", [total, b.constant("zero", np.float32(0))], [("c", "bool", ())])
    then, other = b.subgraph("then"), b.subgraph("other")
    y = b.op(
        "IF", [condition, x], [("y", "float32", SHAPE)],
        then_subgraph_index=then.index, else_subgraph_index=other.index,
    )  # fmt: skip
    b.output(y)
    b.signature("serving_default")
    then.output(block(then, then.input("then/x", "float32", SHAPE), "then"))
    other.output(other.input("other/x", "float32", SHAPE))
    return b.build()


def check(before: Model, after: Model, matches: int) -> None:
    found = transform(after, "all")
    assert [found[name] for name in MATCHES] == [matches] * len(MATCHES)
    for seed in range(4):  # sums of both signs, so that both branches run
        (expected,), (result,) = run(before, seed).values(), run(after, seed).values()
        assert np.abs(expected - result).max() <= TOLERANCE * np.abs(expected).max()


def test_the_body_of_a_loop_is_transformed_like_the_rest() -> None:
    model = loop()
    check(loop(), model, matches=2)
    assert [op.name for op in model.subgraphs[0].ops] == ["WHILE", "CONV_2D"]
    assert [op.name for op in model.subgraphs[2].ops] == ["ADD", "CONV_2D"]


def test_a_branch_is_transformed_like_the_rest() -> None:
    model = branches()
    check(branches(), model, matches=1)
    assert [op.name for op in model.subgraphs[1].ops] == ["CONV_2D"]
