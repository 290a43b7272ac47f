"""How a tensor lies in memory when a kernel runs on it: element type, shape, and where each element is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from litert.core.element_type import ElementType


@dataclass(frozen=True, slots=True)
class View:
    """A tensor in memory, perhaps a part of a larger one.

    Attributes:
      strides: elements from one index of each dimension to the next.
      offset: of the first element, in elements from where the kernel's argument points.
    """

    element_type: ElementType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @classmethod
    def dense(
        cls, element_type: ElementType, shape: tuple[int, ...], order: Sequence[int] | None = None
    ) -> View:
        """A tensor without gaps.

        Args:
          element_type: of the elements.
          shape: none of it unknown.
          order: dimensions, the slowest in memory first; None for row order.
        """
        strides, stride = [0] * len(shape), 1
        for dim in reversed(order if order is not None else range(len(shape))):
            strides[dim] = stride
            stride *= shape[dim]
        return cls(element_type, shape, tuple(strides))

    @property
    def num_elements(self) -> int:
        return prod(self.shape)

    @property
    def is_row_order(self) -> bool:
        """Whether it is whole, and lies as the model has it."""
        dense = View.dense(self.element_type, self.shape)
        return not self.offset and all(
            mine == its or size == 1
            for mine, its, size in zip(self.strides, dense.strides, self.shape, strict=True)
        )

    def permuted(self, dims: Sequence[int]) -> View:
        """The same elements, with dimension `dims[i]` as dimension `i`."""
        return View(
            self.element_type,
            tuple(self.shape[d] for d in dims),
            tuple(self.strides[d] for d in dims),
            self.offset,
        )

    def part(self, begin: Sequence[int], shape: Sequence[int]) -> View:
        """The elements from index `begin` on."""
        skipped = sum(b * s for b, s in zip(begin, self.strides, strict=True))
        return View(self.element_type, tuple(shape), self.strides, self.offset + skipped)

    def broadcast(self, shape: Sequence[int]) -> View:
        """The view repeated to a shape, by NumPy's rules: from the last dimension on.

        The caller has seen that it can be.
        """
        missing = len(shape) - len(self.shape)
        strides = [
            0 if size == 1 and wanted != 1 else stride
            for size, wanted, stride in zip(self.shape, shape[missing:], self.strides, strict=True)
        ]
        return View(self.element_type, tuple(shape), (*[0] * missing, *strides), self.offset)
