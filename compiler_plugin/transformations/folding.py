"""If ops depend only on constants, replaces these ops by constants, which stock LiteRT's kernels compute.

One run of stock LiteRT computes all folded ops of a graph. The size that folding may add to the file is limited:
if the result of an op is too large, the op stays, and its inputs are folded instead.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from math import prod

from compiler_plugin.effects import has_side_effects
from compiler_plugin.plugin import DataLayout
from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.node import Node, OutPort
from compiler_plugin.transformations.stock_inference import (
    VALUE_TYPES,
    is_self_contained,
    run,
    value_of_shape,
)
from litert.core.errors import LiteRtError
from litert.model.graph import Op, Tensor
from litert.model.tensor_data import Array

_LOG = logging.getLogger(__name__)


def fold(graph: Graph, nodes: Sequence[Node], is_candidate: Callable[[Op], bool]) -> int:
    """Folds ops whose inputs are constant or become constant; returns the number of removed ops.

    Ops that write results of the model are not folded, because delegates do not accept constants as results. Of
    the ops that read a sparse constant, only DENSIFY is folded, because kernels of other ops can exploit the
    sparsity. The nodes must be in execution order. The last nodes are folded first, until the graph's `fold_limit`
    is used up; `fold_limit` then shrinks by the number of added bytes.
    """
    foldable: dict[Op, Node] = {}
    shapes: dict[Tensor, Array] = {}
    for node in nodes:
        op = node.model_op
        if op is None or not is_candidate(op) or not _has_small_type(node):
            continue
        if graph.static_shape and op.name in ("RANK", "SHAPE"):
            shape = node.in_port(0).data.get_shape()
            if shape is not None and -1 not in shape:
                foldable[op] = node
                shapes[op.outputs[0]] = value_of_shape(op, shape)
        elif op.inputs and all(_is_known(tensor, foldable, op.name) for tensor in op.inputs):
            foldable[op] = node
    wanted = _choose(graph, foldable)
    values = _compute([port.tensor for port in wanted], foldable, shapes, graph.layout)
    made: dict[Tensor, Node] = {}
    for port in wanted:
        tensor = port.tensor
        if tensor in values:
            constant = graph.create_const(
                values[tensor], tensor.name, tensor.element_type, tensor.quantization
            )
            port.get_connection().set_source(constant.out_port(0))
            made[tensor] = constant
    gone = 0
    for node in reversed(foldable.values()):
        if any(port.is_read for port in node.out_ports().values()):
            continue
        names = [(made[t], t.name) for t in node.output_tensors if t in made]
        graph.remove_node(node)
        for constant, name in names:
            constant.name = name
        gone += 1
    return gone


def _has_small_type(node: Node) -> bool:
    """Whether an op can run alone, and its results have element types of known size that NumPy supports."""
    op = node.model_op
    assert op is not None
    return (
        is_self_contained(op)
        and not has_side_effects(op)
        and all(tensor.element_type in VALUE_TYPES for tensor in op.outputs)
        and all(_size(port) is not None for port in node.out_ports().values())
    )


def _is_known(tensor: Tensor | None, foldable: Container[Op], reader: str) -> bool:
    if tensor is None or tensor.producer in foldable:
        return True
    return tensor.is_constant and (tensor.sparsity is None or reader == "DENSIFY")


def _size(port: OutPort) -> int | None:
    """Returns the number of bytes of a port's data; None if the shape is not known."""
    shape = port.data.get_shape()
    if shape is None or -1 in shape:
        return None
    return prod(shape) * port.tensor.element_type.bits // 8


def _choose(graph: Graph, foldable: dict[Op, Node]) -> list[OutPort]:
    """Returns the outputs that become constants: outputs that remaining ops read, within the limit."""
    freed = _freed(graph, foldable)
    chosen: list[OutPort] = []
    folded: set[Op | None] = set()
    for op, node in reversed(foldable.items()):
        ports = [
            port
            for port in node.out_ports().values()
            if any(end.node.model_op not in folded for end in port.get_destinations())
        ]
        is_result = any(port.is_result for port in ports)
        added = sum(_size(port) or 0 for port in ports) - (freed[op] if ports else 0)
        if not is_result and added <= graph.fold_limit:
            folded.add(op)
            chosen += ports
            graph.fold_limit -= max(added, 0)
    return chosen


def _freed(graph: Graph, foldable: Iterable[Op]) -> dict[Op, int]:
    """Returns for each op how many bytes of constants are removed with the op and with ops that only it reads."""
    owners = Counter(
        id(tensor.buffer)
        for subgraph in graph.model.subgraphs
        for tensor in subgraph.tensors
        if tensor.is_constant
    )
    freed: dict[Op, int] = {}
    for op in foldable:
        freed[op] = 0
        for tensor in dict.fromkeys(op.inputs):
            if tensor is None or len(tensor.readers) > 1 or graph.is_result(tensor):
                continue
            if tensor.producer in freed:
                freed[op] += freed[tensor.producer]
            elif tensor.buffer.blob is not None and owners[id(tensor.buffer)] == 1:
                freed[op] += tensor.buffer.blob.size
    return freed


def _compute(
    wanted: Sequence[Tensor],
    foldable: dict[Op, Node],
    shapes: Mapping[Tensor, Array],
    layout: DataLayout,
) -> dict[Tensor, Array]:
    """Returns the values of results, except results that kernels of stock LiteRT refuse to compute."""
    needed = set(wanted)
    ops: list[Op] = []
    for op in reversed(foldable):
        if not needed.isdisjoint(op.outputs) and op.outputs[0] not in shapes:
            ops.append(op)
            needed.update(tensor for tensor in op.inputs if tensor is not None)
    values = {tensor: shapes[tensor] for tensor in wanted if tensor in shapes}
    computed = [tensor for tensor in wanted if tensor not in shapes]
    if not computed:
        return values
    try:
        return {
            **values,
            **dict(zip(computed, run(ops[::-1], shapes.get, computed, layout), strict=True)),
        }
    except LiteRtError as error:
        if len(computed) == 1:  # it would fail at run time as well
            _LOG.info("tensor '%s' is not folded: %s", computed[0].name, error)
        else:
            for tensor in computed:
                values |= _compute([tensor], foldable, shapes, layout)
    return values
