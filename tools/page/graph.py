"""A model as the graph of a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from litert.core.tensor_type import RankedTensorType
from litert.model.graph import Model, Op, Subgraph, Tensor

from ..console import name_text
from .grouping import GroupedOp, group_ops
from .page import Graph, GraphNode, ShownSubgraph, ShownTensor

OpPlace: TypeAlias = tuple[int, int]
"""Indices of the subgraph and of the op in it."""


def node_id(subgraph: int, op: int) -> str:
    """The id of an op's node."""
    return f"{subgraph}/{op}"


def show_graph(
    model: Model,
    calls: Mapping[OpPlace, str] | None = None,
    reasons: Mapping[OpPlace, str] | None = None,
) -> Graph:
    """The graph of a model; `calls` are the NPU calls that ops went to, `reasons` say why others did not."""
    if calls is None:
        calls = find_calls(model)
    tensors = _Tensors()
    subgraphs = [
        _show_subgraph(index, subgraph, tensors, calls, reasons or {})
        for index, subgraph in enumerate(model.subgraphs)
        if subgraph.ops or len(model.subgraphs) == 1
    ]
    return Graph(subgraphs, tensors.shown)


def find_calls(model: Model) -> dict[OpPlace, str]:
    """The NPU calls of a compiled file: names of their functions, by the ops that they are."""
    names = {op: name for module in model.byte_code for op, name in module.users}
    return {
        (number, position): names[op]
        for number, subgraph in enumerate(model.subgraphs)
        for position, op in enumerate(subgraph.ops)
        if op in names
    }


class _Tensors:
    """The tensors that nodes name, each once."""

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
    """`1x256x256x3 f32`, with `?` for dimensions that a run tells."""
    dims = "x".join("?" if size < 0 else str(size) for size in tensor_type.shape)
    return f"{dims or 'scalar'} {tensor_type.element_type.mlir}"


def _show_subgraph(
    number: int,
    subgraph: Subgraph,
    tensors: _Tensors,
    calls: Mapping[OpPlace, str],
    reasons: Mapping[OpPlace, str],
) -> ShownSubgraph:
    ops = _grouped_ops(number, subgraph, calls)
    group_of, groups, order = group_ops(ops)
    nodes = [
        GraphNode(f"{number}/in/{i}", "input", name_text(t.name), outputs=[tensors.index(t)])
        for i, t in enumerate(subgraph.inputs)
    ]
    for position in order:
        op, place = subgraph.ops[position], (number, position)
        nodes.append(
            GraphNode(
                node_id(*place),
                "op",
                name_text(op.name) or "(custom op without a name)",
                tensors.indices(op.inputs),
                tensors.indices(op.outputs),
                name_text(calls.get(place, "")),
                name_text(reasons.get(place, "")),
                group_of[position],
                ops[position].is_constant,
            )
        )
    nodes += [
        GraphNode(f"{number}/out/{i}", "output", name_text(t.name), inputs=[tensors.index(t)])
        for i, t in enumerate(subgraph.outputs)
    ]
    name = name_text(subgraph.name) or f"subgraph {number}"
    return ShownSubgraph(name, nodes, groups)


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
