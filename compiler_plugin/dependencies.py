"""Which op of a subgraph must run before which: data, and side effects; and an order that keeps to it."""

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
    """The ops that each op must wait for.

    Args:
      subgraph: in the order that it runs.
      selected: ops that a plugin takes, and with that vouches for: they have no side effects.
      edges: of the subgraph, which the model's metadata add.

    Returns:
      For each op the positions of others before it, ascending and none twice.

    Raises:
      LiteRtError: INVALID_GRAPH_INVARIANT, for a tensor that two ops write, or that is read before it
        is written.
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
                raise _bad_order(subgraph, op, index, tensor.name, "reads it before it is written")
            before.add(producer)
        for tensor in op.outputs:
            if tensor.producer is not op:
                raise _bad_order(
                    subgraph, op, index, tensor.name, "is not the only one to write it"
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
        f"tensor '{tensor}' has no single value: {op.name} {what}",
        f"op {index} of subgraph '{subgraph.name}'",
        "Such a subgraph cannot be partitioned; convert the model again.",
    )


def find_execution_order(
    dependencies: Sequence[Sequence[int]], partitions: Sequence[Sequence[int]]
) -> list[int]:
    """Orders ops and calls so that each runs after what it waits for, and otherwise as before.

    A call runs where the last op of its partition stood, or earlier where something needs it there.

    Args:
      dependencies: for each op the positions of those that it waits for.
      partitions: positions of the ops of each call, ascending. They overlap nowhere and close no cycle.

    Returns:
      Positions of ops, and for calls the complement (`~index`) of the partition's index.
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
