"""How a tensor's integers stand for real numbers (`QuantizationParameters` in the TFLite schema)."""

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
    """What scales or zero points in a tensor of their own are: a `Tensor` of the graph."""

    @property
    def name(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def data(self) -> memoryview: ...


@dataclass(frozen=True, slots=True)
class BlockwiseQuantization:
    """Scales (and zero points) in tensors of their own, one element for each block.

    Attributes:
      scales, zero_points: tensors of the same subgraph; None is none.
      block_size: elements along the quantized dimension; 0 with `quantized_dimensions` is per channel.
      block_shape: elements of a block along each dimension; empty where `block_size` says it all.
      quantized_dimensions: None, but for the schema's `MultiAxisQuantization`.
    """

    scales: ConstantTensor | None
    zero_points: ConstantTensor | None = None
    block_size: int = 0
    block_shape: Sequence[int] = ()
    quantized_dimensions: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class Quantization:
    """`real = scale * (integer - zero_point)`.

    Attributes:
      scale, zero_point: one for the tensor, or one for each index of `quantized_dimension`.
      min, max: the range seen in training; empty where not recorded.
      blockwise: set for block-wise quantization, with `scale` empty.
      custom: bytes of a technique that the schema does not know; None for all others.
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
