"""Buffers that live for some steps get places in one arena; those alive together are apart.

Greedy: the largest first, each in the smallest gap that holds it among those placed already that live
at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class LiveRange:
    """A buffer, and when it is needed.

    Attributes:
      first, last: steps, both included.
    """

    size_bytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Places of buffers.

    Attributes:
      offsets: of each buffer from the start of the arena, in bytes, multiples of 64.
      size: of the arena, in bytes.
      lower_bound: the most bytes that live at one step; no plan is smaller.
    """

    offsets: Sequence[int]
    size: int
    lower_bound: int


def plan_memory(buffers: Sequence[LiveRange]) -> MemoryPlan:
    """Gives each buffer its place."""
    steps = max((b.last for b in buffers), default=-1) + 1
    sizes = [(b.size_bytes + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT for b in buffers]
    offsets = [0] * len(buffers)
    placed: list[list[int]] = [[] for _ in range(steps)]  # buffers by the steps they live at
    for index in sorted(range(len(buffers)), key=lambda i: (-sizes[i], buffers[i].first, i)):
        alive = range(buffers[index].first, buffers[index].last + 1)
        neighbours = {other for step in alive for other in placed[step]}
        taken = sorted((offsets[other], offsets[other] + sizes[other]) for other in neighbours)
        offsets[index] = _find_gap(taken, sizes[index])
        for step in alive:
            placed[step].append(index)
    size = max((o + s for o, s in zip(offsets, sizes, strict=True)), default=0)
    bound = max((sum(sizes[i] for i in step) for step in placed), default=0)
    return MemoryPlan(offsets, size, bound)


def _find_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """Where `size` bytes fit best between ranges that are sorted by their start."""
    best, best_gap, end = -1, 0, 0
    for start, stop in taken:
        gap = start - end
        if gap >= size and (best < 0 or gap < best_gap):
            best, best_gap = end, gap
        end = max(end, stop)
    return end if best < 0 else best
