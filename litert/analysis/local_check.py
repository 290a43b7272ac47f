"""Each op by itself: what stock's kernels make of the very values that a run gave the op, beside what it made.

A difference is the op's own, and none that it inherited. Where tensors in between are not known, several ops are
checked as one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from litert.analysis.difference import Difference, find_difference
from litert.analysis.reference_run import ReferenceOptions, ReferenceRun
from litert.analysis.source_graph import SourceGraph
from litert.analysis.stock_run import Array


class LocalCheck:
    """Checks tensors of runs that know the same ones.

    Attributes:
      reference: what computes them.
    """

    def __init__(
        self,
        source: SourceGraph,
        known: Sequence[int],
        options: ReferenceOptions,
        tolerance: float,
        folder: str,
    ) -> None:
        """For runs that know these tensors."""
        self._source, self._known, self._tolerance = source, known, tolerance
        self.reference = ReferenceRun(source, known, known, options, folder)
        self._regions = {place: source.region(place, set(known)) for place in known}

    def region(self, place: int) -> Sequence[int]:
        """The ops that are checked as one where a tensor is: the last is the one that writes it."""
        return self._regions[place]

    def check(
        self, inputs: Mapping[int, Array], actual: Mapping[int, Array]
    ) -> dict[int, Difference]:
        """Finds the differences of a run's tensors, those without a reference left out."""
        expected = self.reference.run({**inputs, **actual}, actual)
        return {
            place: self._difference(place, array, actual[place])
            for place, array in expected.items()
            if self.reference.is_computed(place) and array.shape == actual[place].shape
        }

    def _difference(self, place: int, expected: Array, found: Array) -> Difference:
        return find_difference(
            expected, found, tolerance=self._tolerance, num_roundings=len(self._regions[place])
        )
