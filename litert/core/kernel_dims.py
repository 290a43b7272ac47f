"""Maps a tensor's dimensions to the four dimensions B, F, Y and X that kernels and formulas use.

A tensor of rank 4 has the dimensions N, H, W and C, which are called B, Y, X and F here, in this order. The
dimensions of a tensor of lower rank become B, F, Y and X in this order; those of B, F, Y and X that are left over
have size 1. For a tensor of higher rank, Y is the product of all dimensions between N and W.
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
    """Returns the indices of the tensor's dimensions that make up B, F, Y and X, outermost first.

    For a dimension that the tensor lacks, the tuple of indices is empty.
    """
    if rank >= 4:
        return {"B": (0,), "F": (rank - 1,), "Y": tuple(range(1, rank - 2)), "X": (rank - 2,)}
    return {letter: (i,) if i < rank else () for i, letter in enumerate("BFYX")}
