"""Which ops a vendor's plugin offers to a host that groups them itself, as stock LiteRT does.

Stock makes a partition of each run of ops, in execution order, that have one partition index; by its other
strategy of those ops in it that are connected. What is between two runs stays between them, so that no cycle can
be. A run that the vendor refuses is halved, and at last single ops are left on the CPU: stock has no second try,
so all this comes before the host is told.
"""

from __future__ import annotations

from compiler_plugin.compiling import compile_partitions
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
    in_turn = [[op - 1] if op else [] for op in range(len(subgraph.ops))]  # halves of runs are runs
    plan = SubgraphPlan(0, subgraph, in_turn, set(subgraph.outputs), reasons=reasons)
    for number, run in enumerate(find_runs(len(subgraph.ops), selected)):
        plan.add(f"Partition_{number}", run)
    prepare = prepare_partitions(vendor.data_layout)
    compilation = compile_partitions(vendor, [plan], max_partitions, prepare=prepare)
    for partition in list(plan.partitions):
        if compilation.partitions[partition].call.shape_outputs:
            plan.leave(partition, DYNAMIC)
    return plan
