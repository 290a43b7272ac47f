"""Finds the ops that each op of a subgraph must wait for (due to data or side effects), and an execution order."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

from compiler_plugin.effects import has_side_effects
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.graph import Op, Subgraph
from litert.model.positions import Edge


def find_dependencies(
    subgraph: Subgraph, selected: Container[Op], edges: Iterable[Edge] = ()
) -> list[list[int]]:
    """Finds the ops that each op of a subgraph must wait for.

    Args:
      subgraph: Subgraph with its ops in execution order.
      selected: Ops that a plugin takes; these ops count as ops without side effects.
      edges: Control dependencies from the model's metadata.

    Returns:
      For each op, the positions of the earlier ops that it must wait for, in ascending order and without
      duplicates.

    Raises:
      LiteRtError: INVALID_GRAPH_INVARIANT, if two ops write the same tensor, or if an op reads a tensor that a
        later op writes.
    """
    position = {op: index for index, op in enumerate(subgraph.ops)}
    added: dict[int, list[int]] = {}
    for before_op, op_after in edges:
        if before_op < op_after:
            added.setdefault(op_after, []).append(before_op)
    found: list[list[int]] = []
    last_effect = -1
    for index, op in enumerate(subgraph.ops):
        before = set(added.get(index, ()))
        for tensor in op.inputs:
            if tensor is None or tensor.producer is None:
                continue
            producer = position.get(tensor.producer, -1)
            if not 0 <= producer < index:
                raise _bad_order(
                    subgraph,
                    op,
                    index,
                    tensor.name,
                    "reads the tensor before the tensor is written",
                )
            before.add(producer)
        for tensor in op.outputs:
            if tensor.producer is not op:
                raise _bad_order(
                    subgraph, op, index, tensor.name, "is not the only op that writes the tensor"
                )
        if op not in selected and has_side_effects(op):
            if last_effect >= 0:
                before.add(last_effect)
            last_effect = index
        found.append(sorted(before))
    return found


def _bad_order(subgraph: Subgraph, op: Op, index: int, tensor: str, what: str) -> LiteRtError:
    return LiteRtError(
        Status.INVALID_GRAPH_INVARIANT,
        f"tensor '{tensor}' has an ambiguous value: op {op.name} {what}",
        f"op {index} of subgraph '{subgraph.name}'",
        "The subgraph cannot be partitioned; convert the model again.",
    )


def find_execution_order(
    dependencies: Sequence[Sequence[int]], partitions: Sequence[Sequence[int]]
) -> list[int]:
    """Finds an order in which each op and NPU call runs after the ops that it depends on; few ops change places.

    An NPU call runs at the position of its partition's last op, or earlier if another op needs its result earlier.

    Args:
      dependencies: For each op, the positions of the ops that it must wait for.
      partitions: For each NPU call, the positions of its ops in ascending order; an op is in one partition at
        most, and the partitions form no cycle.

    Returns:
      Positions of ops in the new order; for an NPU call, the list contains the bitwise complement (`~index`) of
        its partition's index.
    """
    owner = {op: ~index for index, partition in enumerate(partitions) for op in partition}
    last = {partition[-1] for partition in partitions}

    def waits_for(node: int) -> Iterator[int]:
        ops = (node,) if node >= 0 else partitions[~node]
        for op in ops:
            for before in dependencies[op]:
                before = owner.get(before, before)
                if before != node:
                    yield before

    order: list[int] = []
    begun: set[int] = set()
    for op in range(len(dependencies)):
        start = owner.get(op, op)
        if start in begun or (op in owner and op not in last):
            continue
        begun.add(start)
        path = [(start, waits_for(start))]
        while path:
            node, before = path[-1]
            following = next((n for n in before if n not in begun), None)
            if following is None:
                path.pop()
                order.append(node)
            else:
                begun.add(following)
                path.append((following, waits_for(following)))
    return order
