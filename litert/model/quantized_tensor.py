"""The quantization of a tensor, in the form that reference functions get."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from litert.core.quantization import Quantization
from litert.model.graph import Op, Tensor

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class QuantizedTensor:
    """Quantization by the formula `real = scale * (integer - zero_point)`.

    Attributes:
      scale, zero_point: Arrays of float32 and int64, whose shapes can be broadcast to the tensor's shape. They
        contain one number for the whole tensor, or one number for each index along one dimension.
      dtype: NumPy type of the tensor's integers.
    """

    scale: Array
    zero_point: Array
    dtype: np.dtype[Any]

    def dequantize(self, integers: Array) -> Array:
        """Converts the tensor's integers to real numbers of type float32."""
        reals: Array = ((integers - self.zero_point) * self.scale).astype(np.float32)
        return reals

    def quantize(self, reals: Array) -> Array:
        """Converts real numbers to the nearest integers of the type `dtype`.

        A number halfway between two integers is rounded away from zero, as in TFLite's QUANTIZE.
        """
        quotients = np.asarray(reals, np.float64) / self.scale
        rounded = np.trunc(quotients + np.copysign(0.5, quotients)) + self.zero_point
        limits = np.iinfo(self.dtype)
        integers: Array = np.clip(rounded, limits.min, limits.max).astype(self.dtype)
        return integers


@dataclass(frozen=True, slots=True)
class OpQuantization:
    """The quantizations of an op's inputs and outputs, in the order of the tensors.

    The entry of an absent optional tensor, or of a tensor without a scale, is None.
    """

    inputs: Sequence[QuantizedTensor | None]
    outputs: Sequence[QuantizedTensor | None]

    @classmethod
    def of(cls, op: Op) -> OpQuantization:
        """Returns the quantizations of an op's tensors."""
        inputs = [find_quantization(tensor) if tensor else None for tensor in op.inputs]
        return cls(inputs, [find_quantization(tensor) for tensor in op.outputs])


def find_quantization(tensor: Tensor) -> QuantizedTensor | None:
    """Returns a tensor's quantization; None if the tensor has no scale."""
    quantization = tensor.quantization
    if quantization is None or not quantization.scale:
        return None
    count, shape = len(quantization.scale), [1] * len(tensor.shape)
    if count > 1:
        shape[quantization.quantized_dimension] = count
    scale = np.array(quantization.scale, np.float32)
    zero_point = np.array(list(quantization.zero_point) or [0], np.int64)
    zero_points = np.broadcast_to(zero_point, (count,)).reshape(shape)
    return QuantizedTensor(scale.reshape(shape), zero_points, tensor.element_type.numpy_dtype)


def describe_quantization(quantization: Quantization | None) -> str:
    """Returns a text about a quantization, such as `scale 0.5, zero point -3`; "" if there is no quantization.

    For a tensor with several scales, an example is `8 scales along dimension 0, 0.1 to 0.5, zero points 0`.
    """
    if quantization is None or not quantization.scale:
        return ""
    scales, zero_points = quantization.scale, quantization.zero_point or (0,)
    if len(scales) == 1:
        return f"scale {scales[0]:.6g}, zero point {zero_points[0]}"
    ends = dict.fromkeys((min(zero_points), max(zero_points)))
    return (
        f"{len(scales)} scales along dimension {quantization.quantized_dimension}, "
        f"{min(scales):.6g} to {max(scales):.6g}, zero points {' to '.join(map(str, ends))}"
    )
