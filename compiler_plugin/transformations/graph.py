"""The graph that transformations edit: nodes, ports and connections for one subgraph of the model.

Each edit directly changes the ops and tensors of the model. Ops and tensors that no edit touches keep their names,
quantization, signatures and bytes. Invalid edits are refused before anything changes; the whole graph is checked
after each transformation.

    conv = graph.get_op_nodes(op="CONV_2D")[0]
    relu = graph.create_op("RELU", [conv])
    conv.out_port(0).get_connection().insert_node(relu)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from compiler_plugin.effects import has_side_effects
from compiler_plugin.plugin import DataLayout
from compiler_plugin.transform_options import DEFAULT_FOLD_LIMIT, Phase
from compiler_plugin.transformations.data_node import DataNode
from compiler_plugin.transformations.graph_view import not_in_graph
from compiler_plugin.transformations.inferred_graph import Inference, InferredGraph
from compiler_plugin.transformations.node import InPort, InputLike, Node, OutPort, not_an_output
from compiler_plugin.transformations.op_request import (
    FreeNames,
    builtin_number,
    check_name,
    check_request,
    find_plain_type,
    refused,
)
from litert.core.counts import count_text
from litert.core.element_type import ElementType
from litert.core.quantization import Quantization
from litert.core.tensor_type import RankedTensorType
from litert.model.blob import Blob
from litert.model.graph import CUSTOM, Model, Op, Subgraph, Tensor
from litert.model.tensor_data import DataLike, TypeLike, encode_constant

_CONNECT = "Connect the readers instead: old_port.get_connection().set_source(new_port)."


class KnownOps(Protocol):
    """Describes custom ops; `OpLibrary` in `custom_ops.py` implements this interface."""

    def extract(self, graph: Graph) -> None:
        """Reads the attributes of the custom ops in a graph, and connects the ops with their definitions."""

    def remember(self, node: Node) -> None:
        """Stores the attributes of a node, so that copies of its op can use them."""


class Graph(InferredGraph):
    """A graph of one subgraph of a model, for reading and editing.

    Attributes:
      ops: Descriptions of user-defined ops; None if there are none.
      fold_limit: Number of bytes that constant folding may still add to the file.
      creation_count: Number of ops that were created so far.
      made_constants: Constants that were added to the graph.
    """

    def __init__(
        self,
        model: Model,
        subgraph: Subgraph,
        inference: Inference | None = None,
        *,
        ops: KnownOps | None = None,
        stage: Phase = Phase.MIDDLE,
        layout: DataLayout = "NHWC",
        static_shape: bool = False,
        fold_limit: int = DEFAULT_FOLD_LIMIT,
    ) -> None:
        super().__init__(model, subgraph, inference, stage, layout, static_shape)
        self.fold_limit = fold_limit
        self.creation_count = 0
        self.made_constants: list[Tensor] = []
        self._names = FreeNames(lambda: (tensor.name for tensor in subgraph.tensors))
        self._lost_readers: dict[Op, None] = {}
        self.ops = ops
        if ops is not None:
            ops.extract(self)

    def __repr__(self) -> str:
        return (
            f"Graph('{self.subgraph.name}', {count_text(len(self._ops), 'op')}, {self.stage.value})"
        )

    def create_op(
        self,
        op: str,
        inputs: Sequence[InputLike] = (),
        attributes: Mapping[str, Any] | None = None,
        *,
        name: str = "",
        outputs: int | None = None,
        version: int = 1,
        is_custom: bool = False,
        node_id: str = "",
    ) -> Node:
        """Adds an op, connects it to its inputs, and infers the shapes and types of its outputs.

        Args:
          op: Name of a builtin operator in the schema (`CONV_2D`), or a custom code.
          inputs: One source for each input: an output port; a node, which stands for its output 0; a tuple of a
            node and an output index; an array or number, which becomes a new constant; or None for an omitted
            optional input. Plain numbers become float32 or int32.
          attributes: Options of a builtin op, with enum values given by name; or FlexBuffer entries of a custom
            op. Omitted options have the schema's defaults, except that strides are 1, and the output type of
            SHAPE, ARG_MAX and ARG_MIN is INT32.
          name: Name of the first output tensor.
          outputs: Number of output ports. By default, a builtin op gets the output ports that its operator has
            with these attributes, and a custom op gets one output port.
          version: Version of the operator; TFLite numbers the versions of each operator from 1.
          is_custom: Whether `op` is a custom code.
          node_id: Id of the node, which must differ from all ids and names in the graph. The id is also the
            default for `name`.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the operator, an option or an input is not valid.
        """
        self.check_editable()
        number, options, count = check_request(
            op, inputs, attributes, name, outputs, version, is_custom
        )
        if node_id and (self._ids.has(node_id) or self.find_node(node_id) is not None):
            raise refused(
                f"a new {op} cannot have the id '{node_id}', because another node has this id or name",
                "Choose an id that no other node has as its id or name.",
            )
        values = [self._check_input(value) for value in inputs]
        # Nothing was changed up to here, and nothing is refused from here on.
        code = self.model.operator_code(number, op if is_custom else None, version)
        ports = [
            self._add_constant(*value, f"{name or op}/input_{index}").out_port(0)
            if isinstance(value, tuple)
            else value
            for index, value in enumerate(values)
        ]
        tensors = [port.tensor if port else None for port in ports]
        base = name or node_id or op.lower()
        made = [self.create_tensor(f"{base}:{index}" if index else base) for index in range(count)]
        model_op = Op(code, tensors, made, options[0])
        model_op.options_2 = options[1]
        self._ops.add(model_op)
        node = self.node_of(model_op, node_id)
        self.creation_count += 1
        node.creation = self.creation_count
        if is_custom:
            node.set_extracted(attributes or {})
            node.is_changed = True
        self.touch(node)
        return node

    def create_const(
        self,
        value: DataLike,
        name: str = "const",
        element_type: TypeLike | None = None,
        quantization: Quantization | None = None,
        shape: Sequence[int] | None = None,
    ) -> Node:
        """Adds a constant.

        Args:
          value: Array, number, list or strings; or the raw bytes of the data, if `element_type` and `shape` are
            given too. If neither the value nor `element_type` gives a type, whole numbers become int32 and other
            numbers float32.
          name: Name of the constant's tensor; the graph appends a number if the name is in use.
          element_type: Element type of the constant.
          quantization: Quantization of the constant.
          shape: Shape of the constant; by default the shape of the value.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the type cannot represent the value.
        """
        check_name(name)
        found = encode_constant(value, element_type or find_plain_type(value), shape)
        return self._add_constant(*found, name, quantization)

    def create_tensor(
        self,
        name: str,
        element_type: ElementType = ElementType.NONE,
        quantization: Quantization | None = None,
    ) -> Tensor:
        """Creates a tensor of unknown shape for a node; if the name is in use, a number is appended."""
        tensor = Tensor(
            self.unique_name(name), element_type, (), self.model.buffers[0], quantization
        )
        self.subgraph.tensors.append(tensor)
        self._shapeless.add(tensor)
        return tensor

    def unique_name(self, base: str) -> str:
        """Reserves and returns a name that no other tensor in this subgraph has."""
        return self._names.find_free(base)

    def replace_node(self, old: Node, new: Node) -> None:
        """Replaces an op by a new op, which takes over names, quantization and readers of the old op's outputs.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if a node is not an op of this graph, if the new op reads outputs of the
            old op, or if an output of the old op has readers and the new op has no such output.
        """
        for node in (old, new):
            self._check_own(node)
        before, after = old.model_op, new.model_op
        if old is new:
            raise refused(f"{old} cannot replace itself", "Pass two different nodes.")
        if before is None or after is None:
            other = old if before is None else new
            raise refused(
                f"{new} cannot replace {old}, because {other} is not an op",
                "Pass two ops."
                if old.is_result or new.is_result
                else "Connect the readers instead: old.out_port(0).get_connection().set_source(new.out_port(0)).",
            )
        if any(tensor in before.outputs for tensor in after.inputs if tensor is not None):
            raise refused(
                f"{new} cannot replace {old}, because the new op reads a result of the old op",
                "To insert an op after another op, use connection.insert_node(node).",
            )
        for index, tensor in enumerate(before.outputs):
            if index >= len(after.outputs) and self.is_read(tensor):
                raise refused(
                    f"{new} cannot replace {old}, because it has no output {index}, which another op reads",
                    "First connect the readers of this output to another source.",
                )
        for index, kept in enumerate(before.outputs[: len(after.outputs)]):
            self._take_tensor(after, index, kept)
        self._ops.replace(before, after)
        self._remove_op(before)
        for tensor in after.outputs:
            for reader in tensor.readers:
                self._ops.note_input(reader, tensor)
        self.touch(new)

    def replace_port(self, old: OutPort, new: OutPort) -> None:
        """Replaces an output port; the new port takes over the old port's readers, name and quantization.

        Ops that already read the new port continue to read it. The old port's op stays in the graph, but the old
        port has no readers.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if a port is not an output of an op of this graph, or if the new port's op
            reads the old port.
        """
        for port in (old, new):
            self._check_own(port.node)
        before, after = old.node.model_op, new.node.model_op
        kept, own = old.tensor, new.tensor
        if before is None or after is None:
            other = old.node if before is None else new.node
            raise refused(f"{new} cannot replace {old}, because {other} is not an op", _CONNECT)
        if before is after:
            raise refused(
                f"{new} cannot replace {old}, because both belong to the same op", _CONNECT
            )
        if kept in after.inputs:
            raise refused(
                f"{new} cannot replace {old}, because {new.node} reads the old output",
                "To insert an op after another op, use connection.insert_node(node).",
            )
        self._take_tensor(after, new.index, kept)
        before.set_output(old.index, own)
        self._ops.take_place(before, after)
        for reader in kept.readers:
            self._ops.note_input(reader, kept)
        self.touch(old.node)
        self.touch(new.node)

    def rename_op(self, node: Node, op: str, *, is_custom: bool = True) -> None:
        """Sets a node's op name, but not the version; `is_custom` says whether the name `op` is a custom code."""
        self._check_own(node)
        model_op = node.model_op
        if model_op is None or (model_op.name, model_op.is_custom) == (op, is_custom):
            return
        number = CUSTOM if is_custom else builtin_number(op)
        code = self.model.operator_code(number, op if is_custom else None, model_op.code.version)
        self._ops.rename(model_op, code)
        if is_custom:
            self.edit_count += 1
        else:
            self.touch(node)

    def remove_node(self, node: Node | str) -> None:
        """Removes an op or constant that has no readers; `node` may be the node's id.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the node has readers or is an input or result of the model.
        """
        node = self.as_node(node)
        self._check_own(node)
        if not (node.is_op or node.is_const):
            raise refused(
                f"{node} cannot be removed, because the model's inputs, outputs and variables must stay"
            )
        for port in node.out_ports().values():
            readers = port.get_destinations()
            if readers:
                raise refused(
                    f"{node} cannot be removed, because {readers[0].node} reads its output {port.index}",
                    "First connect the readers of this node to another source.",
                )
        if node.model_op is not None:
            self._remove_op(node.model_op)
        else:
            assert node.tensor is not None
            del self._ends[node.tensor]
        self.edit_count += 1

    def clean_up(self) -> int:
        """Removes ops without readers, except ops with side effects.

        Because a custom op may have side effects, it is removed only if an edit has removed its last reader.

        Returns:
          Number of removed ops.
        """
        waiting = [op for op in reversed(self._ops) if self._is_dead(op)]
        removed = 0
        while waiting:
            op = waiting.pop()
            if op not in self._ops or not self._is_dead(op):
                continue
            inputs = [tensor for tensor in op.inputs if tensor is not None]
            self._remove_op(op)
            removed += 1
            for tensor in inputs:
                if tensor.producer is not None and tensor.producer in self._ops:
                    waiting.append(tensor.producer)
        self._lost_readers.clear()
        self.edit_count += removed
        return removed

    # For nodes and ports.

    def rename(self, tensor: Tensor, name: str) -> None:
        """Changes the name of a tensor."""
        check_name(name)
        if tensor.name != name:
            tensor.name = name
            self.edit_count += 1
            self._names.note(name)

    def set_name(self, node: Node, name: str) -> None:
        """Renames an output of the model if the node is a result; otherwise, the first output tensor."""
        if node.is_result:
            node.result_name = name
            self._name_result(node)
        elif node.output_tensors:
            self.rename(node.output_tensors[0], name)

    def add_input(self, node: Node, tensor: Tensor | None) -> None:
        """Adds an input after the other inputs of an op, without checks; prefer `Node.add_input_port`."""
        assert node.model_op is not None
        node.model_op.append_input(tensor)
        self._ops.note_input(node.model_op, tensor)
        self.touch(node)

    def set_input(self, node: Node, index: int, tensor: Tensor | None) -> None:
        """Connects an input port of an op or a result to a tensor, without checks; prefer `InPort.connect`."""
        if node.is_result:
            assert tensor is not None
            self.set_result(node, tensor)
            return
        assert node.model_op is not None
        old = node.model_op.inputs[index]
        if old is not tensor:
            self.check_editable()
            node.model_op.set_input(index, tensor)
            self._ops.note_input(node.model_op, tensor)
            self._note_lost_reader(old)
            self.touch(node)

    def set_result(self, result: Node, tensor: Tensor) -> None:
        """Replaces the tensor of a result by another tensor, in the subgraph's outputs and in signatures."""
        old = result.tensor
        assert old is not None
        if old is tensor:
            return
        self._results_by_tensor[old].remove(result)
        result.tensor = tensor
        self._results_by_tensor.setdefault(tensor, []).append(result)
        if result.result_index >= 0:
            self.subgraph.outputs[result.result_index] = tensor
        for signature, index in result.result_signatures:
            signature.outputs[index] = (signature.outputs[index][0], tensor)
        if self._name_result(result) and old.name == tensor.name and old not in self._inputs:
            old.name = self.unique_name(f"{old.name}/replaced")
        self._note_lost_reader(old)
        self.edit_count += 1

    # Helpers.

    def _name_result(self, result: Node) -> bool:
        """Renames the tensor of a result to the result's name, unless its present name is a public name too."""
        tensor = result.tensor
        assert tensor is not None
        if tensor.producer not in self._ops or len(self._results_of(tensor)) > 1:
            return tensor.name == result.result_name
        self.rename(tensor, result.result_name)
        return True

    def _note_lost_reader(self, tensor: Tensor | None) -> None:
        """Records tensors that may have lost their last reader in an edit."""
        if tensor is not None and tensor.producer is not None:
            self._lost_readers[tensor.producer] = None

    def _check_input(self, value: Any) -> OutPort | tuple[RankedTensorType, Blob] | None:
        """Converts an argument for an input to a port of this graph, a new constant, or None."""
        if value is None:
            return None
        if isinstance(value, InPort):
            raise not_an_output(value)
        if isinstance(value, DataNode):
            value = value.port
        if isinstance(value, OutPort):
            node, index = value.node, value.index
        elif isinstance(value, tuple) and value and isinstance(value[0], Node):
            node, index = value
        elif isinstance(value, Node):
            node, index = value, 0
        else:
            return encode_constant(value, find_plain_type(value))
        self._check_own(node)
        return node.out_port(index)

    def _add_constant(
        self,
        tensor_type: RankedTensorType,
        blob: Blob,
        name: str,
        quantization: Quantization | None = None,
    ) -> Node:
        tensor = self.create_tensor(name, tensor_type.element_type, quantization)
        tensor.shape = tensor_type.shape
        self._shapeless.discard(tensor)
        tensor.buffer = self.create_buffer(blob)
        self.made_constants.append(tensor)
        return self._end_of(tensor)

    def _check_own(self, node: Node) -> None:
        if not isinstance(node, Node):
            found = f"graph.find_node({node!r:.100})" if isinstance(node, str) else "graph.nodes[0]"
            raise refused(f"{node!r:.100} is not a node", f"Pass a node, for example {found}.")
        if node.graph is not self:
            raise not_in_graph(str(node))
        node.check_alive()

    def _is_dead(self, op: Op) -> bool:
        if any(self.is_read(tensor) for tensor in op.outputs):
            return False
        if op.is_custom:
            return op in self._lost_readers
        return not has_side_effects(op)

    def _remove_op(self, op: Op) -> None:
        self.check_editable()
        for tensor in op.inputs:
            self._note_lost_reader(tensor)
        op.release()
        self._ops.remove(op)
        node = self._nodes.pop(op, None)
        if node is not None:
            self._touched.pop(node, None)
        for tensor in op.outputs:
            self._values.pop(tensor, None)

    def _take_tensor(self, op: Op, index: int, kept: Tensor) -> None:
        """Lets an op write another op's tensor instead of its own tensor, which then has no readers."""
        own = op.outputs[index]
        op.set_output(index, kept)
        for port in self.find_readers(own):
            self.set_input(port.node, port.index, kept)
        if own.element_type not in (ElementType.NONE, kept.element_type):
            kept.element_type, kept.quantization = own.element_type, own.quantization
        elif own.quantization is not None:
            kept.quantization = own.quantization
        self._values.pop(kept, None)
