"""Nodes, ports and connections: the objects of a graph that transformations edit.

A node is an op, an input, a constant, a variable or a result of the model. A node has input ports and output
ports; the numbers of both kinds begin at 0. An output port stands for one tensor, and an input port stands for one
position among an op's inputs. Ports are compared by value: two ports are equal if their node, kind and number are
equal. The `data` of a port are the shape and the value of its tensor. A connection is an output port with all
input ports that read the output port, or an unconnected input port.

The graph performs all edits that are made by methods of nodes, ports and connections.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MemberDescriptorType
from typing import Any, ClassVar, Protocol, TypeAlias

from compiler_plugin.plugin import DataLayout
from compiler_plugin.transform_options import Phase
from compiler_plugin.transformations.data_node import DataNode, several_readers, shape_array
from compiler_plugin.transformations.node_attributes import MISSING, RESULT, NodeAttributes
from compiler_plugin.transformations.op_request import check_name, refused
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.quantization import Quantization
from litert.model.graph import Model, Op, Signature, Subgraph, Tensor
from litert.model.tensor_data import Array, DataLike, TypeLike, as_element_type

InputLike: TypeAlias = "OutPort | Node | DataNode | tuple[Node, int] | DataLike | None"

_FIXED = ("graph", "id", "model_op", "op", "type")


class NodeGraph(Protocol):
    """The interface of a graph to nodes, ports and op classes; `Graph` in `graph.py` implements it."""

    model: Model
    subgraph: Subgraph
    stage: Phase
    layout: DataLayout
    static_shape: bool
    results: list[Node]

    @property
    def nodes(self) -> list[Node]: ...
    @property
    def parameters(self) -> list[Node]: ...
    def constants(self) -> list[Node]: ...
    def get_op_nodes(self, **attributes: Any) -> list[Node]: ...
    def get_nodes_with_attributes(self, **attributes: Any) -> list[Node]: ...
    def find_node(self, name: str) -> Node | None: ...
    def topological_sort(self, reverse: bool = False) -> list[Node]: ...

    # For nodes and ports, and the definitions of ops.
    def has_node(self, node: Node) -> bool: ...
    def new_id(self, node: Node, base: str) -> str: ...
    def out_port_of(self, tensor: Tensor) -> OutPort: ...
    def find_readers(self, tensor: Tensor) -> list[InPort]: ...
    def is_read(self, tensor: Tensor) -> bool: ...
    def is_result(self, tensor: Tensor) -> bool: ...
    def find_shape(self, port: OutPort) -> tuple[int, ...] | None: ...
    def set_shape(self, port: OutPort, shape: Sequence[int]) -> None: ...
    def find_value(self, port: OutPort) -> Array | None: ...
    def set_value(self, port: OutPort, value: Any) -> None: ...
    def find_type(self, port: OutPort) -> ElementType: ...
    def set_type(self, port: OutPort, element_type: ElementType) -> None: ...
    def touch(self, node: Node) -> None: ...
    def infer(self) -> None: ...
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
    ) -> Node: ...
    def create_const(
        self,
        value: DataLike,
        name: str = "const",
        element_type: TypeLike | None = None,
        quantization: Quantization | None = None,
        shape: Sequence[int] | None = None,
    ) -> Node: ...
    def replace_node(self, old: Node, new: Node) -> None: ...
    def remove_node(self, node: Node) -> None: ...
    def clean_up(self) -> int: ...
    def rename_op(self, node: Node, op: str, *, is_custom: bool = True) -> None: ...
    def set_name(self, node: Node, name: str) -> None: ...
    def add_input(self, node: Node, tensor: Tensor | None) -> None: ...
    def set_input(self, node: Node, index: int, tensor: Tensor | None) -> None: ...
    def create_tensor(
        self,
        name: str,
        element_type: ElementType = ElementType.NONE,
        quantization: Quantization | None = None,
    ) -> Tensor: ...


class Node(NodeAttributes):
    """An op, input, constant, variable or result of a subgraph.

    A variable is a tensor that keeps its value between runs; a result stands for an output of the subgraph.

    Attributes:
      graph: Graph that contains the node.
      creation: For an op that the graph has created, its position in the order of creation, counted from 1; 0 for
        any other node.
      result_index, result_name, result_signatures: For a result, its position among the subgraph's outputs, its
        name in the model, and pairs of a signature and the result's position in this signature.
      first_tensor: For a result, the tensor that the result had when the graph was made.
    """

    graph: NodeGraph
    creation: int
    result_index: int
    result_name: str
    result_signatures: list[tuple[Signature, int]]
    first_tensor: Tensor | None

    __iter__ = None  # `__getitem__` would make nodes seem iterable

    _id: str  # "" until the first access

    __slots__ = (
        "_id", "creation", "first_tensor", "graph", "result_index", "result_name", "result_signatures",
    )  # fmt: skip

    def __init__(
        self, graph: NodeGraph, kind: str, model_op: Op | None = None, tensor: Tensor | None = None
    ) -> None:
        """Creates a node; only `Graph` calls this constructor.

        `kind` is the kind of a node that is not an op, such as Const; "" for an op.
        """
        if model_op is None and tensor is None:
            raise refused(
                f"Node(graph, {kind!r:.100}) does not create a node",
                "Use graph.find_node(name), or graph.find_by_id(id).",
            )
        super().__init__(kind, model_op, tensor)
        keep = object.__setattr__
        keep(self, "graph", graph)
        keep(self, "_id", "")
        keep(self, "creation", 0)
        if kind == RESULT:
            keep(self, "result_index", -1)
            keep(self, "result_name", tensor.name if tensor else "")
            signatures: list[tuple[Signature, int]] = []
            keep(self, "result_signatures", signatures)
            keep(self, "first_tensor", tensor)

    @property
    def id(self) -> str:
        """The id of the node: unique in the graph, and never used for another node.

        At the first access, the id is set to the node's name, with a number appended if another node has this id.
        """
        if not self._id:
            self.take_id(self.name or self.op)
        return self._id

    def take_id(self, base: str) -> None:
        """Sets a unique id that is derived from a string; only the graph calls this function."""
        object.__setattr__(self, "_id", self.graph.new_id(self, base))

    @property
    def name(self) -> str:
        """The name of the first output tensor; for a result, the name in the model."""
        if self._kind == RESULT:
            return self.result_name
        tensors = self.output_tensors
        return tensors[0].name if tensors else ""

    @name.setter
    def name(self, name: str) -> None:
        self.check_alive()
        check_name(name)
        self.graph.set_name(self, name)

    @property
    def version(self) -> int:
        """The version of the operator, which TFLite numbers from 1; always 1 for nodes that are not ops."""
        return 1 if self.model_op is None else self.model_op.code.version

    @version.setter
    def version(self, version: int) -> None:
        op = self._check_op()
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            raise refused(
                f"the version of {self} cannot be {version!r:.100}",
                "Give a whole number, 1 or greater.",
            )
        op.code = self.graph.model.operator_code(op.code.builtin_code, op.code.custom_code, version)
        self.touch()

    @property
    def is_alive(self) -> bool:
        """Whether the node is still in its graph."""
        return self.graph.has_node(self)

    def check_alive(self) -> None:
        """Raises an error if the node was removed from its graph."""
        if not self.is_alive:
            raise refused(
                f"{self} was removed from the graph and cannot be used any more",
                "Use a node that is in the graph, for example graph.find_node(name).",
            )

    def touch(self) -> None:
        """Marks the node, so that the types, shapes and values of its outputs are inferred again."""
        self.graph.touch(self)

    def in_port(self, index: int = 0) -> InPort:
        """Returns an input port.

        If the op's class sets `in_ports_count`, the node has at least this number of input ports. If you
        connect a port for which the op has no input yet, the op gets this input.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the node has no input port with this number.
        """
        self._check_index(index, self._count_in_ports(), "input")
        return InPort(self, index)

    def out_port(self, index: int = 0) -> OutPort:
        """Returns an output port.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the node has no output port with this number.
        """
        self._check_index(index, len(self.output_tensors), "output")
        return OutPort(self, index)

    def in_ports(self) -> dict[int, InPort]:
        """Returns a dictionary of all input ports by number, including ports that are not connected."""
        return {index: InPort(self, index) for index in range(self._count_in_ports())}

    def out_ports(self) -> dict[int, OutPort]:
        """Returns a dictionary of all output ports by number."""
        return {index: OutPort(self, index) for index in range(len(self.output_tensors))}

    def is_in_port_connected(self, index: int) -> bool:
        """Returns whether the input port exists and reads a tensor."""
        return 0 <= index < len(self.input_tensors) and self.input_tensors[index] is not None

    def is_out_port_connected(self, index: int) -> bool:
        """Returns whether the output port exists and has a reader."""
        return 0 <= index < len(self.output_tensors) and self.out_port(index).is_read

    def add_input_port(
        self, source: OutPort | int | None = None, skip_if_exist: bool = False
    ) -> InPort:
        """Adds an input port after the other input ports.

        Args:
          source: Output port that the new input port reads; by default, the new port is unconnected. If `source`
            is a number, the new port gets this number, and missing ports with lower numbers are added, too.
          skip_if_exist: Whether to return an existing port that has the given number. If False, an existing port
            with this number is an error.
        """
        op = self._check_op()
        if source is not None and not isinstance(source, int):
            port = InPort(self, len(op.inputs))
            port.check_source(source, is_new=True)
            self.graph.add_input(self, source.tensor)
            return port
        index = len(op.inputs) if source is None else source
        if not self._is_there(index, len(op.inputs), "input", skip_if_exist):
            for _ in range(len(op.inputs), index + 1):
                self.graph.add_input(self, None)
        return InPort(self, index)

    def add_output_port(
        self,
        element_type: ElementType | int = ElementType.NONE,
        name: str = "",
        quantization: Quantization | None = None,
        skip_if_exist: bool = False,
    ) -> OutPort:
        """Adds an output port with a new tensor after the other output ports.

        Args:
          element_type: Element type of the tensor; NONE means that the type is inferred. Instead of a type, you
            can give the number of the new port, which must be the next free number.
          name: Name of the tensor; by default derived from the node's name.
          quantization: Quantization of the tensor.
          skip_if_exist: Whether to return an existing port that has the given number. If False, an existing port
            with this number is an error.
        """
        op = self._check_op()
        check_name(name)
        if not isinstance(element_type, ElementType):
            index, count = element_type, len(op.outputs)
            if self._is_there(index, count, "output", skip_if_exist):
                return OutPort(self, index)
            if index > count:
                raise refused(
                    f"{self} cannot have output port {index} yet",
                    f"Add the ports in order: the next output port has index {count}.",
                )
            element_type = ElementType.NONE
        base = name or (f"{self.name}:{len(op.outputs)}" if op.outputs else self.op)
        op.append_output(self.graph.create_tensor(base, element_type, quantization))
        self.touch()
        return OutPort(self, len(op.outputs) - 1)

    def delete_input_port(self, index: int) -> None:
        """Removes an input port; the numbers of later ports decrease by 1.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the node has no port with this number, or is not an op.
        """
        op = self._check_op()
        self._check_index(index, len(op.inputs), "input")
        self.graph.set_input(self, index, None)
        op.remove_input(index)

    def delete_output_port(self, index: int) -> None:
        """Removes an output port without readers; the numbers of later ports decrease by 1.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the node has no port with this number, if the node is not an op, or if
            the port has readers.
        """
        op = self._check_op()
        port = self.out_port(index)
        if port.is_read:
            raise refused(
                f"{port} cannot be deleted, because {port.get_destinations()[0].node} reads it",
                "First connect the readers to another source.",
            )
        op.remove_output(index)
        self.touch()

    def in_node(self, index: int = 0) -> Node | DataNode:
        """Returns the node that an input port reads.

        After the front phase of the transformations, the method returns a data node instead, which stands for the
        tensor that the port reads.
        """
        source = self.in_port(index).get_source()
        if source is None:
            raise refused(
                f"input {index} of {self} is not connected",
                f"Call node.is_in_port_connected({index}) first.",
            )
        return source.node if self._is_front() else DataNode(source)

    def in_nodes(self) -> dict[int, Node | DataNode]:
        """Returns a dictionary that maps the number `i` of each connected input port to `in_node(i)`."""
        return {i: self.in_node(i) for i, tensor in enumerate(self.input_tensors) if tensor}

    def out_node(self, index: int = 0) -> Node | DataNode:
        """Returns the node that reads an output port, or the port's data node.

        In the front phase, returns the node; the port must have exactly one reader. In later phases, returns the
        data node, which stands for the tensor of the port.
        """
        port = self.out_port(index)
        if not self._is_front():
            return DataNode(port)
        destinations = port.get_destinations()
        if len(destinations) != 1:
            raise several_readers(port)
        return destinations[0].node

    def out_nodes(self) -> dict[int, Node | DataNode]:
        """Returns a dictionary that maps the number `i` of each output port to `out_node(i)`.

        In the front phase, the dictionary contains only output ports with readers.
        """
        ports = [port for port in self.out_ports().values() if port.is_read or not self._is_front()]
        return {port.index: self.out_node(port.index) for port in ports}

    def replace_node(self, new: Node) -> None:
        """Replaces this node by another node; same as `graph.replace_node(self, new)`."""
        self.graph.replace_node(self, new)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED:
            raise refused(
                f"attribute '{name}' of {self} cannot be set",
                "Create another op, and replace this node by the op: node.replace_node(new).",
            )
        if isinstance(getattr(Node, name, None), property | MemberDescriptorType):
            object.__setattr__(self, name, value)
            return
        self.check_alive()
        if self._kind and name in ("shape", "value"):
            data = self._end_data()
            (data.set_shape if name == "shape" else data.set_value)(value)
        elif self._set(name, value):
            self.touch()

    def __delattr__(self, name: str) -> None:
        self.check_alive()
        if self._delete(name):
            self.touch()

    __delitem__ = __delattr__

    def __repr__(self) -> str:
        return f"{self.op} '{self.name}'"

    def _find_of_end(self, name: str) -> Any:
        if name not in ("shape", "value"):  # which the Model Optimizer's have
            return MISSING
        data = self._end_data()
        return shape_array(data) if name == "shape" else data.get_value()

    def _count_in_ports(self) -> int:
        count, definition = len(self.input_tensors), self.op_definition
        return (
            count if definition is None else max(count, definition.attrs.get("in_ports_count", 0))
        )

    def _end_data(self) -> PortData:
        return self.in_port(0).data if self._kind == RESULT else self.out_port(0).data

    def _is_front(self) -> bool:
        return self.graph.stage is Phase.FRONT

    def _check_op(self) -> Op:
        self.check_alive()
        if self.model_op is None:
            raise refused(
                f"this call needs an op, but {self} is not an op",
                "Inputs, outputs, constants and variables are nodes, but not ops.",
            )
        return self.model_op

    def _is_there(self, index: int, count: int, what: str, is_allowed: bool) -> bool:
        """Returns whether a port to add already exists; raises an error if the port must not exist."""
        if isinstance(index, bool) or index < 0:
            raise refused(
                f"{index!r:.100} is not a port number", "Give a whole number, 0 or greater."
            )
        if index < count and not is_allowed:
            raise refused(
                f"{self} already has {what} port {index}",
                "Pass skip_if_exist=True to get the existing port.",
            )
        return index < count

    def _check_index(self, index: int, count: int, what: str) -> None:
        if not (isinstance(index, int) and 0 <= index < count):
            ports = "port" if count == 1 else "ports"
            raise refused(
                f"{self} has no {what} port {index!r:.100}",
                f"The node has {count or 'no'} {what} {ports}. Add a port with add_{what}_port, or set "
                f"{what.removesuffix('put')}_ports_count in the op's class.",
            )


class PortData:
    """The shape and the value of the tensor at a port."""

    __slots__ = ("_port",)

    def __init__(self, port: OutPort) -> None:
        self._port = port

    def get_shape(self) -> tuple[int, ...] | None:
        """Returns the shape, with -1 for dimensions that are known only at run time.

        None means that the shape is not known. In the front phase, only shapes of inputs and constants of the
        model are known. Later, a shape is unknown only if its rank cannot be inferred.
        """
        return self._port.node.graph.find_shape(self._port)

    def set_shape(self, shape: Sequence[int]) -> None:
        """Sets the shape of the tensor.

        An op's function `infer` can set the shapes of the op's outputs. A transformation can set the shapes of the
        model's inputs.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the argument is not a shape, or the port belongs to a constant.
        """
        self._port.node.graph.set_shape(self._port, shape)

    def get_value(self) -> Array | None:
        """Returns the value as a read-only array, if the value depends only on constants.

        Returns None if the value is not known.
        """
        return self._port.node.graph.find_value(self._port)

    def set_value(self, value: Any) -> None:
        """Sets the value of the tensor, and sets the tensor's shape to the shape of the value.

        A transformation can set the values of constants. An op's function `infer` can set the values of the op's
        outputs.

        Args:
          value: Array or number, which the port's element type must be able to represent.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the data are computed at run time, or the element type cannot represent
            the value.
        """
        self._port.node.graph.set_value(self._port, value)

    def __repr__(self) -> str:
        return f"PortData({self._port})"


class _Port:
    """An input port or output port; ports with the same kind, node and number are equal."""

    __slots__ = ("index", "node")

    type: ClassVar[str]  # "in" or "out", as the Model Optimizer's ports have it

    def __init__(self, node: Node, index: int) -> None:
        self.node = node
        self.index = index

    @property
    def idx(self) -> int:
        """The Model Optimizer's name for `index`."""
        return self.index

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, type(self)) and self.node is other.node and self.index == other.index
        )

    def __hash__(self) -> int:
        return hash((id(self.node), self.index))


class OutPort(_Port):
    """An output port of a node, which stands for a tensor."""

    __slots__ = ()
    type = "out"

    @property
    def tensor(self) -> Tensor:
        """The tensor in the model."""
        return self.node.output_tensors[self.index]

    @property
    def data(self) -> PortData:
        return PortData(self)

    @property
    def name(self) -> str:
        """The name of the tensor."""
        return self.tensor.name

    @property
    def is_read(self) -> bool:
        """Whether the port has a reader; this check is faster than `get_destinations`."""
        return self.node.graph.is_read(self.tensor)

    @property
    def is_result(self) -> bool:
        """Whether the readers of the port include a result of the model."""
        return self.node.graph.is_result(self.tensor)

    @property
    def quantization(self) -> Quantization | None:
        """The quantization of the tensor: scales and zero points that map its integers to real numbers."""
        return self.tensor.quantization

    @quantization.setter
    def quantization(self, quantization: Quantization | None) -> None:
        self.node.check_alive()
        self.tensor.quantization = quantization
        self.node.touch()

    def get_data_type(self) -> ElementType:
        """Returns the tensor's element type; if the node was edited, the type is inferred first."""
        return self.node.graph.find_type(self)

    def set_data_type(self, element_type: TypeLike) -> None:
        """Sets the tensor's element type; an op's function `type_infer` calls this method.

        Args:
          element_type: An ElementType, a NumPy type, or the name of a type.
        """
        self.node.graph.set_type(self, as_element_type(element_type))

    def disconnected(self) -> bool:
        """Returns whether the port has no readers."""
        return not self.is_read

    def get_connection(self) -> Connection:
        """Returns the connection between this port and all its readers."""
        return Connection(self, self.get_destinations())

    def get_destinations(self) -> list[InPort]:
        """Returns the input ports that read this port, including the input ports of the model's results."""
        return self.node.graph.find_readers(self.tensor)

    def get_destination(self) -> InPort | None:
        """Returns the only reader; several readers are an error."""
        return self.get_connection().get_destination()

    def connect(self, destination: InPort) -> None:
        """Connects an input port to this port; the input port no longer reads its previous source."""
        self.check_destination(destination)
        destination.connect(self)

    def disconnect(self) -> None:
        """Disconnects all readers."""
        self.get_connection().remove()

    def check_destination(self, destination: InPort) -> None:
        """Raises an error if `destination` is not an input port that can read this port."""
        if not isinstance(destination, InPort):
            raise refused(
                f"the destination must be an input port, but is {destination!r:.100}",
                "Pass an input port, for example node.in_port(0).",
            )
        destination.check_source(self)

    def __repr__(self) -> str:
        return f"output {self.index} of {self.node}"


class InPort(_Port):
    """An input port of a node: one position among the node's inputs, connected or unconnected."""

    __slots__ = ()
    type = "in"

    @property
    def data(self) -> PortData:
        """The data of the output port that this port reads.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the port is not connected.
        """
        source = self.get_source()
        if source is None:
            raise refused(
                f"{self} is not connected", f"Call node.is_in_port_connected({self.index}) first."
            )
        return source.data

    def get_data_type(self) -> ElementType:
        """Returns the element type of the tensor that this port reads.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the port is not connected.
        """
        return self.data._port.get_data_type()

    def get_source(self) -> OutPort | None:
        """Returns the output port that this port reads; None if the port is not connected (an optional input)."""
        tensors = self.node.input_tensors
        tensor = tensors[self.index] if self.index < len(tensors) else None
        return None if tensor is None else self.node.graph.out_port_of(tensor)

    def disconnected(self) -> bool:
        """Returns whether the port is not connected."""
        return self.get_source() is None

    def get_connection(self) -> Connection:
        """Returns the connection between this port and its source, without other readers of the source."""
        return Connection(self.get_source(), [self])

    def connect(self, source: OutPort) -> None:
        """Connects this port to an output port.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if `source` is not an output port, or belongs to another graph, to a
            removed node, or to this node.
        """
        self.check_source(source)
        if self.index >= len(self.node.input_tensors):
            self.node.add_input_port(self.index)
        self.node.graph.set_input(self.node, self.index, source.tensor)

    def disconnect(self) -> None:
        """Disconnects this port from its source.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the port belongs to a result of the model.
        """
        self.check_disconnect()
        if self.get_source() is not None:
            self.node.graph.set_input(self.node, self.index, None)

    def check_source(self, source: OutPort, *, is_new: bool = False) -> None:
        """Raises an error if `source` is not an output port that this port can read."""
        if not isinstance(source, OutPort):
            raise not_an_output(source)
        for node in (self.node, source.node):
            node.check_alive()
        if not is_new:
            self.node.in_port(self.index)  # is there still
        if source.node.graph is not self.node.graph:
            raise refused(
                f"{self} cannot read {source}, which belongs to another subgraph",
                "Pass the value as an input or output of the op that calls the subgraph.",
            )
        if source.node is self.node:
            raise refused(
                f"{self.node} would read its own output {source.index}",
                "To insert a node after another node, use connection.insert_node(node).",
            )

    def check_disconnect(self) -> None:
        """Raises an error if this port belongs to a result of the model, because a result must have a source."""
        self.node.check_alive()
        self.node.in_port(self.index)  # is there still
        if self.node.is_result:
            raise refused(
                f"output '{self.node.name}' of the model cannot be disconnected, because each output of the "
                "model must have a source",
                "To replace the source, connect another output port: in_port.connect(port).",
            )

    def __repr__(self) -> str:
        return f"input {self.index} of {self.node}"


class Connection:
    """A source, which is an output port, and its destinations, the input ports that read this output port.

    The connection of an output port has all readers of the port as destinations. The connection of an input port
    has only this input port as its destination.
    """

    __slots__ = ("_destinations", "_source")

    def __init__(self, source: OutPort | None, destinations: Sequence[InPort]) -> None:
        self._source = source
        self._destinations = list(destinations)

    def get_source(self) -> OutPort | None:
        """Returns the output port that is the source; None if there is no source."""
        return self._source

    def get_destinations(self) -> list[InPort]:
        """Returns the input ports that read the source, including the input ports of the model's results."""
        return list(self._destinations)

    def get_destination(self) -> InPort | None:
        """Returns the only reader; None if there is no reader.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if there are several readers.
        """
        if len(self._destinations) > 1:
            raise refused(
                f"get_destination() needs a single reader, but {self._source} has "
                f"{len(self._destinations)} readers",
                "Use get_destinations().",
            )
        return self._destinations[0] if self._destinations else None

    source = property(get_source)
    destinations = property(get_destinations)
    destination = property(get_destination)

    def set_source(self, source: OutPort) -> None:
        """Connects all destinations to another output port.

        If a destination is a result of the model, the tensor of the new source is renamed to the result's name.
        The tensor is not renamed if no op computes the tensor, as for a constant, or if another result of the
        model also reads the tensor.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if `source` belongs to another graph, or if a node would read its own
            output.
        """
        for destination in self._destinations:
            destination.check_source(source)
        for destination in self._destinations:
            destination.connect(source)
        self._source = source

    def set_destination(self, destination: InPort) -> None:
        """Connects one input port to the source, and disconnects all other destinations.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if one of the other destinations is a result of the model, because a
            result must have a source.
        """
        source = self._known_source()
        source.check_destination(destination)
        others = [port for port in self._destinations if port != destination]
        for port in others:
            port.check_disconnect()
        destination.connect(source)
        for port in others:
            port.disconnect()
        self._destinations = [destination]

    def add_destination(self, destination: InPort) -> None:
        """Connects one more input port to the source."""
        self._known_source().connect(destination)
        if destination not in self._destinations:
            self._destinations.append(destination)

    def insert_node(self, node: Node) -> None:
        """Inserts a node, so that its input 0 reads the source, and the destinations read its output 0.

        If an input port of the node is already a destination, this port still reads the source afterwards.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the node lacks an input port or an output port.
        """
        source = self._known_source()
        in_port, out_port = node.in_port(0), node.out_port(0)
        in_port.check_source(source)
        destinations = [port for port in self._destinations if port.node is not node]
        for destination in destinations:
            destination.check_source(out_port)
        for destination in destinations:
            destination.connect(out_port)
        in_port.connect(source)
        self._source, self._destinations = out_port, destinations

    def remove(self) -> None:
        """Disconnects all destinations.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if a destination is a result of the model, because a result must have a
            source.
        """
        for destination in self._destinations:
            destination.check_disconnect()
        for destination in self._destinations:
            destination.disconnect()
        self._destinations = []

    def __repr__(self) -> str:
        return f"Connection({self._source} -> {', '.join(map(str, self._destinations))})"

    def _known_source(self) -> OutPort:
        if self._source is None:
            raise refused(
                "the connection has no source", "Set the source: connection.set_source(port)."
            )
        return self._source


def not_an_output(value: object) -> LiteRtError:
    """Returns an error for an argument that is not an output port."""
    hints = {
        "InPort": "Use the output port that this input port reads: get_source().",
        "Node": "Use the node's port: node.out_port(0).",
    }
    hint = hints.get(type(value).__name__, "For example, node.out_port(0) is an output port.")
    return refused(f"{value!r:.100} is not an output port", hint)
