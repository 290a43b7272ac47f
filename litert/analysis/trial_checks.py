"""Compares trials with the reference, sample by sample: tensor values, single ops, and repeated runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from litert.analysis.compare_options import CompareOptions, Sample
from litert.analysis.difference import find_difference
from litert.analysis.findings import Fault, Findings, as_reals
from litert.analysis.local_check import LocalCheck
from litert.analysis.reference_run import ReferenceRun
from litert.analysis.source_graph import SourceGraph
from litert.analysis.stock_run import Array
from litert.analysis.trial import ShownTensor, Trial
from litert.core.errors import LiteRtError
from litert.core.progress import told

_SLACK = 3
"""The unchanged file may differ from the exposed file by this multiple of the exposed file's own error."""


class TrialChecks:
    """Checks trials of one model, and adds the results to the findings.

    Attributes:
      apart: Tensors with values that differ between the unchanged file and a trial, each with the number of the
        sample.
    """

    def __init__(
        self,
        source: SourceGraph,
        samples: Sequence[Sample],
        options: CompareOptions,
        findings: Findings,
        folder: str,
    ) -> None:
        """Prepares checks for trials of a source model."""
        self._source, self._samples, self._options = source, samples, options
        self._findings, self._folder = findings, folder
        self.apart: dict[int, int] = {}

    def check(
        self, plain: Trial, trial: Trial, places: Sequence[int], *, checks_ops: bool = True
    ) -> None:
        """Checks the tensors that a trial makes visible.

        If ops are not checked, tensors are compared only with golden arrays.
        """
        known = {shown.place: shown for shown in trial.shown}
        for shown in (*plain.shown, *trial.shown):
            self._findings.add_shown(shown)
        wanted = [place for place in places if place in known and checks_ops]
        options, source = self._options, self._source
        check = LocalCheck(
            source, list(known), wanted, options.reference, options.tolerance, self._folder
        )
        reference = ReferenceRun(source, (), wanted, options.reference, self._folder)
        self._tell(check.reference, reference)
        unknown = check.reference.find_unknown({*known, *source.inputs.values()}, known)
        for place in wanted:
            if place not in unknown:
                self._findings.regions[place] = check.regions[place]
            elif not self._findings.is_known(place):
                name = source.subgraph.ops[unknown[place]].name
                text = f"this tensor is computed from the result of {name}, which is not visible"
                self._findings.not_compared.setdefault(source.tensor(place).name, text)
        for number, sample in enumerate(told("run", self._samples)):
            self._findings.begin_sample(number, sample.origin)
            with naming(sample):
                run = _SampleRun(source, sample, trial, plain)
                self._check_ops(check, run, known)
                self._check_runs(run, known)
                self._check_values(reference, run, known, number)

    def _check_ops(self, check: LocalCheck, run: _SampleRun, known: _Known) -> None:
        for place, expected, difference in check.check(run.inputs, run.inside):
            found = run.inside[place]
            if difference is not None:
                self._findings.add_local(known[place], difference, found, expected)
            else:
                shapes = f"{list(found.shape)}, and {list(expected.shape)} on the CPU"
                text = f"given the same inputs, the tensor's shape is {shapes}"
                self._findings.add_fault(known[place], Fault.SHAPE, text)

    def _check_runs(self, run: _SampleRun, known: _Known) -> None:
        """Runs the sample again and checks that the values stay the same."""
        for _ in range(self._options.num_runs - 1):
            for place, again in run.trial.run(run.sample.inputs).items():
                first = run.inside[place]
                if place not in known or place in self._source.volatile:
                    continue
                if first.tobytes() == again.tobytes():
                    continue
                name = self._source.tensor(place).name
                if first.shape != again.shape:
                    shapes = f"{list(first.shape)} and {list(again.shape)}"
                    text = (
                        f"the tensor's shape differs from run to run on the same inputs: {shapes}"
                    )
                    self._findings.add_fault(known[place], Fault.RUNS_DIFFER, text)
                    continue
                difference = find_difference(first, again, tolerance=self._options.tolerance)
                if difference.is_allowed:
                    self._findings.notes[
                        f"'{name}' differs between runs on the same inputs, within its limit"
                    ] = None
                else:
                    self._findings.add_fault(
                        known[place],
                        Fault.RUNS_DIFFER,
                        "the results differ from run to run on the same inputs, perhaps because "
                        f"of a data race or uninitialized memory: element {difference.index} is "
                        f"{difference.expected:g}, then {difference.found:g}",
                    )

    def _check_values(
        self, reference: ReferenceRun, run: _SampleRun, known: _Known, number: int
    ) -> None:
        """Measures each tensor against the reference, and checks that the unchanged file has the same values."""
        expected = reference.run(run.inputs, run.inside)
        golden = self._options.golden
        for place, shown in known.items():
            if place not in expected and place not in golden:
                continue
            is_steady = place not in self._source.volatile
            found = run.outside.get(place, run.inside[place]) if is_steady else run.inside[place]
            has_reference = place in expected and reference.is_computed(place)
            if golden:
                if place in golden:
                    self._check_golden(shown, found, golden[place])
            elif has_reference:
                self._findings.add_measures(shown, found, expected[place])
            if is_steady and place in run.outside and run.outside is not run.inside:
                near = expected[place] if has_reference else run.inside[place]
                self._check_apart(shown, run, near, number)

    def _check_golden(self, shown: ShownTensor, found: Array, golden: Array) -> None:
        tensor = self._source.tensor(shown.place)
        name = tensor.name
        reals = as_reals(tensor, found)
        wanted = as_reals(tensor, golden) if golden.dtype == found.dtype else golden
        if reals.shape != wanted.shape:
            self._findings.not_compared[name] = (
                f"the golden array has shape {list(wanted.shape)}, but the model's tensor has "
                f"shape {list(reals.shape)}"
            )
            return
        self._findings.add_measures(shown, reals, wanted)
        difference = find_difference(
            np.asarray(wanted, np.float64),
            np.asarray(reals, np.float64),
            tolerance=self._options.tolerance,
        )
        if not difference.is_allowed:
            text = difference.beside("in the golden array")
            self._findings.add_fault(shown, Fault.GOLDEN, text)

    def _check_apart(
        self, shown: ShownTensor, run: _SampleRun, expected: Array, number: int
    ) -> None:
        """Whether the unchanged file gives another value than the exposed file."""
        inside, outside = run.inside[shown.place], run.outside[shown.place]
        if inside.tobytes() == outside.tobytes() or inside.shape != outside.shape:
            return
        tolerance = self._options.tolerance
        noise = 0.0
        if expected.shape == inside.shape:
            noise = find_difference(expected, inside, tolerance=tolerance).amount
        apart = find_difference(inside, outside, tolerance=tolerance)
        if apart.amount > apart.limit + _SLACK * noise:
            self.apart.setdefault(shown.place, number)

    def _tell(self, *runs: ReferenceRun) -> None:
        """Notes the ops that other code than the kernels computes, and the ops that nothing computes."""
        for run in runs:
            for place, by in run.by_others.items():
                op = self._source.subgraph.ops[place]
                self._findings.notes[f"{by} computes the reference of {op.name}"] = None
            for place, reason in run.left_out.items():
                op = self._source.subgraph.ops[place]
                for tensor in op.outputs:
                    if self._source.places[tensor] in self._source.results:
                        self._findings.not_compared[tensor.name] = reason


@contextmanager
def naming(sample: Sample) -> Iterator[None]:
    """Adds the sample's origin to errors that the `with` block raises."""
    try:
        yield
    except LiteRtError as error:
        where = ", ".join(filter(None, [error.where, sample.origin]))
        raise LiteRtError(error.status, error.what, where, error.hint) from error


_Known = Mapping[int, ShownTensor]


class _SampleRun:
    """A sample's values in both ways of running a model.

    Attributes:
      inputs: Inputs by place in the source.
      inside: Tensors that the trial shows.
      outside: Tensors that the unchanged file shows.
    """

    def __init__(self, source: SourceGraph, sample: Sample, trial: Trial, plain: Trial) -> None:
        self.sample, self.trial = sample, trial
        self.inputs = {source.inputs[name]: array for name, array in sample.inputs.items()}
        self.inside = trial.run(sample.inputs)
        self.outside = self.inside if plain is trial else plain.run(sample.inputs)
