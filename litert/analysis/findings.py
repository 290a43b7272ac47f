"""Collects the findings of a comparison: each tensor's worst errors over runs and samples, and the op at fault."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from litert.analysis.comparison import Blamed, SampleErrors, SourceOp, TensorErrors
from litert.analysis.difference import STEPS, Difference
from litert.analysis.source_graph import SourceGraph
from litert.analysis.stock_run import Array
from litert.analysis.tensor_measures import Measures, measure
from litert.analysis.trial import ShownTensor
from litert.model.graph import Tensor
from litert.model.quantized_tensor import find_quantization

_MOST_BIAS = 0.75
_LEAST_ELEMENTS = 16
_OUTLIER = 1000
_UNPACKING = ("DEQUANTIZE", "DENSIFY")
"""Ops that only unpack weights stored in the file."""


class Fault(IntEnum):
    """Kinds of faults of a tensor, ordered by importance; the report shows the most important fault."""

    GOLDEN = 0  # differs from the golden file: an earlier op may be at fault
    SHAPE = 1
    AS_IT_IS = 2  # the unchanged file gives another value than the file with more outputs
    RUNS_DIFFER = 3
    BIASED = 4
    OWN_ERROR = 5


@dataclass(slots=True)
class _Found:
    """The findings about one tensor.

    Attributes:
      measures: Errors against the reference; None without a reference.
      local: Error of the op, or of the ops that are checked together.
      faults: Descriptions of the faults, by kind.
    """

    shown: ShownTensor
    measures: Measures | None = None
    local: Difference | None = None
    faults: dict[Fault, str] = field(default_factory=dict)

    def blames_op(self) -> bool:
        """Whether one of the faults is the op's own."""
        return any(fault is not Fault.GOLDEN for fault in self.faults)


class Findings:
    """The findings about all tensors, by each tensor's place in the source model.

    Attributes:
      regions: For each tensor, by its place, the ops that were checked together to check the tensor.
      not_compared: Reasons why tensors were not compared, by name.
      notes: Further notes about the comparison, in order.
    """

    def __init__(self, source: SourceGraph) -> None:
        self._source = source
        self.regions: dict[int, Sequence[int]] = {}
        self.not_compared: dict[str, str] = {}
        self.notes: dict[str, None] = {}
        self._found: dict[int, _Found] = {}
        self._npu_ops: set[int] = set()
        self._samples: list[tuple[str, set[int]]] = []

    def begin_sample(self, number: int, origin: str) -> None:
        """Sets the sample of all findings that are added from now on."""
        if number == len(self._samples):
            self._samples.append((origin, set()))
        self._current = self._samples[number][1]

    def add_shown(self, shown: ShownTensor) -> None:
        """Records that a run made a tensor visible, even if the tensor has no reference."""
        if shown.call:
            self._npu_ops.add(self._op_place(shown.place))

    def add_measures(self, shown: ShownTensor, found: Array, expected: Array) -> None:
        """Compares a tensor with its reference, which may have another shape, and adds the result."""
        if found.shape != expected.shape:
            text = f"the tensor's shape is {list(found.shape)}, but {list(expected.shape)} in the reference"
            self._fault(shown, Fault.SHAPE, text)
            return
        record = self._compared(shown)
        tensor = self._source.tensor(shown.place)
        measures = measure(as_reals(tensor, found), as_reals(tensor, expected))
        record.measures = measures if record.measures is None else record.measures.worst(measures)

    def add_local(
        self, shown: ShownTensor, difference: Difference, found: Array, expected: Array
    ) -> None:
        """Adds the difference between an op's result and the right result for the same inputs."""
        record = self._compared(shown)
        if record.local is None or difference.amount >= record.local.amount:
            record.local = difference
        if not difference.is_allowed:
            self._fault(shown, Fault.OWN_ERROR, f"given the same inputs, {difference}")
        elif difference.unit == STEPS and found.size >= _LEAST_ELEMENTS:
            bias = float((found.astype(float) - expected).mean())
            if abs(bias) > _MOST_BIAS * difference.limit:
                self._fault(
                    shown,
                    Fault.BIASED,
                    f"given the same inputs, the elements are {abs(bias):.2g} steps too "
                    f"{'large' if bias > 0 else 'small'} on average: is a zero point wrong?",
                )

    def add_fault(self, shown: ShownTensor, fault: Fault, text: str) -> None:
        """Adds a fault of a tensor."""
        self._fault(shown, fault, text)

    @property
    def num_compared(self) -> int:
        """Number of tensors that have a reference."""
        return sum(f.measures is not None or f.local is not None for f in self._found.values())

    def unchecked(self, npu_ops: Collection[int]) -> list[SourceOp]:
        """Finds ops in NPU calls that were compared neither separately nor together with other ops.

        Args:
          npu_ops: Places of ops in NPU calls, in addition to the ops that are known from runs.
        """
        source = self._source
        checked: set[int] = set()
        for place, found in self._found.items():
            if found.local is not None or found.measures is not None or Fault.SHAPE in found.faults:
                checked |= {self._op_place(place), *self.regions.get(place, ())}
        left = sorted(self._npu_ops.union(npu_ops) - checked)
        return [
            self._source.source_op(place)
            for place in left
            if any(source.places[t] in source.varying for t in source.subgraph.ops[place].outputs)
        ]

    def is_known(self, place: int) -> bool:
        """Whether there are findings about a tensor."""
        return place in self._found

    def tensors(self) -> list[TensorErrors]:
        """Makes the report of all tensors, in execution order."""
        return [self._errors(found) for found in self._in_order()]

    def samples(self) -> list[SampleErrors]:
        """Makes the report of each sample."""
        order = self._source.results
        return [
            SampleErrors(
                origin,
                len(beyond),
                next((self._source.tensor(p).name for p in order if p in beyond), ""),
            )
            for origin, beyond in self._samples
        ]

    def first(self) -> str:
        """Returns the name of the first tensor with an error beyond its limit; "" if there is none."""
        beyond = (found for found in self._in_order() if found.faults)
        return next((self._source.tensor(found.shown.place).name for found in beyond), "")

    def blamed(self) -> Blamed | None:
        """Finds the first op at fault."""
        found = next((found for found in self._in_order() if found.blames_op()), None)
        if found is None:
            return None
        place = found.shown.place
        why = "; ".join(found.faults[fault] for fault in sorted(found.faults, reverse=True))
        op = self._op_of(place)
        ops = [self._source.source_op(p) for p in self.regions.get(place, ())] or [op]
        if len(ops) > 1:
            names = ", ".join(f"{each.index} {each.name}" for each in ops)
            why += (
                f". The tensors between ops {names} are not visible, so one of these ops is at "
                "fault"
            )
        if makers := self._constant_makers(self.regions.get(place, ())):
            names = ", ".join(f"{each.index} {each.name}" for each in makers)
            why += (
                ". The op's constants are computed by ops that were not compared, and that may "
                f"be at fault: {names}"
            )
        return Blamed(
            op,
            found.shown.call,
            self._source.tensor(place).name,
            why,
            ops,
            next(n for n, (_, beyond) in enumerate(self._samples) if place in beyond),
            Fault.RUNS_DIFFER in found.faults,
        )

    def _constant_makers(self, region: Sequence[int]) -> list[SourceOp]:
        """Finds ops that compute only from constants and whose results the region reads."""
        source = self._source
        ops = source.subgraph.ops
        read = {tensor.producer for op in region for tensor in ops[op].inputs if tensor is not None}
        return [
            self._source.source_op(place)
            for place, op in enumerate(ops)
            if op in read
            and op.name not in _UNPACKING
            and source.varying.isdisjoint(source.places[tensor] for tensor in op.outputs)
        ]

    def outliers(self) -> Iterator[str]:
        """Finds ops whose own error is within the limit, but far above the median error of all ops."""
        known = [(found, found.local) for found in self._in_order() if found.local is not None]
        floats = [(found, local) for found, local in known if local.unit not in (STEPS, "")]
        usual = sorted(local.amount for _, local in floats if local.amount)
        if len(usual) < 8:
            return
        median = usual[len(usual) // 2]
        for found, local in floats:
            if local.is_allowed and local.amount > max(_OUTLIER * median, local.limit / 100):
                op = self._op_of(found.shown.place)
                yield (
                    f"the error that op {op.index} {op.name} itself adds is {local.amount:.2g} of the magnitude, "
                    f"but the median of such errors is {median:.2g}: --tolerance sets the limit"
                )

    def _in_order(self) -> Iterator[_Found]:
        return (self._found[place] for place in self._source.results if place in self._found)

    def _of(self, shown: ShownTensor) -> _Found:
        return self._found.setdefault(shown.place, _Found(shown))

    def _compared(self, shown: ShownTensor) -> _Found:
        """Returns the findings about a tensor; another way of running the model may omit the tensor."""
        self.not_compared.pop(self._source.tensor(shown.place).name, None)
        return self._of(shown)

    def _fault(self, shown: ShownTensor, fault: Fault, text: str) -> None:
        self._of(shown).faults.setdefault(fault, text)
        self._current.add(shown.place)

    def _op_of(self, place: int) -> SourceOp:
        """Finds the op that computes a tensor."""
        return self._source.source_op(self._op_place(place))

    def _op_place(self, place: int) -> int:
        return self._source.op_places[self._source.producer(place)]

    def _errors(self, found: _Found) -> TensorErrors:
        place, local = found.shown.place, found.local
        op = self._op_of(place)
        measures = found.measures or Measures(math.nan, math.nan, math.nan, math.nan)
        problems = [found.faults[f] for f in sorted(found.faults) if f is not Fault.OWN_ERROR]
        return TensorErrors(
            self._source.tensor(place).name,
            op.subgraph,
            op.index,
            op.name,
            "npu" if found.shown.call else "cpu",
            found.shown.call,
            measures.greatest,
            measures.mean,
            measures.cosine,
            measures.snr_db,
            None if local is None else local.amount,
            None if local is None else local.limit,
            "" if local is None else local.unit,
            not found.faults,
            "; ".join(filter(None, [measures.problem, *problems])),
        )


def as_reals(tensor: Tensor, array: Array) -> Array:
    """Converts a tensor's elements to real numbers, by dequantizing quantized elements."""
    quantization = find_quantization(tensor)
    if quantization is None or array.dtype.kind not in "iu":
        return array
    return quantization.dequantize(array)
