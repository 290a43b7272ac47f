"""The graph that transformations see: a view of one subgraph of the model, as nodes, ports and connections.

Nothing is copied: nodes stand for the model's ops and tensors, and an edit changes those. What is not touched
keeps its names, quantization, signatures and bytes. Edits that cannot be right are refused before anything is
changed; the whole is checked after each transformation.

    conv = graph.get_op_nodes(op="CONV_2D")[0]
    relu = graph.create_op("RELU", [conv])
    conv.out_port(0).get_connection().insert_node(relu)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from compiler_plugin.effects import has_side_effects
from compiler_plugin.transformations.node import CONST, PARAMETER, RESULT, VARIABLE, Node
from compiler_plugin.transformations.options import DEFAULT_FOLD_LIMIT
from compiler_plugin.transformations.order import Order, sort_ops
from compiler_plugin.transformations.phase import Phase
from compiler_plugin.transformations.ports import InPort, OutPort, not_an_output
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.quantization import Quantization
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.model.blob import Blob
from litert.model.builtin_options import make_builtin_options, usual_builtin_options
from litert.model.control_dependencies import read_control_dependencies
from litert.model.graph import CUSTOM, EXTERNAL_SIZE, Buffer, Model, Op, Subgraph, Tensor
from litert.model.schema import BUILTIN_OPERATORS
from litert.model.tensor_data import decode_constant, encode_constant

if TYPE_CHECKING:
    import numpy as np

    from compiler_plugin.transformations.op_library import OpLibrary
    from litert.model.tensor_data import DataLike, TypeLike

    Array: TypeAlias = np.ndarray[Any, Any]
    InputLike: TypeAlias = OutPort | Node | DataLike | None


class Inference(Protocol):
    """Finds shapes, types and values of what edits have touched."""

    def infer(self, graph: Graph, nodes: Sequence[Node]) -> None:
        """Sets shapes and types of the nodes' outputs, and of what depends on them while anything changes.

        Args:
          graph: in its execution order.
          nodes: that were touched, in that order.
        """

    def find_value(self, port: OutPort) -> Array | None:
        """The value of an op's output, where it depends on constants alone."""


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
      results: the outputs of the subgraph, and what signatures name beside them.
      touched: nodes whose outputs are to be inferred again.
    """

    def __init__(
        self,
        model: Model,
        subgraph: Subgraph,
        inference: Inference | None = None,
        *,
        ops: OpLibrary | None = None,
        stage: Phase = Phase.MIDDLE,
        layout: Literal["NHWC", "NCHW"] = "NHWC",
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
        self.touched: dict[Node, None] = {}
        self._inference = inference
        self._is_inferring = False
        self._count = 0
        self._ops = dict.fromkeys(subgraph.ops)
        self._order = Order(subgraph.ops)
        self._nodes: dict[Op, Node] = {}
        self._ends: dict[Tensor, Node] = {}
        self._inputs = dict.fromkeys(subgraph.inputs)
        self._unwritten = {
            tensor
            for op in subgraph.ops
            for tensor in op.inputs
            if tensor is not None and tensor.producer is None
        }
        self._by_name: dict[str, dict[Op, None]] = {}
        for op in subgraph.ops:
            self._by_name.setdefault(op.name, {})[op] = None
        self._names: dict[str, int] | None = None  # with the last number behind each
        self._lost_readers: dict[Op, None] = {}
        self._made: dict[Tensor, None] = {}
        self._seen_data: dict[Buffer, None] = {}
        self._shapeless: set[Tensor] = set()
        self._values: dict[Tensor, Array] = {}
        self.results = _find_results(self)
        self._first_sources = {result: result.tensor for result in self.results}
        self._results_of: dict[Tensor, list[Node]] = {}
        for result in self.results:
            assert result.tensor is not None
            self._results_of.setdefault(result.tensor, []).append(result)
        self._edges = _read_edges(model, subgraph)
        self.ops = ops
        if ops is not None:
            ops.extract(self)

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
    def op_names(self) -> list[str]:
        """What ops there are, by name."""
        return [name for name, ops in self._by_name.items() if ops]

    @property
    def control_edges(self) -> list[tuple[Op, Op]]:
        """Pairs of an op and one that must run after it, beyond what data say (the converter's metadata)."""
        return [(a, b) for a, b in self._edges if a in self._ops and b in self._ops]

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
        tensors = dict.fromkeys(tensor for op in self._ops for tensor in op.inputs)
        tensors.update(dict.fromkeys(self._results_of))
        ends = (self._end_of(t) for t in tensors if t is not None and t.producer not in self._ops)
        return [node for node in ends if node.is_const]

    def get_op_nodes(self, **attributes: Any) -> list[Node]:
        """The ops that have all of these attributes, in execution order.

        Args:
          attributes: by name; `op` is what it does, which is fast. A value may be a function that says whether
            an attribute's value will do.
        """
        name = attributes.get("op")
        ops = self._by_name.get(name, {}) if isinstance(name, str) else self._ops
        nodes = [self.node_of(op) for op in ops]
        return [node for node in nodes if _has_attributes(node, attributes)]

    def get_nodes_with_attributes(self, **attributes: Any) -> list[Node]:
        """As `get_op_nodes`, with inputs, constants and results of the model too."""
        ends = [*self.parameters, *self.constants(), *self.results]
        return [
            *self.get_op_nodes(**attributes),
            *(node for node in ends if _has_attributes(node, attributes)),
        ]

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
            for op in dict.fromkeys(tensor.uses)
            if op in self._ops
            for index, read in enumerate(op.inputs)
            if read is tensor
        ]
        return readers + [InPort(result, 0) for result in self._results_of.get(tensor, ())]

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
        outputs: int = 1,
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
          outputs: how many output ports it has.
          version: of the operator.
          is_custom: whether `op` is a custom code.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for an operator, option or input that cannot be.
        """
        if isinstance(inputs, OutPort | InPort | Node):
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the inputs of {op} are {inputs}, and no list",
                hint="Put it into one: [x].",
            )
        values = [self._check_input(value) for value in inputs]
        options = options_2 = None
        number = CUSTOM if is_custom else _builtin_number(op)
        if not is_custom:
            wanted = {**usual_builtin_options(op), **(attributes or {})}
            options, options_2 = make_builtin_options(op, wanted)
        # Nothing was changed up to here, and nothing is refused from here on.
        code = self.model.operator_code(number, op if is_custom else None, version)
        ports = [
            self._add_constant(*value, f"{name or op}/input_{index}").out_port(0)
            if isinstance(value, tuple)
            else value
            for index, value in enumerate(values)
        ]
        tensors = [port.tensor if port else None for port in ports]
        base = name or op.lower()
        made = [
            self.create_tensor(base if not index else f"{base}:{index}") for index in range(outputs)
        ]
        model_op = Op(code, tensors, made, options)
        model_op.options_2 = options_2
        self._ops[model_op] = None
        self._order.add(model_op)
        self._by_name.setdefault(model_op.name, {})[model_op] = None
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
        found = encode_constant(value, element_type or _plain_type(value), shape)
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
        self._shapeless.add(tensor)
        return tensor

    def unique_name(self, base: str) -> str:
        """A name for a tensor that none in this subgraph has; it is taken from now on."""
        if self._names is None:
            self._names = dict.fromkeys((tensor.name for tensor in self.subgraph.tensors), 0)
        name, number = base, self._names.get(base, 0)
        while name in self._names:
            number += 1
            name = f"{base}_{number}"
        self._names[base] = number  # the next one of this base goes on from here
        self._names[name] = self._names.get(name, 0)
        return name

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
            if index >= len(after.outputs) and self._is_read(tensor):
                raise LiteRtError(
                    Status.INVALID_ARGUMENT,
                    f"{new} has no output {index}, which is read of {old}",
                )
        for index, kept in enumerate(before.outputs[: len(after.outputs)]):
            self._take_tensor(after, index, kept)
        self._edges = [
            (after if a is before else a, after if b is before else b) for a, b in self._edges
        ]
        self._order.replace(before, after)
        self._remove_op(before)
        for tensor in after.outputs:
            for reader in tensor.uses:
                self._order.note_input(reader, tensor)
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
        self._order.replace(before, after)
        for reader in kept.uses:
            self._order.note_input(reader, kept)
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
        number = CUSTOM if is_custom else _builtin_number(op)
        del self._by_name[model_op.name][model_op]
        model_op.code = self.model.operator_code(
            number, op if is_custom else None, model_op.code.version
        )
        self._by_name.setdefault(op, {})[model_op] = None
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
        order = self._order
        if order.is_settled:
            return
        effects = order.find_effects(self._ops)
        ops = sort_ops(order.list_for_sort(self._ops), self.control_edges, effects)
        order.settle(ops)
        self._ops = dict.fromkeys(ops)
        self.subgraph.ops = ops
        self._by_name = {}
        for op in ops:
            self._by_name.setdefault(op.name, {})[op] = None

    # What is known of data.

    def touch(self, node: Node) -> None:
        """Notes that a node's outputs are to be inferred again, unless that is what goes on."""
        if self._is_inferring:
            return
        self.edit_count += 1
        if node.is_op:
            self.touched[node] = None
            self.forget_values(node)

    def infer(self) -> None:
        """Infers what edits have touched, but in the front phase.

        Raises:
          LiteRtError: where an op cannot have the inputs that it was given, or there is a cycle.
        """
        if not self.touched or self._is_inferring or self.stage is Phase.FRONT:
            return
        if self._inference is None:
            return
        if not self._order.is_valid:
            self.topological_sort()
        touched, self.touched = self.touched, {}
        self._is_inferring = True
        ops = self._order.by_place(n.model_op for n in touched if n.model_op is not None)
        try:
            self._inference.infer(self, [self.node_of(op) for op in ops])
        except BaseException:
            self.touched = {**touched, **self.touched}
            raise
        finally:
            self._is_inferring = False

    def find_shape(self, port: OutPort) -> tuple[int, ...] | None:
        """For ports: `PortData.get_shape`."""
        tensor = port.tensor
        if port.node.is_op:
            if self.stage is Phase.FRONT:
                return None
            self.infer()
        return None if tensor in self._shapeless else tensor.shape_signature or tensor.shape

    def set_shape(self, port: OutPort, shape: Sequence[int]) -> None:
        """For ports: `PortData.set_shape`."""
        node, tensor = port.node, port.tensor
        known = _checked_shape(shape, port)
        if node.is_const and known != tensor.shape:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"{port} has shape {list(tensor.shape)}, and cannot have {list(known)}",
                hint="Set its value: the shape follows.",
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
        """For ports: `OutPort.set_data_type`."""
        if port.node.is_const and element_type is not port.tensor.element_type:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"{port} is of type {port.tensor.element_type.name}, and its data cannot be of another",
                hint="Create another constant.",
            )
        if port.tensor.element_type is not element_type:
            port.tensor.element_type = element_type
            self._touch_readers(port.tensor)

    def find_type(self, port: OutPort) -> ElementType:
        """For ports: `OutPort.get_data_type`."""
        if port.node.is_op:
            self.infer()
        return port.tensor.element_type

    def find_value(self, port: OutPort) -> Array | None:
        """For ports: `PortData.get_value`."""
        tensor = port.tensor
        if port.node.is_const:
            if not tensor.is_constant and 0 not in tensor.shape:
                return None
            if tensor.sparsity is not None:
                return None
            self._seen_data[tensor.buffer] = None
            return decode_constant(tensor.element_type, tensor.shape, tensor.data)
        if not port.node.is_op or self.stage is Phase.FRONT:
            return None
        self.infer()
        if tensor in self._values:
            return self._values[tensor]
        return None if self._inference is None else self._inference.find_value(port)

    def set_value(self, port: OutPort, value: Any) -> None:
        """For ports: `PortData.set_value`."""
        import numpy as np  # here, since most transformations need none

        node, tensor = port.node, port.tensor
        if node.is_const:
            tensor_type, blob = encode_constant(value, tensor.element_type)
            tensor.buffer = self._new_buffer(blob)  # another tensor may share the old one
            tensor.sparsity = None
            tensor.shape, tensor.shape_signature = tensor_type.shape, None
            self._touch_readers(tensor)
            return
        if not node.is_op:
            raise LiteRtError(Status.INVALID_ARGUMENT, f"{port} gets its value at run time")
        if tensor.element_type is ElementType.NONE:
            array = np.array(value)
            array.flags.writeable = False
        else:
            tensor_type, blob = encode_constant(value, tensor.element_type)
            array = decode_constant(tensor.element_type, tensor_type.shape, blob.view)
        self.set_shape(port, array.shape)
        self._values[tensor] = array

    def forget_values(self, node: Node) -> None:
        """Forgets what an op's `infer` has found its outputs to be."""
        for tensor in node.output_tensors:
            self._values.pop(tensor, None)

    def has_rank(self, port: OutPort) -> bool:
        """Whether a port's rank is known, as the graph stands; nothing is inferred."""
        return port.tensor not in self._shapeless

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

    def set_result(self, result: Node, tensor: Tensor) -> None:
        """Makes a result of the model another tensor, in outputs and signatures."""
        old = result.tensor
        assert old is not None
        if old is tensor:
            return
        self._results_of[old].remove(result)
        result.tensor = tensor
        self._results_of.setdefault(tensor, []).append(result)
        if result.result_index >= 0:
            self.subgraph.outputs[result.result_index] = tensor
        for signature, index in result.result_signatures:
            signature.outputs[index] = (signature.outputs[index][0], tensor)
        if self.name_result(result) and old.name == tensor.name and old not in self._inputs:
            old.name = self.unique_name(f"{old.name}/replaced")
        self.note_lost_reader(old)
        self.edit_count += 1

    def has_moved(self, result: Node) -> bool:
        """Whether a result of the model is another tensor than in the file."""
        return result.tensor is not self._first_sources[result]

    def were_one(self, result: Node, other: Node) -> bool:
        """Whether two results are one tensor in the file."""
        return self._first_sources[result] is self._first_sources[other]

    def name_result(self, result: Node) -> bool:
        """Gives a result's tensor the result's name, where no other has a right to its present one."""
        tensor = result.tensor
        assert tensor is not None
        if tensor.producer not in self._ops or len(self._results_of[tensor]) > 1:
            return tensor.name == result.result_name
        self.rename(tensor, result.result_name)
        return True

    def rename(self, tensor: Tensor, name: str) -> None:
        """Gives a tensor another name."""
        if tensor.name != name:
            tensor.name = name
            self.edit_count += 1
            if self._names is not None:
                self._names.setdefault(name, 0)

    def note_input(self, op: Op, tensor: Tensor | None, old: Tensor | None) -> None:
        """Notes that an op reads another tensor than before."""
        self._order.note_input(op, tensor)
        self.note_lost_reader(old)

    def note_lost_reader(self, tensor: Tensor | None) -> None:
        """Remembers what an edit may have left without a reader."""
        if tensor is not None and tensor.producer is not None:
            self._lost_readers[tensor.producer] = None

    # Helpers.

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
            return encode_constant(value, _plain_type(value))
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
        self._shapeless.discard(tensor)
        tensor.buffer = self._new_buffer(blob)
        self._made[tensor] = None
        return self._end_of(tensor)

    def _check_own(self, node: Node) -> None:
        if node.graph is not self:
            raise _foreign(str(node))
        node.check_alive()

    def _is_read(self, tensor: Tensor) -> bool:
        return bool(self._results_of.get(tensor)) or any(op in self._ops for op in tensor.uses)

    def _is_dead(self, op: Op) -> bool:
        if any(self._is_read(tensor) for tensor in op.outputs):
            return False
        if op.is_custom:
            return op in self._lost_readers
        return not has_side_effects(op)

    def _remove_op(self, op: Op) -> None:
        for tensor in op.inputs:
            self.note_lost_reader(tensor)
        name = op.name
        op.release()
        del self._ops[op]
        self._order.remove(op)
        self._by_name[name].pop(op, None)
        node = self._nodes.pop(op, None)
        if node is not None:
            self.touched.pop(node, None)
        for tensor in op.outputs:
            self._values.pop(tensor, None)

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
        self._values.pop(kept, None)

    def _touch_readers(self, tensor: Tensor) -> None:
        if not self._is_inferring:
            self.edit_count += 1
            for port in self.find_readers(tensor):
                self.touch(port.node)

    def _new_buffer(self, blob: Blob) -> Buffer:
        buffer = Buffer(blob, is_external=blob.size >= EXTERNAL_SIZE)
        self.model.buffers.append(buffer)
        self._seen_data[buffer] = None
        return buffer


def _find_results(graph: Graph) -> list[Node]:
    """A node for each output, with the signatures' outputs that are the same; then what only signatures name."""
    results: list[Node] = []

    def add(tensor: Tensor, index: int) -> Node:
        result = Node(graph, f"result_{len(results)}", RESULT, None, tensor)
        result.result_index = index
        results.append(result)
        return result

    for index, tensor in enumerate(graph.subgraph.outputs):
        add(tensor, index)
    for signature in graph.model.signatures:
        if signature.subgraph is not graph.subgraph:
            continue
        free: dict[Tensor, list[Node]] = {}
        for result in results:
            assert result.tensor is not None
            free.setdefault(result.tensor, []).append(result)
        for index, (_, tensor) in enumerate(signature.outputs):
            same = free.get(tensor)
            result = same.pop(0) if same else add(tensor, -1)
            result.result_signatures.append((signature, index))
    return results


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


def _has_attributes(node: Node, wanted: Mapping[str, Any]) -> bool:
    for name, value in wanted.items():
        found = node.soft_get(name, _ABSENT)
        if found is _ABSENT or not (value(found) if callable(value) else found == value):
            return False
    return True


_ABSENT: Any = object()


@cache
def _builtin_numbers() -> Mapping[str, int]:
    return {name: number for number, name in BUILTIN_OPERATORS.items()}


def _builtin_number(name: str) -> int:
    number = _builtin_numbers().get(name)
    if number is None or number == CUSTOM:
        from difflib import get_close_matches

        near = get_close_matches(name.upper(), list(_builtin_numbers()), 1)
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"TFLite has no operator '{name}'",
            hint=(f"Did you mean {near[0]}? " if near else "")
            + "A custom op needs is_custom=True.",
        )
    return number


def _plain_type(value: Any) -> TypeLike | None:
    """What numbers of Python become, which say no type themselves."""
    import numpy as np

    if isinstance(value, np.ndarray | np.generic | Blob | bytes | memoryview):
        return None
    kind = np.asarray(value).dtype.kind
    return {"f": ElementType.FLOAT32, "i": ElementType.INT32}.get(kind)


def _checked_shape(shape: Sequence[int], port: OutPort) -> tuple[int, ...]:
    try:
        known = tuple(int(size) for size in shape)
    except (TypeError, ValueError):
        known = (-2,)
    if any(size < -1 for size in known):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"{shape!r:.200} is no shape for {port}",
            hint="Give whole numbers, with -1 for a dimension that only a run tells.",
        )
    return known


def _foreign(what: str) -> LiteRtError:
    return LiteRtError(Status.INVALID_ARGUMENT, f"{what} is not in this graph")
