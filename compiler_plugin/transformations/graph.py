"""The graph that transformations see: a view of one subgraph of the model, as nodes, ports and connections.

Nothing is copied: nodes stand for the model's ops and tensors, and an edit changes those. What is not touched
keeps its names, quantization, signatures and bytes. Edits that cannot be right are refused before anything is
changed; the whole is checked after each transformation.

    conv = graph.get_op_nodes(op="CONV_2D")[0]
    relu = graph.create_op("RELU", [conv])
    conv.out_port(0).get_connection().insert_node(relu)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from compiler_plugin.effects import has_side_effects
from compiler_plugin.plugin import DataLayout
from compiler_plugin.transformations.graph_data import GraphData, Inference
from compiler_plugin.transformations.graph_ops import GraphOps
from compiler_plugin.transformations.graph_results import GraphResults
from compiler_plugin.transformations.node import (
    CONST,
    ENDS,
    PARAMETER,
    VARIABLE,
    Node,
    is_same_value,
)
from compiler_plugin.transformations.op_request import (
    TensorNames,
    builtin_number,
    check_name,
    check_request,
    find_plain_type,
)
from compiler_plugin.transformations.ports import InPort, OutPort, not_an_output
from compiler_plugin.transformations.transform_options import DEFAULT_FOLD_LIMIT, Phase
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.quantization import Quantization
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.model.blob import Blob
from litert.model.graph import CUSTOM, EXTERNAL_SIZE, Buffer, Model, Op, Subgraph, Tensor
from litert.model.tensor_data import encode_constant

if TYPE_CHECKING:
    import numpy as np

    from compiler_plugin.transformations.op_library import OpLibrary
    from litert.model.tensor_data import DataLike, TypeLike

    Array: TypeAlias = np.ndarray[Any, Any]
    InputLike: TypeAlias = OutPort | Node | DataLike | None


class Graph:
    """One subgraph of a model, to be read and changed.

    Attributes:
      model, subgraph: what it is a view of.
      ops: the user's ops; None where there are none.
      stage: the phase that it is in; in FRONT only shapes of inputs and constants are known.
      layout: what tensors of rank 4 and 5 are in; NCHW only within a vendor's partition that asked for it.
      static_shape: whether shapes are final: the model need not be resizable any more.
      fold_limit: how many bytes constant folding may still add to the file.
      edit_count: grows with each edit.
      creation_count: how many ops were created.
      data: what is known of shapes, types and values, for ports.
      outputs: the results, for those who change them.
    """

    def __init__(
        self,
        model: Model,
        subgraph: Subgraph,
        inference: Inference | None = None,
        *,
        ops: OpLibrary | None = None,
        stage: Phase = Phase.MIDDLE,
        layout: DataLayout = "NHWC",
        static_shape: bool = False,
        fold_limit: int = DEFAULT_FOLD_LIMIT,
    ) -> None:
        self.model = model
        self.subgraph = subgraph
        self.stage = stage
        self.layout = layout
        self.static_shape = static_shape
        self.fold_limit = fold_limit
        self.edit_count = 0
        self.creation_count = 0
        self._count = 0
        self._ops = GraphOps(model, subgraph)
        self._nodes: dict[Op, Node] = {}
        self._ends: dict[Tensor, Node] = {}
        self._inputs = dict.fromkeys(subgraph.inputs)
        self._unwritten = {
            tensor
            for op in subgraph.ops
            for tensor in op.inputs
            if tensor is not None and tensor.producer is None
        }
        self._names = TensorNames(subgraph)
        self._lost_readers: dict[Op, None] = {}
        self._made: dict[Tensor, None] = {}
        self._seen_data: dict[Buffer, None] = {}
        self.data = GraphData(self, inference)
        self.outputs = GraphResults(self)
        self.ops = ops
        if ops is not None:
            ops.extract(self)

    def __repr__(self) -> str:
        ops = "1 op" if len(self._ops) == 1 else f"{len(self._ops)} ops"
        return f"Graph('{self.subgraph.name}', {ops}, {self.stage.value})"

    # Looking.

    @property
    def nodes(self) -> list[Node]:
        """All ops in execution order; those that were added since the last sort come last."""
        return [self.node_of(op) for op in self._ops]

    @property
    def parameters(self) -> list[Node]:
        """The inputs of the subgraph, in order."""
        return [self._end_of(tensor) for tensor in self.subgraph.inputs]

    @property
    def results(self) -> list[Node]:
        """The outputs of the subgraph in order, then what signatures name beside them."""
        return self.outputs.nodes

    @property
    def op_names(self) -> list[str]:
        """What ops there are, by name."""
        return self._ops.names

    @property
    def control_edges(self) -> list[tuple[Op, Op]]:
        """Pairs of an op and one that must run after it, beyond what data say (the converter's metadata)."""
        return self._ops.control_edges

    @property
    def known_nodes(self) -> list[Node]:
        """The ops that somebody has asked for; of the others nothing but the model itself can have changed."""
        return list(self._nodes.values())

    @property
    def made_constants(self) -> list[Tensor]:
        """The constants that were added."""
        return list(self._made)

    @property
    def seen_data(self) -> list[Buffer]:
        """Data that were made, or whose value somebody has asked for."""
        return list(self._seen_data)

    def constants(self) -> list[Node]:
        """The constants that ops and results read, each once."""
        return [node for node in self._find_sources() if node.is_const]

    def get_op_nodes(self, **attributes: Any) -> list[Node]:
        """The ops that have all of these attributes, in execution order.

        Args:
          attributes: by name; `op` is what it does, which is fast. Where that is one of the four ends, they are
            found and no ops. A value may be a function that says whether an attribute's value will do.
        """
        name = attributes.get("op")
        if isinstance(name, str) and name in ENDS:
            nodes = self._find_ends()
        else:
            ops: Iterable[Op] = self._ops.named(name) if isinstance(name, str) else self._ops
            nodes = [self.node_of(op) for op in ops]
        return [node for node in nodes if _has_attributes(node, attributes)]

    def get_nodes_with_attributes(self, **attributes: Any) -> list[Node]:
        """As `get_op_nodes`, with inputs, constants and results of the model too."""
        nodes = (*self.nodes, *self._find_ends())
        return [node for node in nodes if _has_attributes(node, attributes)]

    def find_node(self, name: str) -> Node | None:
        """The first op that writes a tensor of that name, else the input or constant of that name."""
        for op in self._ops:
            if any(tensor.name == name for tensor in op.outputs):
                return self.node_of(op)
        ends = (*self.parameters, *self.constants())
        return next((node for node in ends if node.name == name), None)

    def node_of(self, op: Op) -> Node:
        """The node that stands for an op of this subgraph.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for an op that is not in it.
        """
        node = self._nodes.get(op)
        if node is None:
            if op not in self._ops:
                raise _foreign(f"op {op.name}")
            node = self._nodes[op] = Node(self, self._next_id(), "", op, None)
        return node

    def out_port_of(self, tensor: Tensor) -> OutPort:
        """The output port that stands for a tensor."""
        producer = tensor.producer
        if producer is None or producer not in self._ops:
            return OutPort(self._end_of(tensor), 0)
        index = next(i for i, output in enumerate(producer.outputs) if output is tensor)
        return OutPort(self.node_of(producer), index)

    def find_readers(self, tensor: Tensor) -> list[InPort]:
        """The input ports that read a tensor: of ops, then of results."""
        readers = [
            InPort(self.node_of(op), index)
            for op in tensor.readers
            if op in self._ops
            for index, read in enumerate(op.inputs)
            if read is tensor
        ]
        return readers + [InPort(result, 0) for result in self.outputs.find(tensor)]

    def is_read(self, tensor: Tensor) -> bool:
        """Whether an op reads a tensor, or it is a result."""
        return bool(self.outputs.find(tensor)) or any(op in self._ops for op in tensor.readers)

    def has_node(self, node: Node) -> bool:
        """Whether a node is in the graph, and was not removed."""
        if node.graph is not self:
            return False
        if node.model_op is not None:
            return node.model_op in self._ops
        return node.is_result or (node.tensor is not None and self._ends.get(node.tensor) is node)

    # Adding and taking away.

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
    ) -> Node:
        """Adds an op, connected to its inputs; shapes and types of its outputs are inferred.

        Args:
          op: a builtin operator's name in the schema (`CONV_2D`), or a custom code.
          inputs: an output port, a node (its output 0), an array or number (a new constant; plain numbers are
            float32 or int32), or None for an optional input that is left out.
          attributes: a builtin op's options, enums by name; a custom op's entries of its FlexBuffer. What is
            not given has the schema's default; but strides are 1, and types that SHAPE and ARG_MAX give INT32.
          name: of its first output tensor.
          outputs: how many output ports it has; where it is not said, as many as a builtin op has, and one of a
            custom one.
          version: of the operator.
          is_custom: whether `op` is a custom code.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for an operator, option or input that cannot be.
        """
        self.data.check_editable()
        request = check_request(op, inputs, attributes, name, outputs, version, is_custom)
        values = [self._check_input(value) for value in inputs]
        # Nothing was changed up to here, and nothing is refused from here on.
        code = self.model.operator_code(request.number, request.custom_code, version)
        ports = [
            self._add_constant(*value, f"{name or op}/input_{index}").out_port(0)
            if isinstance(value, tuple)
            else value
            for index, value in enumerate(values)
        ]
        tensors = [port.tensor if port else None for port in ports]
        base = name or op.lower()
        made = [
            self.create_tensor(base if not index else f"{base}:{index}")
            for index in range(request.outputs)
        ]
        model_op = Op(code, tensors, made, request.options)
        model_op.options_2 = request.options_2
        self._ops.add(model_op)
        node = self.node_of(model_op)
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
          value: an array, number, list or texts; or bytes as they lie in a file, which need type and shape. Where
            neither it nor `element_type` says a type, whole numbers are int32 and others float32.
          name: of its tensor; a number is added where it is taken.
          element_type: of the elements.
          quantization: of the elements.
          shape: of the constant; from the value where it is not given.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for a value that the type cannot hold.
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
        """For nodes: a tensor of unknown shape that nothing has yet; a number is added to a name that is taken."""
        tensor = Tensor(
            self.unique_name(name), element_type, (), self.model.buffers[0], quantization
        )
        self.subgraph.tensors.append(tensor)
        self.data.add(tensor)
        return tensor

    def unique_name(self, base: str) -> str:
        """A name for a tensor that none in this subgraph has; it is taken from now on."""
        return self._names.find_free(base)

    def replace_node(self, old: Node, new: Node) -> None:
        """Puts an op in another's place: it gets its output tensors, with names, quantization and readers.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for nodes that are no ops of this graph, a new one that reads the old
            one's results, or one that has too few outputs.
        """
        for node in (old, new):
            self._check_own(node)
        before, after = old.model_op, new.model_op
        if before is None or after is None or old is new:
            raise LiteRtError(Status.INVALID_ARGUMENT, f"{new} cannot take the place of {old}")
        if any(tensor in before.outputs for tensor in after.inputs if tensor is not None):
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"{new} reads {old}, whose place it is to take",
                hint="To put a node behind another use connection.insert_node(node).",
            )
        for index, tensor in enumerate(before.outputs):
            if index >= len(after.outputs) and self.is_read(tensor):
                raise LiteRtError(
                    Status.INVALID_ARGUMENT,
                    f"{new} has no output {index}, which is read of {old}",
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
        """Puts an op's output in the place of another's: it gets its tensor, with name, quantization and readers.

        What has read the new one before reads on. The old op stays, with an output that nobody reads.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for ports of what is no op of this graph, or one that reads the other.
        """
        for port in (old, new):
            self._check_own(port.node)
        before, after = old.node.model_op, new.node.model_op
        kept, own = old.tensor, new.tensor
        if before is None or after is None or before is after or kept in after.inputs:
            raise LiteRtError(Status.INVALID_ARGUMENT, f"{new} cannot take the place of {old}")
        self._take_tensor(after, new.index, kept)
        before.set_output(old.index, own)
        self._ops.move(before, after)
        for reader in kept.readers:
            self._ops.note_input(reader, kept)
        self.touch(old.node)
        self.touch(new.node)

    def rename_op(self, node: Node, op: str, *, is_custom: bool = True) -> None:
        """Makes a custom op another, of the same version.

        Args:
          node: a custom op.
          op: another custom code, or a builtin operator's name.
          is_custom: whether it is a custom code.
        """
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

    def remove_node(self, node: Node) -> None:
        """Takes out an op or a constant that nobody reads.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for a node that is read, or an input or result of the model.
        """
        self._check_own(node)
        if not (node.is_op or node.is_const):
            raise LiteRtError(
                Status.INVALID_ARGUMENT, f"{node} is an end of the model, which stays as it is"
            )
        for port in node.out_ports():
            readers = port.get_destinations()
            if readers:
                raise LiteRtError(
                    Status.INVALID_ARGUMENT,
                    f"{node} is read by {readers[0].node}",
                    hint="Give its readers another source first.",
                )
        if node.model_op is not None:
            self._remove_op(node.model_op)
        else:
            assert node.tensor is not None
            del self._ends[node.tensor]
        self.edit_count += 1

    def clean_up(self) -> int:
        """Takes out ops that nobody reads, but for those with side effects.

        What a custom op does nobody knows: it goes only where an edit has taken its last reader away.

        Returns:
          How many went.
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

    def topological_sort(self) -> None:
        """Puts the ops of the subgraph in an order in which they can run; those that can stay do.

        Raises:
          LiteRtError: INVALID_GRAPH_INVARIANT for a cycle, with its members.
        """
        ops = self._ops.sort()
        if ops is not None:
            self.subgraph.ops = ops

    # What is known of data.

    @property
    def touched(self) -> Collection[Node]:
        """The nodes whose outputs are to be inferred again."""
        return self.data.touched.keys()

    def touch(self, node: Node) -> None:
        """Notes that a node's outputs are to be inferred again."""
        self.data.touch(node)

    def infer(self) -> None:
        """Infers what edits have touched, but in the front phase.

        Raises:
          LiteRtError: where an op cannot have the inputs that it was given, or there is a cycle.
        """
        self.data.infer()

    def sort_by_place(self, nodes: Iterable[Node]) -> list[Node]:
        """Ops of the graph in an order in which they can run."""
        if not self._ops.has_places:
            self.topological_sort()
        ops = self._ops.sort_some(node.model_op for node in nodes if node.model_op is not None)
        return [self.node_of(op) for op in ops]

    def has_op(self, op: Op | None) -> bool:
        """Whether an op is in the graph."""
        return op in self._ops

    def is_input(self, tensor: Tensor) -> bool:
        """Whether a tensor is an input of the subgraph."""
        return tensor in self._inputs

    def has_source(self, tensor: Tensor) -> bool:
        """Whether a tensor that no op writes has a value all the same, or had no op in the file already."""
        return (
            tensor.is_constant
            or 0 in tensor.shape
            or tensor.is_variable
            or tensor in self._inputs
            or (tensor in self._unwritten and tensor.producer is None)
        )

    # For nodes and ports.

    def rename(self, tensor: Tensor, name: str) -> None:
        """Gives a tensor another name."""
        check_name(name)
        if tensor.name != name:
            tensor.name = name
            self.edit_count += 1
            self._names.note(name)

    def note_seen(self, buffer: Buffer) -> None:
        """Remembers that somebody has read some data; equal ones can be shared then."""
        self._seen_data[buffer] = None

    def note_input(self, op: Op, tensor: Tensor | None, old: Tensor | None) -> None:
        """Notes that an op reads another tensor than before."""
        self._ops.note_input(op, tensor)
        self.note_lost_reader(old)

    def note_lost_reader(self, tensor: Tensor | None) -> None:
        """Remembers what an edit may have left without a reader."""
        if tensor is not None and tensor.producer is not None:
            self._lost_readers[tensor.producer] = None

    # Helpers.

    def _find_ends(self) -> list[Node]:
        """What is no op: inputs, what else is read that no op writes, and results."""
        sources = [node for node in self._find_sources() if node.op != PARAMETER]
        return [*self.parameters, *sources, *self.results]

    def _find_sources(self) -> list[Node]:
        """What ops and results read that no op writes, each once."""
        tensors = dict.fromkeys(tensor for op in self._ops for tensor in op.inputs)
        tensors.update(dict.fromkeys(self.outputs.tensors))
        return [
            self._end_of(tensor)
            for tensor in tensors
            if tensor is not None and tensor.producer not in self._ops
        ]

    def _next_id(self) -> str:
        self._count += 1
        return str(self._count)

    def _end_of(self, tensor: Tensor) -> Node:
        node = self._ends.get(tensor)
        if node is None:
            kind = VARIABLE if tensor.is_variable else CONST
            if tensor in self._inputs:
                kind = PARAMETER
            node = self._ends[tensor] = Node(self, self._next_id(), kind, None, tensor)
        return node

    def _check_input(self, value: InputLike) -> OutPort | tuple[RankedTensorType, Blob] | None:
        """What an op is to read: a port of this graph, a constant that is to be added, or nothing."""
        if value is None:
            return None
        if isinstance(value, InPort):
            raise not_an_output(value)
        if not isinstance(value, Node | OutPort):
            return encode_constant(value, find_plain_type(value))
        node = value if isinstance(value, Node) else value.node
        self._check_own(node)
        return node.out_port(0 if isinstance(value, Node) else value.index)

    def _add_constant(
        self,
        tensor_type: RankedTensorType,
        blob: Blob,
        name: str,
        quantization: Quantization | None = None,
    ) -> Node:
        tensor = self.create_tensor(name, tensor_type.element_type, quantization)
        tensor.shape = tensor_type.shape
        self.data.note_shape(tensor)
        tensor.buffer = self.create_buffer(blob)
        self._made[tensor] = None
        return self._end_of(tensor)

    def _check_own(self, node: Node) -> None:
        if not isinstance(node, Node):
            hint = "graph.find_node(name) finds one by its name." if isinstance(node, str) else ""
            raise LiteRtError(Status.INVALID_ARGUMENT, f"{node!r:.100} is no node", hint=hint)
        if node.graph is not self:
            raise _foreign(str(node))
        node.check_alive()

    def _is_dead(self, op: Op) -> bool:
        if any(self.is_read(tensor) for tensor in op.outputs):
            return False
        if op.is_custom:
            return op in self._lost_readers
        return not has_side_effects(op)

    def _remove_op(self, op: Op) -> None:
        self.data.check_editable()
        for tensor in op.inputs:
            self.note_lost_reader(tensor)
        op.release()
        self._ops.remove(op)
        node = self._nodes.pop(op, None)
        self.data.remove(op, node)

    def _take_tensor(self, op: Op, index: int, kept: Tensor) -> None:
        """Lets an op write another op's tensor in place of its own, which nobody reads then."""
        own = op.outputs[index]
        op.set_output(index, kept)
        for port in self.find_readers(own):
            port.node.set_input(port.index, kept)
        if own.element_type not in (ElementType.NONE, kept.element_type):
            kept.element_type, kept.quantization = own.element_type, own.quantization
        elif own.quantization is not None:
            kept.quantization = own.quantization
        self.data.forget_value(kept)

    def create_buffer(self, blob: Blob) -> Buffer:
        """For constants: a buffer of the model for new data."""
        buffer = Buffer(blob, is_external=blob.size >= EXTERNAL_SIZE)
        self.model.buffers.append(buffer)
        self._seen_data[buffer] = None
        return buffer


def _has_attributes(node: Node, wanted: Mapping[str, Any]) -> bool:
    for name, value in wanted.items():
        found = node.soft_get(name, _ABSENT)
        if found is _ABSENT or not (
            value(found) if callable(value) else is_same_value(found, value)
        ):
            return False
    return True


_ABSENT: Any = object()


def _foreign(what: str) -> LiteRtError:
    return LiteRtError(Status.INVALID_ARGUMENT, f"{what} is not in this graph")
