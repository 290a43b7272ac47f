"""Replaces composite ops by the ops of their decompositions, and restores the composite ops."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from compiler_plugin.graph_copy import CopiedData, GraphCopy
from litert.core.quantization import Quantization
from litert.model.composite import Composite, forget_decomposition, read_composite
from litert.model.graph import Model, Op, Subgraph, Tensor
from litert.model.positions import Edge, referenced_subgraphs

MAX_OPS = 100_000
"""Largest number of ops that decompositions may add to a subgraph; nested composites could add too many."""

MAX_DEPTH = 100
"""Largest nesting depth of composites; the host calls the plugin's `partition` once for each level."""


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Copies of the ops and tensors of a decomposition, which replace a composite op."""

    composite: Composite
    ops: Sequence[Op]
    tensors: Sequence[Tensor]


class OpenComposites:
    """The composites of one subgraph; some of them are replaced by the ops of their decompositions.

    Attributes:
      parts: The replacement of each decomposed composite, by composite op; outer composites come before nested
        composites.
    """

    def __init__(self, model: Model, subgraph: Subgraph) -> None:
        """Takes the subgraph as it is; no composite is decomposed yet."""
        self.parts: dict[Op, Parts] = {}
        self._model = model
        self._subgraph = subgraph
        self._before = list(subgraph.ops)
        self._outer: dict[Op, Op] = {}  # the composite of each part
        self._admitted: dict[Op, Composite] = {}
        self._num_ops = 0  # number of ops of all admitted decompositions

    def admit(self, op: Op, composite: Composite) -> str:
        """Marks a composite for decomposition and returns ""; if it cannot be decomposed, returns the reason."""
        if why := why_closed(self._model, op, composite):
            return why
        index = composite.decomposition
        outer = [self.parts[each].composite.decomposition for each in self._all_outer(op)]
        if index in outer or self._model.subgraphs[index] is self._subgraph:
            return "the decomposition contains the composite itself"
        if len(outer) >= MAX_DEPTH:
            return f"the composite is nested in {MAX_DEPTH} other composites, the largest allowed number"
        num_ops = self._num_ops + len(self._model.subgraphs[index].ops)
        if num_ops > MAX_OPS:
            return f"the decompositions would have more than {MAX_OPS:,} ops, the largest allowed number"
        self._num_ops = num_ops
        self._admitted[op] = composite
        return ""

    def take_apart(self) -> Sequence[Op]:
        """Replaces the marked composites by their decompositions, and returns the new ops."""
        composites, self._admitted = self._admitted, {}
        for op, composite in composites.items():
            op.release()
            first = len(self._subgraph.tensors)
            body = self._model.subgraphs[composite.decomposition]
            ops = copy_decomposition(self._subgraph, op, body, data=None)
            self.parts[op] = Parts(composite, ops, self._subgraph.tensors[first:])
            self._outer.update(dict.fromkeys(ops, op))
        self._subgraph.ops = [
            part
            for op in self._subgraph.ops
            for part in (self.parts[op].ops if op in composites else (op,))
        ]
        return [part for op in composites for part in self.parts[op].ops]

    def put_back(self, ops: Collection[Op]) -> None:
        """Restores composite ops, and removes the ops that replaced them, including nested composites."""
        every = set(ops)
        outermost = [op for op in ops if every.isdisjoint(self._all_outer(op))]
        places: dict[Op, Op] = {}
        gone: set[Op] = set()
        tensors: list[Tensor] = []
        for op in outermost:
            leaves = list(self.leaves(op))
            places[leaves[0]] = op
            gone.update(leaves)
            tensors += self._forget(op)
        for leaf in gone:
            leaf.release()
        for op in outermost:
            op.attach()
        self._subgraph.ops = [
            places.get(op, op) for op in self._subgraph.ops if op in places or op not in gone
        ]
        self._subgraph.remove_tensors(tensors)

    def leaves(self, op: Op) -> Iterator[Op]:
        """Yields the ops that replace a decomposed composite; for any other op, yields the op itself."""
        waiting = [op]
        while waiting:
            one = waiting.pop()
            if one in self.parts:
                waiting += reversed(self.parts[one].ops)
            else:
                yield one

    def move_edges(self, index: int, edges: Sequence[Sequence[Edge]]) -> list[Edge]:
        """Returns the control dependencies of the changed subgraph; those inside decompositions are included.

        If a composite has control dependencies, the ops that replace it run in the order of the decomposition.
        Therefore only the first and the last of these ops get the composite's dependencies. Dependencies between
        all ops of two large composites would need too much memory.

        `edges` holds the control dependencies of all subgraphs of the unchanged model.
        """
        bodies = {parts.composite.decomposition for parts in self.parts.values()}
        distinct = {number: set(edges[number]) for number in {index, *bodies}}
        pairs = list(_pairs(self._before, distinct[index]))
        for parts in self.parts.values():
            pairs += _pairs(parts.ops, distinct[parts.composite.decomposition])
        place = {op: position for position, op in enumerate(self._subgraph.ops)}
        ends: dict[Op, tuple[int, int]] = {}
        moved: set[Edge] = set()
        for op in dict.fromkeys(op for pair in pairs for op in pair):
            leaves = [place[leaf] for leaf in self.leaves(op)]
            ends[op] = leaves[0], leaves[-1]
            moved.update(pairwise(leaves))
        moved.update((ends[before][1], ends[after][0]) for before, after in pairs)
        return sorted(moved)

    def _all_outer(self, op: Op) -> Iterator[Op]:
        outer = self._outer.get(op)
        while outer is not None:
            yield outer
            outer = self._outer.get(outer)

    def _forget(self, op: Op) -> list[Tensor]:
        """Takes an op's parts, and theirs, out of the books: the tensors that came with them."""
        tensors: list[Tensor] = []
        waiting = [op]
        while waiting:
            parts = self.parts.pop(waiting.pop(), None)
            if parts is not None:
                tensors += parts.tensors
                waiting += parts.ops
        return tensors


def find_decompositions(model: Model) -> dict[int, str]:
    """Maps the index of each subgraph that only composites use to the name of one of these composites."""
    found: dict[int, str] = {}
    if not model.subgraphs:
        return found
    for op in model.ops():
        if composite := read_composite(op):
            found.setdefault(composite.decomposition, composite.name)
    entries = {model.subgraphs[0], *(signature.subgraph for signature in model.signatures)}
    return {
        index: name
        for index, name in found.items()
        if 0 <= index < len(model.subgraphs) and model.subgraphs[index] not in entries
    }


def find_unused(model: Model, decompositions: Collection[int], gone: Collection[Op]) -> list[int]:
    """Returns the indices of the decompositions that no op of the model would use without the ops in `gone`."""
    used: set[int] = set()
    waiting = [index for index in range(len(model.subgraphs)) if index not in decompositions]
    while waiting:
        index = waiting.pop()
        if index in used or not 0 <= index < len(model.subgraphs):
            continue
        used.add(index)
        for op in model.subgraphs[index].ops:
            if op not in gone:
                waiting += referenced_subgraphs(op)
    return sorted(set(decompositions) - used)


def why_closed(model: Model, op: Op, composite: Composite) -> str:
    """Returns the reason why a composite cannot be replaced by its decomposition; "" if it can be replaced."""
    index = composite.decomposition
    if not 0 <= index < len(model.subgraphs):
        return f"the decomposition is subgraph {index}, but the model has no such subgraph"
    body = model.subgraphs[index]
    if not body.ops:
        return "the decomposition has no ops"
    outer, inner = [*op.inputs, *op.outputs], [*body.inputs, *body.outputs]
    if len(op.inputs) != len(body.inputs) or len(op.outputs) != len(body.outputs):
        return "the decomposition and the composite differ in the number of inputs or outputs"
    if len(set(inner)) != len(inner) or any(t.is_constant for t in body.inputs):
        return (
            "an input of the decomposition is a constant, or a tensor occurs twice among the "
            "inputs and outputs of the decomposition"
        )
    own = set(body.ops)
    if any(tensor.producer not in own for tensor in body.outputs):
        return "the decomposition has an output that none of its ops computes"
    if any(t.is_variable for t in (*body.tensors, *filter(None, op.inputs))):
        return "the decomposition keeps values between runs"
    for ours, theirs in zip(outer, inner, strict=True):
        if ours is None or ours.type != theirs.type or _numbers(ours) != _numbers(theirs):
            return (
                f"tensor '{theirs.name}' has different types in the decomposition and in the "
                "composite"
            )
    return ""


def copy_decomposition(
    subgraph: Subgraph, op: Op, body: Subgraph, *, data: CopiedData | None
) -> list[Op]:
    """Copies the ops of a decomposition; the copies read and write the composite's input and output tensors.

    Args:
      subgraph: Subgraph that gets the new tensors; the caller adds the returned ops to the subgraph.
      op: Composite op that the copies replace; the caller has already disconnected its inputs and outputs.
      body: Subgraph that contains the decomposition.
      data: Same as for `GraphCopy`.
    """
    inner, outer = (*body.inputs, *body.outputs), (*op.inputs, *op.outputs)
    known = {a: b for a, b in zip(inner, outer, strict=True) if b is not None}
    return GraphCopy(subgraph, known, data=data).ops(body.ops)


def forget_decompositions(subgraph: Subgraph) -> None:
    """Removes references to decompositions from a subgraph that leaves its model; stock LiteRT does the same."""
    for op in subgraph.ops:
        if read_composite(op):
            forget_decomposition(op)


def _numbers(tensor: Tensor) -> Quantization:
    """Returns a tensor's quantization without the value range observed in training."""
    return replace(tensor.quantization or Quantization(), min=(), max=())


def _pairs(ops: Sequence[Op], edges: Iterable[Edge]) -> Iterator[tuple[Op, Op]]:
    for before, after in edges:
        if before < len(ops) and after < len(ops):
            yield ops[before], ops[after]
