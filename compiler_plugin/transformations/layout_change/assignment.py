"""Chooses which ops change to the other layout, so that TRANSPOSE ops move as few elements as possible.

Some ops must change; the others are free to change. A tensor that is written in one layout and read in the other
is transposed once, for all readers in the other layout. The layouts of connected free ops are chosen together. If
all neighbours of these ops have the same layout, the ops take that layout. Otherwise a minimum cut gives the
optimal choice; the cut separates the neighbours in one layout from those in the other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from compiler_plugin.transformations.layout_change.image_layout import (
    LayoutChange,
    Permutation,
    keeps_memory,
)
from compiler_plugin.transformations.layout_change.rule import (
    FREE,
    Edit,
    Layouts,
    OpPlan,
    PortLayout,
    known_shape,
)
from litert.model.graph import Op, Subgraph, Tensor

_MAX_PHASES = 100

SOURCE, SINK = 0, 1
UNLIMITED = 1 << 60


@dataclass(frozen=True, slots=True)
class Assignment:
    """Chosen layouts for the ports of one op.

    Attributes:
      edit: Other changes to the op, such as new options.
      inputs, outputs: Permutation of each input and output. A free input takes the layout of the tensor that it
        reads.
    """

    edit: Edit
    inputs: Layouts
    outputs: Layouts


@dataclass(slots=True)
class Use:
    """A tensor as a hyperedge of the flow network, from its producer to its readers."""

    producer: int
    readers: list[int]
    cost: int


def assign_layouts(
    subgraph: Subgraph,
    plans: Mapping[Op, OpPlan],
    change: LayoutChange,
    results: Collection[Tensor],
) -> dict[Op, Assignment]:
    """Chooses the layouts of all ports so that the fewest elements are transposed.

    Only ops in `plans` can change to the other layout. Results of the model keep their layout, because the
    application reads them. The returned mapping has an entry for each op that changes.
    """
    nodes: dict[Op, int] = {}
    homes: dict[Tensor, int] = {}  # the node that determines a tensor's layout; the default is SINK
    number = SINK
    for op, plan in plans.items():
        number += not plan.is_bound
        nodes[op] = SOURCE if plan.is_bound else number
        for tensor, layout in zip(op.outputs, plan.outputs, strict=True):
            if layout is FREE:
                number += 1
                homes[tensor] = number
            elif layout is not None and layout == change.image(len(tensor.shape)):
                homes[tensor] = nodes[op]
    uses = _find_uses(subgraph, plans, nodes, homes, change, results)
    costs = {nodes[op]: plan.cost for op, plan in plans.items() if plan.cost and not plan.is_bound}
    is_changed = find_permuted(number + 1, uses, costs)
    return _spread(plans, nodes, homes, is_changed, change)


def _find_uses(
    subgraph: Subgraph,
    plans: Mapping[Op, OpPlan],
    nodes: Mapping[Op, int],
    homes: Mapping[Tensor, int],
    change: LayoutChange,
    results: Collection[Tensor],
) -> list[Use]:
    uses: dict[Tensor, Use] = {}
    for op in subgraph.ops:
        plan = plans.get(op)
        for index, tensor in enumerate(op.inputs):
            if tensor is None or tensor in change.settled:
                continue
            layout: PortLayout = None if plan is None else plan.inputs[index]
            image = change.image(len(tensor.shape))
            if layout is FREE or image is None:
                continue
            reader = nodes[op] if layout == image else SINK
            use = uses.get(tensor)
            if use is None:
                cost = _transpose_cost(tensor, image)
                use = uses[tensor] = Use(homes.get(tensor, SINK), [], cost)
            use.readers.append(reader)
    for tensor in results:
        image = change.image(len(tensor.shape))
        if image is not None and tensor in homes:
            use = uses.setdefault(tensor, Use(homes[tensor], [], _transpose_cost(tensor, image)))
            use.readers.append(SINK)
    return list(uses.values())


def _transpose_cost(tensor: Tensor, permutation: Permutation) -> int:
    """Cost of a TRANSPOSE: the number of its elements and 1 for the op; a RESHAPE costs only 1."""
    if keeps_memory(known_shape(tensor), permutation):
        return 1
    return prod(tensor.shape) + 1


def find_permuted(count: int, uses: Sequence[Use], costs: Mapping[int, int]) -> list[bool]:
    """Returns a boolean for each node: whether the node changes to the other layout."""
    groups = _Groups(count)
    for use in uses:
        choices = [node for node in (use.producer, *use.readers) if node > SINK]
        for node in choices[1:]:
            groups.join(choices[0], node)
    members: dict[int, list[int]] = {}
    for node in range(SINK + 1, count):
        members.setdefault(groups.find(node), []).append(node)
    borders: dict[int, set[int]] = {}
    uses_of: dict[int, list[Use]] = {}
    for use in uses:
        ends = (use.producer, *use.readers)
        group = next((groups.find(node) for node in ends if node > SINK), None)
        if group is not None:
            uses_of.setdefault(group, []).append(use)
            borders.setdefault(group, set()).update(node for node in ends if node <= SINK)
    is_changed = [True, False, *[False] * (count - 2)]
    for group, nodes in members.items():
        border = borders.get(group, set())
        if SOURCE not in border:
            continue
        if SINK not in border and not any(node in costs for node in nodes):
            changed = set(nodes)
        else:
            changed = _cut(nodes, uses_of[group], costs)
        for node in changed:
            is_changed[node] = True
    return is_changed


def _cut(nodes: Sequence[int], uses: Sequence[Use], costs: Mapping[int, int]) -> set[int]:
    """Returns the nodes of a group that change to the other layout."""
    network = Network()
    place = {SOURCE: SOURCE, SINK: SINK}
    for node in nodes:
        place[node] = network.add_node()
        if node in costs:
            network.add_edge(place[node], SINK, costs[node])
    for use in uses:
        producer = place[use.producer]
        readers = {place[reader] for reader in use.readers} - {producer}
        if len(readers) == 1:
            network.add_edge(producer, readers.pop(), use.cost, back=use.cost)
        elif readers:
            # The cost is the same for one or several readers that differ from the producer.
            down, up = network.add_node(), network.add_node()
            network.add_edge(producer, down, use.cost)
            network.add_edge(up, producer, use.cost)
            for reader in sorted(readers):
                network.add_edge(down, reader, UNLIMITED)
                network.add_edge(reader, up, UNLIMITED)
    sides = network.cut(_MAX_PHASES)
    if sides is None:  # too complex for an optimum in linear time: all change
        return set(nodes)
    return {node for node in nodes if sides[place[node]]}


def _spread(
    plans: Mapping[Op, OpPlan],
    nodes: Mapping[Op, int],
    homes: Mapping[Tensor, int],
    is_changed: Sequence[bool],
    change: LayoutChange,
) -> dict[Op, Assignment]:
    assignments: dict[Op, Assignment] = {}

    def chosen(
        op: Op, tensors: Sequence[Tensor | None], layouts: Sequence[PortLayout]
    ) -> list[Permutation | None]:
        found: list[Permutation | None] = []
        for tensor, layout in zip(tensors, layouts, strict=True):
            if layout is not FREE:
                found.append(layout if is_changed[nodes[op]] else None)
            elif tensor is None or not is_changed[homes.get(tensor, SINK)]:
                found.append(None)
            else:
                found.append(change.image(len(tensor.shape)))
        return found

    for op, plan in plans.items():
        inputs = chosen(op, op.inputs, plan.inputs)
        outputs = chosen(op, op.outputs, plan.outputs)
        if any(inputs) or any(outputs):
            edit = plan.edit if isinstance(plan.edit, Edit) else plan.edit(inputs, outputs)
            assignments[op] = Assignment(edit, inputs, outputs)
    return assignments


class _Groups:
    """Joins numbers to disjoint groups (union-find)."""

    def __init__(self, count: int) -> None:
        self._parents = list(range(count))

    def find(self, node: int) -> int:
        parents = self._parents
        while parents[node] != node:
            parents[node] = node = parents[parents[node]]
        return node

    def join(self, one: int, other: int) -> None:
        self._parents[self.find(one)] = self.find(other)


class Network:
    """Flow network whose edges have capacities; node 0 is the source and node 1 is the sink."""

    def __init__(self) -> None:
        self._edges: list[list[int]] = [[], []]  # of each node; edge `e ^ 1` goes back
        self._ends: list[int] = []
        self._left: list[int] = []  # capacity that is not used

    def add_node(self) -> int:
        self._edges.append([])
        return len(self._edges) - 1

    def add_edge(self, start: int, end: int, capacity: int, back: int = 0) -> None:
        """Adds an edge from `start` to `end`, with `capacity` in this direction and `back` in the other."""
        self._edges[start].append(len(self._ends))
        self._edges[end].append(len(self._ends) + 1)
        self._ends += (end, start)
        self._left += (capacity, back)

    def cut(self, max_phases: int) -> list[bool] | None:
        """Returns the nodes on the source side of the minimum cut that has the most nodes on this side.

        Returns None if the maximum flow is not reached within the limit on phases. The time for a phase is roughly
        proportional to the number of edges.
        """
        for _ in range(max_phases):
            distances = self._distances()
            if distances[SOURCE] < 0:
                return [distance < 0 for distance in distances]
            self._fill(distances)
        return None

    def _distances(self) -> list[int]:
        """Distance of each node to the sink along edges with remaining capacity; -1 if there is no path."""
        distances = [-1] * len(self._edges)
        distances[SINK] = 0
        front = [SINK]
        for node in front:
            for edge in self._edges[node]:
                start = self._ends[edge]
                if distances[start] < 0 and self._left[edge ^ 1]:
                    distances[start] = distances[node] + 1
                    front.append(start)
        return distances

    def _fill(self, distances: list[int]) -> None:
        """Adds as much flow as possible along edges that lead nearer to the sink."""
        following = [0] * len(self._edges)
        path: list[int] = []  # edges from the source on
        node = SOURCE
        while True:
            if node == SINK:
                amount = min(self._left[edge] for edge in path)
                for edge in path:
                    self._left[edge] -= amount
                    self._left[edge ^ 1] += amount
                first = next(i for i, edge in enumerate(path) if not self._left[edge])
                node = self._ends[path[first] ^ 1]
                del path[first:]
            edges = self._edges[node]
            while following[node] < len(edges):
                edge = edges[following[node]]
                end = self._ends[edge]
                if self._left[edge] and distances[end] == distances[node] - 1 >= 0:
                    path.append(edge)
                    node = end
                    break
                following[node] += 1
            else:
                if node == SOURCE:
                    return
                edge = path.pop()
                node = self._ends[edge ^ 1]
                following[node] += 1
