"""How far a tensor is from its reference: greatest and mean error, cosine, signal to noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from litert.analysis.difference import are_same, as_floats

if TYPE_CHECKING:
    import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True, slots=True)
class Measures:
    """A tensor beside its reference, in real numbers.

    Attributes:
      greatest, mean: of the absolute errors; infinite where one of the two is no number.
      cosine: of the angle between the two, as vectors; 1 where both are zero.
      snr_db: signal to noise: the reference's power to that of the errors, in decibels; infinite without errors.
      problem: where one of the two is no finite number, or both; "" where all are.
    """

    greatest: float = 0.0
    mean: float = 0.0
    cosine: float = 1.0
    snr_db: float = float("inf")
    problem: str = ""

    def worst(self, other: Measures) -> Measures:
        """The worse of each, for several samples."""
        return Measures(
            max(self.greatest, other.greatest),
            max(self.mean, other.mean),
            min(self.cosine, other.cosine),
            min(self.snr_db, other.snr_db),
            self.problem or other.problem,
        )


def measure(found: Array, expected: Array) -> Measures:
    """Measures real numbers beside others of the same shape.

    Two elements may be the same without being finite, as `are_same` has it. Cosine and signal to noise
    are those of the elements that are finite on both sides, and the worst where there are none.
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
            f"{both} of {have.size} elements are no finite numbers on both sides",
        )
    first = int(np.argmax(one_sided))
    problem = (
        f"{count} of {have.size} elements are no finite numbers on one side alone: element {first} is "
        f"{have[first]:g}, and {want[first]:g} in the reference"
    )
    cosine, snr = (rest.cosine, rest.snr_db) if finite.any() else (0.0, -np.inf)
    return Measures(np.inf, np.inf, cosine, snr, problem)


def _measure_finite(have: Array, want: Array, count: int) -> Measures:
    """Measures finite numbers, of which there are `count` with those that are left out."""
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
