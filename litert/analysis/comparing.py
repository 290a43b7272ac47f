"""Which op is wrong: a model on the NPU beside stock LiteRT's plain kernels, tensor by tensor and op by op.

The model is compiled as it is, and also with its inner tensors as outputs, so that each vendor hands them out. An
op is to blame for what it adds: stock's kernels compute each op from the values that the NPU's run gave it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np

from compiler_plugin.apply_options import ApplyOptions
from compiler_plugin.report import Report
from litert.analysis.comparison import ModelComparison, NotCompared, TensorErrors
from litert.analysis.difference import find_difference
from litert.analysis.exposing import find_batches
from litert.analysis.findings import Fault, Findings, as_reals
from litert.analysis.local_check import LocalCheck
from litert.analysis.npu_files import NpuFiles, working_folder
from litert.analysis.reference_run import ReferenceOptions, ReferenceRun
from litert.analysis.source_graph import SourceGraph
from litert.analysis.stock_run import Array
from litert.analysis.trial import ShownTensor, StockTrial, Trial, match_tensors
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.progress import told
from litert.core.status import Status
from litert.options import Options

AUTO, CUTS, TAPS = "auto", "cuts", "taps"
"""How tensors inside of NPU calls are seen: as outputs of the model (cuts), or as the vendor shows them (taps)."""

_SLACK = 3
"""How much farther the file as it is may be from the exposed one than that is from the reference."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Inputs to compare on.

    Attributes:
      origin: where they come from, for people.
      inputs: by name.
    """

    origin: str
    inputs: Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """How a model is compared.

    Attributes:
      reference: what computes the reference.
      golden: tensors of the first sample, by their places in the source, which are the reference instead.
      tolerance: of floats: the greatest error of an op, as a part of what it accumulates.
      num_runs: how often each sample is run, since runs may differ.
      inside: `AUTO`, `CUTS` or `TAPS`; `AUTO` is taps where the vendor has them, and cuts for the rest.
      apply: how the model is compiled.
      load: how it is loaded.
      environment: where dispatch tables are.
    """

    reference: ReferenceOptions = field(default_factory=ReferenceOptions)
    golden: Mapping[int, Array] = field(default_factory=dict)
    tolerance: float = 0.01
    num_runs: int = 2
    inside: str = AUTO
    apply: ApplyOptions = field(default_factory=ApplyOptions)
    load: Options = field(default_factory=Options)
    environment: EnvironmentOptions = field(default_factory=EnvironmentOptions)


def compare_model(
    source: SourceGraph,
    compiled: str,
    samples: Sequence[Sample],
    options: CompareOptions,
) -> ModelComparison:
    """Compares a model on the NPU with stock's kernels on the CPU.

    Args:
      source: the model, not compiled.
      compiled: a file that it was compiled to; "" to compile it.
      samples: at least one.
      options: how.

    Raises:
      LiteRtError: what compiling, loading and running the model raises; UNSUPPORTED, where nothing at all could
        be compared.
    """
    with working_folder(source.path) as folder:
        comparing = _Comparing(source, samples, options, folder)
        comparing.compare_on_npu(compiled)
        return comparing.report()


def compare_transformed(
    source: SourceGraph,
    model_path: str,
    samples: Sequence[Sample],
    options: CompareOptions,
) -> ModelComparison:
    """Compares a model with the one that it was made from, both on the CPU by the kernels of the reference.

    Args and errors are those of `compare_model`; tensors are matched by their names.
    """
    with working_folder(source.path) as folder:
        comparing = _Comparing(source, samples, options, folder)
        comparing.compare_on_cpu(model_path)
        return comparing.report()


def compare_as_it_is(
    source: SourceGraph,
    samples: Sequence[Sample],
    options: CompareOptions,
) -> ModelComparison:
    """Compares a compiled file, of which there is no original, with golden tensors.

    Args and errors are those of `compare_model`; the source is the compiled file.
    """
    with working_folder(source.path) as folder:
        comparing = _Comparing(source, samples, options, folder)
        comparing.compare_file()
        return comparing.report()


class _Comparing:
    """A comparison under way."""

    def __init__(
        self,
        source: SourceGraph,
        samples: Sequence[Sample],
        options: CompareOptions,
        folder: str,
    ) -> None:
        self._source, self._samples, self._options = source, samples, options
        self._folder = folder
        self._files = NpuFiles(
            folder, source.path, options.apply, options.load, options.environment
        )
        self._findings = Findings(source)
        self._regions: dict[int, Sequence[int]] = {}
        self._not_compared: dict[str, str] = {}
        self._notes: dict[str, None] = {}
        self._apart: dict[int, int] = {}
        self._npu_ops: set[int] = set()

    def compare_on_npu(self, compiled: str) -> None:
        """Compares the compiled file, and what is inside of its calls."""
        path = compiled or self._compile_plain()
        with closing(self._files.open(self._source, path)) as plain:
            tapped = set() if self._options.inside == CUTS else self._compare_tapped(plain, path)
            for places in find_batches(self._source):
                rest = [place for place in places if place not in tapped]
                if rest and self._options.inside != TAPS:
                    self._compare_exposed(plain, rest)
            if any(not self._findings.is_known(shown.place) for shown in plain.shown):
                self._compare(plain, plain, [shown.place for shown in plain.shown])
            self._explain_apart(plain, compiled)

    def compare_on_cpu(self, model_path: str) -> None:
        """Compares a model that was made from the source."""
        model = SourceGraph(model_path, self._source.key)
        tensors = [model.tensor(place) for place in model.results]
        outputs = {name: model.tensor(place) for name, place in model.outputs.items()}
        matched = match_tensors(self._source, tensors, outputs)
        places = {model.places[tensor]: place for place, tensor in matched.items()}
        for place in self._source.results:
            if place not in matched:
                name = self._source.tensor(place).name
                self._not_compared[name] = (
                    "the model has no tensor of this name: its op is checked with those that read it"
                )
        trial = StockTrial(model, places, self._options.reference, self._folder)
        self._compare(trial, trial, [shown.place for shown in trial.shown])

    def compare_file(self) -> None:
        """Compares the source, which is compiled."""
        with closing(self._files.open(self._source, self._source.path)) as trial:
            self._compare(trial, trial, [shown.place for shown in trial.shown], checks_ops=False)
        self._notes["Without the model that the file was made from, no op is checked by itself"] = (
            None
        )

    def report(self) -> ModelComparison:
        """What came of it."""
        findings = self._findings
        if not findings.num_compared:
            reasons = "; ".join(dict.fromkeys(self._not_compared.values()))
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"no tensor could be compared: {reasons or 'the model computes nothing'}",
                self._source.path,
            )
        self._notes |= dict.fromkeys(findings.outliers())
        tensors = findings.tensors()
        self._note_moved(tensors)
        return ModelComparison(
            self._options.reference.kernels,
            len(self._samples),
            findings.samples(),
            tensors,
            findings.first(),
            findings.blamed(self._regions),
            [NotCompared(name, reason) for name, reason in self._not_compared.items()],
            list(self._notes),
        )

    def _compare_tapped(self, plain: Trial, path: str) -> set[int]:
        """Compares what the vendor shows of a compiled file; returns its places, none where there are no taps."""
        must = self._options.inside == TAPS
        try:
            trial = self._files.open_tapped(self._source, path, self._samples[0].inputs)
        except LiteRtError as error:
            if must or error.status is not Status.UNSUPPORTED:
                raise
            return set()
        with closing(trial):
            if trial.inside:
                places = [shown.place for shown in trial.shown]
                self._compare(plain, trial, places)
                return set(places)
        if must:
            raise LiteRtError(
                Status.UNSUPPORTED,
                "the vendor shows no tensor of the model inside of its NPU calls",
                path,
                "Compile the model with --taps, or compare it with --inside=cuts.",
            )
        return set()

    def _compare_exposed(self, plain: Trial, places: Sequence[int]) -> None:
        """Compares tensors with them as outputs; with some of them, where the vendor refuses to have all."""
        shown = sorted({*places, *self._source.read_by(places)})
        try:
            trial = self._files.open_exposed(self._source, shown)
        except LiteRtError as error:
            if len(places) > 1:
                middle = len(places) // 2
                self._compare_exposed(plain, places[:middle])
                self._compare_exposed(plain, places[middle:])
            else:
                name = self._source.tensor(places[0]).name
                self._not_compared[name] = (
                    f"as an output of the model it is refused: {self._files.in_user_s_words(str(error))}"
                )
            return
        with closing(trial):
            self._compare(plain, trial, places)

    def _compare(
        self, plain: Trial, trial: Trial, places: Sequence[int], *, checks_ops: bool = True
    ) -> None:
        """Compares tensors that a trial shows; without checks of ops, with golden arrays alone."""
        known = {shown.place: shown for shown in trial.shown}
        wanted = [place for place in places if place in known and checks_ops]
        options, source = self._options, self._source
        check = LocalCheck(
            source, list(known), wanted, options.reference, options.tolerance, self._folder
        )
        reference = ReferenceRun(source, (), wanted, options.reference, self._folder)
        self._tell(check.reference, reference)
        self._regions |= {place: check.regions[place] for place in wanted}
        for number, sample in enumerate(told("run", self._samples)):
            self._findings.begin_sample(number, sample.origin)
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
                text = f"given the same inputs, its shape is {shapes}"
                self._findings.add_fault(known[place], Fault.SHAPE, text)

    def _check_runs(self, run: _SampleRun, known: _Known) -> None:
        """Runs the sample again, which gives the same values where nothing is wrong."""
        for _ in range(self._options.num_runs - 1):
            for place, again in run.trial.run(run.sample.inputs).items():
                first = run.inside[place]
                if place not in known or first.tobytes() == again.tobytes():
                    continue
                name = self._source.tensor(place).name
                if first.shape != again.shape:
                    shapes = f"{list(first.shape)} and {list(again.shape)}"
                    text = f"its shapes differ from run to run on the same inputs: {shapes}"
                    self._findings.add_fault(known[place], Fault.RUNS_DIFFER, text)
                    continue
                difference = find_difference(first, again, tolerance=self._options.tolerance)
                if difference.is_allowed:
                    self._notes[
                        f"'{name}' differs between runs on the same inputs, within its limit"
                    ] = None
                else:
                    self._findings.add_fault(
                        known[place],
                        Fault.RUNS_DIFFER,
                        "its results differ from run to run on the same inputs, as of a race, or of memory that "
                        "nobody has written: "
                        f"element {difference.index} is {difference.expected:g}, then {difference.found:g}",
                    )

    def _check_values(
        self, reference: ReferenceRun, run: _SampleRun, known: _Known, number: int
    ) -> None:
        """Measures each tensor beside the reference; and whether the file as it is has the same values."""
        expected = reference.run(run.inputs, run.inside)
        golden = self._options.golden
        for place, shown in known.items():
            if place not in expected and place not in golden:
                continue
            found = run.outside.get(place, run.inside[place])
            has_reference = place in expected and reference.is_computed(place)
            if golden:
                if place in golden:
                    self._check_golden(shown, found, golden[place])
            elif has_reference:
                self._findings.add_measures(shown, found, expected[place])
            if place in run.outside and run.outside is not run.inside:
                near = expected[place] if has_reference else run.inside[place]
                self._check_apart(shown, run, near, number)

    def _check_golden(self, shown: ShownTensor, found: Array, golden: Array) -> None:
        tensor = self._source.tensor(shown.place)
        name = tensor.name
        reals = as_reals(tensor, found)
        wanted = as_reals(tensor, golden) if golden.dtype == found.dtype else golden
        if reals.shape != wanted.shape:
            self._not_compared[name] = (
                f"the golden array has shape {list(wanted.shape)}, the model's tensor {list(reals.shape)}"
            )
            return
        self._findings.add_measures(shown, reals, wanted)
        difference = find_difference(
            np.asarray(wanted, np.float64),
            np.asarray(reals, np.float64),
            tolerance=self._options.tolerance,
        )
        if not difference.is_allowed:
            text = f"beside the golden array, {difference}"
            self._findings.add_fault(shown, Fault.GOLDEN, text)

    def _check_apart(
        self, shown: ShownTensor, run: _SampleRun, expected: Array, number: int
    ) -> None:
        """Whether the file as it is gives another value than the one whose inner tensors are outputs."""
        inside, outside = run.inside[shown.place], run.outside[shown.place]
        if inside.tobytes() == outside.tobytes() or inside.shape != outside.shape:
            return
        tolerance = self._options.tolerance
        noise = 0.0
        if expected.shape == inside.shape:
            noise = find_difference(expected, inside, tolerance=tolerance).amount
        apart = find_difference(inside, outside, tolerance=tolerance)
        if apart.amount > apart.limit + _SLACK * noise:
            self._apart.setdefault(shown.place, number)

    def _explain_apart(self, plain: Trial, compiled: str) -> None:
        """Says why the file as it is gives another value."""
        order = [place for place in self._source.results if place in self._apart]
        if not order:
            return
        place = order[0]
        shown = next(shown for shown in plain.shown if shown.place == place)
        inputs = self._samples[self._apart[place]].inputs
        value = plain.run(inputs)[place]
        text = (
            "the file gives another value than the same model with its inner tensors as outputs, whose ops "
            "are right each by itself"
        )
        if compiled:
            with closing(
                self._files.open(self._source, self._files.compile(self._source.path)[0])
            ) as anew:
                new = anew.run(inputs).get(place)
            if new is None or new.tobytes() != value.tobytes():
                text += (
                    ", and than the model compiled anew: its byte code is stale: of another model, of other "
                    "options, or of another version of the compiler"
                )
        else:
            text += ": the fault shows only while they stay inside of the call"
        self._findings.begin_sample(self._apart[place], "")
        self._findings.add_fault(shown, Fault.AS_IT_IS, text)

    def _tell(self, *runs: ReferenceRun) -> None:
        """Notes what computes ops in place of the kernels, and which ops nothing computes."""
        for run in runs:
            for place, by in run.by_others.items():
                op = self._source.subgraph.ops[place]
                self._notes[f"{by} computes the reference of {op.name}"] = None
            for place, reason in run.left_out.items():
                op = self._source.subgraph.ops[place]
                for tensor in op.outputs:
                    self._not_compared[tensor.name] = f"{op.name}: {reason}"

    def _compile_plain(self) -> str:
        """Compiles the model; without ops that nothing runs, where there are such ops."""
        taps = self._options.inside != CUTS
        path, report = self._files.compile(self._source.path, taps)
        if not report.not_runnable:
            self._npu_ops = self._find_npu_ops(report)
            return path
        names = set(report.not_runnable)
        target = os.path.join(self._folder, "runnable.tflite")
        for op in self._source.subgraph.ops:
            for tensor in op.outputs if op.name in names else ():
                self._not_compared[tensor.name] = (
                    f"neither the NPU nor stock LiteRT runs {op.name}: its results are random numbers here"
                )
        former = self._source.inputs
        self._source = self._source.without(names, target)
        self._findings = Findings(self._source)
        random = np.random.default_rng(0)
        added = {
            name: random.uniform(0, 1, self._source.tensor(place).shape).astype(
                self._source.tensor(place).element_type.numpy_dtype
            )
            for name, place in self._source.inputs.items()
            if name not in former
        }
        self._samples = [Sample(s.origin, {**s.inputs, **added}) for s in self._samples]
        path, report = self._files.compile(target, taps)
        self._npu_ops = self._find_npu_ops(report)
        return path

    def _find_npu_ops(self, report: Report) -> set[int]:
        """The ops of the source, by its user's numbers, that the file as it is has in NPU calls."""
        if len(report.ops) != len(
            list(self._source.model.ops())
        ):  # transformations have made others
            return set()
        index = self._source.subgraph_index
        return {self._source.op_number(o.index) for o in report.npu_ops if o.subgraph == index}

    def _note_moved(self, tensors: Sequence[TensorErrors]) -> None:
        """Notes which ops of NPU calls could only be checked on the CPU."""
        moved = [
            f"{t.op} {t.op_name}" for t in tensors if t.where == "cpu" and t.op in self._npu_ops
        ]
        if moved:
            more = f" and {len(moved) - 5} more" if len(moved) > 5 else ""
            self._notes[
                "the NPU does not take these ops where their results are outputs, so that the CPU's were checked: "
                f"{', '.join(moved[:5])}{more}"
            ] = None


_Known = Mapping[int, ShownTensor]


class _SampleRun:
    """A sample in both ways of running a model.

    Attributes:
      inputs: by their places in the source.
      inside: what the trial shows.
      outside: what the file shows as it is.
    """

    def __init__(self, source: SourceGraph, sample: Sample, trial: Trial, plain: Trial) -> None:
        self.sample, self.trial = sample, trial
        self.inputs = {source.inputs[name]: array for name, array in sample.inputs.items()}
        self.inside = trial.run(sample.inputs)
        self.outside = self.inside if plain is trial else plain.run(sample.inputs)
