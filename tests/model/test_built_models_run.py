"""Tests that stock's interpreter runs models of the model builder."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from litert.core.quantization import Quantization
from litert.model.builder import ModelBuilder
from litert.model.dump import dump
from litert.model.graph import Model
from litert.model.reader import read_model
from litert.model.writer import to_bytes

F32, I32 = "float32", "int32"


def loop() -> Model:
    """Returns a model that doubles `x` until the counter `n` is 5."""
    b = ModelBuilder()
    x, n = b.input("x", F32, (1,)), b.input("n", I32, (1,))
    cond, body = b.subgraph("cond"), b.subgraph("body")
    cond.input("x", F32, (1,))
    count = cond.input("n", I32, (1,))
    cond.output(cond.op("LESS", [count, cond.constant("5", [5], I32)], [("c", "bool", (1,))]))
    value, count = body.input("x", F32, (1,)), body.input("n", I32, (1,))
    body.output(
        body.op("MUL", [value, body.constant("2", [2], F32)], [("x2", F32, (1,))]),
        body.op("ADD", [count, body.constant("1", [1], I32)], [("n2", I32, (1,))]),
    )
    outputs = b.op(
        "WHILE", [x, n], [("rx", F32, (1,)), ("rn", I32, (1,))],
        cond_subgraph_index=cond, body_subgraph_index=body,
    )  # fmt: skip
    b.output(*outputs)
    b.signature("serving_default", {"a": x, "b": n}, {"y": outputs[0]})
    return b.build()


def quantized() -> Model:
    """Returns a quantized FULLY_CONNECTED: weights 1 and 2, bias 3; the output's scale is 0.5, others are 1."""
    b = ModelBuilder()
    one = Quantization((1.0,), (0,))
    x = b.input("x", "int8", (1, 2), quantization=one)
    w = b.constant("w", np.array([[1, 2]], np.int8), quantization=one)
    bias = b.constant("bias", [3], I32, quantization=one)
    y = b.tensor("y", "int8", (1, 1), quantization=Quantization((0.5,), (-10,)))
    b.output(b.op("FULLY_CONNECTED", [x, w, bias], [y], version=4))
    b.signature("serving_default", {"a": x})
    return b.build()


def external() -> Model:
    """Returns a model with a constant after the flatbuffer, and without an optional input."""
    b = ModelBuilder()
    x = b.input("x", F32, (1, 2))
    w = b.constant("w", np.array([[1, 2]], np.float32), is_external=True)
    y = b.op("FULLY_CONNECTED", [x, w, None], [("y", F32, (1, 1))])
    b.output(y)
    b.signature("serving_default", {"a": x})
    return b.build()


def dynamic() -> Model:
    """Returns a model with a dimension that is unknown until the run."""
    b = ModelBuilder()
    x = b.input("a", F32, (1, 2), shape_signature=(-1, 2))
    b.output(b.op("SUM", [x, b.constant("axis", [1], I32)], [("y", F32, (1,))], keep_dims=False))
    b.signature("serving_default")
    return b.build()


@pytest.mark.parametrize(
    ("model", "inputs", "expected"),
    [
        (loop(), {"a": np.array([3], np.float32), "b": np.array([0], np.int32)}, [96]),
        (quantized(), {"a": np.array([[4, 5]], np.int8)}, [[(4 + 10 + 3) * 2 - 10]]),
        (external(), {"a": np.array([[4, 5]], np.float32)}, [[14]]),
        (dynamic(), {"a": np.ones((3, 2), np.float32)}, [2, 2, 2]),
    ],
    ids=["control flow", "quantized", "external data", "dynamic shape"],
)
def test_stock_runs_what_the_builder_makes(model: Model, inputs: Any, expected: Any) -> None:
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(model_content=to_bytes(model)).get_signature_runner("serving_default")
    assert runner(**inputs)["y"].tolist() == expected


@pytest.mark.parametrize("build", [loop, quantized, external, dynamic])
def test_a_model_that_is_written_and_read_shows_the_same_text(build: Any) -> None:
    assert dump(read_model(to_bytes(build()))) == dump(build())
