"""The ops of a graph: which there are, by their names, and in an order in which they can run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from compiler_plugin.transformations.op_order import Order, sort_ops
from litert.model.control_dependencies import read_control_dependencies
from litert.model.graph import Model, Op, OperatorCode, Subgraph, Tensor


class GraphOps:
    """The ops of one subgraph, in execution order; those that were added since the last sort come last."""

    def __init__(self, model: Model, subgraph: Subgraph) -> None:
        self._ops = dict.fromkeys(subgraph.ops)
        self._by_name: dict[str, dict[Op, None]] = {}
        self._index_names()
        self._order = Order(subgraph.ops)
        self._edges = _read_edges(model, subgraph)

    def __len__(self) -> int:
        return len(self._ops)

    def __contains__(self, op: Op | None) -> bool:
        return op in self._ops

    def __iter__(self) -> Iterator[Op]:
        return iter(self._ops)

    def __reversed__(self) -> Iterator[Op]:
        return reversed(self._ops)

    @property
    def names(self) -> list[str]:
        """What ops there are."""
        return [name for name, ops in self._by_name.items() if ops]

    @property
    def control_edges(self) -> list[tuple[Op, Op]]:
        """Pairs of an op and one that must run after it, beyond what data say (the converter's metadata)."""
        return [(a, b) for a, b in self._edges if a in self._ops and b in self._ops]

    def named(self, name: str) -> Collection[Op]:
        """The ops of a name, in execution order."""
        return self._by_name.get(name, {}).keys()

    def add(self, op: Op) -> None:
        """Takes in a new op; what it reads has its producers."""
        self._ops[op] = None
        self._order.add(op)
        self._by_name.setdefault(op.name, {})[op] = None

    def remove(self, op: Op) -> None:
        """Lets an op go."""
        del self._ops[op]
        self._order.remove(op)
        self._by_name[op.name].pop(op, None)

    def rename(self, op: Op, code: OperatorCode) -> None:
        """Gives an op another operator code."""
        del self._by_name[op.name][op]
        op.code = code
        self._by_name.setdefault(op.name, {})[op] = None

    def replace(self, before: Op, after: Op) -> None:
        """Lets an op wait for what another waits for, and run in its place, if it can."""
        self._edges = [
            (after if a is before else a, after if b is before else b) for a, b in self._edges
        ]
        self.move(before, after)

    def move(self, before: Op, after: Op) -> None:
        """Lets an op run where another does, if it can."""
        self._order.replace(before, after)

    def note_input(self, op: Op, tensor: Tensor | None) -> None:
        """Notes that an op reads a tensor from now on."""
        self._order.note_input(op, tensor)

    def sort(self) -> list[Op] | None:
        """Brings the ops into an order in which they can run; those that can stay do. None where they are.

        Raises:
          LiteRtError: INVALID_GRAPH_INVARIANT for a cycle, with its members.
        """
        order = self._order
        if order.is_settled:
            return None
        effects = order.find_effects(self._ops)
        ops = sort_ops(order.list_for_sort(self._ops), self.control_edges, effects)
        order.settle(ops)
        self._ops = dict.fromkeys(ops)
        self._index_names()
        return ops

    @property
    def has_places(self) -> bool:
        """Whether an order is known without a sort."""
        return self._order.is_valid

    def sort_some(self, ops: Iterable[Op]) -> list[Op]:
        """Some of the ops, which have places, in execution order."""
        return self._order.by_place(ops)

    def _index_names(self) -> None:
        self._by_name = {}
        for op in self._ops:
            self._by_name.setdefault(op.name, {})[op] = None


def _read_edges(model: Model, subgraph: Subgraph) -> list[tuple[Op, Op]]:
    index = next((i for i, known in enumerate(model.subgraphs) if known is subgraph), None)
    if index is None:  # a copy of a partition
        return []
    count = len(subgraph.ops)
    return [
        (subgraph.ops[a], subgraph.ops[b])
        for a, b in read_control_dependencies(model)[index]
        if a < b < count
    ]
