"""Chooses the dimension orders of tensors, so that a function needs as few and as small reorders as possible.

This module represents a function by plain numbers. If an op accepts any layout, but requires the same order for
its tensors, these tensors form a *group*. Each value is produced either in a fixed order, or in the order of a
group. Each reader of the value also requires either a fixed order, or the order of a group. One reorder is needed
for each required order that differs from the produced order; readers that require the same order share the
reorder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

from vendor_reference.custom_layers.layout import Order

_REORDER = 1 << 48
"""Cost of a reorder in addition to its bytes; the cost is so large that fewer reorders are always better."""
_SWEEPS = 4
_CANDIDATES = 6

Key: TypeAlias = Order
"""An order without the dimensions of size 1, which do not affect the layout.

Orders with equal keys have the same memory layout.
"""


@lru_cache(maxsize=4096)
def order_key(shape: tuple[int, ...], order: Order) -> Key:
    """Returns the key of an order for a tensor of the given shape."""
    return tuple(dim for dim in order if shape[dim] != 1)


@dataclass(slots=True)
class Value:
    """A value that is produced once and read any number of times.

    Attributes:
      shape: Shape of the value; -1 is an unknown dimension.
      size_bytes: Number of bytes that a reorder of the value moves.
      order: Order in which the value is produced; unused if a group produces it.
      group: Group that produces the value; None if the value's order is fixed.
      wanted: Orders that readers outside of groups require.
      readers: Groups that read the value, and how many times each group reads it.
      is_constant: Whether the value is a constant; a constant needs no reorder, because it can be stored in
        several orders.
    """

    shape: tuple[int, ...]
    size_bytes: int
    order: Order
    group: int | None = None
    wanted: list[Order] = field(default_factory=list)
    readers: Counter[int] = field(default_factory=Counter)
    is_constant: bool = False

    @property
    def reorder_cost(self) -> int:
        """Returns the cost of a reorder of the value."""
        return 0 if self.is_constant else _REORDER + self.size_bytes


@dataclass(slots=True)
class Puzzle:
    """The values of a function, and the current dimension order of each group.

    Groups are in execution order, so that each group reads only values of earlier groups.
    """

    values: list[Value] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)

    def choose(self) -> list[Order]:
        """Returns an order for each group; the new orders never need more reorders than the current orders."""
        links = _Links(self)
        candidates = links.candidates()
        given = _Assignment(self, links, self.orders)
        gathered = _Assignment(self, links, _Gathering(self, links, candidates).settle())
        best = min((given, gathered), key=lambda assignment: assignment.cost)
        for _ in range(_SWEEPS):
            if not best.improve(candidates):
                break
        return best.orders


class _Links:
    """The values that each group reads and makes, and the orders that other readers want."""

    def __init__(self, puzzle: Puzzle) -> None:
        self._puzzle = puzzle
        self.wanted = [{order_key(v.shape, order) for order in v.wanted} for v in puzzle.values]
        self.read: list[list[int]] = [[] for _ in puzzle.orders]
        self.made: list[list[int]] = [[] for _ in puzzle.orders]
        for index, value in enumerate(puzzle.values):
            if value.group is not None:
                self.made[value.group].append(index)
            for reader in value.readers:
                self.read[reader].append(index)

    def candidates(self) -> list[list[Order]]:
        """Returns the orders that can help each group: the most frequent around its connected groups."""
        around: dict[int, Counter[Order]] = {}
        roots = self._roots()
        for group, order in enumerate(self._puzzle.orders):
            around.setdefault(roots[group], Counter())[order] += 1
        for value in self._puzzle.values:
            groups = [*value.readers, *([] if value.group is None else [value.group])]
            given = [*value.wanted, *([value.order] if value.group is None else [])]
            for root in {roots[group] for group in groups}:
                around[root].update(given)
        best = {
            root: [o for o, _ in orders.most_common(_CANDIDATES)] for root, orders in around.items()
        }
        return [
            [order, *(o for o in best[roots[group]] if o != order)]
            for group, order in enumerate(self._puzzle.orders)
        ]

    def _roots(self) -> list[int]:
        """Returns for each group a representative of all groups that it is connected with."""
        parents = list(range(len(self._puzzle.orders)))

        def root(group: int) -> int:
            while parents[group] != group:
                parents[group] = parents[parents[group]]
                group = parents[group]
            return group

        for value in self._puzzle.values:
            if value.group is not None:
                for reader in value.readers:
                    parents[root(reader)] = root(value.group)
        return [root(group) for group in range(len(parents))]


class _Assignment:
    """The orders of groups and their cost, which is updated as an order changes."""

    def __init__(self, puzzle: Puzzle, links: _Links, orders: Sequence[Order]) -> None:
        self._values = puzzle.values
        self._links = links
        self.orders = list(orders)
        self._wanted: list[Counter[Key]] = []
        for value in self._values:
            wanted = Counter(order_key(value.shape, order) for order in value.wanted)
            for group, count in value.readers.items():
                wanted[order_key(value.shape, self.orders[group])] += count
            self._wanted.append(wanted)
        self.cost = sum(self._cost(index) for index in range(len(self._values)))

    def improve(self, candidates: Sequence[Sequence[Order]]) -> bool:
        """Changes the orders of groups if the change reduces the cost; returns whether a group has changed.

        Tries first all groups that share a value together, since one reorder can serve them all;
        then single groups, forward and back.
        """
        before = self.cost
        for value in self._values:
            groups = [*value.readers, *([] if value.group is None else [value.group])]
            if len(groups) > 1:
                self._try(groups, candidates[groups[0]])
        groups = list(range(len(self.orders)))
        for group in (*groups, *reversed(groups)):
            self._try([group], candidates[group])
        return self.cost < before

    def _try(self, groups: Sequence[int], orders: Sequence[Order]) -> None:
        """Sets groups to the order with the lowest cost; does nothing if no order is better."""
        kept, cost = [self.orders[group] for group in groups], self.cost
        for order in orders:
            for group in groups:
                self._set(group, order)
            if self.cost < cost:
                kept, cost = [order] * len(groups), self.cost
        for group, order in zip(groups, kept, strict=True):
            self._set(group, order)

    def _set(self, group: int, order: Order) -> None:
        if self.orders[group] == order:
            return
        around = {*self._links.read[group], *self._links.made[group]}
        self.cost -= sum(self._cost(index) for index in around)
        for index in self._links.read[group]:
            value, wanted = self._values[index], self._wanted[index]
            count = value.readers[group]
            wanted[order_key(value.shape, self.orders[group])] -= count
            wanted[order_key(value.shape, order)] += count
        self.orders[group] = order
        self.cost += sum(self._cost(index) for index in around)

    def _cost(self, index: int) -> int:
        value = self._values[index]
        order = value.order if value.group is None else self.orders[value.group]
        kept = order_key(value.shape, order)
        others = sum(1 for key, count in self._wanted[index].items() if count and key != kept)
        return others * value.reorder_cost


class _Gathering:
    """Finds the best orders if each value has one reader.

    For values with several readers, the result is an approximation.

    The cost of everything that runs before a group is summed from the start; then each group's
    order is fixed from the end.
    """

    def __init__(
        self, puzzle: Puzzle, links: _Links, candidates: Sequence[Sequence[Order]]
    ) -> None:
        self._values = puzzle.values
        self._links = links
        self._candidates = candidates
        self._settled = list(puzzle.orders)
        self._gathered: list[Mapping[Order, int]] = []

    def settle(self) -> list[Order]:
        """Returns an order for each group."""
        groups = range(len(self._candidates))
        for group in groups:
            costs = {order: self._cost_until(group, order) for order in self._candidates[group]}
            self._gathered.append(costs)
        for group in reversed(groups):
            total = {
                order: cost + self._cost_of_readers(group, order)
                for order, cost in self._gathered[group].items()
            }
            self._settled[group] = min(total, key=lambda order: total[order])
        return self._settled

    def _cost_until(self, group: int, order: Order) -> int:
        cost = 0
        for index in self._links.read[group]:
            value = self._values[index]
            key = order_key(value.shape, order)
            is_there = key in self._links.wanted[index]  # other readers need this order anyway
            extra = 0 if is_there else value.reorder_cost
            if value.group is None:
                cost += extra * (order_key(value.shape, value.order) != key)
            else:
                shared_by = sum(
                    len(self._values[made].readers) for made in self._links.made[value.group]
                )
                cost += min(
                    so_far // shared_by + extra * (order_key(value.shape, source) != key)
                    for source, so_far in self._gathered[value.group].items()
                )
        for index in self._links.made[group]:
            value = self._values[index]
            others = self._links.wanted[index] - {order_key(value.shape, order)}
            cost += value.reorder_cost * len(others)
        return cost

    def _cost_of_readers(self, group: int, order: Order) -> int:
        cost = 0
        for index in self._links.made[group]:
            value = self._values[index]
            keys = {order_key(value.shape, self._settled[reader]) for reader in value.readers}
            keys -= {order_key(value.shape, order), *self._links.wanted[index]}
            cost += value.reorder_cost * len(keys)
        return cost
