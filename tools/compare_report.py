"""The report of `litert-npu compare`: errors of tensors, and the op that causes wrong results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from math import isnan

from litert.analysis.comparison import ModelComparison, TensorErrors
from litert.core.counts import count_text

from .console import PrintedReport, name_text, table_lines
from .wrong_part_files import PartFiles

_SHOWN = 10


@dataclass(frozen=True, slots=True)
class CompareReport(ModelComparison, PrintedReport):
    """The comparison of a model with its reference.

    Attributes:
      path: Path of the model.
      reference: Path of the model that stock LiteRT ran as the reference, or of the file with golden tensors.
      part: Smallest part of the model that gives wrong results, written by `--bisect`; null if `--bisect` wrote no
        part.
    """

    answers = ("passed",)

    path: str = ""
    reference: str = ""
    part: PartFiles | None = None

    @classmethod
    def of(
        cls, comparison: ModelComparison, path: str, reference: str, part: PartFiles | None
    ) -> CompareReport:
        """Returns the report of a comparison."""
        values = {f.name: getattr(comparison, f.name) for f in fields(comparison)}
        return cls(**values, path=path, reference=reference, part=part)

    @property
    def passed(self) -> bool:
        """Whether the errors of all tensors are within their limits, and each op on the NPU was compared."""
        return not self.first and not self.unchecked

    @property
    def _is_checked(self) -> bool:
        return any(tensor.local_greatest is not None for tensor in self.tensors)

    def lines(self) -> Iterator[str]:
        yield from self.lines_with(_worst(self.tensors))

    def lines_with(self, shown: Sequence[TensorErrors]) -> Iterator[str]:
        """Yields the lines of the text report, with a row for each of the given tensors."""
        samples = count_text(self.num_samples, "sample")
        beside = f" beside {self.reference}" if self.reference != self.path else ""
        by = (
            f"; each op is compared with stock LiteRT's {self.kernels} kernels"
            if self._is_checked
            else ""
        )
        yield f"{self.path}{beside}, on {samples}{by}"
        left = (
            f"; {count_text(len(self.unchecked), 'NPU op')} not compared" if self.unchecked else ""
        )
        yield f"{count_text(len(self.tensors), 'tensor')} compared; {_counted(self.tensors)}{left}"
        yield from _table(shown)
        if self.num_samples > 1:
            yield from self._sample_lines()
        yield from self._not_compared_lines()
        yield from (f"Note: {name_text(note)}" for note in self.notes)
        yield from self.answer()

    def _sample_lines(self) -> Iterator[str]:
        for number, sample in enumerate(self.samples):
            if sample.num_beyond:
                first = name_text(sample.first)
                yield f"Sample {number}, {sample.origin}: {sample.num_beyond} beyond their limits, first {first}"

    def _not_compared_lines(self) -> Iterator[str]:
        by_reason: dict[str, list[str]] = {}
        for item in self.not_compared:
            by_reason.setdefault(item.reason, []).append(name_text(item.name))
        for reason, names in by_reason.items():
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            yield f"Not compared: {', '.join(names[:3])}{more}: {name_text(reason)}"

    def answer(self) -> Iterator[str]:
        """Yields a summary in a few lines."""
        if self.passed:
            yield "The errors of all tensors are within their limits"
            return
        if not self.first:
            ops = [f"{op.index} {name_text(op.name)}" for op in self.unchecked]
            more = f" and {len(ops) - 5} more" if len(ops) > 5 else ""
            yield (
                "All errors are within their limits, but these NPU ops were not compared: "
                f"{', '.join(ops[:5])}{more}"
            )
            return
        yield f"First tensor with an error beyond its limit: {name_text(self.first)}"
        if self.blamed is None:
            is_right = "each op computes the right result from its inputs"
            yield (
                "No single op causes the error: "
                f"{is_right if self._is_checked else 'no op was checked separately'}"
            )
            return
        op, call = self.blamed.op, self.blamed.call
        where = f"in NPU call {name_text(call)}" if call else "on the CPU"
        yield f"To blame: op {op.index} {name_text(op.name)} of subgraph {op.subgraph}, {where}"
        yield f"  {name_text(self.blamed.tensor)}: {self.blamed.why}"
        if self.part is not None:
            yield from self.part.lines()


def _counted(tensors: Sequence[TensorErrors]) -> str:
    npu = sum(tensor.where == "npu" for tensor in tensors)
    beyond = sum(not tensor.is_within for tensor in tensors)
    return f"{npu} of the NPU, {len(tensors) - npu} of the CPU; {beyond} beyond their limits"


def _worst(tensors: Sequence[TensorErrors]) -> list[TensorErrors]:
    return sorted(tensors, key=_badness, reverse=True)[:_SHOWN]


def _badness(tensor: TensorErrors) -> tuple[bool, bool, float, float]:
    amount = tensor.local_greatest or 0.0
    part = amount / tensor.limit if tensor.limit else amount
    is_measured = not isnan(tensor.greatest)  # beside golden tensors, those that the user has
    return not tensor.is_within, is_measured, part, tensor.greatest if is_measured else 0.0


def _table(tensors: Sequence[TensorErrors]) -> Iterator[str]:
    """Returns a row for each tensor: its op, its difference from the reference, the op's own error, the fault."""
    rows: list[tuple[str, ...]] = [
        ("op", "", "on", "greatest", "mean", "cosine", "SNR dB", "the op's own error")
    ]
    for t in tensors:
        own = "" if t.local_greatest is None else f"{t.local_greatest:.3g} {t.unit}".rstrip()
        beyond = "" if t.is_within else ", beyond its limit"
        texts = [f"{t.greatest:.3g}", f"{t.mean:.3g}", f"{t.cosine:.6f}", f"{t.snr_db:.1f}"]
        measures = ["-" if text == "nan" else text for text in texts]
        rows.append((str(t.op), name_text(t.op_name), t.where, *measures, f"{own}{beyond}"))
    head, *lines = table_lines(rows)
    yield head
    for line, t in zip(lines, tensors, strict=True):
        yield line
        if t.problem:
            yield f"    {name_text(t.name)}: {name_text(t.problem)}"
