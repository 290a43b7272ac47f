"""Plans, from the plugin's choice of ops, which ops of a model run on the NPU, and in which partitions."""

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
from litert.core.counts import out_of_range
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
    """The plan for one subgraph: which ops run on the NPU, and in which partitions.

    Attributes:
      index: Index of the subgraph in the model.
      subgraph: The subgraph, which stays unchanged until its partitions are replaced by NPU calls.
      dependencies: For each op by position, the positions of the ops that it must wait for.
      results: Outputs of the subgraph and of its signatures.
      partitions: Partitions to run on the NPU, without the partitions that the vendor has refused.
      reasons: The reason why an op stays on the CPU, by position of the op.
      bodies: Decompositions to compile in place of composites, by position of the composite op.
      composites: Composites of the subgraph, each with the information whether it is decomposed.
      is_decomposition: Whether only composites use the subgraph; such subgraphs are not passed to the plugin.
      edges: Control dependencies of the subgraph.
      selected: Partition index of each op that the plugin takes, by position; the host itself assigns negative
        indices.
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
        """Adds a partition; if its ops have no outputs, leaves these ops on the CPU and returns None."""
        body = self.bodies.get(positions[0])
        partition = make_partition(name, self.subgraph, positions, self.results, body)
        if not partition.outputs:
            self.reasons.update(
                dict.fromkeys(
                    positions, "the op has no output, but an NPU call needs at least one output"
                )
            )
            return None
        self.partitions.append(partition)
        return partition

    def leave(self, partition: Partition, reason: str) -> None:
        """Removes a partition, so that its ops stay on the CPU."""
        self.partitions.remove(partition)
        self.reasons.update(dict.fromkeys(partition.positions, reason))

    def calls(self) -> dict[int, str]:
        """Returns the partition's name for each op on the NPU, by position of the op."""
        return {p: partition.name for partition in self.partitions for p in partition.positions}

    def count_calls(self, more: Collection[int], grouping: Grouping) -> int:
        """Returns the number of NPU calls that the subgraph would have if more ops ran on the NPU.

        Args:
          more: Positions of the additional ops, which stay on the CPU in this plan.
          grouping: How the plugin wants ops to be grouped into partitions.

        Raises:
          LiteRtError: INVALID_GRAPH_INVARIANT, if the subgraph cannot be partitioned.
        """
        calls = self.calls()
        selected = {p: index for p, index in self.selected.items() if p in calls}
        indices = Counter(index for index in selected.values() if index >= 0)
        selected |= dict.fromkeys(more, max(indices, key=indices.__getitem__, default=0))
        ops = {self.subgraph.ops[position] for position in selected}
        dependencies = find_dependencies(self.subgraph, ops, self.edges)
        return len(_group(dependencies, selected, grouping))

    def split(self, partition: Partition) -> list[Partition]:
        """Splits a partition into halves, which replace the partition in the plan, and returns the halves."""
        self.partitions.remove(partition)
        parts = enumerate(split(partition.positions, self.dependencies))
        halves = [self.add(f"{partition.name}_{number}", part) for number, part in parts]
        return [half for half in halves if half]


@measured(SpanKind.STEP, "partition")
def plan_model(
    model: Model, plugin: VendorPlugin, chosen: Collection[int], max_partitions: int
) -> list[SubgraphPlan]:
    """For each subgraph, asks the plugin which ops it takes, and groups these ops into partitions.

    Args:
      model: Model to plan; the model must not change while the plans are in use.
      plugin: Plugin of the vendor.
      chosen: Indices of the subgraphs to compile; empty for all subgraphs.
      max_partitions: Largest allowed number of partitions in the model; 0 means no limit.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, if the model has no subgraph with a given index; any error of the vendor's
        plugin.
    """
    num_subgraphs = len(model.subgraphs)
    for index in chosen:
        if not 0 <= index < num_subgraphs:
            raise LiteRtError(
                Status.INVALID_TOOL_CONFIG,
                out_of_range("subgraph", index, num_subgraphs),
                "--subgraphs",
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
                f"the op is in the decomposition of composite '{decompositions[index]}', and this "
                "composite is not decomposed"
            )
        elif chosen and index not in chosen:
            reason = f"--subgraphs does not select subgraph {index} for compilation"
        if reason:
            plan.reasons = dict.fromkeys(range(len(subgraph.ops)), reason)
        elif subgraph.ops:
            for positions in _ask(plan, model, plugin, edges):
                plan.add(f"Partition_{next(numbers)}", positions)
    leave_smallest(plans, max_partitions)
    return plans


def unused_decompositions(model: Model, plans: Sequence[SubgraphPlan]) -> list[int]:
    """Returns the indices of subgraphs that are unused once the planned partitions are replaced by NPU calls."""
    candidates = [plan.index for plan in plans if plan.is_decomposition]
    gone = {op for plan in plans for partition in plan.partitions for op in partition.ops}
    return find_unused(model, candidates, gone)


def leave_smallest(plans: Sequence[SubgraphPlan], max_partitions: int) -> None:
    """Leaves the smallest partitions on the CPU if there are more than `max_partitions` (0 means no limit)."""
    every = [partition for plan in plans for partition in plan.partitions]
    kept = {every[i] for i in keep_largest([p.positions for p in every], max_partitions)}
    reason = (
        "the op's partition is one of the smallest: there are "
        f"{len(every)} partitions, and --compiler_options_max_partitions is {max_partitions}"
    )
    for plan in plans:
        for partition in plan.partitions:
            if partition not in kept:
                plan.reasons.update(dict.fromkeys(partition.positions, reason))
        plan.partitions = [partition for partition in plan.partitions if partition in kept]


def _ask(
    plan: SubgraphPlan, model: Model, plugin: VendorPlugin, edges: list[list[Edge]]
) -> list[list[int]]:
    """Asks the plugin about a subgraph, which may change; returns the positions of each partition."""
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
    except LiteRtError as error:  # the meaning of such a graph depends on the interpreter
        reason = f"{error.what} ({error.where})"
        plan.reasons.update(dict.fromkeys(answer.selected, reason))
        return []
    return _group(plan.dependencies, answer.selected, plugin.grouping)


def _group(
    dependencies: Sequence[Sequence[int]], selected: Mapping[int, int], grouping: Grouping
) -> list[list[int]]:
    """Groups the selected ops, and returns the positions of each partition."""
    if grouping == "consecutive":
        return find_runs(len(dependencies), selected)
    return find_partitions(dependencies, selected)


def report_plans(
    report: Report, plans: Sequence[SubgraphPlan], unused: Collection[int] = ()
) -> None:
    """Adds to the report where each op and composite runs; subgraphs that become unused are skipped."""
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
