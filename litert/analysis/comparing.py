"""Which op is wrong: a model on the NPU beside stock LiteRT's plain kernels, tensor by tensor and op by op.

The model is compiled once as it is, and once with its inner tensors as outputs, so that each vendor hands them
out. An op is to blame for what it adds: stock's kernels compute each op from the values that the NPU's run gave
it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from compiler_plugin.apply_options import ApplyOptions
from compiler_plugin.pipeline import apply_plugin
from litert.analysis.comparison import Blamed, ModelComparison, NotCompared, SourceOp, TensorErrors
from litert.analysis.difference import Difference
from litert.analysis.local_check import LocalCheck
from litert.analysis.reference_run import ReferenceOptions, ReferenceRun
from litert.analysis.source_graph import SourceGraph, write_exposed
from litert.analysis.stock_run import Array
from litert.analysis.tensor_measures import Measures, measure
from litert.analysis.trial import ShownTensor, Trial, expose_calls, find_shown
from litert.core.environment_options import EnvironmentOptions
from litert.model.quantized_tensor import find_quantization
from litert.options import Options

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """How a model is compared.

    Attributes:
      reference: what computes the reference.
      tolerance: of floats: the greatest error of an op, as a part of what it accumulates.
      apply: how the model is compiled.
      load: how it is loaded.
      environment: where dispatch tables are.
    """

    reference: ReferenceOptions = field(default_factory=ReferenceOptions)
    tolerance: float = 0.01
    apply: ApplyOptions = field(default_factory=ApplyOptions)
    load: Options = field(default_factory=Options)
    environment: EnvironmentOptions = field(default_factory=EnvironmentOptions)


def compare_model(
    source: SourceGraph,
    compiled: str,
    samples: Sequence[Mapping[str, Array]],
    options: CompareOptions,
    progress: Progress,
) -> ModelComparison:
    """Compares a model on the NPU with stock's kernels on the CPU.

    Args:
      source: the model, not compiled.
      compiled: a file that it was compiled to; "" to compile it.
      samples: inputs by name, at least one.
      options: how.
      progress: told how far it is.

    Raises:
      LiteRtError: what compiling, loading and running the model raises; UNSUPPORTED, where nothing at all could
        be compared.
    """
    with tempfile.TemporaryDirectory(prefix="litert-npu-") as folder, ExitStack() as stack:
        work = _Work(source, options, folder, progress)
        plain = stack.enter_context(work.open_plain(compiled))
        exposed = stack.enter_context(work.open_exposed())
        for number, sample in enumerate(samples):
            progress("run", number, len(samples))
            work.compare_sample(plain, exposed, sample)
        progress("run", len(samples), len(samples))
        return work.report(plain, exposed, len(samples))


class _Work:
    """A comparison under way.

    Attributes:
      notes: what people should know.
    """

    def __init__(
        self, source: SourceGraph, options: CompareOptions, folder: str, progress: Progress
    ) -> None:
        self._source, self._options, self._folder = source, options, folder
        self._progress = progress
        self.notes: list[str] = []
        self._measures: dict[int, Measures] = {}
        self._local: dict[int, Difference] = {}
        self._between: dict[int, Difference] = {}
        self._reference: ReferenceRun | None = None
        self._check: LocalCheck | None = None

    @contextmanager
    def open_plain(self, compiled: str) -> Iterator[Trial]:
        """The file as it is, with what is outside of its calls."""
        if not compiled:
            compiled = self._compile(self._source.path, "plain.tflite")
        path = os.path.join(self._folder, "plain_exposed.tflite")
        shown = expose_calls(compiled, self._source, path)
        with self._load(path, shown) as trial:
            yield trial

    @contextmanager
    def open_exposed(self) -> Iterator[Trial]:
        """The model compiled such that its calls give what is inside of them, too."""
        path = os.path.join(self._folder, "exposed_source.tflite")
        write_exposed(self._source, self._source.results, path)
        compiled = self._compile(path, "exposed.tflite")
        with self._load(compiled, find_shown(compiled, self._source)) as trial:
            yield trial

    def compare_sample(self, plain: Trial, exposed: Trial, sample: Mapping[str, Array]) -> None:
        """Runs a sample everywhere, and keeps the worst of each tensor."""
        source, options = self._source, self._options
        inputs = {source.inputs[name]: array for name, array in sample.items()}
        outside, inside = plain.run(sample), exposed.run(sample)
        if self._reference is None or self._check is None:
            known = list(inside)
            self._reference = ReferenceRun(source, (), known, options.reference, self._folder)
            self._check = LocalCheck(
                source, known, options.reference, options.tolerance, self._folder
            )
        for place, difference in self._check.check(inputs, inside).items():
            if difference.amount >= self._local.get(place, difference).amount:
                self._local[place] = difference
        expected = self._reference.run(inputs, inside)
        for place, array in expected.items():
            if self._reference.is_computed(place):
                found = outside.get(place, inside[place])
                self._add_measures(place, found, array)

    def _add_measures(self, place: int, found: Array, expected: Array) -> None:
        quantization = find_quantization(self._source.tensor(place))
        if found.shape != expected.shape:
            problem = (
                f"its shape is {list(found.shape)}, and {list(expected.shape)} in the reference"
            )
            measures = Measures(problem=problem)
        elif quantization is None or found.dtype.kind not in "iu":
            measures = measure(found, expected)
        else:
            measures = measure(quantization.dequantize(found), quantization.dequantize(expected))
        self._measures[place] = self._measures.get(place, measures).worst(measures)

    def report(self, plain: Trial, exposed: Trial, num_samples: int) -> ModelComparison:
        """What came of it."""
        assert self._reference is not None and self._check is not None
        tensors = [self._tensor(shown) for shown in exposed.shown if shown.place in self._measures]
        first = next((tensor for tensor in tensors if not tensor.is_within), None)
        left_out = self._reference.left_out | self._check.reference.left_out
        return ModelComparison(
            self._options.reference.kernels,
            num_samples,
            tensors,
            "" if first is None else first.name,
            None if first is None else self._blame(first),
            [NotCompared(name, reason) for name, reason in self._name_ops(left_out)],
            self.notes,
        )

    def _name_ops(self, ops: Mapping[int, str]) -> Iterator[tuple[str, str]]:
        for place, reason in sorted(ops.items()):
            op = self._source.subgraph.ops[place]
            for tensor in op.outputs:
                yield tensor.name, f"{op.name}: {reason}"

    def _tensor(self, shown: ShownTensor) -> TensorErrors:
        source, place = self._source, shown.place
        op = source.producer(place)
        measures, local = self._measures[place], self._local.get(place)
        return TensorErrors(
            source.tensor(place).name,
            source.subgraph_index,
            source.op_places[op],
            op.name,
            "npu" if shown.call else "cpu",
            shown.call,
            measures.greatest,
            measures.mean,
            measures.cosine,
            measures.snr_db,
            None if local is None else local.amount,
            None if local is None else local.limit,
            "" if local is None else local.unit,
            local is None or local.is_allowed,
            measures.problem,
        )

    def _blame(self, tensor: TensorErrors) -> Blamed:
        place = next(p for p in self._local if self._source.tensor(p).name == tensor.name)
        return Blamed(
            SourceOp(tensor.subgraph, tensor.op, tensor.op_name),
            tensor.call,
            tensor.name,
            f"given the same inputs, {self._local[place]}",
        )

    def _load(self, path: str, shown: Sequence[ShownTensor]) -> Trial:
        options = self._options
        return Trial(path, self._source.key, shown, options.load, options.environment)

    def _compile(self, path: str, name: str) -> str:
        target = os.path.join(self._folder, name)
        apply_plugin(path, target, self._options.apply, self._progress)
        return target
