"""Chooses the ops that a plugin offers to a host that groups the ops itself, as stock LiteRT does.

By default, stock LiteRT makes a partition from each run of consecutive ops with the same partition index;
optionally, it splits each run into connected groups of ops. Partitions of consecutive ops cannot form a cycle. If
the vendor refuses a run, stock LiteRT does not try again with fewer ops. Therefore this module compiles the runs
before the host gets the ops: it halves a run that the vendor refuses, and so on; a single op that the vendor
refuses stays on the CPU.
"""

from __future__ import annotations

from compiler_plugin.compiling import compile_partitions
from compiler_plugin.partition import find_runs
from compiler_plugin.plan import SubgraphPlan
from compiler_plugin.transforming import prepare_partitions
from compiler_plugin.vendor_plugin import VendorPlugin
from litert.model.graph import Subgraph

DYNAMIC = "the shape of an output is known only at run time, and this host's NPU calls cannot return a shape"


def make_offer(
    vendor: VendorPlugin, subgraph: Subgraph, where: str, max_partitions: int
) -> SubgraphPlan:
    """Compiles those ops of a subgraph that the vendor takes, to find out which of them the vendor can compile.

    Args:
      vendor: Plugin of the vendor.
      subgraph: Subgraph that the host passed to the plugin.
      where: Name of the subgraph in error messages.
      max_partitions: Largest number of partitions to offer; 0 means no limit.

    Returns:
      The plan: the partitions to offer, which are runs of consecutive ops, and the reasons why other ops stay on
        the CPU.
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
