"""Keeps the shapes, types and values of a graph's tensors, and records which nodes were edited.

Ports get their shapes, types and values from this module. Edited nodes are inferred when a shape, type or value is
read, and at the end of each transformation.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import index
from types import SimpleNamespace
from typing import Any, Protocol

from compiler_plugin.plugin import DataLayout
from compiler_plugin.transform_options import Phase
from compiler_plugin.transformations.graph_view import GraphView
from compiler_plugin.transformations.node import Node, OutPort
from compiler_plugin.transformations.op_request import refused
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.blob import Blob
from litert.model.graph import EXTERNAL_SIZE, Buffer, Model, Subgraph, Tensor
from litert.model.tensor_data import Array, decode_constant, encode_constant


class Inference(Protocol):
    """Infers the shapes, types and values of edited nodes."""

    def infer(self, graph: InferredGraph, nodes: Sequence[Node]) -> None:
        """Infers output shapes and types of edited nodes and of nodes that depend on them, in execution order."""

    def find_value(self, graph: InferredGraph, port: OutPort) -> Array | None:
        """Returns the value of an op's output, if the value depends only on constants."""


class InferredGraph(GraphView):
    """A graph with the shapes, types and values of its tensors.

    Attributes:
      stage: Current phase; in FRONT, only the shapes of inputs and constants are known.
      layout: Layout of tensors of rank 4 and 5: NCHW in partitions for a vendor that requires NCHW, and NHWC in
        all other graphs.
      static_shape: Whether shapes are final, so that the model cannot be resized later.
      seen_data: Buffers that were created or read; equal buffers among them can be merged.
    """

    def __init__(
        self,
        model: Model,
        subgraph: Subgraph,
        inference: Inference | None,
        stage: Phase,
        layout: DataLayout,
        static_shape: bool,
    ) -> None:
        super().__init__(model, subgraph)
        self.stage = stage
        self.layout = layout
        self.static_shape = static_shape
        self.seen_data: dict[Buffer, None] = {}
        self._inference = inference
        self._is_inferring = False
        self._touched: dict[Node, None] = {}
        self._shapeless: set[Tensor] = set()
        self._values: dict[Tensor, Array] = {}
        self._unset: set[Tensor] = set()

    @property
    def graph(self) -> Mapping[str, Any]:
        """Graph attributes as in the Model Optimizer: `layout`, `fw`, and `cmd_params` with `static_shape`."""
        flags = SimpleNamespace(static_shape=self.static_shape, framework="tflite")
        return {"layout": self.layout, "fw": flags.framework, "cmd_params": flags}

    @property
    def touched(self) -> Collection[Node]:
        """The nodes whose outputs will be inferred again."""
        return self._touched.keys()

    def touch(self, node: Node) -> None:
        """Marks a node so that its outputs are inferred again; has no effect during an inference."""
        if self._is_inferring:
            return
        self.edit_count += 1
        if node.is_op:
            self._touched[node] = None
            self.forget_values(node)

    def infer(self) -> None:
        """Infers the outputs of edited nodes, except in the front phase.

        Raises:
          LiteRtError: If an op does not accept its inputs, or the ops form a cycle.
        """
        if not self._touched or self._is_inferring or self.stage is Phase.FRONT:
            return
        if self._inference is None:
            return
        nodes = self.sort_by_place(self._touched)
        touched, self._touched = self._touched, {}
        self._is_inferring = True
        try:
            self._inference.infer(self, nodes)
        except BaseException:
            self._touched = {**touched, **self._touched}
            raise
        finally:
            self._is_inferring = False

    def find_shape(self, port: OutPort) -> tuple[int, ...] | None:
        """Implements `PortData.get_shape` for ports."""
        tensor = port.tensor
        if port.node.is_op:
            if self.stage is Phase.FRONT:
                return None
            self.infer()
        return None if tensor in self._shapeless else tensor.shape_signature or tensor.shape

    def set_shape(self, port: OutPort, shape: Sequence[int]) -> None:
        """Implements `PortData.set_shape` for ports."""
        node, tensor = port.node, port.tensor
        known = _checked_shape(shape, port)
        self._unset.discard(tensor)
        if node.is_const and known != tensor.shape:
            raise refused(
                f"the shape of {port} cannot change from {list(tensor.shape)} to {list(known)}, because the "
                "value of the constant determines the shape",
                "Set the value instead: port.data.set_value(value).",
            )
        same_rank = tensor not in self._shapeless and len(tensor.shape) == len(known)
        sizes = tensor.shape if same_rank else (1,) * len(known)
        is_static = self.static_shape or -1 not in known
        signature = None if is_static else known
        shape = tuple(s if k < 0 else k for k, s in zip(known, sizes, strict=True))
        if (shape, signature) == (tensor.shape, tensor.shape_signature) and same_rank:
            return
        self._shapeless.discard(tensor)
        tensor.shape, tensor.shape_signature = shape, signature
        self._touch_readers(tensor)

    def set_type(self, port: OutPort, element_type: ElementType) -> None:
        """Implements `OutPort.set_data_type` for ports."""
        if port.node.is_const and element_type is not port.tensor.element_type:
            raise refused(
                f"the type of {port} cannot change from {port.tensor.element_type.name} to "
                f"{element_type.name}, because the type of a constant is fixed",
                "Create another constant: graph.create_const(value).",
            )
        if port.tensor.element_type is not element_type:
            port.tensor.element_type = element_type
            self._touch_readers(port.tensor)

    def find_type(self, port: OutPort) -> ElementType:
        """Implements `OutPort.get_data_type` for ports."""
        if port.node.is_op:
            self.infer()
        return port.tensor.element_type

    def find_value(self, port: OutPort) -> Array | None:
        """Implements `PortData.get_value` for ports."""
        tensor = port.tensor
        if port.node.is_const:
            if not tensor.is_constant and 0 not in tensor.shape:
                return None
            if tensor.sparsity is not None:
                return None
            self.seen_data[tensor.buffer] = None
            return decode_constant(tensor.element_type, tensor.shape, tensor.data)
        if not port.node.is_op or self.stage is Phase.FRONT:
            return None
        self.infer()
        if tensor in self._values:
            return self._values[tensor]
        return None if self._inference is None else self._inference.find_value(self, port)

    def set_value(self, port: OutPort, value: Any) -> None:
        """Implements `PortData.set_value` for ports."""
        import numpy as np  # here, since most transformations need none

        node, tensor = port.node, port.tensor
        if node.is_const:
            tensor_type, blob = encode_constant(value, tensor.element_type)
            tensor.buffer = self.create_buffer(blob)  # another tensor may share the old one
            tensor.sparsity = None
            tensor.shape, tensor.shape_signature = tensor_type.shape, None
            self._touch_readers(tensor)
            return
        if not node.is_op:
            raise refused(
                f"the value of {port} cannot be set, because the value is known only at run time",
                "Connect the readers to a constant: graph.create_const(value).",
            )
        if not self._is_inferring:
            raise refused(
                f"the value of {port} cannot be set, because the op computes it",
                "Connect the readers to a constant: graph.create_const(value).",
            )
        if tensor.element_type is ElementType.NONE:
            array = np.array(value)
            array.flags.writeable = False
        else:
            tensor_type, blob = encode_constant(value, tensor.element_type)
            array = decode_constant(tensor.element_type, tensor_type.shape, blob.view)
        self.set_shape(port, array.shape)
        self._values[tensor] = array

    def check_editable(self) -> None:
        """Raises an error if an op's `infer` edits the graph, because the edit would invalidate the inference."""
        if self._is_inferring:
            raise LiteRtError(
                Status.INVALID_TRANSFORMATION,
                "the function infer must not change the graph",
                hint=(
                    "In infer, set only shapes, values and types of the op's outputs. Make other "
                    "changes in a transformation."
                ),
            )

    def expect_shapes(self, node: Node) -> None:
        """Records that an op's `infer` must set its output shapes, because another op has set the current ones."""
        self._unset = set(node.output_tensors)

    def is_unset(self, port: OutPort) -> bool:
        """Returns whether an op's `infer` should have set the shape of a port, but has not."""
        is_stale = port.tensor in self._unset and bool(port.get_destinations())
        return is_stale or not self.has_rank(port.tensor)

    def forget_values(self, node: Node) -> None:
        """Discards the output values that an op's `infer` has set."""
        for tensor in node.output_tensors:
            self._values.pop(tensor, None)

    def has_rank(self, tensor: Tensor) -> bool:
        """Returns whether a tensor's rank is known, without inferring anything."""
        return tensor not in self._shapeless

    def create_buffer(self, blob: Blob) -> Buffer:
        """Creates a buffer in the model for the data of a new constant."""
        buffer = Buffer(blob, is_external=blob.size >= EXTERNAL_SIZE)
        self.model.buffers.append(buffer)
        self.seen_data[buffer] = None
        return buffer

    def _touch_readers(self, tensor: Tensor) -> None:
        if not self._is_inferring:
            self.edit_count += 1
            for port in self.find_readers(tensor):
                self.touch(port.node)


def _checked_shape(shape: Sequence[int], port: OutPort) -> tuple[int, ...]:
    try:
        known = tuple(index(size) for size in shape)
    except (TypeError, ValueError):
        known = (-2,)
    if any(size < -1 for size in known):
        raise refused(
            f"the shape of {port} cannot be {shape!r:.200}",
            "Pass a list of whole numbers, with -1 for a dimension that is known only at run time.",
        )
    return known
