"""Measures the error of a tensor: greatest and mean error, cosine, and signal-to-noise ratio."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from litert.analysis.difference import are_same, as_floats

if TYPE_CHECKING:
    import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True, slots=True)
class Measures:
    """Errors of a tensor relative to its reference; the elements of both are compared as real numbers.

    Attributes:
      greatest, mean: Greatest and mean absolute error; infinite if an element is NaN in only one of the two
        arrays.
      cosine: Cosine of the angle between the tensor and its reference, as vectors; 1 if both vectors are zero.
      snr_db: Ratio of the reference's power to the power of the errors, in decibels; infinite if there are no
        errors.
      problem: Description of elements that are not finite; "" if all are finite.
    """

    greatest: float = 0.0
    mean: float = 0.0
    cosine: float = 1.0
    snr_db: float = float("inf")
    problem: str = ""

    def worst(self, other: Measures) -> Measures:
        """Combines the measures of two samples by taking the worse value of each measure."""
        return Measures(
            max(self.greatest, other.greatest),
            max(self.mean, other.mean),
            min(self.cosine, other.cosine),
            min(self.snr_db, other.snr_db),
            self.problem or other.problem,
        )


def measure(found: Array, expected: Array) -> Measures:
    """Measures the error of an array of real numbers relative to a reference of the same shape.

    Elements that are not finite may still count as equal; see `are_same`. The cosine and the signal-to-noise ratio
    are computed only from elements that are finite in both arrays. If there are no such elements, the cosine and
    the ratio have their worst values.
    """
    import numpy as np

    have, want = as_floats(found), as_floats(expected)
    finite = np.isfinite(have) & np.isfinite(want)
    if finite.all():
        return _measure_finite(have, want, have.size)
    same = are_same(have, want)
    rest = _measure_finite(have[finite], want[finite], have.size)
    one_sided = ~finite & ~same
    count = int(one_sided.sum())
    if not count:
        both = int((~finite).sum())
        return Measures(
            rest.greatest,
            rest.mean,
            rest.cosine,
            rest.snr_db,
            f"{both} of {have.size} elements are not finite in both the tensor and the reference",
        )
    first = int(np.argmax(one_sided))
    problem = (
        f"{count} of {have.size} elements are infinite or NaN in the tensor or in the reference, and "
        f"differ: element {first} is {have[first]:g}, but {want[first]:g} in the reference"
    )
    cosine, snr = (rest.cosine, rest.snr_db) if finite.any() else (0.0, -np.inf)
    return Measures(np.inf, np.inf, cosine, snr, problem)


def _measure_finite(have: Array, want: Array, count: int) -> Measures:
    """Measures finite numbers; `count` includes the elements that are not finite."""
    import numpy as np

    if not have.size:
        return Measures()
    errors = have - want
    noise, signal = float(errors @ errors), float(want @ want)
    sizes = np.abs(errors)
    power = float(have @ have)
    product = np.sqrt(signal) * np.sqrt(power)
    if noise == 0:
        cosine, snr = 1.0, np.inf
    else:
        cosine = float(have @ want / product) if product else 0.0
        snr = float(10 * np.log10(signal / noise)) if signal else -np.inf
    return Measures(float(sizes.max()), float(sizes.sum() / count), cosine, snr)
