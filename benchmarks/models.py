"""Makes the models and files that the benchmarks need."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import BUILD
from litert.model.blob import MappedFile
from litert.model.builder import ModelBuilder, SubgraphBuilder
from litert.model.custom_options import write_flexbuffer_options
from litert.model.graph import Model, Tensor
from litert.model.writer import write_model

GIB = 1 << 30


def written(name: str, model: Model) -> Path:
    """Writes a model, and returns its path."""
    path = BUILD / f"{name}.tflite"
    write_model(model, path)
    return path


def chain(num_ops: int) -> Path:
    """Writes a model that is a chain of ADD ops, and returns its path."""
    builder = ModelBuilder()
    first = last = builder.input("x", "float32", (1, 8))
    for i in range(num_ops):
        last = _one(builder.op("ADD", [last, first], [(f"t{i}", "float32", (1, 8))]))
    builder.output(last)
    return written(f"chain_{num_ops}", builder.build())


def branches(num_ops: int, count: int) -> Path:
    """Writes a model of parallel chains of ops without constants, and returns its path."""
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 8, 8, 8))
    last = [x] * count
    for i in range(num_ops):
        name = ("RELU", "TANH", "LOGISTIC", "ABS")[(i + i // count) % 4]
        output = (f"t{i}", "float32", (1, 8, 8, 8))
        last[i % count] = _one(builder.op(name, [last[i % count]], [output]))
    for tensor in last:
        builder.output(tensor)
    return written(f"branches_{num_ops}_{count}", builder.build())


def composites(count: int) -> Path:
    """Writes a model of nested composites with unknown names and common ops, and returns its path."""
    shape = ("float32", (1, 8))
    builder = ModelBuilder()
    first = last = builder.input("x", *shape)
    for i in range(count):
        inner, outer = builder.subgraph(f"inner{i}"), builder.subgraph(f"outer{i}")
        a = inner.input("a", *shape)
        inner.output(inner.op("ATAN2" if i % 3 else "MUL", [a, a], [(f"in{i}", *shape)]))
        b = outer.input("b", *shape)
        square = outer.op("MUL", [b, b], [(f"square{i}", *shape)])
        inside = _composite(outer, "bench.inner", square, inner)
        outer.output(outer.op("SUB", [inside, b], [(f"out{i}", *shape)]))
        # Stock LiteRT names the output like the decomposition's output, this project like the composite's: here
        # both are equal.
        last = _composite(builder, "bench.outer", last, outer if i % 2 else inner)
        last = _one(builder.op("ADD", [last, first], [(f"t{i}", *shape)]))
    builder.output(last)
    return written(f"composites_{count}", builder.build())


def mobile_blocks(num_ops: int) -> Path:
    """Writes a model of blocks CONV_2D, DEPTHWISE_CONV_2D, CONV_2D, ADD, as in MobileNet; returns its path."""
    builder = ModelBuilder()
    generator = np.random.default_rng(0)
    shape = (1, 14, 14, 16)

    def weights(name: str, *size: int) -> Tensor:
        return builder.constant(name, generator.normal(size=size).astype(np.float32) / 10)

    def convolve(name: str, x: Tensor, op: str, *kernel: int) -> Tensor:
        options: dict[str, Any] = {"padding": "SAME", "fused_activation_function": "RELU6"}
        options |= {"stride_w": 1, "stride_h": 1}
        if op == "DEPTHWISE_CONV_2D":
            options["depth_multiplier"] = 1
        inputs = [x, weights(f"{name}_weights", *kernel), weights(f"{name}_bias", 16)]
        return _one(builder.op(op, inputs, [(name, "float32", shape)], **options))

    last = builder.input("x", "float32", shape)
    for i in range(num_ops // 4):
        inner = convolve(f"expand{i}", last, "CONV_2D", 16, 1, 1, 16)
        inner = convolve(f"filter{i}", inner, "DEPTHWISE_CONV_2D", 1, 3, 3, 16)
        inner = convolve(f"project{i}", inner, "CONV_2D", 16, 1, 1, 16)
        last = _one(builder.op("ADD", [last, inner], [(f"block{i}", "float32", shape)]))
    builder.output(last)
    return written(f"mobile_blocks_{num_ops}", builder.build())


def swishes(count: int) -> Path:
    """Writes a chain in which x * sigmoid(x) and eight other ops alternate, and returns its path."""
    builder = ModelBuilder()
    last = builder.input("x", "float32", (1, 64))
    ones = builder.constant("ones", np.ones(64, np.float32))
    for i in range(count):
        gate = builder.op("LOGISTIC", [last], [(f"gate{i}", "float32", (1, 64))])
        last = _one(builder.op("MUL", [last, _one(gate)], [(f"swish{i}", "float32", (1, 64))]))
        for j in range(8):
            output = (f"t{i}_{j}", "float32", (1, 64))
            last = _one(builder.op("SUB" if j % 2 else "ADD", [last, ones], [output]))
    builder.output(last)
    return written(f"swishes_{count}", builder.build())


def one_custom_op(op: str, num_elements: int) -> Path:
    """Writes a model of a custom op without options, with equal shapes of input and output; returns its path."""
    builder = ModelBuilder()
    x = builder.input("x", "float32", (num_elements,))
    builder.output(_one(builder.custom(op, [x], [("y", "float32", (num_elements,))])))
    return written(f"{op}_{num_elements}", builder.build())


def with_weights(op: str, size_bytes: int) -> Path:
    """Writes a model in which the CPU gathers a row from a table of weights for a custom op; returns its path."""
    width = 1024
    rows = size_bytes // width // 4
    with MappedFile(noise(size_bytes)) as weights:
        builder = ModelBuilder()
        index = builder.input("index", "int32", (1,))
        table = builder.constant("table", weights.blob(), "float32", (rows, width))
        row = _one(builder.op("GATHER", [table, index], [("row", "float32", (1, width))], axis=0))
        builder.output(_one(builder.custom(op, [row], [("y", "float32", (1, width))])))
        return written(f"weights_{size_bytes}", builder.build())


def noise(size_bytes: int) -> Path:
    """Writes a file of random bytes, which a file system cannot compress, and returns its path."""
    path = BUILD / f"noise_{size_bytes}"
    if not path.exists() or path.stat().st_size != size_bytes:
        piece = 1 << 24
        with open(path, "wb") as file:
            random = np.random.default_rng(0)
            for start in range(0, size_bytes, piece):
                file.write(random.bytes(min(piece, size_bytes - start)))
            os.fsync(file.fileno())  # otherwise the disk is busy during a measurement
    return path


def _one(outputs: Tensor | tuple[Tensor, ...]) -> Tensor:
    assert isinstance(outputs, Tensor)
    return outputs


def _composite(
    builder: SubgraphBuilder, name: str, tensor: Tensor, body: SubgraphBuilder
) -> Tensor:
    (output,) = body.graph.outputs
    return _one(
        builder.op(
            "STABLEHLO_COMPOSITE",
            [tensor],
            [(output.name, output.element_type, output.shape)],
            name=name,
            decomposition_subgraph_index=body,
            composite_attributes=write_flexbuffer_options({}),
        )
    )
