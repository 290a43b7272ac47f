"""A network of float and int8 ops in which errors are planted, and the reference function of its custom op."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from litert.core.quantization import Quantization
from litert.model.builder import ModelBuilder
from litert.model.graph import Tensor
from litert.model.writer import write_model

F32, INT8 = "float32", "int8"
OPS = (
    "conv", "depthwise", "pointwise", "added", "tripled", "pooled", "scaled", "wide", "energy", "narrow",
    "quantized", "qconv", "qpointwise", "qadded", "real", "part", "mixed", "bent", "logits", "classes",
)  # fmt: skip
"""The names of the ops' results, in execution order."""


class _Network(ModelBuilder):
    def __init__(self, newest: str) -> None:
        super().__init__()
        self._newest = f"{newest}/weights"
        self.random = np.random.default_rng(0)

    def weights(self, name: str, shape: Sequence[int], scale: float = 0.5) -> Tensor:
        values = self.random.uniform(-scale, scale, shape).astype(np.float32)
        return self.constant(name, -values if name == self._newest else values)

    def int8_tensor(self, name: str, shape: Sequence[int], scale: float, zero: int) -> Tensor:
        return self.tensor(name, INT8, shape, quantization=Quantization([scale], [zero]))

    def int8_conv(self, image: Tensor, name: str, filters: Sequence[int], scale: float) -> Tensor:
        """Adds a convolution whose weights have a scale for each output channel."""
        assert image.quantization is not None
        scales = [0.0004 * (1 + channel) for channel in range(filters[0])]
        stored = self.random.integers(-100, 100, filters).astype(np.int8)
        weights = self.constant(
            f"{name}/weights", stored, quantization=Quantization(scales, [0] * filters[0])
        )
        of_bias = [each * image.quantization.scale[0] for each in scales]
        bias = self.constant(
            f"{name}/bias",
            self.random.integers(-2000, 2000, filters[0]).astype(np.int32),
            quantization=Quantization(of_bias, [0] * filters[0]),
        )
        made = self.int8_tensor(name, (*image.shape[:3], filters[0]), scale, -40)
        result: Tensor = self.op(
            "CONV_2D", [image, weights, bias], [made], padding="SAME", stride_w=1, stride_h=1,
            dilation_w_factor=1, dilation_h_factor=1,
        )  # fmt: skip
        return result


def write_network(path: Path, custom: bool = True, newest: str = "") -> None:
    """Writes the network, with or without its custom op; changes the weights of the op whose name is `newest`."""
    b = _Network(newest)
    small = (1, 4, 4, 8)
    x = b.input("x", F32, (1, 16, 16, 3))
    conv: Any = b.op(
        "CONV_2D", [x, b.weights("conv/weights", (8, 3, 3, 3)), b.weights("conv/bias", (8,))],
        [("conv", F32, (1, 8, 8, 8))], padding="SAME", stride_w=2, stride_h=2, dilation_w_factor=1,
        dilation_h_factor=1, fused_activation_function="RELU6",
    )  # fmt: skip
    depthwise = b.op(
        "DEPTHWISE_CONV_2D",
        [conv, b.weights("depthwise/weights", (1, 3, 3, 8)), b.weights("depthwise/bias", (8,))],
        [("depthwise", F32, (1, 8, 8, 8))], padding="SAME", stride_w=1, stride_h=1, depth_multiplier=1,
        dilation_w_factor=1, dilation_h_factor=1, fused_activation_function="RELU",
    )  # fmt: skip
    pointwise = b.op(
        "CONV_2D",
        [depthwise, b.weights("pointwise/weights", (8, 1, 1, 8)), b.weights("pointwise/bias", (8,))],
        [("pointwise", F32, (1, 8, 8, 8))], padding="SAME", stride_w=1, stride_h=1,
        dilation_w_factor=1, dilation_h_factor=1,
    )  # fmt: skip
    added = b.op("ADD", [pointwise, conv], [("added", F32, (1, 8, 8, 8))])
    made = ("tripled", F32, (1, 8, 8, 8))
    if custom:
        tripled = b.custom("Triple", [added], [made])
    else:
        tripled = b.op("MUL", [added, b.constant("three", np.array([3], np.float32))], [made])
    pooled = b.op(
        "MAX_POOL_2D", [tripled], [("pooled", F32, small)], padding="VALID", stride_w=2, stride_h=2,
        filter_width=2, filter_height=2,
    )  # fmt: skip
    gate = b.weights("gate", (1, 1, 1, 8), 1)
    scaled = b.op("MUL", [pooled, gate], [("scaled", F32, small)])
    # The squares exceed float16's largest number, 65504; the next product is small again.
    wide = b.op(
        "MUL", [pooled, b.constant("large", np.array([200], np.float32))], [("wide", F32, small)]
    )
    energy = b.op("MUL", [wide, wide], [("energy", F32, small)])
    narrow = b.op(
        "MUL",
        [energy, b.constant("little", np.array([1e-6], np.float32))],
        [("narrow", F32, small)],
    )
    quantized = b.op("QUANTIZE", [scaled], [b.int8_tensor("quantized", small, 0.08, 5)])
    qconv = b.int8_conv(quantized, "qconv", (4, 3, 3, 8), 0.04)
    qpointwise = b.int8_conv(qconv, "qpointwise", (4, 1, 1, 4), 0.02)
    quarter = (1, 4, 4, 4)
    qadded = b.op("ADD", [qconv, qpointwise], [b.int8_tensor("qadded", quarter, 0.05, 2)])
    real = b.op("DEQUANTIZE", [qadded], [("real", F32, quarter)])
    part = b.op(
        "CONV_2D", [narrow, b.weights("part/weights", (4, 1, 1, 8)), b.weights("part/bias", (4,))],
        [("part", F32, quarter)], padding="SAME", stride_w=1, stride_h=1, dilation_w_factor=1,
        dilation_h_factor=1,
    )  # fmt: skip
    mixed = b.op("SUB", [real, part], [("mixed", F32, quarter)])
    bent = b.op("TANH", [mixed], [("bent", F32, quarter)])
    logits = b.op(
        "FULLY_CONNECTED", [bent, b.weights("logits/weights", (10, 64)), b.weights("logits/bias", (10,))],
        [("logits", F32, (1, 10))],
    )  # fmt: skip
    b.output(b.op("SOFTMAX", [logits], [("classes", F32, (1, 10))], beta=1.0))
    write_model(b.build(), path)


def triple(inputs: Sequence[Any], options: object) -> Any:
    """Returns the result of the custom op."""
    return 3 * inputs[0]
