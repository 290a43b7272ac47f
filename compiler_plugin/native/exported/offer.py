"""Which ops a vendor's plugin offers to a host that groups them itself, as stock LiteRT does.

Stock makes a partition of each run of ops, in execution order, that have one partition index; by its other
strategy of those ops in it that are connected. What is between two runs stays between them, so that no cycle can
be. A run that the vendor refuses is halved, and at last single ops are left on the CPU: stock has no second try,
so all this comes before the host is told.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler_plugin.compiling import compile_partitions
from compiler_plugin.leftovers import find_results
from compiler_plugin.outline import model_of
from compiler_plugin.partition import find_runs
from compiler_plugin.plan import SubgraphPlan
from compiler_plugin.transforming import prepare_partitions
from compiler_plugin.vendor_plugin import VendorPlugin
from litert.model.graph import Subgraph

DYNAMIC = (
    "the shape of an output is known after a run only, and this host's calls have no place for it"
)


def make_offer(
    vendor: VendorPlugin, subgraph: Subgraph, where: str, max_partitions: int
) -> SubgraphPlan:
    """Finds what the vendor takes of a subgraph and would compile, which it does once for that.

    Args:
      vendor: that is asked.
      subgraph: that the host asks about.
      where: its name in errors.
      max_partitions: that are offered; 0 is no limit.

    Returns:
      Partitions to offer, each a run of ops; and why other ops stay on the CPU.
    """
    selected, reasons = vendor.partition(subgraph, where).by_position(subgraph.ops)
    results = find_results(model_of(subgraph), subgraph)
    plan = _RunPlan(0, subgraph, results=results, reasons=reasons)
    for number, run in enumerate(find_runs(len(subgraph.ops), selected)):
        plan.add(f"Partition_{number}", run)
    prepare = prepare_partitions(vendor.data_layout)
    compilation = compile_partitions(vendor, [plan], max_partitions, prepare=prepare)
    for partition in list(plan.partitions):
        if compilation.partitions[partition].call.shape_outputs:
            plan.leave(partition, DYNAMIC)
    return plan


class _RunPlan(SubgraphPlan):
    """A plan whose partitions are runs, and stay so when they are split."""

    __slots__ = ()

    def halves(self, positions: Sequence[int]) -> Sequence[Sequence[int]]:
        half = (len(positions) + 1) // 2
        return positions[:half], positions[half:]
