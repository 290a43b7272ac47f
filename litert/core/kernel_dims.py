"""The four dimensions B, F, Y and X under which kernels and formulas see a tensor.

A tensor of rank 4 is N, H, W, C: B = N, Y = H, X = W, F = C. Tensors of lower rank assign their
dimensions by position, B first, and fill up with ones. In tensors of higher rank, all dimensions
between N and W are multiplied into Y.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeVar

from litert.core.sizes import Size

_Size = TypeVar("_Size", int, Size)


def kernel_dims(shape: Sequence[_Size]) -> tuple[_Size, _Size, _Size, _Size]:
    """Returns the sizes of B, F, Y and X for a tensor of this shape."""
    b, f, y, x = (prod(shape[d] for d in dims) for dims in letter_dims(len(shape)).values())
    return b, f, y, x


def letter_dims(rank: int) -> dict[str, tuple[int, ...]]:
    """Returns which dimensions of a tensor B, F, Y and X stand for, slowest first.

    The tuple of a dimension that the tensor lacks is empty.
    """
    if rank >= 4:
        return {"B": (0,), "F": (rank - 1,), "Y": tuple(range(1, rank - 2)), "X": (rank - 2,)}
    return {letter: (i,) if i < rank else () for i, letter in enumerate("BFYX")}
