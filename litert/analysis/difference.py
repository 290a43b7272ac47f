"""The difference of an output from the output of LiteRT's CPU kernels, in a unit that suits the element type.

Integers of 8 and 16 bits are quantized, and an op may round them up or down, as LiteRT's own kernels do. The error
of a float is relative to the sum of the magnitudes of all terms, which may be far larger than the magnitude of the
result.
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
    """The element of an output with the greatest difference from the reference.

    Attributes:
      amount, limit: The difference and its limit, in `unit`: quantization steps, a fraction of the magnitude, or
        "" if values must be equal.
      index: Flat index of the element; `found` is its value in the output, `expected` its value in the reference.
      shape: Shape of the output.
      num_beyond: Number of elements beyond the limit.
      first, last: Bounding box of the elements beyond the limit: the least and the greatest index in each
        dimension.
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
        """Whether the difference is within its limit."""
        return self.amount <= self.limit

    def __str__(self) -> str:
        return self.beside("on the CPU")

    def beside(self, reference: str) -> str:
        """Describes the difference.

        `reference` says where the expected value is, for example `in the golden array`.
        """
        return (
            f"element {self._place()} is {self.found:g}, and {self.expected:g} {reference}: "
            f"{amount_text(self.amount, self.unit)} away, where {self.limit:g} may "
            f"be{self._extent()}"
        )

    def _place(self) -> str:
        """Returns the element's index as text: `5` in a vector, `[0, 2, 5]` in a tensor with more dimensions."""
        if len(self.shape) < 2:
            return str(self.index)
        place: list[int] = []
        rest = self.index
        for size in reversed(self.shape):
            rest, index = divmod(rest, size)
            place.insert(0, index)
        return str(place)

    def _extent(self) -> str:
        """Describes where the elements beyond the limit lie, for outputs of several dimensions."""
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
        found = f"; {self.num_beyond:,} of {prod(self.shape):,} elements exceed the limit"
        is_everywhere = all(text == ":" for text in ranges)
        return found if is_everywhere else f"{found}, all within [{', '.join(ranges)}]"


def amount_text(amount: float, unit: str) -> str:
    """Returns a difference with its unit, such as `2 steps` or `0.01 of the magnitude`."""
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
    """Finds the element of an output with the greatest difference.

    Args:
      expected: The output of the CPU kernels. A complex number counts as two elements, in an additional dimension.
      found: The NPU's output, with the same number of elements and the same type.
      tolerance: Limit for floats, as a fraction of the magnitude.
      magnitudes: Sum of the magnitudes of the terms of each element; None to use the greatest expected element
        instead.
      num_roundings: Limit for integers of 8 and 16 bits, in quantization steps.
    """
    import numpy as np

    unit, limit = _allowance(expected.dtype, tolerance, num_roundings)
    shape = expected.shape if expected.dtype.kind != "c" else (*expected.shape, 2)
    want, have = as_floats(expected), as_floats(found)
    with np.errstate(invalid="ignore", divide="ignore"):
        away = np.abs(have - want)
        if unit == EXACT:  # some different 64-bit integers are the same float
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
    """Returns the elements of an array as a flat float64 array; a complex number gives two elements."""
    import numpy as np

    flat = array.ravel()
    return (flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat).astype(np.float64)


def are_same(lhs: Array, rhs: Array) -> Array:
    """Returns which pairs of numbers are treated as equal.

    These are pairs of equal numbers, of NaN values, and of values beyond float32. Kernels with
    a fused activation field turn an infinity into the largest float32 number.
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
