"""Shapes that are known only when a function runs: whose they are, how they are found, how large they can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from litert.core.sizes import Size


class ShapeKind(str, Enum):
    """Who knows a shape."""

    INPUT = "input"
    """The caller: it is that of input `index` of the function."""
    COMPUTED = "computed"
    """The device, before a run or in it: `sizes` say how."""
    WRITTEN = "written"
    """Task `index` of the function: its kernel writes the shape."""
    ASKED = "asked"
    """The library of task `index`, a CPU layer: it says the shape of its output `output`, before the task runs."""


@dataclass(frozen=True, slots=True)
class ShapeValue:
    """The shape of a tensor, of which a run tells at least one dimension.

    Kernels see it as `uint`s in the tensor's own order of dimensions.

    Attributes:
      name: the tensor's, for messages.
      pattern: the shape as the model has it, with -1 for what a run tells.
      bound: the largest; memory is for that. Where the pattern has a number it is the same.
      offset: of the numbers in the function's DDR.
      sizes: one for each dimension, where it is computed, of shapes that stand before it.
    """

    name: str
    kind: ShapeKind
    pattern: tuple[int, ...]
    bound: tuple[int, ...]
    offset: int
    index: int = 0
    sizes: tuple[Size, ...] = ()
    output: int = 0

    @property
    def size_bytes(self) -> int:
        """Of the numbers in DDR."""
        return 4 * len(self.pattern)


@dataclass(frozen=True, slots=True)
class DynamicOutput:
    """An output of a function whose shape a run tells.

    Attributes:
      output: its index.
      shape_output: index of the int32 output that is told its shape.
      shape: index of the shape value.
    """

    output: int
    shape_output: int
    shape: int


def format_shape(shape: Sequence[int]) -> str:
    """`100x3x?`, as bounds are written; `?` stands for what a run tells."""
    return "x".join("?" if d < 0 else str(d) for d in shape) or "a single number"
