"""Finds the smallest part of a model that gives wrong results when compiled separately.

The search begins with the op at fault. If this op is right when compiled separately, for example because the fault
is in a fusion, neighbouring ops are added until the fault appears again. Then each op is removed if the fault
still appears without this op.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from litert.analysis.bisection import bisect
from litert.analysis.compare_options import AUTO, CUTS, CompareOptions, Sample
from litert.analysis.comparing import compare_model
from litert.analysis.comparison import Blamed, ModelComparison, SourceOp
from litert.analysis.exposing import find_batches
from litert.analysis.npu_files import NpuFiles, working_folder
from litert.analysis.part_file import find_ends, write_part
from litert.analysis.reference_run import ReferenceRun
from litert.analysis.runnable import leave_out
from litert.analysis.source_graph import SourceGraph
from litert.analysis.stock_run import Array
from litert.core.errors import LiteRtError
from litert.core.progress import counting
from litert.core.status import Status

_RACING_RUNS = 8
"""Number of runs of a part whose results differ from run to run, because two runs may give equal results."""


class NoPartError(LiteRtError):
    """The error that is raised if no part is wrong when compiled separately; `what` gives the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(Status.NOT_FOUND, reason)


@dataclass(frozen=True, slots=True)
class WrongPart:
    """A part of a model that gives wrong results when compiled separately.

    Attributes:
      path: Path of the part's file.
      transformed: Path of the part after transformations have run on it; "" if transformations did not cause the
        fault.
      ops: The ops of the part, as ops of the source model in execution order.
      blamed: The op at fault, found by comparing the part with its reference.
      is_smallest: Whether the fault disappears if any one of these ops is removed; False if this was not tried for
        all ops.
      inputs: Inputs of the part by name, with their values in the run.
      expected: Reference values by output name; outputs that cannot be computed are left out.
      num_runs: Number of runs of the part if its results differ from run to run; otherwise 0.
    """

    path: str
    transformed: str
    ops: Sequence[SourceOp]
    blamed: SourceOp
    is_smallest: bool
    inputs: Mapping[str, Array]
    expected: Mapping[str, Array]
    num_runs: int


def find_wrong_part(
    source: SourceGraph,
    comparison: ModelComparison,
    samples: Sequence[Sample],
    options: CompareOptions,
    folder: str,
    *,
    is_compiled: bool,
) -> WrongPart:
    """Finds the smallest part that gives wrong results when compiled separately.

    Args:
      source: The source model.
      comparison: Report of the comparison.
      samples: Input samples that were compared.
      options: Options of the comparison.
      folder: Folder for temporary files. The file of the part stays in this folder.
      is_compiled: Whether the compared file was compiled before this comparison, maybe by another compiler.

    Raises:
      NoPartError: No part gives wrong results when compiled separately.
    """
    blamed = check_blamed(comparison)
    if comparison.not_runnable:
        target = os.path.join(folder, "runnable.tflite")
        source, samples = leave_out(source, samples, comparison.not_runnable, target)
    beyond = {tensor.op for tensor in comparison.tensors if not tensor.is_within}
    num_runs = max(options.num_runs, _RACING_RUNS) if blamed.runs_differ else 0
    options = replace(
        options,
        golden={},
        num_runs=num_runs or options.num_runs,
        inside=CUTS if options.inside == CUTS else AUTO,  # a part's calls may have no inner tensors
        apply=replace(options.apply, subgraphs=()),  # ops have other indices in a part
    )
    others = beyond - {op.index for op in blamed.ops}
    with counting("bisect", 0) as tell_done:
        trials = _Trials(source, samples[blamed.sample], options, folder, others, tell_done)
        return trials.describe(*_search(trials, blamed, is_compiled), num_runs)


def check_blamed(comparison: ModelComparison) -> Blamed:
    """Returns the op that causes wrong results according to a report.

    Raises:
      NoPartError: The comparison found no op at fault.
    """
    if comparison.blamed is not None:
        return comparison.blamed
    if comparison.first:
        raise NoPartError("each op computes the right result from its inputs")
    raise NoPartError("the errors of all tensors are within their limits")


def expect(
    part: SourceGraph, inputs: Mapping[str, Array], options: CompareOptions, folder: str
) -> dict[str, Array]:
    """Computes the reference values of each output of a part."""
    wanted = [place for place in part.outputs.values() if place in part.results]
    reference = ReferenceRun(part, (), wanted, options.reference, folder)
    found = reference.run({part.inputs[name]: array for name, array in inputs.items()}, {})
    return {
        name: found[place]
        for name, place in part.outputs.items()
        if place in found and reference.is_computed(place)
    }


def _search(trials: _Trials, blamed: Blamed, is_compiled: bool) -> tuple[Sequence[int], bool]:
    """Finds the ops of the smallest wrong part, and whether the fault needs each of them."""
    source = trials.source
    places = {source.op_number(place): place for place in source.op_places.values()}
    ops = {places[op.index] for op in blamed.ops}
    if not trials.is_wrong(ops):
        if is_compiled and not trials.is_wrong(source.op_places.values()):
            raise NoPartError(
                "the model gives right results after it is compiled again: compile the file again"
            )
        ops = next(filter(trials.is_wrong, _grow(source, ops)), set())
        if not ops:
            raise NoPartError(
                "no part of the model gives wrong results when it is compiled separately"
            )
    before = ops & set(source.region(trials.blamed_tensor(ops), ()))
    if trials.is_wrong(before):
        ops = before
    trials.fetch(ops)
    return bisect(sorted(ops), trials.is_wrong)


def _grow(source: SourceGraph, ops: Collection[int]) -> Iterator[set[int]]:
    """Yields ops with more and more of their neighbours, up to all connected ops."""
    grown, hops = set(ops), 1
    while True:
        before = len(grown)
        for _ in range(hops):
            found = [source.subgraph.ops[place] for place in grown]
            tensors = {t for op in found for t in (*op.inputs, *op.outputs) if t is not None}
            near = {op for tensor in tensors for op in (tensor.producer, *tensor.readers)}
            grown |= {source.op_places[op] for op in near if op is not None}
        if len(grown) == before:
            return
        yield set(grown)
        hops *= 2


class _Trials:
    """Compiles and compares parts of a model, each part once. Ops are identified by their places.

    Attributes:
      source: The source model.
    """

    def __init__(
        self,
        source: SourceGraph,
        sample: Sample,
        options: CompareOptions,
        folder: str,
        others: Collection[int],
        tell_done: Callable[[int], None],
    ) -> None:
        """Prepares trials of a model on a sample; faults of the ops `others` do not count."""
        self.source, self._sample = source, sample
        self._options, self._folder = options, folder
        self._others, self._tell_done = others, tell_done
        self._path = os.path.join(folder, "part.tflite")
        self._values = {source.inputs[name]: array for name, array in sample.inputs.items()}
        self._refused: set[int] = set()
        self._blamed: dict[frozenset[int], int | None] = {}

    def is_wrong(self, ops: Iterable[int]) -> bool:
        """Whether a part is wrong by itself; a part that cannot be compiled or run alone is not."""
        part = self._complete(ops)
        if part not in self._blamed:
            self._blamed[part] = self._find_blamed(part)
            self._tell_done(len(self._blamed))
        return self._blamed[part] is not None

    def blamed_tensor(self, ops: Iterable[int]) -> int:
        """Returns the place of the result of the op at fault in a wrong part."""
        return self.source.places[self.source.subgraph.ops[self._blamed_op(ops)].outputs[0]]

    def fetch(self, ops: Iterable[int]) -> None:
        """Gets the NPU's values of these ops' inputs, so that each part has its inputs."""
        source = self.source
        read = {source.places[t] for op in ops for t in source.subgraph.ops[op].inputs if t}
        self._fetch(read)

    def describe(self, ops: Iterable[int], is_smallest: bool, num_runs: int) -> WrongPart:
        """Writes the file of a wrong part."""
        part = self._complete(ops)
        inputs = self._write(part)
        return WrongPart(
            self._path,
            "",
            [self.source.source_op(op) for op in sorted(part)],
            self.source.source_op(self._blamed_op(ops)),
            is_smallest,
            inputs,
            expect(SourceGraph(self._path), inputs, self._options, self._folder),
            num_runs,
        )

    def _blamed_op(self, ops: Iterable[int]) -> int:
        blamed = self._blamed[self._complete(ops)]
        assert blamed is not None
        return blamed

    def _complete(self, ops: Iterable[int]) -> frozenset[int]:
        """Adds the ops whose results cannot be inputs of a part: constants, and tensors without numbers."""
        source, waiting = self.source, list(ops)
        readable = {*source.results, *source.inputs.values()}
        found = set(waiting)
        while waiting:
            for tensor in source.subgraph.ops[waiting.pop()].inputs:
                if tensor and tensor.producer and source.places[tensor] not in readable:
                    producer = source.op_places[tensor.producer]
                    if producer not in found:
                        found.add(producer)
                        waiting.append(producer)
        return frozenset(found)

    def _find_blamed(self, part: frozenset[int]) -> int | None:
        """Finds the op at fault in a part that is compiled by itself; None if the part is right or cannot run."""
        try:
            inputs = self._write(part)
            sample = Sample(self._sample.origin, inputs)
            blamed = compare_model(SourceGraph(self._path), "", [sample], self._options).blamed
        except LiteRtError as error:
            if error.status is Status.CANCELLED:
                raise
            return None
        if blamed is None:
            return None
        op = sorted(part)[blamed.op.index]
        return None if self.source.op_number(op) in self._others else op

    def _write(self, part: frozenset[int]) -> dict[str, Array]:
        """Writes a part's file; returns the part's inputs by name."""
        ends = find_ends(self.source, part)
        self._fetch(ends.inputs.values())
        if missing := [name for name, p in ends.inputs.items() if p not in self._values]:
            raise NoPartError(f"tensor '{missing[0]}' on the NPU is not visible")
        write_part(self.source, part, ends, self._path)
        return {name: self._values[place] for name, place in ends.inputs.items()}

    def _fetch(self, places: Iterable[int]) -> None:
        wanted = set(places) & set(self.source.results) - self._values.keys() - self._refused
        for batch in find_batches(self.source, sorted(wanted)):
            self._expose(batch)

    def _expose(self, places: Sequence[int]) -> None:
        """Runs the model with these tensors as outputs, in parts if the vendor refuses all at once."""
        source, options = self.source, self._options
        refused: dict[int, LiteRtError] = {}
        with working_folder(source.path) as folder:
            files = NpuFiles(folder, source.path, options.apply, options.load, options.environment)
            for _, trial in files.open_parts(source, places, refused):
                self._values |= trial.run(self._sample.inputs)
        self._refused.update(refused)
