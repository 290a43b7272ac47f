"""The fewest loops that visit all elements of some views together.

Dimensions that lie in one row in every view become one loop, so that most kernels run over few long rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from vendor_reference.compiler.library.view import View


@dataclass(frozen=True, slots=True)
class Loops:
    """Nested loops; there is one at least.

    Attributes:
      sizes: of each loop, the outermost first.
      strides: for each view, elements from one round of each loop to the next.
      offsets: of each view's first element.
    """

    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]

    @property
    def num_rows(self) -> int:
        """How often the innermost loop runs."""
        return prod(self.sizes[:-1])

    @property
    def steps(self) -> tuple[int, ...]:
        """For each view, elements from one round of the innermost loop to the next."""
        return tuple(strides[-1] for strides in self.strides)

    @property
    def is_flat(self) -> bool:
        """Whether all views are one row without gaps, from their start."""
        return len(self.sizes) == 1 and set(self.steps) == {1} and not any(self.offsets)


def plan_loops(views: Sequence[View]) -> Loops:
    """Loops over views of one shape, in the memory order of the last, which is the one that is written."""
    shape, written = views[-1].shape, views[-1].strides
    assert all(view.shape == shape for view in views)
    dims = sorted((d for d in range(len(shape)) if shape[d] != 1), key=lambda d: (-written[d], d))
    sizes: list[int] = []
    strides: list[list[int]] = [[] for _ in views]
    for dim in dims:
        steps = [view.strides[dim] for view in views]
        is_continued = sizes and all(
            outer[-1] == step * shape[dim] for outer, step in zip(strides, steps, strict=True)
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
