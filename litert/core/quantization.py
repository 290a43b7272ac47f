"""How a tensor's integers stand for real numbers (`QuantizationParameters` in the TFLite schema)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum


class QuantizationKind(IntEnum):
    """LiteRT's `LiteRtQuantizationTypeId`."""

    NONE = 0
    PER_TENSOR = 1
    PER_CHANNEL = 2
    BLOCK_WISE = 3


@dataclass(frozen=True, slots=True)
class BlockwiseQuantization:
    """Scales (and zero points) in tensors of their own, one element for each block.

    Attributes:
      scales, zero_points: indices of tensors of the same subgraph; zero_points is -1 for none.
      block_size: elements along the quantized dimension.
    """

    scales: int
    zero_points: int
    block_size: int


@dataclass(frozen=True, slots=True)
class Quantization:
    """`real = scale * (integer - zero_point)`.

    Attributes:
      scale, zero_point: one for the tensor, or one for each index of `quantized_dimension`.
      min, max: the range seen in training; empty where not recorded.
      blockwise: set for block-wise quantization, with `scale` empty.
    """

    scale: Sequence[float] = ()
    zero_point: Sequence[int] = ()
    quantized_dimension: int = 0
    min: Sequence[float] = ()
    max: Sequence[float] = ()
    blockwise: BlockwiseQuantization | None = field(default=None)

    @property
    def kind(self) -> QuantizationKind:
        if self.blockwise is not None:
            return QuantizationKind.BLOCK_WISE
        if not self.scale:
            return QuantizationKind.NONE
        return QuantizationKind.PER_TENSOR if len(self.scale) == 1 else QuantizationKind.PER_CHANNEL
