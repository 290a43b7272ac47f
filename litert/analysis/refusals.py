"""Counts the reasons why ops stay on the CPU, and estimates the gain if the NPU took these ops."""

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
"""For each model, the effect on NPU calls is computed for this many refusals; each needs a new partitioning."""


class RefusalKey(NamedTuple):
    """Key for grouping ops in counts: the name of the op or composite, the types, and the reason."""

    name: str
    types: str
    reason: str

    @classmethod
    def of(cls, op: OpCoverage) -> RefusalKey:
        """Returns the key by which an op on the CPU is counted."""
        return cls(op.kind, op.types, op.reason)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Ops with the same name and types that stay on the CPU for the same reason.

    Attributes:
      name: Name of the ops, or name of the composite to which they belong.
      types: Element types of the ops' data.
      reason: Reason why the ops stay on the CPU.
      count: Number of ops.
      num_models: Number of models that have such ops.
      arithmetic_share, bytes_share: Share of these ops in the total known cost, from 0 to 1; None if the
        cost of these ops is unknown.
      calls_change: Change in the number of NPU calls if the NPU took these ops; None if the ops cannot be in an
        NPU call, or if the change was not computed.
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
    """Returns the reasons why ops of models stay on the CPU, sorted by the cost of the ops, highest first.

    Args:
      models: The ops of each model.
      changes: Value of `calls_change` for each refusal.
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
    """For each refusal, computes how the number of a model's NPU calls would change if the NPU took its ops.

    Args:
      plans: Partition plans of the model.
      grouping: How ops are grouped, as the compiler plugin requests.
      reports: Reports of the plans.
      ops: Ops in the order of the reports.
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
    """For each refusal, adds up the changes of several models."""
    changes: dict[RefusalKey, int | None] = {}
    for refusal in refusals:
        key = RefusalKey(refusal.name, refusal.types, refusal.reason)
        before, change = changes.get(key, 0), refusal.calls_change
        changes[key] = None if before is None or change is None else before + change
    return changes


def share(part: int, whole: int) -> float | None:
    """Returns a part as a share of the whole, from 0 to 1; None if the whole is 0."""
    return part / whole if whole else None
