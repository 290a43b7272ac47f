"""Keeps the ops of an edited subgraph in execution order, and finds ops by name.

Each op comes after the ops whose results it reads; otherwise the order does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import pairwise

from compiler_plugin.effects import has_side_effects
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.graph import Model, Op, OperatorCode, Subgraph, Tensor
from litert.model.positions import read_control_dependencies

_Place = tuple[int, int]
_FIRST: _Place = (-1, 0)


class GraphOps:
    """The ops of one subgraph in execution order; ops that were added since the last sort come last.

    Each op has a sort key, which is called its place; because of the places, only few edits need a new sort. After
    a sort, the place is (position of the op, 0). The place of an op that was added later is (position of the last
    op that it depends on, a growing number).

    Attributes:
      is_valid: Whether the places are a valid execution order: each op comes after the ops whose results it reads.
    """

    def __init__(self, model: Model, subgraph: Subgraph) -> None:
        """Reads the ops of a subgraph; if the subgraph comes from a file, their order may be invalid."""
        self._settle(subgraph.ops)
        self._edges = _read_edges(model, subgraph)
        is_sorted = all(self._find_last_input(op) < place for op, place in self._places.items())
        self.is_valid = self._is_settled = is_sorted

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, op: Op | None) -> bool:
        return op in self._places

    def __iter__(self) -> Iterator[Op]:
        return iter(self._places)

    def __reversed__(self) -> Iterator[Op]:
        return reversed(self._places)

    @property
    def names(self) -> list[str]:
        """The names of the ops in the subgraph."""
        return [name for name, ops in self._by_name.items() if ops]

    @property
    def control_edges(self) -> list[tuple[Op, Op]]:
        """Pairs of ops (first, second) that must run in this order, according to the converter's metadata."""
        return [(a, b) for a, b in self._edges if a in self._places and b in self._places]

    def named(self, name: str) -> Collection[Op]:
        """Returns the ops with the given op name, in execution order."""
        return self._by_name.get(name, {}).keys()

    def by_place(self, ops: Iterable[Op]) -> list[Op]:
        """Returns the given ops, sorted by their places."""
        return sorted(ops, key=self._places.__getitem__)

    def add(self, op: Op) -> None:
        """Adds a new op after the ops whose results it reads; the producers of its inputs must already be set."""
        self._count += 1
        self._places[op] = (self._find_last_input(op)[0], self._count)
        self._by_name.setdefault(op.name, {})[op] = None
        self._is_settled = False

    def remove(self, op: Op) -> None:
        """Removes an op."""
        del self._places[op]
        self._by_name[op.name].pop(op, None)
        self._is_settled = False

    def rename(self, op: Op, code: OperatorCode) -> None:
        """Changes the operator code of an op."""
        del self._by_name[op.name][op]
        op.code = code
        self._by_name.setdefault(op.name, {})[op] = None

    def replace(self, old: Op, new: Op) -> None:
        """Gives a new op the control dependencies and, if possible, the place of an old op."""
        self._edges = [(new if a is old else a, new if b is old else b) for a, b in self._edges]
        self.take_place(old, new)

    def take_place(self, old: Op, new: Op) -> None:
        """Moves a new op to the place of an old op, if possible."""
        places = self._places
        self._is_settled = False
        if not places[new][1] and places[new] < places[old]:
            return
        if self._find_last_input(new) < places[old]:
            places[new] = places[old]
        else:
            self.is_valid = False

    def note_input(self, op: Op, tensor: Tensor | None) -> None:
        """Records that an op has a new input tensor."""
        self._is_settled = False
        producer = None if tensor is None else tensor.producer
        if producer is None or not self.is_valid:
            return
        if self._places.get(producer, _FIRST) < self._places[op]:
            return
        self._count += 1
        place = (self._find_last_input(op)[0], self._count)
        is_new = self._places[op][1] > 0
        readers = (r for written in op.outputs for r in written.readers if r in self._places)
        if is_new and all(place < self._places[reader] for reader in readers):
            self._places[op] = place
        else:
            self.is_valid = False

    def sort(self) -> list[Op] | None:
        """Sorts the ops into execution order; ops move only if necessary.

        Returns None if no op was added, removed or reconnected since the last sort.
        """
        if self._is_settled:
            return None
        places = self._places
        effects = self.by_place(  # new ones may run when they can, where places say nothing
            op for op in self if has_side_effects(op) and (self.is_valid or not places[op][1])
        )
        known_first = sorted(self, key=lambda op: (places[op][1], places[op]))
        ops = sort_ops(known_first, self.control_edges, effects)
        self._settle(ops)
        return ops

    def _settle(self, ops: Iterable[Op]) -> None:
        """Sets the ops to a sorted list."""
        self._places: dict[Op, _Place] = {op: (index, 0) for index, op in enumerate(ops)}
        self._by_name: dict[str, dict[Op, None]] = {}
        for op in self._places:
            self._by_name.setdefault(op.name, {})[op] = None
        self._count = 0
        self.is_valid = self._is_settled = True

    def _find_last_input(self, op: Op) -> _Place:
        places = self._places
        producers = (tensor.producer for tensor in op.inputs if tensor is not None)
        return max((places[p] for p in producers if p is not None and p in places), default=_FIRST)


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


def sort_ops(
    ops: Sequence[Op], edges: Iterable[tuple[Op, Op]] = (), effects: Sequence[Op] | None = None
) -> list[Op]:
    """Sorts ops so that each op comes after its dependencies; ops move only if necessary.

    A new op at the end of the list is moved in front of its first reader. `edges` are additional dependencies:
    pairs of ops (first, second) that must run in this order. The ops in `effects`, by default all ops with side
    effects, keep their relative order.

    Raises:
      LiteRtError: INVALID_GRAPH_INVARIANT, if ops form a cycle; the error lists these ops.
    """
    if effects is None:
        effects = [op for op in ops if has_side_effects(op)]
    waits_for: dict[Op, list[Op]] = {after: [before] for before, after in pairwise(effects)}
    for first, second in edges:
        waits_for.setdefault(second, []).append(first)
    present = set(ops)

    def find_before(op: Op) -> list[Op]:
        producers = [t.producer for t in op.inputs if t is not None and t.producer in present]
        return producers + waits_for[op] if op in waits_for else producers

    order: dict[Op, None] = {}
    for op in ops:
        if op not in order and not all(map(order.__contains__, find_before(op))):
            _place_with_inputs(op, order, find_before)
        order[op] = None
    return list(order)


def _place_with_inputs(
    start: Op, order: dict[Op, None], find_before: Callable[[Op], Iterable[Op]]
) -> None:
    path = {start: iter(find_before(start))}
    while path:
        op, before = next(reversed(path.items()))
        following = next((b for b in before if b not in order), None)
        if following is None:
            del path[op]
            order[op] = None
        elif following in path:
            raise _cycle(list(path), following)
        else:
            path[following] = iter(find_before(following))


def _cycle(path: Sequence[Op], op: Op) -> LiteRtError:
    members = path[path.index(op) :]
    if len(members) == 1:
        return LiteRtError(
            Status.INVALID_GRAPH_INVARIANT,
            f"{op.name} '{op.outputs[0].name if op.outputs else ''}' reads its own output",
            hint="Connect the op's input to another tensor.",
        )
    names = " -> ".join(
        f"{m.name} '{m.outputs[0].name if m.outputs else ''}'" for m in [*members, op]
    )
    return LiteRtError(
        Status.INVALID_GRAPH_INVARIANT,
        f"{len(members)} ops form a cycle, in which each op must run after the next op: {names}",
        hint="Connect an input of one of these ops to a tensor from outside of the cycle.",
    )
