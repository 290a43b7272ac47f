"""The smallest part of a model that is wrong by itself, as a model of its own with its inputs.

The search begins with the op to blame. Where that op is right when it is compiled alone, as after a fusion, its
neighbours come along until the fault is there again; then all go that the fault does not need.
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
"""Of a part whose results differ from run to run: they do not do so each time."""


class NoPartError(LiteRtError):
    """No part is wrong by itself; `what` is the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(Status.NOT_FOUND, reason)


@dataclass(frozen=True, slots=True)
class WrongPart:
    """A part of a model that is wrong by itself.

    Attributes:
      path: of its file.
      transformed: of the file with what transformations have made of it; "" where the fault is not theirs.
      ops: of the source model, in execution order.
      blamed: the one of them that a comparison of the part blames.
      is_smallest: whether the fault needs each of these ops, as far as that was tried.
      inputs: what the part reads, as the run had it, by name.
      expected: what the reference makes of it, by the output's name; outputs that nothing computes are missing.
      num_runs: how often the part was run, where its results differ from run to run; else 0.
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
    """Finds the smallest part that is wrong when it is compiled by itself.

    Args:
      source: the model.
      comparison: of it.
      samples: that were compared.
      options: of the comparison.
      folder: for files; the part's stays there.
      is_compiled: whether a file was compared that was compiled before, maybe by another compiler.

    Raises:
      NoPartError: with the reason.
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
        inside=CUTS if options.inside == CUTS else AUTO,  # a part's calls may have nothing inside
        apply=replace(options.apply, subgraphs=()),  # they have other indices in a part
    )
    others = beyond - {op.index for op in blamed.ops}
    with counting("bisect", 0) as tell_done:
        trials = _Trials(source, samples[blamed.sample], options, folder, others, tell_done)
        return trials.describe(*_search(trials, blamed, is_compiled), num_runs)


def check_blamed(comparison: ModelComparison) -> Blamed:
    """The op to blame.

    Raises:
      NoPartError: where there is none.
    """
    if comparison.blamed is not None:
        return comparison.blamed
    if comparison.first:
        raise NoPartError("each op is right, given its inputs")
    raise NoPartError("no tensor is beyond its limit")


def expect(
    part: SourceGraph, inputs: Mapping[str, Array], options: CompareOptions, folder: str
) -> dict[str, Array]:
    """What the reference makes of a part, by output."""
    wanted = [place for place in part.outputs.values() if place in part.results]
    reference = ReferenceRun(part, (), wanted, options.reference, folder)
    found = reference.run({part.inputs[name]: array for name, array in inputs.items()}, {})
    return {
        name: found[place]
        for name, place in part.outputs.items()
        if place in found and reference.is_computed(place)
    }


def _search(trials: _Trials, blamed: Blamed, is_compiled: bool) -> tuple[Sequence[int], bool]:
    """The ops of the smallest part that is wrong, and whether the fault needs each."""
    source = trials.source
    places = {source.op_number(place): place for place in source.op_places.values()}
    ops = {places[op.index] for op in blamed.ops}
    if not trials.is_wrong(ops):
        if is_compiled and not trials.is_wrong(source.op_places.values()):
            raise NoPartError("the model compiled anew is right: compile the file again")
        ops = next(filter(trials.is_wrong, _grow(source, ops)), set())
        if not ops:
            raise NoPartError("no part of the model is wrong when it is compiled by itself")
    before = ops & set(source.region(trials.blamed_tensor(ops), ()))
    if trials.is_wrong(before):
        ops = before
    trials.fetch(ops)
    return bisect(sorted(ops), trials.is_wrong)


def _grow(source: SourceGraph, ops: Collection[int]) -> Iterator[set[int]]:
    """Ops with their neighbours, with ever more of these, up to all that are connected."""
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
    """Parts of a model that are compiled and compared, each once. Ops go by their places.

    Attributes:
      source: the model.
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
        """Of a model on a sample; faults of `others`, by the numbers of these ops, do not count."""
        self.source, self._sample = source, sample
        self._options, self._folder = options, folder
        self._others, self._tell_done = others, tell_done
        self._path = os.path.join(folder, "part.tflite")
        self._values = {source.inputs[name]: array for name, array in sample.inputs.items()}
        self._refused: set[int] = set()
        self._blamed: dict[frozenset[int], int | None] = {}

    def is_wrong(self, ops: Iterable[int]) -> bool:
        """Whether a part is wrong by itself; one that cannot be compiled or run by itself is not."""
        part = self._complete(ops)
        if part not in self._blamed:
            self._blamed[part] = self._find_blamed(part)
            self._tell_done(len(self._blamed))
        return self._blamed[part] is not None

    def blamed_tensor(self, ops: Iterable[int]) -> int:
        """The place of what the op to blame for a wrong part computes."""
        return self.source.places[self.source.subgraph.ops[self._blamed_op(ops)].outputs[0]]

    def fetch(self, ops: Iterable[int]) -> None:
        """Gets the NPU's values of what these ops read, so that each part of them has its inputs."""
        source = self.source
        read = {source.places[t] for op in ops for t in source.subgraph.ops[op].inputs if t}
        self._fetch(read)

    def describe(self, ops: Iterable[int], is_smallest: bool, num_runs: int) -> WrongPart:
        """A wrong part, whose file is written."""
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
        """Ops with those whose results cannot be a part's inputs: constants, and what has no numbers."""
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
        """The op to blame for a part that is compiled by itself; None where it is right, or cannot be run."""
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
        """Writes a part's file; its inputs, by name."""
        ends = find_ends(self.source, part)
        self._fetch(ends.inputs.values())
        if missing := [name for name, p in ends.inputs.items() if p not in self._values]:
            raise NoPartError(f"the NPU does not hand out '{missing[0]}'")
        write_part(self.source, part, ends, self._path)
        return {name: self._values[place] for name, place in ends.inputs.items()}

    def _fetch(self, places: Iterable[int]) -> None:
        wanted = set(places) & set(self.source.results) - self._values.keys() - self._refused
        for batch in find_batches(self.source, sorted(wanted)):
            self._expose(batch)

    def _expose(self, places: Sequence[int]) -> None:
        """Runs the model with these tensors as outputs, or with some, where the vendor refuses to have all."""
        source, options = self.source, self._options
        refused: dict[int, LiteRtError] = {}
        with working_folder(source.path) as folder:
            files = NpuFiles(folder, source.path, options.apply, options.load, options.environment)
            for _, trial in files.open_parts(source, places, refused):
                self._values |= trial.run(self._sample.inputs)
        self._refused.update(refused)
