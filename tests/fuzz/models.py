"""Builds the models that are seeds for fuzzing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from litert.core.quantization import Quantization
from litert.model.builder import ModelBuilder
from litert.model.writer import to_bytes
from tests.runtime.npu_models import one_call

SHAPE = (1, 4, 4, 3)


@cache
def network(op: str = "ADD") -> bytes:
    """Builds a float32 model of a convolution, a pooling and a third op; the reference vendor takes all three."""
    b = ModelBuilder()
    x = b.input("x", "float32", SHAPE)
    weights = b.constant("w", np.full((2, 3, 3, 3), 0.125, np.float32))
    bias = b.constant("b", np.array([1, -1], np.float32))
    made = ("conv", "float32", (1, 4, 4, 2))
    conv = b.op("CONV_2D", [x, weights, bias], [made], padding="SAME", stride_w=1, stride_h=1)
    pool = b.op(
        "MAX_POOL_2D",
        [conv],
        [("pool", "float32", (1, 2, 2, 2))],
        padding="VALID", stride_w=2, stride_h=2, filter_width=2, filter_height=2,
    )  # fmt: skip
    inputs = [pool] if op == "RELU" else [pool, pool]
    b.output(b.op(op, inputs, [("y", "float32", (1, 2, 2, 2))]))
    return to_bytes(b.build())


@cache
def varied(op: str = "MyOp") -> bytes:
    """Builds a model with a custom op or another op, quantization, a dynamic shape, control flow and metadata."""
    b = ModelBuilder("varied")
    x = b.input("x", "float32", (1, 4), shape_signature=(-1, 4))
    q = b.input("q", "int8", (4,), quantization=Quantization([0.5], [3]))
    half = b.constant("half", np.ones((4,), np.float16))
    made = [("y", "float32", (1, 4))]
    if op == "MyOp":
        y = b.custom(op, [x, half, None], made, options={"alpha": 0.5, "n": [1, 2]})
    else:
        y = b.op(op, [x], made)
    flag = b.input("flag", "bool", ())
    branches = []
    for name in ("RELU", "NEG"):
        branch = b.subgraph(name)
        branch.output(
            branch.op(name, [branch.input("a", "float32", (1, 4))], [("r", "float32", (1, 4))])
        )
        branches.append(branch)
    chosen = b.op(
        "IF",
        [flag, y],
        [("z", "float32", (1, 4))],
        then_subgraph_index=branches[0].index,
        else_subgraph_index=branches[1].index,
    )
    b.output(chosen, b.op("DEQUANTIZE", [q], [("d", "float32", (4,))]))
    b.signature("serving_default")
    b.metadata("min_runtime_version", b"2.0.0\0")
    return to_bytes(b.build())


def all_models() -> Sequence[bytes]:
    """Returns models of each kind, including a compiled model."""
    return [network(), varied(), one_call(), varied() + b"PK\5\6" + bytes(18)]
