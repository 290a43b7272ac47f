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
    """Type of a tensor that holds scales or zero points: a `Tensor` of the graph."""

    @property
    def name(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def data(self) -> memoryview: ...


@dataclass(frozen=True, slots=True)
class BlockwiseQuantization:
    """Block-wise quantization: scales (and zero points) lie in separate tensors, with one element for each block.

    Attributes:
      scales, zero_points: Tensors of the same subgraph; None if absent.
      block_size: Number of elements along the quantized dimension; 0 with `quantized_dimensions`
        means per channel.
      block_shape: Number of elements of a block along each dimension; empty if `block_size`
        suffices.
      quantized_dimensions: None, except for the schema's
        `MultiAxisQuantization`.
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
      scale, zero_point: One value for the tensor, or one value for each index of
        `quantized_dimension`.
      min, max: Range of values seen in training; empty if the file has no range.
      blockwise: Block-wise quantization; `scale` is then empty.
      custom: Bytes of a quantization that the schema does not know; None for all others.
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
