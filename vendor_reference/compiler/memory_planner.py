"""Allocates buffers in one arena: assigns an offset to each buffer for the steps in which it is in use.

Buffers that are in use at the same time never overlap.

The planner allocates one buffer after another, each in the lowest gap that is large enough. The planner first
sorts the buffers by size, the largest first, and tries other orders if the plan is larger than the lower bound.
Then the planner improves the order by hill climbing, as other NPU compilers do, and moves the buffers that
determine the plan's size to the front. The result depends only on the buffers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random

from vendor_reference.executable.executable import align

_EFFORT = 2_000_000
"""Largest number of buffers that the improvement examines; examining them takes about half a second."""
_MOST_ROUNDS = 3_000


@dataclass(frozen=True, slots=True)
class LiveRange:
    """The size of a buffer, and the steps in which the buffer is in use.

    Attributes:
      first, last: First and last step in which the buffer is in use, both inclusive.
      in_place_of: Index of an earlier buffer that this buffer may overwrite, because its last step is `first`;
        None if there is no such buffer.
    """

    size_bytes: int
    first: int
    last: int
    in_place_of: int | None = None


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The offsets of buffers in an arena.

    Attributes:
      offsets: Offset of each buffer from the start of the arena, in bytes; each offset is a multiple of 64.
      size: Size of the arena, in bytes.
      lower_bound: Largest number of bytes in use at one step; no plan is smaller.
    """

    offsets: Sequence[int]
    size: int
    lower_bound: int


def plan_memory(buffers: Sequence[LiveRange]) -> MemoryPlan:
    """Assigns an offset to each buffer; caches the plan for equal lists of buffers."""
    groups, group_of = merge_in_place(buffers)
    plan = _plan_groups(tuple(groups))
    return replace(plan, offsets=[plan.offsets[group] for group in group_of])


@lru_cache(maxsize=16)
def _plan_groups(groups: tuple[LiveRange, ...]) -> MemoryPlan:
    bound = _lower_bound(groups)
    placing = _Placing(groups)
    best = None
    for order in _orders(groups):
        placed = placing.place(order)
        if best is None or placed.size < best.size:
            best = placed
        if best.size == bound:
            break
    assert best is not None
    if best.size > bound:
        best = placing.improve(best, bound)
    return MemoryPlan(best.offsets, best.size, bound)


def merge_in_place(buffers: Sequence[LiveRange]) -> tuple[list[LiveRange], list[int]]:
    """Merges buffers that can share memory, unless sharing could make the plan larger.

    Returns:
      The merged ranges with aligned sizes, and the index of the merged range of each buffer.
    """
    groups: list[LiveRange] = []
    group_of: list[int] = []
    taken: set[int] = set()
    for index, buffer in enumerate(buffers):
        size, operand = align(buffer.size_bytes), buffer.in_place_of
        if operand is not None and operand < index and operand not in taken:
            held = groups[group_of[operand]]
            dying = buffers[operand]
            if held.size_bytes == size and dying.first < dying.last == buffer.first:
                taken.add(operand)
                groups[group_of[operand]] = LiveRange(size, held.first, buffer.last)
                group_of.append(group_of[operand])
                continue
        group_of.append(len(groups))
        groups.append(LiveRange(size, buffer.first, buffer.last))
    return groups, group_of


def _lower_bound(groups: Sequence[LiveRange]) -> int:
    changes: dict[int, int] = {}
    for group in groups:
        changes[group.first] = changes.get(group.first, 0) + group.size_bytes
        changes[group.last + 1] = changes.get(group.last + 1, 0) - group.size_bytes
    live = most = 0
    for step in sorted(changes):
        live += changes[step]
        most = max(most, live)
    return most


def _orders(groups: Sequence[LiveRange]) -> Iterator[list[int]]:
    """Yields orders that are good for graphs of different kinds."""
    span = [group.last - group.first + 1 for group in groups]
    size = [group.size_bytes for group in groups]
    first = [group.first for group in groups]
    indices = range(len(groups))
    yield sorted(indices, key=lambda i: (-size[i], first[i], i))
    yield sorted(indices, key=lambda i: (-size[i] * span[i], first[i], i))
    yield sorted(indices, key=lambda i: (-span[i], -size[i], i))
    yield sorted(indices, key=lambda i: (first[i], -size[i], i))


@dataclass(frozen=True, slots=True)
class _Placed:
    order: Sequence[int]
    offsets: Sequence[int]
    size: int


class _Placing:
    """Allocates buffers in a given order, and searches for better orders."""

    def __init__(self, groups: Sequence[LiveRange]) -> None:
        self._sizes = [group.size_bytes for group in groups]
        self._neighbours = _neighbours(groups)
        self._cost = sum(map(len, self._neighbours)) + len(groups)

    def place(self, order: Sequence[int]) -> _Placed:
        """Allocates each buffer in the lowest gap between earlier buffers that are in use at the same time."""
        sizes = self._sizes
        ends = [-1] * len(sizes)
        size = 0
        for index in order:
            wanted = sizes[index]
            taken = [(ends[n] - sizes[n], ends[n]) for n in self._neighbours[index] if ends[n] >= 0]
            taken.sort()
            at = 0
            for start, end in taken:
                if start - at >= wanted:
                    break
                if end > at:
                    at = end
            ends[index] = at + wanted
            if at + wanted > size:
                size = at + wanted
        return _Placed(order, [end - s for end, s in zip(ends, sizes, strict=True)], size)

    def improve(self, best: _Placed, bound: int) -> _Placed:
        """Moves the buffers at the end of the plan, or those below them, forward in the order, up to a limit."""
        random = Random(0)
        now = best
        for _ in range(min(_MOST_ROUNDS, _EFFORT // self._cost)):
            order = list(now.order)
            moved = random.choice(self._deciding(now))
            place = order.index(moved)
            del order[place]
            order.insert(random.randrange(place) if place else 0, moved)
            tried = self.place(order)
            if tried.size <= now.size:
                now = tried
            if now.size < best.size:
                best = now
                if best.size <= bound:
                    break
        return best

    def _deciding(self, placed: _Placed) -> list[int]:
        """Returns the buffers that reach the plan's end, and the buffers below them."""
        sizes, offsets = self._sizes, placed.offsets
        top = [i for i, offset in enumerate(offsets) if offset + sizes[i] == placed.size]
        return top + [n for i in top for n in self._neighbours[i] if offsets[n] < offsets[i]]


def _neighbours(groups: Sequence[LiveRange]) -> list[list[int]]:
    """Returns, for each buffer, the buffers that are in use at the same time."""
    neighbours: list[list[int]] = [[] for _ in groups]
    live: list[int] = []
    for index in sorted(range(len(groups)), key=lambda i: (groups[i].first, i)):
        group = groups[index]
        live = [other for other in live if groups[other].last >= group.first]
        if not group.size_bytes:
            continue
        for other in live:
            neighbours[other].append(index)
        neighbours[index] = list(live)
        live.append(index)
    return neighbours
