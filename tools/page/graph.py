"""Makes the graph of an HTML page from a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from litert.core.tensor_type import RankedTensorType
from litert.model.graph import Model, Op, Subgraph, Tensor

from ..console import name_text
from .grouping import GroupedOp, group_ops
from .page import GraphNode, ShownSubgraph, ShownTensor

OpPlace: TypeAlias = tuple[int, int]
"""Place of an op: the index of the op's subgraph, and the index of the op in this subgraph."""


def node_id(subgraph: int, op: int, model: int | None = None) -> str:
    """Returns the id of an op's node; `model` is the number of the model if the page shows several models."""
    return f"{_prefix(model)}{subgraph}/{op}"


def show_graph(
    model: Model,
    calls: Mapping[OpPlace, str] | None = None,
    reasons: Mapping[OpPlace, str] | None = None,
    number: int | None = None,
    name: str = "",
) -> list[ShownSubgraph]:
    """Makes the graph of a model for an HTML page.

    Args:
      model: The model.
      calls: Names of the NPU calls by op; if it is None, the function finds the calls of a compiled file.
      reasons: Reasons why ops stay on the CPU, by op.
      number: Number of the model if the page shows several models.
      name: Name of the model if the page shows several models.
    """
    if calls is None:
        calls = find_calls(model)
    kept = [
        (index, subgraph)
        for index, subgraph in enumerate(model.subgraphs)
        if subgraph.ops or len(model.subgraphs) == 1
    ]
    views = [_SubgraphView(*each, calls, reasons or {}, _prefix(number)) for each in kept]
    if name and len(views) == 1:
        return [views[0].show(name)]
    return [view.show(": ".join(filter(None, [name, view.name]))) for view in views]


def _prefix(model: int | None) -> str:
    return "" if model is None else f"{model}:"


def find_calls(model: Model) -> dict[OpPlace, str]:
    """Returns the function names of the NPU calls of a compiled file, by op."""
    names = {op: name for module in model.byte_code for op, name in module.users}
    return {
        (number, position): names[op]
        for number, subgraph in enumerate(model.subgraphs)
        for position, op in enumerate(subgraph.ops)
        if op in names
    }


class _Tensors:
    """A list of the tensors that the nodes of a subgraph read or write, without duplicates."""

    def __init__(self) -> None:
        self.shown: list[ShownTensor] = []
        self._indices: dict[Tensor, int] = {}

    def index(self, tensor: Tensor | None) -> int:
        if tensor is None:
            return -1
        if tensor not in self._indices:
            self._indices[tensor] = len(self.shown)
            name = name_text(tensor.name)
            self.shown.append(ShownTensor(name, _type_text(tensor.type), tensor.is_constant))
        return self._indices[tensor]

    def indices(self, tensors: Sequence[Tensor | None]) -> list[int]:
        return [self.index(tensor) for tensor in tensors]


def _type_text(tensor_type: RankedTensorType) -> str:
    """Returns a type such as `1x256x256x3 f32`, with `?` for dimensions known only at run time."""
    dims = "x".join("?" if size < 0 else str(size) for size in tensor_type.shape)
    return f"{dims or 'scalar'} {tensor_type.element_type.mlir}"


@dataclass(frozen=True, slots=True)
class _SubgraphView:
    """A subgraph as an HTML page shows it; the ids of its nodes begin with `prefix`."""

    number: int
    subgraph: Subgraph
    calls: Mapping[OpPlace, str]
    reasons: Mapping[OpPlace, str]
    prefix: str
    tensors: _Tensors = field(default_factory=_Tensors)

    @property
    def name(self) -> str:
        """A name such as `subgraph 0: main`."""
        return ": ".join(filter(None, [f"subgraph {self.number}", name_text(self.subgraph.name)]))

    def show(self, name: str) -> ShownSubgraph:
        ops = _grouped_ops(self.number, self.subgraph, self.calls)
        group_of, groups, order = group_ops(ops)
        nodes = [
            *self._ends("input", "in", self.subgraph.inputs),
            *(self._op(position, group_of[position], ops[position]) for position in order),
            *self._ends("output", "out", self.subgraph.outputs),
        ]
        return ShownSubgraph(name, nodes, groups, self.tensors.shown)

    def _ends(self, kind: str, id_part: str, tensors: Sequence[Tensor]) -> Iterator[GraphNode]:
        for index, tensor in enumerate(tensors):
            id = f"{self.prefix}{self.number}/{id_part}/{index}"
            places = [self.tensors.index(tensor)]
            reads, writes = (places, []) if kind == "output" else ([], places)
            yield GraphNode(id, kind, name_text(tensor.name), reads, writes)

    def _op(self, position: int, group: int, grouped: GroupedOp) -> GraphNode:
        op, place = self.subgraph.ops[position], (self.number, position)
        return GraphNode(
            f"{self.prefix}{node_id(*place)}",
            "op",
            name_text(op.name) or "(custom op without a name)",
            self.tensors.indices(op.inputs),
            self.tensors.indices(op.outputs),
            name_text(self.calls.get(place, "")),
            name_text(self.reasons.get(place, "")),
            group,
            grouped.is_constant,
        )


def _grouped_ops(
    number: int, subgraph: Subgraph, calls: Mapping[OpPlace, str]
) -> Sequence[GroupedOp]:
    position_of = {op: position for position, op in enumerate(subgraph.ops)}
    results = set(subgraph.outputs)
    fixed: set[Op] = set()
    ops: list[GroupedOp] = []
    for position, op in enumerate(subgraph.ops):
        is_constant = (
            bool(op.inputs)
            and all(t is None or t.is_constant or t.producer in fixed for t in op.inputs)
            and not results.intersection(op.outputs)
        )
        if is_constant:
            fixed.add(op)
        reads = [
            position_of[t.producer]
            for t in op.inputs
            if t is not None and t.producer is not None and t.producer in position_of
        ]
        call = name_text(calls.get((number, position), ""))
        ops.append(GroupedOp(name_text(op.name), reads, call, is_constant))
    return ops
