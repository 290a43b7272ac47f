"""Infers shapes, types and values for edited ops, and for the ops that depend on changed results.

Stock LiteRT infers builtin ops, with many ops in each call. User-defined ops are inferred by their own `infer`.
Tensors that no transformation has touched keep the shapes and types of the file. Ops that cannot be inferred
(custom ops without a definition, control flow) keep the shapes and types of the file too, as long as the types of
their inputs do not change.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from compiler_plugin.plugin import DataLayout
from compiler_plugin.transformations.foreign_ops import (
    check_input_types,
    find_infer,
    infer_by_definition,
    input_types,
    tensor_type,
    try_sizes,
)
from compiler_plugin.transformations.graph_ops import sort_ops
from compiler_plugin.transformations.inferred_graph import InferredGraph
from compiler_plugin.transformations.kernel_rules import (
    find_data_shape,
    find_output_quantization,
    find_output_type,
)
from compiler_plugin.transformations.node import Node, OutPort
from compiler_plugin.transformations.op_request import refused
from compiler_plugin.transformations.shape_probe import (
    ShapeProbe,
    Sizes,
    combine,
    has_unknown,
    make_probes,
    may_shape,
)
from compiler_plugin.transformations.stock_inference import is_self_contained, refusal
from compiler_plugin.transformations.stock_region import Shape
from litert.core.element_type import ElementType
from litert.model.graph import Op, Subgraph, Tensor
from litert.model.tensor_data import Array


class PartialInference:
    """Infers shapes, types and values for one `Graph`."""

    _graph: InferredGraph  # that asks

    def __init__(self, subgraph: Subgraph, layout: DataLayout = "NHWC") -> None:
        """Records the input types of ops that cannot be inferred; create this object before the first edit."""
        self._file_inputs = {
            op: input_types(op) for op in subgraph.ops if not is_self_contained(op)
        }
        self._has_seen_unknown = any(has_unknown(tensor) for tensor in subgraph.tensors)
        self._layout = layout
        self._base = self._make_probe(None)
        self._others: list[ShapeProbe] | None = None  # made when unknown dimensions are met
        self._changed: dict[Tensor, None] = {}  # in this wave
        self._must_pass: set[Node] = set()
        self._retyped: set[Tensor] = set()
        self._is_static = False

    def infer(self, graph: InferredGraph, nodes: Sequence[Node]) -> None:
        """Infers the given nodes and the nodes that depend on them, as `Inference` describes.

        Raises:
          LiteRtError: RUNTIME_FAILURE, if stock LiteRT refuses an op; INVALID_ARGUMENT, if an op that cannot be
            inferred has other input types than in the file.
        """
        self._graph = graph
        self._retyped.clear()
        wave, depth = list(nodes), 1
        self._must_pass = set(nodes)
        while wave:
            self._changed = {}
            self._infer_wave(wave)
            wave = self._find_readers(set(wave), depth)
            self._must_pass = {node for node in wave if self._reads_changed(_op(node))}
            depth *= 2

    def find_value(self, graph: InferredGraph, port: OutPort) -> Array | None:
        """Returns an output's value if it depends only on constants and known dimensions; otherwise None."""
        self._graph = graph
        import numpy as np  # here: most transformations need none

        if port.node.model_op is None or not is_self_contained(port.node.model_op):
            return None
        found = self._base.find_value(port.tensor)
        if found is None:
            return None
        values = [probe.find_value(port.tensor) for probe in self._find_probes()]
        is_same = all(value is not None and np.array_equal(found, value) for value in values)
        return found if is_same else None

    def make_static(self, graph: InferredGraph) -> None:
        """Sets unknown dimensions to the interpreter's initial sizes, except dimensions that depend on data."""
        self._is_static = True
        ends = [node.tensor for node in graph.parameters]
        for tensor in (*ends, *(tensor for op in self._file_inputs for tensor in op.outputs)):
            if tensor is not None:
                tensor.shape_signature = None
        self._others = None
        for node in graph.nodes:
            node.touch()
        graph.infer()

    # One wave.

    def _infer_wave(self, nodes: Sequence[Node]) -> None:
        """Infers nodes in execution order, and records which tensors have changed."""
        batch: list[Node] = []
        for node in nodes:
            if is_self_contained(_op(node)) and find_infer(node) is None:
                batch.append(node)
                continue
            self._infer_batch(batch)
            batch = []
            self._infer_foreign(node)
        self._infer_batch(batch)

    def _infer_batch(self, nodes: Sequence[Node]) -> None:
        """Infers builtin ops with stock LiteRT."""
        for node in nodes:
            self._infer_types(node)
        while nodes:
            probes = self._ask_stock([_op(node) for node in nodes])
            for position, node in enumerate(nodes):
                op = _op(node)
                if all(op in probe.refused for probe in probes) and (
                    node in self._must_pass or self._reads_changed(op)
                ):
                    raise refusal(op, self._base.refused[op])
                if self._take_shapes(node, probes):
                    nodes = nodes[position + 1 :]  # stock LiteRT did not know these shapes
                    break
            else:
                return

    def _reads_changed(self, op: Op) -> bool:
        return not self._changed.keys().isdisjoint(op.inputs)

    def _ask_stock(self, ops: Sequence[Op]) -> Sequence[ShapeProbe]:
        is_first = self._others is None
        others = self._find_probes()
        self._base.infer(ops)
        for probe in others:
            if not is_first:  # new probes already use the current graph
                probe.infer(ops)
        return [self._base, *others]

    def _take_shapes(self, node: Node, probes: Sequence[ShapeProbe]) -> bool:
        """Sets the output shapes of a node; returns whether only the rank of some shape is known."""
        is_open = False
        for port in node.out_ports().values():
            tensor = port.tensor
            found = combine(tensor, [probe.shapes.get(tensor) for probe in probes])
            if found is None and not self._graph.has_rank(tensor):
                found = self._find_data_shape(_op(node), tensor)
                is_open |= found is not None
            if found is not None and self._set_shape(port, *found):
                self._changed[tensor] = None
            if may_shape(tensor):
                self._changed[tensor] = None  # its value may have
        return is_open

    def _find_data_shape(self, op: Op, result: Tensor) -> tuple[Shape, Shape] | None:
        """Returns the known dimensions of a shape that depends on data."""
        signature = find_data_shape(
            op, lambda t: (t.shape_signature or t.shape) if self._graph.has_rank(t) else None
        )
        if signature is None:
            return None
        self._forget(result)
        return tuple(1 if size < 0 else size for size in signature), signature

    def _forget(self, *tensors: Tensor) -> None:
        """Discards outdated shapes of tensors in all probes."""
        for probe in (self._base, *(self._others or ())):
            probe.forget(tensors)

    def _infer_foreign(self, node: Node) -> None:
        """Infers a user-defined op by its functions; other ops keep the types in the file."""
        tensors = node.output_tensors
        before = [tensor_type(tensor) for tensor in tensors]
        tried = try_sizes(self._graph, node, [self._base, *self._find_probes()])
        before_edits = self._file_inputs.get(_op(node))  # a new op has the types of the old op
        if not infer_by_definition(self._graph, node) and before_edits is not None:
            check_input_types(node, before_edits, self._is_static)
        for probe, shapes in tried.items():
            for tensor, shape in zip(tensors, shapes, strict=True):
                if probe.find_shape(tensor) != shape:
                    self._changed[tensor] = None
        self._forget(*tensors)
        for probe, shapes in tried.items():
            for tensor, shape in zip(tensors, shapes, strict=True):
                if shape is None or not has_unknown(tensor) or len(shape) != len(tensor.shape):
                    continue
                if probe is self._base:  # its shapes are the tensors' real shapes
                    tensor.shape = shape
                else:
                    probe.shapes[tensor] = shape
        for tensor, old in zip(tensors, before, strict=True):
            self._has_seen_unknown |= has_unknown(tensor)
            if tensor.element_type is not old[2]:
                self._retyped.add(tensor)
            if tensor_type(tensor) != old or may_shape(tensor):
                self._changed[tensor] = None

    def _infer_types(self, node: Node) -> None:
        op = _op(node)
        for index, tensor in enumerate(op.outputs):
            is_new = tensor.element_type is ElementType.NONE
            if not is_new and self._retyped.isdisjoint(op.inputs):
                continue
            found = find_output_type(op, index)
            if found is None and is_new:
                raise refused(
                    f"the type of output {index} of {node} is not known",
                    f"Set the type: node.out_port({index}).set_data_type(...).",
                )
            if found is None or found is tensor.element_type:
                continue
            tensor.element_type = found
            if is_new and tensor.quantization is None:
                tensor.quantization = find_output_quantization(op, index)
            self._retyped.add(tensor)
            self._changed[tensor] = None

    def _set_shape(self, port: OutPort, shape: Shape, signature: Shape) -> bool:
        """Sets a shape; returns whether the shape has changed."""
        tensor = port.tensor
        if self._graph.has_rank(tensor) and (tensor.shape_signature or tensor.shape) == signature:
            if tensor.shape == shape:
                return False
        else:
            self._graph.set_shape(port, signature)
        tensor.shape = shape
        tensor.shape_signature = signature if -1 in signature else None
        self._has_seen_unknown |= -1 in signature
        return True

    def _find_readers(self, done: Container[Node], depth: int) -> list[Node]:
        """Returns the ops that depend on changed tensors, up to `depth` levels deep, in execution order.

        Direct readers in `done` are omitted, because their inference has already used the changed tensors.
        """
        found: dict[Op, Node] = {}
        tensors = list(self._changed)
        for level in range(depth):
            readers = {port.node: None for t in tensors for port in self._graph.find_readers(t)}
            tensors = []
            for node in readers:
                op = node.model_op
                if op is not None and op not in found and (level or node not in done):
                    found[op] = node
                    tensors += op.outputs
        return [found[op] for op in sort_ops(list(found))]

    # Unknown dimensions.

    def _make_probe(self, sizes: Sizes | None) -> ShapeProbe:
        def find_value(tensor: Tensor) -> Array | None:
            return self._graph.out_port_of(tensor).data.get_value()

        return ShapeProbe(sizes, find_value, lambda t: self._graph.has_rank(t), self._layout)

    def _find_probes(self) -> Sequence[ShapeProbe]:
        """Returns probes with trial sizes for unknown dimensions; empty if all dimensions are known."""
        graph = self._graph
        self._has_seen_unknown |= any(has_unknown(t) for t in graph.subgraph.inputs)
        if not self._has_seen_unknown:
            return ()
        if self._others is None:
            ops: list[Op] = []
            for op in map(_op, graph.sort_by_place(graph.nodes)):  # new ones are last in `nodes`
                types = {t.element_type for t in (*op.inputs, *op.outputs) if t is not None}
                if is_self_contained(op) and ElementType.NONE not in types:
                    ops.append(op)
            self._others = make_probes(self._make_probe, ops)
        return self._others


def _op(node: Node) -> Op:
    assert node.model_op is not None
    return node.model_op
