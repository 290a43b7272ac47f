"""Which ops of a model go to the NPU, and in which partitions: the host's side of partitioning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from compiler_plugin.asking import CompositeFate, ask
from compiler_plugin.composites import find_decompositions, find_unused
from compiler_plugin.dependencies import find_dependencies
from compiler_plugin.leftovers import find_results
from compiler_plugin.outline import Partition, make_partition
from compiler_plugin.partition import find_partitions, find_runs, keep_largest, split
from compiler_plugin.plugin import Grouping
from compiler_plugin.report import CompositeReport, OpReport, Report
from compiler_plugin.vendor_plugin import VendorPlugin
from litert.core.errors import LiteRtError
from litert.core.progress import told
from litert.core.status import Status
from litert.core.tracing import SpanKind, measured
from litert.model.graph import Model, Subgraph, Tensor
from litert.model.positions import (
    Edge,
    read_control_dependencies,
    set_control_dependencies,
)


@dataclass(slots=True, eq=False)
class SubgraphPlan:
    """What becomes of one subgraph's ops.

    Attributes:
      index: of the subgraph in the model.
      subgraph: as it stands, until the plan is carried out.
      dependencies: of its ops, by position.
      results: tensors that are read from outside the ops.
      partitions: that go to the NPU; they shrink in number as partitions are refused.
      reasons: why an op stays on the CPU, by position.
      bodies: what is compiled in the place of a composite, by position, where that is its decomposition.
      composites: of the subgraph, and what became of them.
      is_decomposition: whether it is there for composites only, and no plugin was asked about it.
      edges: its control dependencies.
      selected: partition index by position of each op that the plugin takes; negative ones are the host's.
    """

    index: int
    subgraph: Subgraph
    dependencies: Sequence[Sequence[int]] = ()
    results: set[Tensor] = field(default_factory=set)
    partitions: list[Partition] = field(default_factory=list)
    reasons: dict[int, str] = field(default_factory=dict)
    bodies: Mapping[int, Subgraph] = field(default_factory=dict)
    composites: Sequence[CompositeFate] = ()
    is_decomposition: bool = False
    edges: Sequence[Edge] = ()
    selected: Mapping[int, int] = field(default_factory=dict)

    def add(self, name: str, positions: Sequence[int]) -> Partition | None:
        """Makes a partition; None where its ops have no outputs: they then stay on the CPU."""
        body = self.bodies.get(positions[0])
        partition = make_partition(name, self.subgraph, positions, self.results, body)
        if not partition.outputs:
            self.reasons.update(
                dict.fromkeys(positions, "it has no output, and an NPU call needs one")
            )
            return None
        self.partitions.append(partition)
        return partition

    def leave(self, partition: Partition, reason: str) -> None:
        """Leaves a partition on the CPU."""
        self.partitions.remove(partition)
        self.reasons.update(dict.fromkeys(partition.positions, reason))

    def calls(self) -> dict[int, str]:
        """The name of its partition, by position of the op."""
        return {p: partition.name for partition in self.partitions for p in partition.positions}

    def count_calls(self, more: Collection[int], grouping: Grouping) -> int:
        """How many calls there would be if the ops at these positions went to the NPU, too.

        Args:
          more: positions of ops that stay on the CPU.
          grouping: of the plugin.

        Raises:
          LiteRtError: INVALID_GRAPH_INVARIANT, where the subgraph cannot be partitioned.
        """
        calls = self.calls()
        selected = {p: index for p, index in self.selected.items() if p in calls}
        indices = Counter(index for index in selected.values() if index >= 0)
        selected |= dict.fromkeys(more, max(indices, key=indices.__getitem__, default=0))
        ops = {self.subgraph.ops[position] for position in selected}
        dependencies = find_dependencies(self.subgraph, ops, self.edges)
        return len(_group(dependencies, selected, grouping))

    def split(self, partition: Partition) -> list[Partition]:
        """Puts halves in the place of a partition."""
        self.partitions.remove(partition)
        parts = enumerate(split(partition.positions, self.dependencies))
        halves = [self.add(f"{partition.name}_{number}", part) for number, part in parts]
        return [half for half in halves if half]


@measured(SpanKind.STEP, "partition")
def plan_model(
    model: Model, plugin: VendorPlugin, chosen: Collection[int], max_partitions: int
) -> list[SubgraphPlan]:
    """Asks a plugin about each subgraph, and groups what it takes.

    Args:
      model: that nothing changes.
      plugin: of the vendor.
      chosen: indices of the subgraphs to compile; none for all.
      max_partitions: in the model; 0 is no limit.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, for an index that the model does not have; and those of the vendor.
    """
    for index in chosen:
        if not 0 <= index < len(model.subgraphs):
            raise LiteRtError(
                Status.INVALID_TOOL_CONFIG,
                f"no subgraph {index}: the model has {len(model.subgraphs)}",
                hint="They are counted from 0.",
            )
    edges = read_control_dependencies(model)
    decompositions = find_decompositions(model)
    plans: list[SubgraphPlan] = []
    numbers = count()
    for index, subgraph in enumerate(told("partition", model.subgraphs)):
        plan = SubgraphPlan(index, subgraph, is_decomposition=index in decompositions)
        plans.append(plan)
        reason = ""
        if plan.is_decomposition:
            reason = (
                f"it is a part of composite '{decompositions[index]}', which is not taken apart"
            )
        elif chosen and index not in chosen:
            reason = f"subgraph {index} is not among those to compile"
        if reason:
            plan.reasons = dict.fromkeys(range(len(subgraph.ops)), reason)
        elif subgraph.ops:
            for positions in _ask(plan, model, plugin, edges):
                plan.add(f"Partition_{next(numbers)}", positions)
    leave_smallest(plans, max_partitions)
    return plans


def unused_decompositions(model: Model, plans: Sequence[SubgraphPlan]) -> list[int]:
    """Indices of the subgraphs that the model needs no more once plans are carried out."""
    candidates = [plan.index for plan in plans if plan.is_decomposition]
    gone = {op for plan in plans for partition in plan.partitions for op in partition.ops}
    return find_unused(model, candidates, gone)


def leave_smallest(plans: Sequence[SubgraphPlan], max_partitions: int) -> None:
    """Leaves partitions on the CPU where plans have more than a limit; 0 is none."""
    every = [partition for plan in plans for partition in plan.partitions]
    kept = {every[i] for i in keep_largest([p.positions for p in every], max_partitions)}
    reason = f"{len(every)} partitions, of which the limit of {max_partitions} leaves it out"
    for plan in plans:
        for partition in plan.partitions:
            if partition not in kept:
                plan.reasons.update(dict.fromkeys(partition.positions, reason))
        plan.partitions = [partition for partition in plan.partitions if partition in kept]


def _ask(
    plan: SubgraphPlan, model: Model, plugin: VendorPlugin, edges: list[list[Edge]]
) -> list[list[int]]:
    """Asks the plugin about a subgraph, which may change, and its edges with it: positions of each partition."""
    answer = ask(model, plan.index, plugin, edges)
    if answer.edges is not None and any(edges):
        edges[plan.index] = answer.edges
        set_control_dependencies(model, edges)
    plan.results = find_results(model, plan.subgraph)
    plan.reasons, plan.bodies, plan.composites = answer.reasons, answer.bodies, answer.composites
    plan.selected, plan.edges = answer.selected, edges[plan.index]
    if not answer.selected:
        return []
    selected = {plan.subgraph.ops[position] for position in answer.selected}
    try:
        plan.dependencies = find_dependencies(plan.subgraph, selected, plan.edges)
    except LiteRtError as error:  # such a graph means what its interpreter makes of it
        reason = f"{error.what} ({error.where})"
        plan.reasons.update(dict.fromkeys(answer.selected, reason))
        return []
    return _group(plan.dependencies, answer.selected, plugin.grouping)


def _group(
    dependencies: Sequence[Sequence[int]], selected: Mapping[int, int], grouping: Grouping
) -> list[list[int]]:
    """The positions of each partition that is made of what is selected."""
    if grouping == "consecutive":
        return find_runs(len(dependencies), selected)
    return find_partitions(dependencies, selected)


def report_plans(
    report: Report, plans: Sequence[SubgraphPlan], unused: Collection[int] = ()
) -> None:
    """Where each op of a model goes, and each composite; without the ops of subgraphs that go unused."""
    report.ops = [op for plan in plans if plan.index not in unused for op in _ops(plan)]
    report.composites = [composite for plan in plans for composite in _composites(plan)]


def _ops(plan: SubgraphPlan) -> Iterator[OpReport]:
    calls = plan.calls()
    for position, op in enumerate(plan.subgraph.ops):
        reason = "" if position in calls else plan.reasons[position]
        yield OpReport(plan.index, position, op.name, calls.get(position, ""), reason)


def _composites(plan: SubgraphPlan) -> Iterator[CompositeReport]:
    calls = plan.calls()
    for fate in plan.composites:
        if fate.is_apart:
            on_npu = sum(position in calls for position in fate.ops)
            yield CompositeReport(plan.index, fate.name, len(fate.ops), on_npu)
        else:
            (position,) = fate.ops
            call = calls.get(position, "")
            reason = "" if call else plan.reasons[position]
            yield CompositeReport(plan.index, fate.name, call=call, reason=reason)
