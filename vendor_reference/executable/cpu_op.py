"""An op as a CPU layer is told of it, and how its kernel takes the tensors (`litert_npu/cpu_layer.h`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from litert.core.element_type import ElementType
from litert.core.tensor_type import RankedTensorType

MAX_RANK = 16
"""Of a tensor, and of its memory with blocks."""

_MOST_IN_BLOCK = 1 << 16
_LETTERS = "nhwc"


@dataclass(frozen=True, slots=True)
class MemoryLayout:
    """The order of a tensor's memory, from the slowest dimension to the fastest.

    Attributes:
      order: the tensor dimension that each memory dimension counts; a blocked one comes twice.
      blocks: for each memory dimension 0, or the elements of a block, whose place in the block it counts.
    """

    order: tuple[int, ...]
    blocks: tuple[int, ...]

    @classmethod
    def row_order(cls, rank: int) -> MemoryLayout:
        """The order of the model."""
        return cls(tuple(range(rank)), (0,) * rank)

    @property
    def is_blocked(self) -> bool:
        return any(self.blocks)

    @property
    def is_row_order(self) -> bool:
        return not self.is_blocked and self.order == tuple(range(len(self.order)))

    def find_mistake(self, rank: int) -> str:
        """Why it is no layout of tensors of that rank; "" where it is one."""
        if not len(self.order) == len(self.blocks) <= MAX_RANK:
            return f"{len(self.order)} dimensions of memory"
        whole = [d for d, b in zip(self.order, self.blocks, strict=True) if not b]
        if sorted(whole) != list(range(rank)):
            return f"dimensions {whole} of memory, the tensor has {rank}"
        seen: set[int] = set()
        blocked: set[int] = set()
        for dimension, block in zip(self.order, self.blocks, strict=True):
            if not block:
                seen.add(dimension)
            elif not 0 < block <= _MOST_IN_BLOCK or dimension not in seen or dimension in blocked:
                return f"a block of {block} of dimension {dimension}"
            else:
                blocked.add(dimension)
        return ""

    def dims(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Sizes of the memory dimensions, for a tensor of that shape; the last block is filled up."""
        block_of = {d: b for d, b in zip(self.order, self.blocks, strict=True) if b}
        return tuple(
            block or -(-shape[dimension] // block_of.get(dimension, 1))
            for dimension, block in zip(self.order, self.blocks, strict=True)
        )

    def strides(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Elements from one index to the next, of each memory dimension, with nothing between them."""
        dims = self.dims(shape)
        return tuple(prod(dims[i + 1 :]) for i in range(len(dims)))

    def num_elements(self, shape: Sequence[int]) -> int:
        """What the memory holds, filled up."""
        return prod(self.dims(shape))

    def __str__(self) -> str:
        """`nhwc`, `nChw8c`; numbers in place of letters for other ranks than 4."""
        names = _LETTERS if not self.order or max(self.order) == 3 else "0123456789abcdef"
        outer = {d for d, b in zip(self.order, self.blocks, strict=True) if b}
        return "".join(
            f"{block}{names[d]}" if block else names[d].upper() if d in outer else names[d]
            for d, block in zip(self.order, self.blocks, strict=True)
        )


@dataclass(frozen=True, slots=True)
class CpuOperand:
    """An input or output of the op, as the model has it.

    Attributes:
      scales: one, or one for each index of `dimension`; none where it is not quantized.
      zero_points: as many.
    """

    tensor_type: RankedTensorType
    is_constant: bool = False
    scales: tuple[float, ...] = ()
    zero_points: tuple[int, ...] = ()
    dimension: int = 0


@dataclass(frozen=True, slots=True)
class CpuOp:
    """What a library is told of an op.

    Attributes:
      layer_type: which of the library's layers is asked.
      name: of the tensor that is its output 0.
      inputs: None for one that is left out.
      options: as the model has them.
    """

    layer_type: str
    name: str
    inputs: tuple[CpuOperand | None, ...]
    outputs: tuple[CpuOperand, ...]
    options: bytes = b""


@dataclass(frozen=True, slots=True)
class TensorConfig:
    """How a kernel takes a tensor.

    Attributes:
      element_type: that it has in memory.
      layout: None for any, which is settled before a kernel is made.
      in_place: of an output the input whose memory it may share; -1 for none.
    """

    element_type: ElementType
    layout: MemoryLayout | None
    in_place: int = -1
    needs_constant: bool = False
    takes_view: bool = False


@dataclass(frozen=True, slots=True)
class CpuConfig:
    """How a kernel takes all tensors; one for each input and output, None for an input that is left out."""

    inputs: tuple[TensorConfig | None, ...]
    outputs: tuple[TensorConfig, ...]
    dynamic_batch: bool = False
