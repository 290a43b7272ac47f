"""How a TFLite tensor looks to a kernel: four dimensions B, F, Y, X, and where their elements lie.

A tensor of rank 4 is N, H, W, C, that is B = N, Y = H, X = W, F = C, and lies in memory as B, Y, X, F.
Lower ranks go by position, B first, with ones at the end; so they lie as B, F, Y, X. Of higher ranks, what
stands between N and W is folded into Y.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod


@dataclass(frozen=True, slots=True)
class Bfyx:
    """A tensor as a kernel sees it.

    Attributes:
      dims: sizes of B, F, Y, X.
      memory_order: the same letters, slowest first: "BYXF".
    """

    dims: tuple[int, int, int, int]
    memory_order: str

    @property
    def pitches(self) -> tuple[int, int, int, int]:
        """Elements from one index of B, F, Y and X to the next."""
        pitch, pitches = 1, {}
        for letter in reversed(self.memory_order):
            pitches[letter] = pitch
            pitch *= self.dims["BFYX".index(letter)]
        return pitches["B"], pitches["F"], pitches["Y"], pitches["X"]


def bfyx(shape: Sequence[int]) -> Bfyx:
    """A tensor of that shape, in row order."""
    if len(shape) < 4:
        b, f, y, x = (*shape, 1, 1, 1, 1)[:4]
        return Bfyx((b, f, y, x), "BFYX")
    return Bfyx((shape[0], shape[-1], prod(shape[1:-2]), shape[-2]), "BYXF")
