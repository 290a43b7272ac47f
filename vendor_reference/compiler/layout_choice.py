"""Which order each free value should lie in, so that the fewest reorders, and of these the smallest, are left.

A function as a puzzle of plain numbers. A *group* is what must lie alike: the tensors of an op that takes any
layout. A value is produced in an order that is given, or that of a group; its readers want one that is given, or
that of a group. Each order that a value is wanted in, and not produced in, is one reorder, whoever shares it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

from vendor_reference.custom_layers.layout import Order

_REORDER = 1 << 48
"""What a reorder costs, beside its bytes: one less is always better."""
_SWEEPS = 4
_CANDIDATES = 6

Key: TypeAlias = Order
"""An order without the dimensions of size 1, which lie nowhere: orders of equal keys put elements alike."""


@lru_cache(maxsize=4096)
def order_key(shape: tuple[int, ...], order: Order) -> Key:
    """What an order means to a tensor of that shape."""
    return tuple(dim for dim in order if shape[dim] != 1)


@dataclass(slots=True)
class Value:
    """What is produced once and read any number of times.

    Attributes:
      shape: -1 is unknown.
      size_bytes: what a reorder of it moves.
      order: that it is produced in; unused where there is a group.
      group: that produces it; None where its order is given.
      wanted: orders that readers want.
      readers: groups that read it, and how often.
      is_constant: whether it can lie in all orders at once, at no cost.
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
        """What one more order costs."""
        return 0 if self.is_constant else _REORDER + self.size_bytes


@dataclass(slots=True)
class Puzzle:
    """A function's values, and the present dimension order of each of its groups of ops.

    Groups are listed as they run: a group reads only what earlier groups have produced.
    """

    values: list[Value] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)

    def choose(self) -> list[Order]:
        """An order for each group: never more reorders than with those that they have now."""
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
    """Which values each group reads and makes, and what is wanted of each value by others than groups."""

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
        """The orders that can help each group: the most frequent around the groups that it hangs together with."""
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
        """For each group one that stands for all that it hangs together with."""
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
    """Orders of groups, and what they cost; kept up to date as one changes."""

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
        """Changes groups where that alone costs less; says whether one did.

        First those that share a value, together: what one of them pays for serves them all. Then one by one, there
        and back.
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
        """Gives groups the order with which they cost the least; leaves them where that is none."""
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
    """The best orders, if each value had one reader; a guess where it has more.

    What all that runs before a group costs is gathered from the start; then, from the end, each group is settled.
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
        """An order for each group."""
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
            is_there = key in self._links.wanted[index]  # for others anyway
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
