"""Describes the memory layout of tensors, and finds the fewest nested loops that iterate over several tensors.

A view has an element type, a shape, and the offset of each element in memory. Dimensions that are contiguous in
every view are merged into one loop, so that most kernels iterate over a few long rows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import prod

from litert.core.element_type import ElementType
from vendor_reference.compiler.library.traced_size import factor_unless_one, is_same, range_of


@dataclass(frozen=True, slots=True)
class View:
    """The memory layout of a tensor, which can be a part of a larger tensor.

    Attributes:
      strides: Stride of each dimension, in elements.
      offset: Offset of the first element from the start of the kernel's argument, in elements.
    """

    element_type: ElementType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @classmethod
    def dense(
        cls, element_type: ElementType, shape: tuple[int, ...], order: Sequence[int] | None = None
    ) -> View:
        """Returns a view of a tensor that has a known shape, and no gaps; the default order is row order."""
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
        """Returns whether the view is contiguous, in row order, and begins at offset 0."""
        return not self.offset and self.is_compact

    @property
    def is_compact(self) -> bool:
        """Returns whether the view's elements are contiguous and in row order in every run."""
        dense = View.dense(self.element_type, self.shape)
        return all(
            is_same(mine, its) or is_same(size, 1)
            for mine, its, size in zip(self.strides, dense.strides, self.shape, strict=True)
        )

    def permuted(self, dims: Sequence[int]) -> View:
        """Returns a view of the same elements in which dimension `i` is dimension `dims[i]` of this view."""
        return View(
            self.element_type,
            tuple(self.shape[d] for d in dims),
            tuple(self.strides[d] for d in dims),
            self.offset,
        )

    def part(
        self, begin: Sequence[int], shape: Sequence[int], steps: Sequence[int] | None = None
    ) -> View:
        """Returns a view of every `steps`-th element in each dimension, beginning at index `begin`."""
        skipped = sum(b * s for b, s in zip(begin, self.strides, strict=True))
        steps = steps if steps is not None else (1,) * len(self.shape)
        strides = tuple(step * s for step, s in zip(steps, self.strides, strict=True))
        return View(self.element_type, tuple(shape), strides, self.offset + skipped)

    def between(self, dim: int, begin: int, end: int) -> View:
        """Returns a view of the indices from `begin` up to but not including `end` of one dimension."""
        shape = [end - begin if d == dim else size for d, size in enumerate(self.shape)]
        return self.part([begin if d == dim else 0 for d in range(len(shape))], shape)

    def split(self, dim: int, inner: int) -> View:
        """Splits a dimension into two dimensions.

        The second dimension has size `inner`, which must divide the size of the original dimension.
        """
        shape, strides = list(self.shape), list(self.strides)
        shape[dim : dim + 1] = [self.shape[dim] // max(inner, 1), inner]
        strides[dim : dim + 1] = [self.strides[dim] * inner, self.strides[dim]]
        return View(self.element_type, tuple(shape), tuple(strides), self.offset)

    def without(self, dims: Collection[int]) -> View:
        """Returns a view without some dimensions, whose index is 0 for all elements of the view."""
        return self.permuted([d for d in range(len(self.shape)) if d not in dims])

    def squeezed(self) -> View:
        """Returns the view without the dimensions that have size 1 in every run."""
        return self.without([d for d, size in enumerate(self.shape) if is_same(size, 1)])

    def sized_as(self, other: View) -> View:
        """Returns the view with another view's sizes.

        In every run without errors, these sizes equal the sizes of this view.
        """
        return replace(self, shape=other.shape)

    def broadcast(self, shape: Sequence[int]) -> View:
        """Returns the view broadcast to a shape by NumPy's rules. The caller has checked that the shape fits."""
        missing = len(shape) - len(self.shape)
        strides = [
            stride if is_same(size, wanted) else stride * factor_unless_one(size)
            for size, wanted, stride in zip(self.shape, shape[missing:], self.strides, strict=True)
        ]
        return View(self.element_type, tuple(shape), (*[0] * missing, *strides), self.offset)


@dataclass(frozen=True, slots=True)
class Placement:
    """The memory layout of a tensor before its shape is known: dense in some order, or a part of a larger tensor.

    Attributes:
      order: Order of the dimensions; None is row order.
      strides, offset: Strides and offset of a part of a larger tensor, as in `View`.
    """

    element_type: ElementType
    order: Sequence[int] | None = None
    strides: tuple[int, ...] = ()
    offset: int = 0

    def view(self, shape: tuple[int, ...]) -> View:
        """Returns a view of the tensor for the given shape."""
        if self.strides:
            return View(self.element_type, shape, self.strides, self.offset)
        return View.dense(self.element_type, shape, self.order)


@dataclass(frozen=True, slots=True)
class Loops:
    """Nested loops over views; there is at least one loop.

    Attributes:
      sizes: Size of each loop, the outermost first.
      strides: For each view, the stride of each loop, in elements.
      offsets: Offset of each view's first element.
    """

    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]

    @property
    def steps(self) -> tuple[int, ...]:
        """Returns the stride of the innermost loop for each view, in elements."""
        return tuple(strides[-1] for strides in self.strides)

    def around(self, size: int, strides: Sequence[int]) -> Loops:
        """Returns the loops with an additional innermost loop, which has a stride for each view."""
        pairs = zip(self.strides, strides, strict=True)
        return Loops((*self.sizes, size), tuple((*row, s) for row, s in pairs), self.offsets)

    def ordered(self, order: Sequence[int]) -> Loops:
        """Returns a selection of the loops, in a given order."""
        sizes, *strides = (tuple(row[i] for i in order) for row in (self.sizes, *self.strides))
        return Loops(sizes, tuple(strides), self.offsets)


def plan_loops(views: Sequence[View]) -> Loops:
    """Plans loops over views of the same shape, in the memory order of the last view, which is the result.

    If sizes are traced, the loops are right for all possible sizes.
    """
    shape, written = views[-1].shape, views[-1].strides
    assert all(view.shape == shape for view in views)
    dims = [d for d in range(len(shape)) if range_of(shape[d]) != (1, 1)]
    dims.sort(key=lambda d: (-range_of(written[d])[1], d))
    sizes: list[int] = []
    strides: list[list[int]] = [[] for _ in views]
    for dim in dims:
        steps = [view.strides[dim] for view in views]
        is_continued = sizes and all(
            is_same(outer[-1], step * shape[dim])
            for outer, step in zip(strides, steps, strict=True)
        )
        if is_continued:
            sizes[-1] *= shape[dim]
            for outer, step in zip(strides, steps, strict=True):
                outer[-1] = step
        else:
            sizes.append(shape[dim])
            for outer, step in zip(strides, steps, strict=True):
                outer.append(step)
    if not sizes:
        sizes, strides = [1], [[1] for _ in views]
    return Loops(
        tuple(sizes), tuple(tuple(s) for s in strides), tuple(view.offset for view in views)
    )
