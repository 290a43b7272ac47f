"""The order in which a subgraph runs, once some of its ops have become single calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


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
