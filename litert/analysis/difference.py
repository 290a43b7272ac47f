"""How far an output is from what LiteRT's CPU kernels give, in the units that arithmetic errs in.

Integers of 8 and 16 bits are quantized: a kernel may round to either neighbour, as LiteRT's own do, once for
each op. An error of a float is relative to what was accumulated: the magnitudes of a sum's terms, of which the sum
may be a small part.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"

STEPS, RELATIVE, EXACT = "steps", "of the magnitude", ""


@dataclass(frozen=True, slots=True)
class Difference:
    """The greatest of an output's elements.

    Attributes:
      amount, limit: what is there and what may be, in `unit`: steps of quantization, a part of the magnitude, or
        none for what must be equal.
      index: of the element, flat; `found` and `expected` are its values.
      shape: of the output.
      num_beyond: how many elements are beyond the limit.
      first, last: the least box around these: the least and the greatest index in each dimension.
    """

    amount: float
    limit: float
    unit: str
    index: int = 0
    found: float = 0
    expected: float = 0
    shape: tuple[int, ...] = ()
    num_beyond: int = 0
    first: tuple[int, ...] = ()
    last: tuple[int, ...] = ()

    @property
    def is_allowed(self) -> bool:
        """Whether an NPU's arithmetic may do this."""
        return self.amount <= self.limit

    def __str__(self) -> str:
        return self.beside("on the CPU")

    def beside(self, reference: str) -> str:
        """The difference in words, from the value that is expected `in the golden array`, say."""
        return (
            f"element {self._place()} is {self.found:g}, and {self.expected:g} {reference}: "
            f"{amount_text(self.amount, self.unit)} away, where {self.limit:g} may be{self._extent()}"
        )

    def _place(self) -> str:
        """The element's index: `5` of a vector, `[0, 2, 5]` of what has more dimensions."""
        if len(self.shape) < 2:
            return str(self.index)
        place: list[int] = []
        rest = self.index
        for size in reversed(self.shape):
            rest, index = divmod(rest, size)
            place.insert(0, index)
        return str(place)

    def _extent(self) -> str:
        """Where the elements lie that are beyond the limit, of what has several dimensions."""
        if len(self.shape) < 2 or not self.num_beyond:
            return ""
        ranges = [
            ":"
            if last - first + 1 == size
            else f"{first}:{last + 1}"
            if last > first
            else f"{first}"
            for first, last, size in zip(self.first, self.last, self.shape, strict=True)
        ]
        found = f"; {self.num_beyond:,} of {prod(self.shape):,} elements are beyond it"
        is_everywhere = all(text == ":" for text in ranges)
        return found if is_everywhere else f"{found}, all in [{', '.join(ranges)}]"


def amount_text(amount: float, unit: str) -> str:
    """`2 steps`, `0.01 of the magnitude`."""
    named = unit.removesuffix("s") if amount == 1 and unit == STEPS else unit
    return f"{amount:.3g} {named}".strip()


def find_difference(
    expected: Array,
    found: Array,
    *,
    tolerance: float,
    magnitudes: Array | None = None,
    num_roundings: int = 1,
) -> Difference:
    """Finds the element of an output that is farthest away.

    Args:
      expected: as the CPU has it; of complex numbers each part is an element, in one more dimension.
      found: as the NPU has it: as many elements, of the same type.
      tolerance: the limit of floats.
      magnitudes: of what is accumulated for each element; None for the largest that is expected of the output.
      num_roundings: the limit of integers of 8 and 16 bits.
    """
    import numpy as np

    unit, limit = _allowance(expected.dtype, tolerance, num_roundings)
    shape = expected.shape if expected.dtype.kind != "c" else (*expected.shape, 2)
    want, have = as_floats(expected), as_floats(found)
    with np.errstate(invalid="ignore", divide="ignore"):
        away = np.abs(have - want)
        if unit == EXACT:  # of 64 bits, some that differ are the same float
            away = np.where(expected.ravel() == found.ravel(), 0, np.maximum(away, 1))
        else:
            away = np.where(are_same(have, want), 0, away)
        if unit == RELATIVE:
            scale = np.abs(want[np.isfinite(want)]).max(initial=0)
            if magnitudes is not None:
                scale = np.abs(magnitudes.ravel().astype(np.float64))
            away = np.where(away == 0, 0, away / scale)
    if not away.size:
        return Difference(0, limit, unit)
    away = np.where(np.isnan(away), np.inf, away)
    worst = int(np.argmax(away))
    beyond = np.argwhere((away > limit).reshape(shape))
    box = (beyond.min(axis=0), beyond.max(axis=0)) if len(beyond) else ((), ())
    first, last = (tuple(int(index) for index in corner) for corner in box)
    return Difference(
        float(away[worst]),
        limit,
        unit,
        worst,
        float(have[worst]),
        float(want[worst]),
        shape,
        len(beyond),
        first,
        last,
    )


def as_floats(array: Array) -> Array:
    """The elements of an array, flat, as float64; of complex numbers both parts."""
    import numpy as np

    flat = array.ravel()
    return (flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat).astype(np.float64)


def are_same(lhs: Array, rhs: Array) -> Array:
    """Which real numbers are the same: equal, or both not a number, or both beyond float32.

    Kernels with a fused activation, also with none, make an infinity the largest number of float32.
    """
    import numpy as np

    most = np.finfo(np.float32).max
    overflow = (lhs >= most) & (rhs >= most) | (lhs <= -most) & (rhs <= -most)
    same: Array = (lhs == rhs) | (np.isnan(lhs) & np.isnan(rhs)) | overflow
    return same


def _allowance(dtype: np.dtype[Any], tolerance: float, num_roundings: int) -> tuple[str, float]:
    if dtype.kind not in "iub":
        return RELATIVE, tolerance
    return (STEPS, num_roundings) if dtype.itemsize < 4 and dtype.kind != "b" else (EXACT, 0)
