"""Which ops a vendor's plugin offers to a host that groups them itself, as stock LiteRT does.

Stock makes a partition of each run of ops, in execution order, that have one partition index; by its other
strategy of those ops in it that are connected. What is between two runs stays between them, so that no cycle can
be. A run that the vendor refuses is halved, and at last single ops are left on the CPU: stock has no second try,
so all this comes before the host is told.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler_plugin.asking import NO_REASON
from compiler_plugin.compiling import Prepare, compile_partitions
from compiler_plugin.leftovers import find_results
from compiler_plugin.outline import Partition, model_of
from compiler_plugin.partition import find_runs
from compiler_plugin.plan import SubgraphPlan
from compiler_plugin.vendor_plugin import Taken, VendorPlugin
from litert.model.graph import Subgraph

DYNAMIC = (
    "the shape of an output is known after a run only, and this host's calls have no place for it"
)


def make_offer(
    vendor: VendorPlugin, subgraph: Subgraph, choice: Taken, max_partitions: int, prepare: Prepare
) -> SubgraphPlan:
    """Finds what the vendor would compile of the ops that it takes.

    Args:
      vendor: which compiles all of it once.
      subgraph: that the host asks about.
      choice: what the vendor takes.
      max_partitions: that are offered; 0 is no limit.
      prepare: what partitions go through first.

    Returns:
      Partitions to offer, each a run of ops; and why other ops stay on the CPU.

    Raises:
      LiteRtError: of the vendor, but for refusals.
    """
    plan = _RunPlan(0, subgraph, results=find_results(model_of(subgraph), subgraph))
    plan.reasons = {
        position: choice.reasons.get(position, NO_REASON)
        for position in range(len(subgraph.ops))
        if position not in choice.selected
    }
    for number, run in enumerate(find_runs(len(subgraph.ops), choice.selected)):
        plan.add(f"Partition_{number}", run)
    compilation = compile_partitions(vendor, [plan], max_partitions, prepare=prepare)
    for partition in list(plan.partitions):
        if compilation.partitions[partition].shape_outputs:
            plan.leave(partition, DYNAMIC)
    return plan


class _RunPlan(SubgraphPlan):
    """A plan whose partitions are runs, and stay so when they are split."""

    __slots__ = ()

    def split(self, partition: Partition) -> list[Partition]:
        self.partitions.remove(partition)
        positions: Sequence[int] = partition.positions
        half = (len(positions) + 1) // 2
        parts = [
            self.add(f"{partition.name}_{number}", part)
            for number, part in enumerate((positions[:half], positions[half:]))
        ]
        return [part for part in parts if part]
