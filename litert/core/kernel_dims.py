"""B, F, Y and X: the four dimensions that a tensor has to a kernel, and in a formula.

A tensor of rank 4 is N, H, W, C, that is B = N, Y = H, X = W, F = C. Lower ranks go by position, B first, with
ones at the end. Of higher ranks, what stands between N and W is folded into Y.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeVar

from litert.core.sizes import Size

_Size = TypeVar("_Size", int, Size)


def kernel_dims(shape: Sequence[_Size]) -> tuple[_Size, _Size, _Size, _Size]:
    """Sizes of B, F, Y and X of a tensor of that shape."""
    b, f, y, x = (prod(shape[d] for d in dims) for dims in letter_dims(len(shape)).values())
    return b, f, y, x


def letter_dims(rank: int) -> dict[str, tuple[int, ...]]:
    """Which dimensions of a tensor B, F, Y and X are, slowest first; none for those it has not."""
    if rank >= 4:
        return {"B": (0,), "F": (rank - 1,), "Y": tuple(range(1, rank - 2)), "X": (rank - 2,)}
    return {letter: (i,) if i < rank else () for i, letter in enumerate("BFYX")}
