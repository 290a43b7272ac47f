"""Chooses the memory space of each buffer: the scratchpad (CMX) or DDR.

The scratchpad contains the buffers with the most read and written bytes in relation to their size; DDR contains
the other buffers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from vendor_reference.compiler.memory_planner import LiveRange, merge_in_place, plan_memory


class MemorySpace(str, Enum):
    """A memory space of the SoC."""

    DDR = "DDR"
    CMX = "CMX"


@dataclass(frozen=True, slots=True)
class Demand:
    """A buffer that needs memory.

    Attributes:
      traffic_bytes: Number of bytes that tasks read from the buffer and write to the buffer in one run.
      is_ddr_only: Whether the buffer must be in DDR, because it contains a shape, or because a layer requires it
        in DDR.
    """

    alive: LiveRange
    traffic_bytes: int
    is_ddr_only: bool = False


def choose_spaces(
    demands: Sequence[Demand], cmx_size: int, local_bytes: Sequence[int] = ()
) -> Sequence[MemorySpace]:
    """Chooses a memory space for each buffer, so that the memory plan of the scratchpad fits into the scratchpad.

    Buffers that share memory get the same space. For each step, `local_bytes` holds the number of bytes in the
    scratchpad that the work groups of the step's task need.
    """
    groups, group_of = merge_in_place([demand.alive for demand in demands])
    traffic, is_ddr_only = [0] * len(groups), [False] * len(groups)
    for demand, group in zip(demands, group_of, strict=True):
        traffic[group] += demand.traffic_bytes
        is_ddr_only[group] |= demand.is_ddr_only
    room = max(cmx_size - max(local_bytes, default=0), 0)
    in_cmx = _choose(groups, traffic, is_ddr_only, room)
    cmx = plan_memory([groups[group] for group in in_cmx])
    while cmx.size > room:  # buffers that fit step by step left gaps
        in_cmx.remove(max(zip(cmx.offsets, in_cmx, strict=True))[1])
        cmx = plan_memory([groups[group] for group in in_cmx])
    chosen = set(in_cmx)
    return [MemorySpace.CMX if group in chosen else MemorySpace.DDR for group in group_of]


def ranges_in(
    buffers: Sequence[LiveRange], spaces: Sequence[MemorySpace], space: MemorySpace
) -> tuple[list[int], list[LiveRange]]:
    """Returns the indices of the buffers in one memory space, and their live ranges with new indices."""
    members = [index for index, of in enumerate(spaces) if of is space]
    place_of = {index: place for place, index in enumerate(members)}
    ranges = []
    for index in members:
        held = buffers[index].in_place_of
        place = place_of.get(held) if held is not None else None
        ranges.append(replace(buffers[index], in_place_of=place))
    return members, ranges


def _choose(
    groups: Sequence[LiveRange], traffic: Sequence[int], is_ddr_only: Sequence[bool], room: int
) -> list[int]:
    """Returns the buffers with the most traffic for their bytes and steps, while each step has room."""

    def worth(group: int) -> tuple[float, int]:
        alive = groups[group]
        taken = max(alive.size_bytes, 1) * (alive.last - alive.first + 1)
        return -traffic[group] / taken, group

    free = [room] * (max((alive.last for alive in groups), default=-1) + 1)
    chosen = []
    for group in sorted(range(len(groups)), key=worth):
        alive = groups[group]
        steps = range(alive.first, alive.last + 1)
        if is_ddr_only[group] or min(free[alive.first : alive.last + 1]) < alive.size_bytes:
            continue
        chosen.append(group)
        for step in steps:
            free[step] -= alive.size_bytes
    return sorted(chosen)
