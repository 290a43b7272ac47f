"""Ports of nodes, and connections between them.

Ports are where data go in and out, numbered from 0 for inputs and outputs apart. An output port stands for one
tensor, an input port for one place among an op's inputs. Ports are values: two of the same node and number are
equal. The data of a port are those of its tensor: shape, value, element type. A connection is an output port with
all input ports that read it, or an input port that reads nothing yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from compiler_plugin.transformations.op_request import refused
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.quantization import Quantization
from litert.model.graph import Tensor
from litert.model.tensor_data import Array, TypeLike, as_element_type

if TYPE_CHECKING:
    from compiler_plugin.transformations.node import Node


class PortData:
    """Shape and value of what goes through a port."""

    __slots__ = ("_port",)

    def __init__(self, port: OutPort) -> None:
        self._port = port

    def get_shape(self) -> tuple[int, ...] | None:
        """The shape, with -1 for dimensions that only a run tells.

        None where it is not known: in the front phase for all but inputs and constants of the model, later where
        the rank cannot be inferred.
        """
        return self._port.node.graph.find_shape(self._port)

    def set_shape(self, shape: Sequence[int]) -> None:
        """Sets the shape; an op's `infer` does it for its outputs, and others for inputs of the model.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for what is no shape, or a constant's.
        """
        self._port.node.graph.set_shape(self._port, shape)

    def get_value(self) -> Array | None:
        """The value, where it depends on constants alone; read-only. None where it is not known."""
        return self._port.node.graph.find_value(self._port)

    def set_value(self, value: Any) -> None:
        """Sets a constant's data, or, within an op's `infer`, what its output is; the shape follows.

        Args:
          value: an array or number; of the port's element type already, or one that this can hold.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for what gets its value in a run, or a value that the type cannot hold.
        """
        self._port.node.graph.set_value(self._port, value)

    def __repr__(self) -> str:
        return f"PortData({self._port})"


class _Port:
    """A place where data go in or out; two of the same kind, node and number are equal."""

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
    """An output port of a node: a tensor."""

    __slots__ = ()
    type = "out"

    @property
    def tensor(self) -> Tensor:
        """The model's tensor."""
        return self.node.output_tensors[self.index]

    @property
    def data(self) -> PortData:
        return PortData(self)

    @property
    def name(self) -> str:
        """The tensor's name."""
        return self.tensor.name

    @property
    def is_read(self) -> bool:
        """Whether anything reads it; quicker than a list of all that does."""
        return self.node.graph.is_read(self.tensor)

    @property
    def is_result(self) -> bool:
        """Whether a result of the model is among what reads it."""
        return self.node.graph.is_result(self.tensor)

    @property
    def quantization(self) -> Quantization | None:
        """How the tensor's integers stand for real numbers."""
        return self.tensor.quantization

    @quantization.setter
    def quantization(self, quantization: Quantization | None) -> None:
        self.node.check_alive()
        self.tensor.quantization = quantization
        self.node.touch()

    def get_data_type(self) -> ElementType:
        """The tensor's element type, inferred where an edit has touched it."""
        return self.node.graph.find_type(self)

    def set_data_type(self, element_type: TypeLike) -> None:
        """Sets the tensor's element type, or what NumPy or a name say of one; an op's `type_infer` does it."""
        self.node.graph.set_type(self, as_element_type(element_type))

    def disconnected(self) -> bool:
        """Whether nothing reads it."""
        return not self.is_read

    def get_connection(self) -> Connection:
        """This port, with all that read it."""
        return Connection(self, self.get_destinations())

    def get_destinations(self) -> list[InPort]:
        """The input ports that read it, results of the model too."""
        return self.node.graph.find_readers(self.tensor)

    def get_destination(self) -> InPort | None:
        """The only reader; an error where there are several."""
        return self.get_connection().get_destination()

    def connect(self, destination: InPort) -> None:
        """Lets an input port read this one; what it read before is disconnected."""
        self.check_destination(destination)
        destination.connect(self)

    def disconnect(self) -> None:
        """Takes all readers away."""
        self.get_connection().remove()

    def check_destination(self, destination: InPort) -> None:
        """Refuses what is no input port, or cannot read this one."""
        if not isinstance(destination, InPort):
            raise refused(f"{destination!r:.100} is no input port", "node.in_port(0) is one.")
        destination.check_source(self)

    def __repr__(self) -> str:
        return f"output {self.index} of {self.node}"


class InPort(_Port):
    """An input port of a node: a place among its inputs, connected or not."""

    __slots__ = ()
    type = "in"

    @property
    def data(self) -> PortData:
        """The data of the port that is read.

        Raises:
          LiteRtError: INVALID_ARGUMENT, where nothing is connected.
        """
        source = self.get_source()
        if source is None:
            raise refused(f"{self} is not connected", "Ask is_in_port_connected() first.")
        return source.data

    def get_data_type(self) -> ElementType:
        """The element type of what is read.

        Raises:
          LiteRtError: INVALID_ARGUMENT, where nothing is connected.
        """
        return self.data._port.get_data_type()

    def get_source(self) -> OutPort | None:
        """The output port that is read; None where the port is not connected (an optional input left out)."""
        tensors = self.node.input_tensors
        tensor = tensors[self.index] if self.index < len(tensors) else None
        return None if tensor is None else self.node.graph.out_port_of(tensor)

    def disconnected(self) -> bool:
        """Whether it reads nothing."""
        return self.get_source() is None

    def get_connection(self) -> Connection:
        """What this port reads, with this port as the only destination."""
        return Connection(self.get_source(), [self])

    def connect(self, source: OutPort) -> None:
        """Reads an output port from now on.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if `source` is not an output port, or belongs to another graph, to a
            removed node, or to this node.
        """
        self.check_source(source)
        if self.index >= len(self.node.input_tensors):
            self.node.add_input_port(self.index)
        self.node.graph.set_input(self.node, self.index, source.tensor)

    def disconnect(self) -> None:
        """Reads nothing from now on.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for a result of the model.
        """
        self.check_disconnect()
        if self.get_source() is not None:
            self.node.graph.set_input(self.node, self.index, None)

    def check_source(self, source: OutPort, *, is_new: bool = False) -> None:
        """Refuses what is no output port, or one of another graph, of a removed node or of the node itself."""
        if not isinstance(source, OutPort):
            raise not_an_output(source)
        for node in (self.node, source.node):
            node.check_alive()
        if not is_new:
            self.node.in_port(self.index)  # is there still
        if source.node.graph is not self.node.graph:
            raise refused(
                f"{self} cannot read {source}, which is of another subgraph",
                "Pass values between subgraphs as inputs and outputs of a call.",
            )
        if source.node is self.node:
            raise refused(
                f"{self.node} would read its own output {source.index}",
                "To put a node behind another use connection.insert_node(node).",
            )

    def check_disconnect(self) -> None:
        """Refuses to leave a result of the model without data."""
        self.node.check_alive()
        self.node.in_port(self.index)  # is there still
        if self.node.is_result:
            raise refused(
                f"result '{self.node.name}' of the model cannot be without a source",
                "Connect it to another port; that replaces the source.",
            )

    def __repr__(self) -> str:
        return f"input {self.index} of {self.node}"


class Connection:
    """Where data come from, and who reads them.

    A connection of an output port has all of its readers; one of an input port has that port alone.
    """

    __slots__ = ("_destinations", "_source")

    def __init__(self, source: OutPort | None, destinations: Sequence[InPort]) -> None:
        self._source = source
        self._destinations = list(destinations)

    def get_source(self) -> OutPort | None:
        """The output port that is read; None where there is none."""
        return self._source

    def get_destinations(self) -> list[InPort]:
        """The input ports that read it, results of the model too."""
        return list(self._destinations)

    def get_destination(self) -> InPort | None:
        """The only reader; None where there is none.

        Raises:
          LiteRtError: INVALID_ARGUMENT, where there are several.
        """
        if len(self._destinations) > 1:
            raise refused(
                f"{self._source} has {len(self._destinations)} readers", "Use get_destinations()."
            )
        return self._destinations[0] if self._destinations else None

    source = property(get_source)
    destinations = property(get_destinations)
    destination = property(get_destination)

    def set_source(self, source: OutPort) -> None:
        """Lets all destinations read another output port.

        Where a destination is a result of the model, its name goes to the new source's tensor if that has no
        public name of its own.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for a port of another graph, or of a node that would read itself.
        """
        for destination in self._destinations:
            destination.check_source(source)
        for destination in self._destinations:
            destination.connect(source)
        self._source = source

    def set_destination(self, destination: InPort) -> None:
        """Lets one input port read the source, and nobody else.

        Raises:
          LiteRtError: INVALID_ARGUMENT, where a result of the model would be left without data.
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
        """Lets one more input port read the source."""
        self._known_source().connect(destination)
        if destination not in self._destinations:
            self._destinations.append(destination)

    def insert_node(self, node: Node) -> None:
        """Puts a node between the source and its destinations: its input 0, and its output 0.

        Where the node reads the source already, that stays as it is.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for a node without input or output port.
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
          LiteRtError: INVALID_ARGUMENT, where a result of the model would be left without data.
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
            raise refused("a connection without a source", "Set its source.")
        return self._source


def not_an_output(value: object) -> LiteRtError:
    """An error for what stands where an output port should."""
    hints = {
        "InPort": "Take what it reads: get_source().",
        "Node": "Take its port: node.out_port(0).",
    }
    hint = hints.get(type(value).__name__, "node.out_port(0) is one.")
    return refused(f"{value!r:.100} is no output port", hint)
