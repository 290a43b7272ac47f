"""Groups the ops that a plugin takes into partitions, each of which becomes one NPU call.

A partition is connected, contains only ops with the same partition index, and is as large as possible. Partitions
form no cycle. That is, no path of data or of ordered side effects leaves a partition and returns to it.

First, connected ops of the same level are grouped. The level of an op is the largest number of times that any path
to the op leaves the NPU. A path that leaves a group reaches a higher level, so that no cycle can arise. Then
neighboring groups on different levels are merged if no path through other ops leads from one group to the other. A
topological order limits the search for such paths, and each merge updates the order (algorithm of Pearce and
Kelly), so that the grouping takes little more than linear time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

_CPU = -1
_NONE = -1
_LABEL_GAP = 1 << 60


def find_partitions(
    dependencies: Sequence[Sequence[int]], selected: Mapping[int, int]
) -> list[list[int]]:
    """Groups the ops that a plugin takes into connected partitions without cycles.

    Args:
      dependencies: For each op of a subgraph, in execution order, the positions of the earlier ops that the op
        must wait for.
      selected: Partition index of each op that the plugin takes, by position; all ops of a partition have the same
        index.

    Returns:
      The partitions in the order of their first ops; each partition is a list of op positions in ascending order.
    """
    numbers = {index: number for number, index in enumerate(dict.fromkeys(selected.values()))}
    sides = [numbers[selected[op]] if op in selected else _CPU for op in range(len(dependencies))]
    levels = _find_levels(dependencies, sides)
    groups = _connect(dependencies, sides, levels)
    if any(
        sides[before] == sides[op] != _CPU and levels[before] != levels[op]
        for op, all_before in enumerate(dependencies)
        for before in all_before
    ):
        groups = _Merger(dependencies, sides, levels, groups).merge_all()
    members: dict[int, list[int]] = {}
    for op in sorted(selected):
        members.setdefault(groups[op], []).append(op)
    return list(members.values())


def find_runs(num_ops: int, selected: Mapping[int, int]) -> list[list[int]]:
    """Groups selected ops as stock LiteRT does: each run of consecutive ops in execution order is a partition.

    A run ends before an op that is not selected or has another partition index. Such partitions form no cycle,
    because no other op runs between the ops of a run.

    Args:
      num_ops: Number of ops in the subgraph.
      selected: Partition index of each op that the plugin takes, by position.

    Returns:
      The partitions in the order of their first ops; each partition is a list of op positions in ascending order.
    """
    runs: list[list[int]] = []
    last: int | None = None
    for op in range(num_ops):
        index = selected.get(op)
        if index is not None:
            if index == last:
                runs[-1].append(op)
            else:
                runs.append([op])
        last = index
    return runs


def keep_largest(partitions: Sequence[Sequence[int]], limit: int) -> list[int]:
    """Chooses the largest partitions, up to a limit; if partitions have the same size, prefers the earlier ones.

    Args:
      partitions: Partitions to choose from.
      limit: Largest number of partitions; 0 means no limit.

    Returns:
      The indices of the chosen partitions, in ascending order.
    """
    if not 0 < limit < len(partitions):
        return list(range(len(partitions)))
    largest_first = sorted(range(len(partitions)), key=lambda index: -len(partitions[index]))
    return sorted(largest_first[:limit])


def split(partition: Sequence[int], dependencies: Sequence[Sequence[int]]) -> list[list[int]]:
    """Splits a partition of at least two ops into two halves, in execution order.

    Each half is then split into connected groups of ops. Splitting creates no cycle, because no op in the first
    half depends on the second half.

    Args:
      partition: Positions of the ops, ascending.
      dependencies: Same as for `find_partitions`.
    """
    half = (len(partition) + 1) // 2
    parts: list[list[int]] = []
    for ops in (partition[:half], partition[half:]):
        place = {op: index for index, op in enumerate(ops)}
        inner = [[place[d] for d in dependencies[op] if d in place] for op in ops]
        groups = _connect(inner, [0] * len(ops), [0] * len(ops))
        members: dict[int, list[int]] = {}
        for op, group in zip(ops, groups, strict=True):
            members.setdefault(group, []).append(op)
        parts += members.values()
    return parts


def _find_levels(dependencies: Sequence[Sequence[int]], sides: Sequence[int]) -> list[int]:
    levels: list[int] = []
    for op, all_before in enumerate(dependencies):
        level = 0
        for before in all_before:
            leaves = sides[before] not in (_CPU, sides[op])
            level = max(level, levels[before] + leaves)
        levels.append(level)
    return levels


def _connect(
    dependencies: Sequence[Sequence[int]], sides: Sequence[int], levels: Sequence[int]
) -> list[int]:
    """Returns, for each op, the first op of its group; each op on the CPU is a separate group."""
    parents = list(range(len(dependencies)))

    def root(index: int) -> int:
        while parents[index] != index:
            parents[index] = parents[parents[index]]
            index = parents[index]
        return index

    for index, all_before in enumerate(dependencies):
        for before in all_before:
            if sides[before] == sides[index] != _CPU and levels[before] == levels[index]:
                first, second = sorted((root(before), root(index)))
                parents[second] = first
    return [root(index) for index in range(len(parents))]


class _Merger:
    """Merges groups; a node is a group or an op on the CPU, and is identified by its first op.

    The nodes are in a topological order, which is a doubly linked list with ascending labels.
    """

    def __init__(
        self,
        dependencies: Sequence[Sequence[int]],
        sides: Sequence[int],
        levels: Sequence[int],
        groups: Sequence[int],
    ) -> None:
        self._groups = groups
        self._sides = sides
        self._merged_into: dict[int, int] = {}
        self._before: dict[int, set[int]] = {group: set() for group in groups}
        self._after: dict[int, set[int]] = {group: set() for group in groups}
        for index, all_before in enumerate(dependencies):
            for before in all_before:
                if groups[before] != groups[index]:
                    self._before[groups[index]].add(groups[before])
                    self._after[groups[before]].add(groups[index])
        # On one level, ops on the CPU may write inputs of groups, but no group writes inputs of others.
        order = sorted(self._before, key=lambda node: (levels[node], sides[node] != _CPU, node))
        self._label = {node: place * _LABEL_GAP for place, node in enumerate(order)}
        self._next: dict[int, int] = dict(zip(order, [*order[1:], _NONE], strict=True))
        self._previous: dict[int, int] = dict(zip(order, [_NONE, *order[:-1]], strict=True))

    def merge_all(self) -> list[int]:
        """Merges all groups that can be merged, and returns the group of each op."""
        merged = True
        while merged:
            merged = False
            for node in self._ordered(self._before):
                if node in self._before and self._sides[node] != _CPU:
                    merged |= self._merge_with_neighbours(node)
        return [self._find(group) for group in self._groups]

    def _merge_with_neighbours(self, node: int) -> bool:
        # Nearest nodes first: nodes between two nodes must be merged before the two can be merged.
        neighbours = {n for n in self._before[node] if self._sides[n] == self._sides[node]}
        merged = False
        for neighbour in reversed(self._ordered(neighbours)):
            if self._merge(neighbour, node):
                node = self._find(node)
                merged = True
        return merged

    def _merge(self, first: int, second: int) -> bool:
        """Merges two neighboring groups, unless a path through other nodes leads from one to the other."""
        found = self._search(first, second)
        if found is None:
            return False
        between, after_second = found
        if after_second:
            self._move(between, second, self._next[second])
            self._absorb(second, first)
        else:
            self._move(between, self._previous[first], first)
            self._absorb(first, second)
        return True

    def _search(self, first: int, second: int) -> tuple[list[int], bool] | None:
        """Searches for another path from `first` to `second`, alternately from both ends.

        Returns:
          None if there is another path. Otherwise, nodes between the two: either the nodes that depend on `first`,
          and True; or the nodes on which `second` depends, and False; whichever search ended first.
        """
        behind: set[int] = set()
        ahead: set[int] = set()
        forward = self._walk(first, second, self._after, behind, ahead)
        backward = self._walk(second, first, self._before, ahead, behind)
        while True:
            if (meets := next(forward, None)) is None:
                return self._ordered(behind), True
            if meets:
                return None
            if (meets := next(backward, None)) is None:
                return self._ordered(ahead), False
            if meets:
                return None

    def _walk(
        self, start: int, end: int, edges: Mapping[int, set[int]], seen: set[int], others: set[int]
    ) -> Iterator[bool]:
        """Walks the nodes between two nodes, without the edge that connects the two nodes.

        Args:
          start: where the walk begins.
          end: where the other walk begins.
          edges: to walk along.
          seen: gets the nodes walked to.
          others: those that the other walk has seen.

        Yields:
          For each edge, whether it leads to a node that the other walk has seen.
        """
        low, high = sorted((self._label[start], self._label[end]))
        waiting = [start]
        while waiting:
            source = waiting.pop()
            for node in edges[source]:
                if node not in seen and low < self._label[node] < high:
                    seen.add(node)
                    waiting.append(node)
                yield node in others or (node == end and source != start)

    def _absorb(self, kept: int, gone: int) -> None:
        for here, there in ((self._before, self._after), (self._after, self._before)):
            for node in here.pop(gone):
                there[node].discard(gone)
                if node != kept:
                    there[node].add(kept)
                    here[kept].add(node)
        self._unlink(gone)
        self._merged_into[gone] = kept
        del self._label[gone]

    def _find(self, node: int) -> int:
        while node in self._merged_into:
            node = self._merged_into[node]
        return node

    def _ordered(self, nodes: Iterable[int]) -> list[int]:
        return sorted(nodes, key=self._label.__getitem__)

    def _unlink(self, node: int) -> None:
        before, after = self._previous.pop(node), self._next.pop(node)
        if before != _NONE:
            self._next[before] = after
        if after != _NONE:
            self._previous[after] = before

    def _move(self, nodes: Sequence[int], left: int, right: int) -> None:
        """Inserts nodes, in their order, between two neighboring nodes or at an end of the list."""
        for node in nodes:
            self._unlink(node)
        chain = [left, *nodes, right]
        for before, after in pairwise(chain):
            if before != _NONE:
                self._next[before] = after
            if after != _NONE:
                self._previous[after] = before
        reach = _LABEL_GAP * (len(nodes) + 1)
        low = self._label[left] if left != _NONE else self._label[right] - reach
        high = self._label[right] if right != _NONE else low + reach
        step = (high - low) // (len(nodes) + 1)
        if not step:
            self._label_anew(left)
            return
        for place, node in enumerate(nodes, 1):
            self._label[node] = low + step * place

    def _label_anew(self, node: int) -> None:
        while self._previous[node] != _NONE:
            node = self._previous[node]
        label = 0
        while node != _NONE:
            self._label[node] = label
            label += _LABEL_GAP
            node = self._next[node]
