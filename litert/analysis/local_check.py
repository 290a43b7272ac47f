"""Checks each op separately: stock LiteRT's kernels compute the op from its inputs in the compared run.

A difference is therefore the op's own error, not an error of the op's inputs. Several ops are checked together if
the tensors between them are not visible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from litert.analysis.difference import RELATIVE, Difference, find_difference
from litert.analysis.op_magnitudes import OpMagnitudes
from litert.analysis.reference_run import ReferenceOptions, ReferenceRun
from litert.analysis.source_graph import SourceGraph
from litert.analysis.stock_run import Array


class LocalCheck:
    """Checks the ops that compute tensors, for runs that make the same tensors visible.

    Attributes:
      reference: Computes the expected tensors.
      regions: For each tensor, by its place, the ops that are checked together to check the tensor; the last op
        computes it.
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
        """Prepares checks of the wanted tensors. The checked runs return the values of the known tensors."""
        self._tolerance = tolerance
        self.reference = ReferenceRun(source, known, wanted, options, folder)
        self.regions = {
            place: _varying(source, source.region(place, set(known))) for place in wanted
        }
        self._magnitudes = OpMagnitudes(source, options, folder)

    def check(
        self, inputs: Mapping[int, Array], actual: Mapping[int, Array]
    ) -> Iterator[tuple[int, Array, Difference | None]]:
        """Yields each checked tensor's place, expected value, and difference (None if the shapes differ)."""
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
        """Makes the difference relative to the magnitudes that the op sums."""
        if len(self.regions[place]) > 1:
            return difference
        magnitudes = self._magnitudes.find(place, values)
        if magnitudes is None:
            return difference
        return self._difference(place, expected, found, magnitudes)


def _varying(source: SourceGraph, ops: Sequence[int]) -> list[int]:
    """Selects the ops whose results do not follow from constants alone."""
    return [
        op
        for op in ops
        if any(
            source.places[tensor] in source.varying for tensor in source.subgraph.ops[op].outputs
        )
    ]
