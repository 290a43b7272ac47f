"""Why ops stay on the CPU, counted, and what it would bring if the NPU took them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from compiler_plugin.effects import why_cpu_only
from compiler_plugin.plan import SubgraphPlan
from compiler_plugin.plugin import Grouping
from compiler_plugin.report import OpReport
from litert.analysis.op_coverage import OpCoverage
from litert.core.errors import LiteRtError
from litert.model.op_cost import KnownCost

_MOST_ESTIMATED = 30
"""Refusals of one model whose effect on the calls is found out: each has the model partitioned anew."""


class RefusalKey(NamedTuple):
    """What is counted together: the ops' name, or what the composite computes; types; and the reason."""

    name: str
    types: str
    reason: str

    @classmethod
    def of(cls, op: OpCoverage) -> RefusalKey:
        """That of an op on the CPU."""
        return cls(op.kind, op.types, op.reason)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Ops of one name and type that stay on the CPU for one reason.

    Attributes:
      name: of the ops; of a composite what it computes.
      types: of their data.
      reason: why they stay.
      count: how many ops.
      num_models: in how many models.
      arithmetic_share, bytes_share: their part of all that is known, 0 to 1; None where none of theirs is.
      calls_change: how many more NPU calls there would be if the NPU took these ops, or fewer where it is
        negative; None where no NPU call can hold them, or it was not found out.
    """

    name: str
    types: str
    reason: str
    count: int
    num_models: int
    arithmetic_share: float | None
    bytes_share: float | None
    calls_change: int | None


def count_refusals(
    models: Sequence[Sequence[OpCoverage]], changes: Mapping[RefusalKey, int | None]
) -> list[Refusal]:
    """Counts why ops of models stay on the CPU, with the costliest first.

    Args:
      models: the ops of each.
      changes: `calls_change` of each refusal.
    """
    found: dict[RefusalKey, list[tuple[int, OpCoverage]]] = {}
    for number, ops in enumerate(models):
        for op in ops:
            if not op.call:
                found.setdefault(RefusalKey.of(op), []).append((number, op))
    total = KnownCost.of(op.cost for ops in models for op in ops)
    refusals: list[tuple[KnownCost, Refusal]] = []
    for key, members in found.items():
        costs = [op.cost for _, op in members]
        cost = KnownCost.of(costs)
        has_arithmetic = any(each.arithmetic is not None for each in costs)
        has_bytes = any(each.bytes is not None for each in costs)
        refusal = Refusal(
            *key,
            count=len(members),
            num_models=len({number for number, _ in members}),
            arithmetic_share=share(cost.arithmetic, total.arithmetic) if has_arithmetic else None,
            bytes_share=share(cost.bytes, total.bytes) if has_bytes else None,
            calls_change=changes.get(key),
        )
        refusals.append((cost, refusal))
    refusals.sort(key=lambda item: (-item[0].arithmetic, -item[0].bytes, -item[1].count))
    return [refusal for _, refusal in refusals]


def find_calls_changes(
    plans: Sequence[SubgraphPlan],
    grouping: Grouping,
    reports: Sequence[OpReport],
    ops: Sequence[OpCoverage],
) -> dict[RefusalKey, int | None]:
    """How the number of NPU calls of a model would change if the NPU took all ops of each refusal.

    Args:
      plans: of the model.
      grouping: of the plugin.
      reports: of the plans.
      ops: in the order of the reports.
    """
    by_index = {plan.index: plan for plan in plans}
    positions: dict[RefusalKey, dict[SubgraphPlan, list[int]]] = {}
    costs: dict[RefusalKey, int] = {}
    for report, op in zip(reports, ops, strict=True):
        if not op.call:
            key, plan = RefusalKey.of(op), by_index[report.subgraph]
            positions.setdefault(key, {}).setdefault(plan, []).append(report.index)
            costs[key] = costs.get(key, 0) + (op.cost.arithmetic or 0)
    costliest = sorted(positions, key=lambda key: -costs[key])[:_MOST_ESTIMATED]
    return {key: _calls_change(positions[key], grouping) for key in costliest}


def _calls_change(
    positions: Mapping[SubgraphPlan, Sequence[int]], grouping: Grouping
) -> int | None:
    change = 0
    for plan, more in positions.items():
        if plan.is_decomposition or any(why_cpu_only(plan.subgraph.ops[p]) for p in more):
            return None
        try:
            change += plan.count_calls(more, grouping) - len(plan.partitions)
        except LiteRtError:  # a subgraph that cannot be partitioned
            return None
    return change


def add_calls_changes(refusals: Iterable[Refusal]) -> dict[RefusalKey, int | None]:
    """The changes that refusals of several models come to together."""
    changes: dict[RefusalKey, int | None] = {}
    for refusal in refusals:
        key = RefusalKey(refusal.name, refusal.types, refusal.reason)
        before, change = changes.get(key, 0), refusal.calls_change
        changes[key] = None if before is None or change is None else before + change
    return changes


def share(part: int, whole: int) -> float | None:
    """A part of a whole, 0 to 1; None where the whole is nothing."""
    return part / whole if whole else None
