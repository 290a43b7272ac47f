"""Describes how a tensor's integers stand for real numbers (`QuantizationParameters` in the TFLite schema)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol


class QuantizationKind(IntEnum):
    """LiteRT's `LiteRtQuantizationTypeId`."""

    NONE = 0
    PER_TENSOR = 1
    PER_CHANNEL = 2
    BLOCK_WISE = 3


class ConstantTensor(Protocol):
    """Interface of a tensor that contains scales or zero points; the class `Tensor` of the graph implements it."""

    @property
    def name(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def data(self) -> memoryview: ...


@dataclass(frozen=True, slots=True)
class BlockwiseQuantization:
    """Block-wise quantization: separate tensors hold a scale (and a zero point) for each block of elements.

    Attributes:
      scales, zero_points: Tensors of scales and zero points in the same subgraph; None if absent.
      block_size: Number of a block's elements along the quantized dimension. If `quantized_dimensions` is set, 0
        means per-channel quantization.
      block_shape: Number of elements of a block along each dimension; empty if `block_size`
        suffices.
      quantized_dimensions: Quantized dimensions of the schema's `MultiAxisQuantization`; None for other
        quantizations.
    """

    scales: ConstantTensor | None
    zero_points: ConstantTensor | None = None
    block_size: int = 0
    block_shape: Sequence[int] = ()
    quantized_dimensions: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class Quantization:
    """Quantization by the formula `real = scale * (integer - zero_point)`.

    Attributes:
      scale, zero_point: One value for the whole tensor, or one value for each index along `quantized_dimension`.
      min, max: Smallest and largest real values that occurred in training; empty if the file does not contain
        them.
      blockwise: Block-wise quantization of the tensor; None if the tensor has another quantization. If `blockwise`
        is set, `scale` is empty.
      custom: Bytes of a custom quantization that the schema does not define; None for other quantizations.
    """

    scale: Sequence[float] = ()
    zero_point: Sequence[int] = ()
    quantized_dimension: int = 0
    min: Sequence[float] = ()
    max: Sequence[float] = ()
    blockwise: BlockwiseQuantization | None = None
    custom: bytes | None = None

    @property
    def kind(self) -> QuantizationKind:
        if self.blockwise is not None:
            return QuantizationKind.BLOCK_WISE
        if not self.scale:
            return QuantizationKind.NONE
        return QuantizationKind.PER_TENSOR if len(self.scale) == 1 else QuantizationKind.PER_CHANNEL
