"""The report of `litert-npu coverage`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from textwrap import indent

from litert.analysis.coverage import ModelCoverage
from litert.analysis.coverage_change import CoverageChange
from litert.analysis.op_coverage import OpCoverage
from litert.analysis.refusals import Refusal, share
from litert.core.counts import count_text
from litert.model.op_cost import KnownCost

from .console import PrintedReport, csv_text, name_text, size_text, table_lines
from .coverage_change_text import change_lines

_CSV_OP = [field.name for field in fields(OpCoverage)]
_UNKNOWN = "?"
_MOST_REFUSALS = 30


@dataclass(frozen=True, slots=True)
class CoverageReport(PrintedReport):
    """Which ops of models an NPU can run, and their share of the costs.

    Attributes:
      soc_manufacturer, soc_model: Vendor and SoC model of the NPU.
      plugin_sdk_version: Version of the vendor's compiler.
      sdk_version: Version of this project.
      models: Reports of the models, in the order of the command line.
      refusals: Reasons why ops of any model stay on the CPU, sorted by the cost of these ops, highest first.
      comparison: Differences from an earlier report; null without an earlier report.
      failures: Sentences about models whose NPU share is below the required percentage.
    """

    soc_manufacturer: str
    soc_model: str
    plugin_sdk_version: str
    sdk_version: str
    models: Sequence[ModelCoverage]
    refusals: Sequence[Refusal]
    comparison: CoverageChange | None
    failures: Sequence[str]

    @property
    def exit_status(self) -> int:
        """Exit status: 1 if a model has become worse or is below a minimum, 2 if this is unknown, otherwise 0."""
        change = self.comparison
        if self.failures or (change and change.is_worse):
            return 1
        as_before = {c.path for c in change.models if c.had_problem} if change else ()
        has_other_model = change is not None and any(c.problem for c in change.models)
        is_unknown = any(m.problem and m.path not in as_before for m in self.models)
        return 2 if has_other_model or is_unknown else 0

    def lines(self) -> Iterator[str]:
        version = f", compiler {self.plugin_sdk_version}" if self.plugin_sdk_version else ""
        yield f"Target: {self.soc_manufacturer} {self.soc_model}{version}"
        if len(self.models) == 1:
            yield from _model_lines(self.models[0])
        else:
            yield from _models_lines(self.models)
        if self.refusals:
            yield "Why ops stay on the CPU, by arithmetic:"
            for refusal in self.refusals[:_MOST_REFUSALS]:
                yield from _refusal_lines(refusal, len(self.models) > 1)
            if len(self.refusals) > _MOST_REFUSALS:
                more = len(self.refusals) - _MOST_REFUSALS
                yield f"  and {count_text(more, 'further kind')}; --report=json has all"
        warnings = dict.fromkeys(text for model in self.models for text in model.warnings)
        yield from (f"Warning: {warning}" for warning in warnings)
        if self.comparison:
            yield from change_lines(self.comparison)
        yield from (f"Failed: {failure}" for failure in self.failures)

    def to_csv(self) -> str:
        """Returns a table with a row for each op, and for each model with a problem."""
        rows: list[Sequence[object]] = [["path", "problem", *_CSV_OP]]
        for model in self.models:
            if model.problem:
                rows.append([model.path, model.problem])
            rows += ([model.path, "", *(getattr(op, n) for n in _CSV_OP)] for op in model.ops)
        return csv_text(rows)


def _model_lines(model: ModelCoverage) -> Iterator[str]:
    if model.problem:
        yield _problem_text(model)
        return
    yield (
        f"NPU: {model.num_npu_ops} of {count_text(model.num_ops, 'op')} in "
        f"{count_text(model.num_calls, 'call')}, {percent_text(model.arithmetic_share)} of "
        f"arithmetic, {percent_text(model.bytes_share)} of memory traffic"
    )
    yield (
        f"All: {amount_text(model.macs)} multiply-accumulates, {amount_text(model.operations)} "
        f"other operations, {size_text(model.bytes)} read and written"
    )
    tensors = count_text(model.num_transitions, "tensor")
    yield f"Transferred between CPU and NPU: {tensors}, {size_text(model.transition_bytes)}"
    if model.num_unknown:
        unknown = count_text(model.num_unknown, "op")
        yield f"{unknown} of unknown arithmetic or traffic, not counted in the shares"
    yield "Ops:"
    yield from table_lines(_kind_rows(model))


def _problem_text(model: ModelCoverage) -> str:
    """Returns the problem of a model, which may have further lines that a vendor has printed."""
    return f"{name_text(model.path)}: {model.problem}"


def _kind_rows(model: ModelCoverage) -> Iterator[Sequence[str]]:
    """Yields a row for each combination of op and types, the one with the most arithmetic first."""
    yield "op", "types", "NPU", "CPU", "arithmetic", "traffic"
    kinds: dict[tuple[str, str], list[OpCoverage]] = {}
    for op in model.ops:
        kinds.setdefault((op.kind, op.types), []).append(op)
    total = KnownCost.of(op.cost for op in model.ops)
    costs = {kind: KnownCost.of(op.cost for op in ops) for kind, ops in kinds.items()}
    for kind in sorted(kinds, key=lambda kind: (-costs[kind].arithmetic, -costs[kind].bytes)):
        ops, cost = kinds[kind], costs[kind]
        on_npu = sum(op.call != "" for op in ops)
        knows_arithmetic = any(op.cost.arithmetic is not None for op in ops)
        knows_bytes = any(op.bytes is not None for op in ops)
        yield (
            name_text(kind[0]),
            kind[1],
            str(on_npu),
            str(len(ops) - on_npu),
            percent_text(share(cost.arithmetic, total.arithmetic))
            if knows_arithmetic
            else _UNKNOWN,
            percent_text(share(cost.bytes, total.bytes)) if knows_bytes else _UNKNOWN,
        )


def _models_lines(models: Sequence[ModelCoverage]) -> Iterator[str]:
    rows: list[Sequence[str]] = [
        ("model", "ops", "NPU", "calls", "handed over", "arithmetic", "traffic")
    ]
    folder = common_folder([model for model in models if not model.problem])
    if folder:
        yield f"Models in {name_text(folder)}:"
    for model in models:
        if not model.problem:
            rows.append((
                name_text(os.path.relpath(model.path, folder or os.curdir)),
                str(model.num_ops),
                str(model.num_npu_ops),
                str(model.num_calls),
                str(model.num_transitions),
                percent_text(model.arithmetic_share),
                percent_text(model.bytes_share),
            ))  # fmt: skip
    if len(rows) > 1:
        yield from table_lines(rows)
    for model in models:
        if model.problem:
            yield indent(_problem_text(model), "  ")


def common_folder(models: Sequence[ModelCoverage]) -> str:
    """The parent folder that the paths of all models have in common; "" if there is none."""
    try:
        return os.path.commonpath([os.path.dirname(model.path) for model in models])
    except ValueError:  # some paths are absolute
        return ""


def _refusal_lines(refusal: Refusal, has_models: bool) -> Iterator[str]:
    models = f" in {count_text(refusal.num_models, 'model')}" if has_models else ""
    yield (
        f"  {name_text(refusal.name)} {refusal.types}: {count_text(refusal.count, 'op')}{models}, "
        f"{percent_text(refusal.arithmetic_share)} of arithmetic, "
        f"{percent_text(refusal.bytes_share)} of traffic"
        f"{_gain_text(refusal.calls_change)}"
    )
    yield f"    {name_text(refusal.reason)}"


def _gain_text(calls_change: int | None) -> str:
    if calls_change is None:
        return ""
    if not calls_change:
        return "; as many NPU calls as now if the NPU ran these ops"
    more = "more" if calls_change > 0 else "fewer"
    return f"; {count_text(abs(calls_change), f'{more} NPU call')} if the NPU ran these ops"


def percent_text(part: float | None) -> str:
    """Returns a share as text, such as `3.1 %`, or `?` if the share is unknown."""
    if part is None:
        return _UNKNOWN
    if 0 < part < 0.0005:
        return "<0.1 %"
    return ">99.9 %" if 0.9995 <= part < 1 else f"{100 * part:.1f} %"


def amount_text(number: int) -> str:
    """Returns a number as short text, such as `0`, `12.3 M` or `4.5 G`."""
    amount = float(number)
    for unit in ("", " k", " M", " G"):
        if amount < 1000:
            return f"{amount:.1f}{unit}" if unit else str(number)
        amount /= 1000
    return f"{amount:.1f} T"
