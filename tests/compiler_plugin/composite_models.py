"""Builds models with composites as the PyTorch and JAX converters write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from litert.model.builder import ModelBuilder, SubgraphBuilder
from litert.model.custom_options import write_flexbuffer_options
from litert.model.graph import Model, Tensor

F32 = ("float32", (1, 8))


def composite(
    builder: SubgraphBuilder, name: str, body: SubgraphBuilder, inputs: list[Tensor], output: str
) -> Any:
    """Adds a composite with one output; adds constants for the inputs of `body` that `inputs` does not cover."""
    weights = [
        builder.constant(tensor.name, np.linspace(0.5, 2, 8, dtype=np.float32))
        for tensor in body.graph.inputs[len(inputs) :]
    ]
    return builder.op(
        "STABLEHLO_COMPOSITE",
        [*inputs, *weights],
        [(output, *F32)],
        name=name,
        decomposition_subgraph_index=body,
        composite_attributes=write_flexbuffer_options({"epsilon": 1e-6}),
        version=1,
    )


def rms_norm(model: ModelBuilder) -> SubgraphBuilder:
    """Adds a decomposition that computes `a / sqrt(mean(a * a) + epsilon) * gamma`."""
    body = model.subgraph("rms_norm.impl")
    a, gamma = body.input("a", *F32), body.input("gamma", "float32", (8,))
    square = body.op("MUL", [a, a], [("square", *F32)])
    axis = body.constant("axis", np.array([1], np.int32))
    mean = body.op("MEAN", [square, axis], [("mean", "float32", (1, 1))], keep_dims=True)
    epsilon = body.constant("epsilon", np.array([1e-6], np.float32))
    total = body.op("ADD", [mean, epsilon], [("total", "float32", (1, 1))])
    factor = body.op("RSQRT", [total], [("factor", "float32", (1, 1))])
    normal = body.op("MUL", [a, factor], [("normal", *F32)])
    body.output(body.op("MUL", [normal, gamma], [("scaled", *F32)]))
    return body


def angles(model: ModelBuilder) -> SubgraphBuilder:
    """Adds a decomposition that computes `atan2(a, a)`, an op that no NPU in these tests supports."""
    body = model.subgraph("angle.impl")
    a = body.input("a", *F32)
    body.output(body.op("ATAN2", [a, a], [("angle", *F32)]))
    return body


def twice_less_once(model: ModelBuilder) -> SubgraphBuilder:
    """Adds a decomposition that computes `a * a - a`."""
    body = model.subgraph("poly.impl")
    a = body.input("a", *F32)
    square = body.op("MUL", [a, a], [("square", *F32)])
    body.output(body.op("SUB", [square, a], [("difference", *F32)]))
    return body


Body = Callable[[ModelBuilder], SubgraphBuilder]


def between_sums(name: str, body: Body, times: int = 1, *, are_apart: bool = False) -> Model:
    """Returns a model with an ADD, then `times` composites, each followed by an ADD.

    The composites share one decomposition; with `are_apart`, each has its own copy.
    """
    b = ModelBuilder()
    x = b.input("x", *F32)
    made = body(b)
    y = b.op("ADD", [x, x], [("s", *F32)])
    for index in range(times):
        y = composite(b, name, body(b) if are_apart and index else made, [y], f"c{index}")
        y = b.op("ADD", [y, x], [(f"s{index}", *F32)])
    b.output(y)
    b.signature("serve", {"x": x}, {"y": y})
    return b.build()


def within(outer: str, inner: str, body: Body, times: int = 1) -> Model:
    """Returns a model with composites, each of which contains another composite between two MUL ops."""

    def block(model: ModelBuilder) -> SubgraphBuilder:
        made = body(model)
        around = model.subgraph("block.impl")
        a = around.input("a", *F32)
        product = around.op("MUL", [a, a], [("product", *F32)])
        inside = composite(around, inner, made, [product], "inside")
        around.output(around.op("MUL", [inside, a], [("outside", *F32)]))
        return around

    return between_sums(outer, block, times)
    """Returns a model with a composite with two outputs and a constant input; its decomposition has a constant."""


def with_weights() -> Model:
    """Returns a model with a composite with two outputs; it and its decomposition each have a constant input."""
    b = ModelBuilder()
    body = b.subgraph("affine.impl")
    a, w = body.input("a", *F32), body.input("w", *F32)
    product = body.op("MUL", [a, w], [("product", *F32)])
    bias = body.constant("bias", np.arange(8, dtype=np.float32)[None])
    body.output(product, body.op("ADD", [product, bias], [("biased", *F32)]))
    x = b.input("x", *F32)
    weights = b.constant("weights", np.linspace(-1, 1, 8, dtype=np.float32)[None])
    first, second = b.op(
        "STABLEHLO_COMPOSITE",
        [x, weights],
        [("first", *F32), ("second", *F32)],
        name="acme.affine",
        decomposition_subgraph_index=body,
        composite_attributes=write_flexbuffer_options({}),
    )
    b.output(second, b.op("SUB", [first, second], [("less", *F32)]))
    return b.build()


MODELS: Mapping[str, Callable[[], Model]] = {
    "known": lambda: between_sums("odml.rms_norm", rms_norm),
    "unknown": lambda: between_sums("acme.poly", twice_less_once),
    "unknown on the CPU": lambda: between_sums("acme.angle", angles),
    "unknown twice": lambda: between_sums("acme.poly", twice_less_once, 2, are_apart=True),
    "known in unknown": lambda: within("acme.block", "odml.rms_norm", rms_norm),
    "unknown in unknown": lambda: within("acme.block", "acme.poly", twice_less_once),
    "unknown in unknown, twice": lambda: within("acme.block", "acme.poly", twice_less_once, 2),
    "for the NPU": lambda: between_sums("odml.npu_call", twice_less_once),
    "for the CPU": lambda: between_sums("odml.cpu_call", rms_norm),
    "with weights": with_weights,
}
