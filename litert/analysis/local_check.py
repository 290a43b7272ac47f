"""Each op by itself: what stock's kernels make of the very values that a run gave the op, beside what it made.

A difference is the op's own, and none that it inherited. Where tensors in between are not known, several ops are
checked as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from litert.analysis.difference import RELATIVE, Difference, find_difference
from litert.analysis.op_magnitudes import OpMagnitudes
from litert.analysis.reference_run import ReferenceOptions, ReferenceRun
from litert.analysis.source_graph import SourceGraph
from litert.analysis.stock_run import Array


class LocalCheck:
    """Checks tensors of runs that know the same ones.

    Attributes:
      reference: what computes them.
      regions: the ops that are checked as one where a tensor is, by its place: the last one writes it.
    """

    def __init__(
        self,
        source: SourceGraph,
        known: Sequence[int],
        wanted: Sequence[int],
        options: ReferenceOptions,
        tolerance: float,
        folder: str,
    ) -> None:
        """For runs that know tensors, some of which are wanted."""
        self._tolerance = tolerance
        self.reference = ReferenceRun(source, known, wanted, options, folder)
        self.regions = {
            place: _varying(source, source.region(place, set(known))) for place in wanted
        }
        self._magnitudes = OpMagnitudes(source, options, folder)

    def check(
        self, inputs: Mapping[int, Array], actual: Mapping[int, Array]
    ) -> Iterator[tuple[int, Array, Difference | None]]:
        """Computes each tensor that can be: its place, what is expected, and how far it is; None for its shape."""
        values = {**actual, **inputs}
        for place, expected in self.reference.run(values, actual).items():
            if not self.reference.is_computed(place):
                continue
            if expected.shape == actual[place].shape:
                difference = self._difference(place, expected, actual[place])
                if not difference.is_allowed and difference.unit == RELATIVE:
                    difference = self._refine(place, values, expected, actual[place], difference)
                yield place, expected, difference
            else:
                yield place, expected, None

    def _difference(
        self, place: int, expected: Array, found: Array, magnitudes: Array | None = None
    ) -> Difference:
        return find_difference(
            expected,
            found,
            tolerance=self._tolerance,
            magnitudes=magnitudes,
            num_roundings=len(self.regions[place]),
        )

    def _refine(
        self,
        place: int,
        values: Mapping[int, Array],
        expected: Array,
        found: Array,
        difference: Difference,
    ) -> Difference:
        """The difference as a part of what the op sums, which may be far more than what is left of it."""
        if len(self.regions[place]) > 1:
            return difference
        magnitudes = self._magnitudes.find(place, values)
        if magnitudes is None:
            return difference
        return self._difference(place, expected, found, magnitudes)


def _varying(source: SourceGraph, ops: Sequence[int]) -> list[int]:
    """Those of some ops whose results constants alone do not determine."""
    return [
        op
        for op in ops
        if any(
            source.places[tensor] in source.varying for tensor in source.subgraph.ops[op].outputs
        )
    ]
