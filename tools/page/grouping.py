"""Groups the ops of a subgraph: the ops of each NPU call, and blocks of successive calls and CPU ops.

A block ends where few tensors are read across the boundary. Groups never form a cycle, because the partitioner
makes no cyclic calls, and because blocks are consecutive in an order in which a call counts as one op.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .page import NodeGroup

_FEW = 24
"""Greatest number of ops and calls that are shown without blocks."""
_SMALLEST, _LARGEST = 8, 24

_Unit: TypeAlias = "tuple[int, ...]"
"""Positions of the ops of an NPU call, or of one op on the CPU."""


@dataclass(frozen=True, slots=True)
class GroupedOp:
    """An op, with the facts that `group_ops` needs.

    Attributes:
      reads: Positions of the ops whose outputs the op reads.
      call: Name of the op's NPU call; "" if the op runs on the CPU.
      is_constant: Whether the op reads only constants; such an op joins the group of the op that reads its output.
    """

    name: str
    reads: Sequence[int]
    call: str = ""
    is_constant: bool = False


def group_ops(ops: Sequence[GroupedOp]) -> tuple[list[int], list[NodeGroup], list[int]]:
    """Groups the ops of a subgraph.

    Returns:
      The index of each op's group (-1 for no group), the groups (parents first), and the positions of the ops in
      an order in which each op follows the ops that it reads.
    """
    grouping = _Grouping(ops)
    fixed = [position for position, op in enumerate(ops) if op.is_constant]
    shown = _order(ops, _units(ops))
    blocks = [shown] if len(shown) <= _FEW else _cut(ops, shown)
    for block in blocks:
        positions = [position for unit in block for position in unit]
        parent = grouping.add(_span_name(positions), positions) if len(blocks) > 1 else -1
        for unit in block:
            if ops[unit[0]].call and len(unit) > 1:
                grouping.add_call(unit, parent)
    flat = fixed + [position for unit in shown for position in unit]
    for position in reversed(flat):
        for read in ops[position].reads:
            if ops[read].is_constant:
                grouping.of[read] = grouping.of[position]
    return grouping.of, grouping.groups, flat


class _Grouping:
    """Groups that are being made."""

    def __init__(self, ops: Sequence[GroupedOp]) -> None:
        self.of = [-1] * len(ops)
        self.groups: list[NodeGroup] = []
        self._ops = ops

    def add(self, name: str, positions: Sequence[int], call: str = "", parent: int = -1) -> int:
        """Makes a group of ops; returns its index."""
        counts = Counter(self._ops[position].name for position in positions).most_common()
        about = ", ".join(f"{count} {op_name}" for op_name, count in counts)
        self.groups.append(NodeGroup(name, about, call, parent))
        for position in positions:
            self.of[position] = len(self.groups) - 1
        return len(self.groups) - 1

    def add_call(self, positions: _Unit, parent: int) -> None:
        """Makes a group of an NPU call's ops, divided into blocks if there are many ops."""
        call = self._ops[positions[0]].call
        group = self.add(call, positions, call, parent)
        if len(positions) > _FEW:
            order = _order(self._ops, [(position,) for position in positions])
            for block in _cut(self._ops, order):
                inside = [position for unit in block for position in unit]
                self.add(_span_name(inside), inside, call, group)


def _span_name(positions: Sequence[int]) -> str:
    first, last = min(positions), max(positions)
    return f"op {first}" if first == last else f"ops {first} to {last}"


def _units(ops: Sequence[GroupedOp]) -> list[_Unit]:
    """Returns a unit for each NPU call and for each other op, without ops that read only constants."""
    units: dict[str | int, list[int]] = {}
    for position, op in enumerate(ops):
        if not op.is_constant:
            units.setdefault(op.call or position, []).append(position)
    return [tuple(positions) for positions in units.values()]


def _order(ops: Sequence[GroupedOp], units: Sequence[_Unit]) -> list[_Unit]:
    """Sorts units such that each unit follows the units that it reads; units in a cycle come last."""
    unit_of = {position: index for index, unit in enumerate(units) for position in unit}
    sources = [_sources(ops, unit, unit_of) - {index} for index, unit in enumerate(units)]
    readers: list[list[int]] = [[] for _ in units]
    for index, found in enumerate(sources):
        for source in found:
            readers[source].append(index)
    waiting = [len(found) for found in sources]
    ready = [index for index in reversed(range(len(units))) if not waiting[index]]
    order: list[int] = []
    while ready:
        index = ready.pop()
        order.append(index)
        for reader in reversed(readers[index]):
            waiting[reader] -= 1
            if not waiting[reader]:
                ready.append(reader)
    left = sorted(set(range(len(units))).difference(order))
    return [units[index] for index in order + left]


def _sources(ops: Sequence[GroupedOp], unit: _Unit, unit_of: dict[int, int]) -> set[int]:
    """Returns the indices of the units that a unit reads, which may include its own index."""
    reads = (read for position in unit for read in ops[position].reads)
    return {unit_of[read] for read in reads if read in unit_of}


def _cut(ops: Sequence[GroupedOp], units: Sequence[_Unit]) -> list[Sequence[_Unit]]:
    """Cuts a list of units into blocks, at positions where the fewest units are read across the cut."""
    place_of = {position: place for place, unit in enumerate(units) for position in unit}
    last_read = list(range(len(units)))
    for place, unit in enumerate(units):
        for source in _sources(ops, unit, place_of):
            last_read[source] = max(last_read[source], place)
    changes = [0] * (len(units) + 1)
    for place, last in enumerate(last_read):
        changes[place] += 1
        changes[last] -= 1
    crossing, live = [], 0
    for change in changes:
        live += change
        crossing.append(live)
    wanted = min(max(round(len(units) ** 0.5), _SMALLEST), _LARGEST)
    blocks: list[Sequence[_Unit]] = []
    start = 0
    while len(units) - start > wanted * 3 // 2:
        ends = range(start + wanted // 2, start + wanted * 3 // 2)
        end = min(ends, key=lambda end: (crossing[end - 1], abs(end - start - wanted)))
        blocks.append(units[start:end])
        start = end
    return [*blocks, units[start:]]
