"""Compares a model on the NPU with stock LiteRT's reference kernels, tensor by tensor and op by op.

The model is compiled unchanged, and also with its intermediate tensors as additional outputs, so that any vendor
returns these tensors. An op is to blame only for the error that it adds itself, because stock LiteRT's kernels
compute each op from the inputs that the op had in the NPU's run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing

from compiler_plugin.report import Report
from litert.analysis.compare_options import CUTS, TAPS, CompareOptions, Sample
from litert.analysis.comparison import ModelComparison, NotCompared, SourceOp, TensorErrors
from litert.analysis.exposing import find_batches
from litert.analysis.findings import Fault, Findings
from litert.analysis.npu_files import NpuFiles, working_folder
from litert.analysis.runnable import leave_out
from litert.analysis.source_graph import SourceGraph, find_entry
from litert.analysis.trial import StockTrial, Trial, match_models
from litert.analysis.trial_checks import TrialChecks, naming
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.dispatch_op import is_dispatch_op
from litert.model.positions import reachable_subgraphs
from litert.model.reader import read_model


def compare_model(
    source: SourceGraph,
    compiled: str,
    samples: Sequence[Sample],
    options: CompareOptions,
) -> ModelComparison:
    """Runs a model on the NPU, and compares the results with stock LiteRT's kernels on the CPU.

    Args:
      source: The model before compilation.
      compiled: Path of the compiled file; "" to compile the source now.
      samples: Input samples for the compared runs; there must be at least one.
      options: how.

    Raises:
      LiteRtError: If the model cannot be compiled, loaded or run; UNSUPPORTED, if no tensor could be compared.
    """
    return _compare(source, samples, options, lambda comparing: comparing.compare_on_npu(compiled))


def compare_transformed(
    source: SourceGraph,
    model_path: str,
    samples: Sequence[Sample],
    options: CompareOptions,
) -> ModelComparison:
    """Compares a model with the model from which it was made.

    Both models run on the CPU with the kernels of the reference.

    Tensors of the two models are matched by name. See `compare_model` for arguments and errors.
    """
    return _compare(
        source, samples, options, lambda comparing: comparing.compare_on_cpu(model_path)
    )


def compare_as_it_is(
    source: SourceGraph,
    samples: Sequence[Sample],
    options: CompareOptions,
) -> ModelComparison:
    """Compares a compiled file with golden tensors, without its original model.

    `source` is the compiled file. See `compare_model` for arguments and errors.
    """
    return _compare(source, samples, options, _Comparing.compare_file)


def _compare(
    source: SourceGraph,
    samples: Sequence[Sample],
    options: CompareOptions,
    work: Callable[[_Comparing], None],
) -> ModelComparison:
    with working_folder(source.path) as folder:
        comparing = _Comparing(source, samples, options, folder)
        work(comparing)
        return comparing.report()


class _Comparing:
    """A running comparison."""

    def __init__(
        self,
        source: SourceGraph,
        samples: Sequence[Sample],
        options: CompareOptions,
        folder: str,
    ) -> None:
        self._options, self._folder = options, folder
        self._files = NpuFiles(
            folder, source.path, options.apply, options.load, options.environment
        )
        self._npu_ops: set[int] = set()
        self._unchecked: Sequence[SourceOp] = ()
        self._kernel_hint = ""
        self._not_runnable: Sequence[str] = ()
        self._check_source(source, samples)

    def _check_source(self, source: SourceGraph, samples: Sequence[Sample]) -> None:
        """Prepares the checks of a source's trials."""
        self._source, self._samples = source, samples
        self._findings = Findings(source)
        self._checks = TrialChecks(source, samples, self._options, self._findings, self._folder)

    def compare_on_npu(self, compiled: str) -> None:
        """Compares the compiled file and the tensors inside its calls."""
        path = compiled or self._compile_plain()
        with closing(self._files.open(self._source, path)) as plain:
            tapped = (
                set()
                if self._options.inside == CUTS
                else self._compare_tapped(plain, path, bool(compiled))
            )
            for places in find_batches(self._source, self._source.results):
                rest = [place for place in places if place not in tapped]
                if rest and self._options.inside != TAPS:
                    self._compare_exposed(plain, rest)
            if any(not self._findings.is_known(shown.place) for shown in plain.shown):
                self._checks.check(plain, plain, [shown.place for shown in plain.shown])
            self._explain_apart(plain, compiled)
        self._unchecked = self._findings.unchecked(self._npu_ops)
        self._note_calls(path)

    def compare_on_cpu(self, model_path: str) -> None:
        """Compares a model that was made from the source."""
        model = SourceGraph(model_path, self._source.key)
        places = match_models(self._source, model)
        matched = set(places.values())
        for place in self._source.results:
            if place not in matched:
                name = self._source.tensor(place).name
                self._findings.not_compared[name] = (
                    "the model has no tensor with this name: the op that computes it is checked "
                    "together with the ops that read it"
                )
        trial = StockTrial(model, places, self._options.reference, self._folder)
        self._checks.check(trial, trial, [shown.place for shown in trial.shown])

    def compare_file(self) -> None:
        """Compares the source, which is a compiled file."""
        with closing(self._files.open(self._source, self._source.path)) as trial:
            self._checks.check(
                trial, trial, [shown.place for shown in trial.shown], checks_ops=False
            )
        self._findings.notes["Single ops are not checked, since the original model is missing"] = (
            None
        )

    def report(self) -> ModelComparison:
        """Makes the report of the comparison."""
        findings = self._findings
        if not findings.num_compared:
            reasons = "; ".join(dict.fromkeys(findings.not_compared.values()))
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"no tensor could be compared: {reasons or 'the model has no ops'}",
                self._source.path,
                reference_hint(op.name for op in self._unchecked) or self._kernel_hint,
            )
        findings.notes |= dict.fromkeys(findings.outliers())
        tensors = findings.tensors()
        self._note_moved(tensors)
        return ModelComparison(
            self._options.reference.kernels,
            len(self._samples),
            findings.samples(),
            tensors,
            findings.first(),
            findings.blamed(),
            self._unchecked,
            [NotCompared(name, reason) for name, reason in findings.not_compared.items()],
            list(findings.notes),
            self._not_runnable,
        )

    def _compare_tapped(self, plain: Trial, path: str, is_given: bool) -> set[int]:
        """Compares a compiled file's tensors, inside calls by taps; returns their places, none without taps."""
        outside = {shown.place for shown in plain.shown}
        if outside.issuperset(self._source.results):  # no tensor is inside a call
            self._checks.check(plain, plain, self._source.results)
            return outside
        must = self._options.inside == TAPS
        try:
            with naming(self._samples[0]):
                trial = self._files.open_tapped(self._source, path, self._samples[0].inputs)
        except LiteRtError as error:
            if must or error.status is not Status.UNSUPPORTED:
                raise
            return set()
        with closing(trial):
            if trial.inside or (
                must and not is_given
            ):  # the vendor has taps, but they show no tensor
                places = [shown.place for shown in trial.shown]
                self._checks.check(plain, trial, places)
                return set(places)
        if must:
            raise LiteRtError(
                Status.UNSUPPORTED,
                "the NPU calls in the file show none of the model's intermediate tensors",
                path,
                "Compile the model with --taps, or compare it with --inside=cuts.",
            )
        return set()

    def _compare_exposed(self, plain: Trial, places: Sequence[int]) -> None:
        """Compares tensors as outputs of a cut model; in parts, if the vendor refuses all at once."""
        refused: dict[int, LiteRtError] = {}
        for part, trial in self._files.open_parts(self._source, places, refused):
            self._checks.check(plain, trial, part)
        for place, error in refused.items():
            reason = self._files.in_user_s_words(str(error))
            name = self._source.tensor(place).name
            self._findings.not_compared[name] = (
                f"the vendor does not compile the model with this tensor as an output: {reason}"
            )

    def _explain_apart(self, plain: Trial, compiled: str) -> None:
        """Notes why the unchanged file gives another value."""
        order = [place for place in self._source.results if place in self._checks.apart]
        if not order:
            return
        place = order[0]
        shown = next(shown for shown in plain.shown if shown.place == place)
        inputs = self._samples[self._checks.apart[place]].inputs
        value = plain.run(inputs)[place]
        text = (
            "each op is right when it is checked separately, but the file computes another value than "
            "the same model compiled with its intermediate tensors as outputs"
        )
        if compiled:
            with closing(
                self._files.open(self._source, self._files.compile(self._source.path)[0])
            ) as anew:
                new = anew.run(inputs).get(place)
            if new is None or new.tobytes() != value.tobytes():
                text += (
                    ", and another value than the same model compiled again: the file's byte code is "
                    "stale (made from another model, with other options, or by another version "
                    "of the compiler)"
                )
        else:
            text += ": the error occurs only while these tensors stay inside the NPU call"
        self._findings.begin_sample(self._checks.apart[place], "")
        self._findings.add_fault(shown, Fault.AS_IT_IS, text)

    def _compile_plain(self) -> str:
        """Compiles the model without the ops that neither the NPU nor the CPU can run."""
        taps = self._options.inside != CUTS
        path, report = self._files.compile(self._source.path, taps)
        if not report.not_runnable:
            self._npu_ops = self._find_npu_ops(report)
            return path
        target = os.path.join(self._folder, "runnable.tflite")
        self._leave_out(report.not_runnable, target)
        path, report = self._files.compile(target, taps)
        self._npu_ops = self._find_npu_ops(report)
        return path

    def _leave_out(self, names: Sequence[str], target: str) -> None:
        """Replaces the source by a copy without these ops, which reads random numbers for their results."""
        flags = " ".join(f"--npu_custom_op_info={name},PATH" for name in sorted(names))
        self._kernel_hint = f"Give the op a kernel: {flags}."
        whole, self._not_runnable = self._source, names
        self._check_source(*leave_out(whole, self._samples, names, target))
        for op in whole.subgraph.ops:
            for tensor in op.outputs if op.name in names else ():
                self._findings.not_compared[tensor.name] = (
                    f"neither the NPU nor stock LiteRT can run {op.name}: random numbers replace "
                    "the op's results"
                )

    def _find_npu_ops(self, report: Report) -> set[int]:
        """Finds the places in the source of the ops that are in the unchanged file's NPU calls."""
        if len(report.ops) != len(
            list(self._source.model.ops())
        ):  # transformations made the other ops
            return set()
        index = self._source.subgraph_index
        return {op.index for op in report.npu_ops if op.subgraph == index}

    def _note_moved(self, tensors: Sequence[TensorErrors]) -> None:
        """Notes the ops of NPU calls that could only be checked on the CPU."""
        on_npu = {self._source.op_number(place) for place in self._npu_ops}
        moved = [f"{t.op} {t.op_name}" for t in tensors if t.where == "cpu" and t.op in on_npu]
        if moved:
            more = f" and {len(moved) - 5} more" if len(moved) > 5 else ""
            self._findings.notes[
                "these ops were checked on the CPU, since the NPU does not take them if their "
                f"results are model outputs: {', '.join(moved[:5])}{more}"
            ] = None

    def _note_calls(self, compiled: str) -> None:
        """Notes the NPU calls that are not checked op by op, or that there are no NPU calls."""
        source, notes = self._source, self._findings.notes
        with read_model(compiled) as model:
            calling = {i for i, s in enumerate(model.subgraphs) if any(map(is_dispatch_op, s.ops))}
            if not calling:
                notes["no op is on the NPU: only CPU kernels were compared with each other"] = None
            for op in find_entry(model, source.key, compiled).subgraph.ops:
                if not calling.isdisjoint(reachable_subgraphs(model, op)):
                    names = ", ".join(f"'{tensor.name}'" for tensor in op.outputs)
                    notes[
                        f"NPU calls in subgraphs of {op.name} are checked as a part of this op: "
                        f"{names}"
                    ] = None
        others = [e.key for e in source.model.signatures if e.key != source.key]
        if others:
            keys = ", ".join(f"'{key}'" for key in others)
            notes[
                f"only signature '{source.key}' was compared; select another signature with "
                f"--signature: {keys}"
            ] = None


def reference_hint(names: Iterable[str]) -> str:
    """Returns the hint for the ops with these names, which have no reference."""
    flags = " ".join(
        f"--reference_function={name},file.py:function" for name in dict.fromkeys(names)
    )
    return f"Give a Python function that computes the op: {flags}." if flags else ""
