"""Ports of nodes: where data go in and out, numbered from 0 for inputs and outputs apart.

An output port stands for one tensor, an input port for one place among an op's inputs. Ports are values: two of
the same node and number are equal. The data of a port are those of its tensor: shape, value, element type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from compiler_plugin.transformations.connection import Connection
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.quantization import Quantization
from litert.core.status import Status
from litert.model.graph import Tensor
from litert.model.tensor_data import as_element_type

if TYPE_CHECKING:
    import numpy as np

    from compiler_plugin.transformations.node import Node
    from litert.model.tensor_data import TypeLike


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
        return self._port.node.graph.data.find_shape(self._port)

    def set_shape(self, shape: Sequence[int]) -> None:
        """Sets the shape; an op's `infer` does it for its outputs, and others for inputs of the model.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for what is no shape, or a constant's.
        """
        self._port.node.graph.data.set_shape(self._port, shape)

    def get_value(self) -> np.ndarray[Any, Any] | None:
        """The value, where it depends on constants alone; read-only. None where it is not known."""
        return self._port.node.graph.data.find_value(self._port)

    def set_value(self, value: Any) -> None:
        """Sets a constant's data, or, within an op's `infer`, what its output is; the shape follows.

        Args:
          value: an array or number; of the port's element type already, or one that this can hold.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for what gets its value in a run, or a value that the type cannot hold.
        """
        self._port.node.graph.data.set_value(self._port, value)

    def __repr__(self) -> str:
        return f"PortData({self._port})"


class OutPort:
    """An output port of a node: a tensor."""

    __slots__ = ("index", "node")

    def __init__(self, node: Node, index: int) -> None:
        self.node = node
        self.index = index

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
        return bool(self.node.graph.outputs.find(self.tensor))

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
        return self.node.graph.data.find_type(self)

    def set_data_type(self, element_type: TypeLike) -> None:
        """Sets the tensor's element type, or what NumPy or a name say of one; an op's `type_infer` does it."""
        self.node.graph.data.set_type(self, as_element_type(element_type))

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
        """Refuses what cannot read this port.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for what is no input port, or as for `InPort.check_source`.
        """
        if not isinstance(destination, InPort):
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"{destination!r:.100} is no input port",
                hint="node.in_port(0) is one.",
            )
        destination.check_source(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutPort) and self.node is other.node and self.index == other.index

    def __hash__(self) -> int:
        return hash((id(self.node), self.index))

    def __repr__(self) -> str:
        return f"output {self.index} of {self.node}"


class InPort:
    """An input port of a node: a place among its inputs, connected or not."""

    __slots__ = ("index", "node")

    def __init__(self, node: Node, index: int) -> None:
        self.node = node
        self.index = index

    @property
    def data(self) -> PortData:
        """The data of the port that is read.

        Raises:
          LiteRtError: INVALID_ARGUMENT, where nothing is connected.
        """
        source = self.get_source()
        if source is None:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"{self} is not connected",
                hint="Ask is_in_port_connected() first.",
            )
        return source.data

    def get_data_type(self) -> ElementType:
        """The element type of what is read.

        Raises:
          LiteRtError: INVALID_ARGUMENT, where nothing is connected.
        """
        return self.data._port.get_data_type()

    def get_source(self) -> OutPort | None:
        """The output port that is read; None where the port is not connected (an optional input left out)."""
        tensor = self.node.input_tensors[self.index]
        return None if tensor is None else self.node.graph.out_port_of(tensor)

    def get_connection(self) -> Connection:
        """What this port reads, with this port as the only destination."""
        return Connection(self.get_source(), [self])

    def connect(self, source: OutPort) -> None:
        """Reads an output port from now on.

        Raises:
          LiteRtError: INVALID_ARGUMENT, as for `check_source`.
        """
        self.check_source(source)
        self.node.set_input(self.index, source.tensor)

    def disconnect(self) -> None:
        """Reads nothing from now on.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for a result of the model.
        """
        self.check_disconnect()
        self.node.set_input(self.index, None)

    def check_source(self, source: OutPort, *, is_new: bool = False) -> None:
        """Refuses what this port cannot read.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for what is no output port, or one of another graph, of a node that was
            removed, or of the node itself.
        """
        if not isinstance(source, OutPort):
            raise not_an_output(source)
        for node in (self.node, source.node):
            node.check_alive()
        if not is_new:
            self.node.in_port(self.index)  # is there still
        if source.node.graph is not self.node.graph:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"{self} cannot read {source}, which is of another subgraph",
                hint="Pass values between subgraphs as inputs and outputs of a call.",
            )
        if source.node is self.node:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"{self.node} would read its own output {source.index}",
                hint="To put a node behind another use connection.insert_node(node).",
            )

    def check_disconnect(self) -> None:
        """Refuses to leave a result of the model without data."""
        self.node.check_alive()
        self.node.in_port(self.index)  # is there still
        if self.node.is_result:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"result '{self.node.name}' of the model cannot be without a source",
                hint="Connect it to another port; that replaces the source.",
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InPort) and self.node is other.node and self.index == other.index

    def __hash__(self) -> int:
        return hash((id(self.node), ~self.index))

    def __repr__(self) -> str:
        return f"input {self.index} of {self.node}"


def not_an_output(value: object) -> LiteRtError:
    """An error for what stands where an output port should."""
    hints = {
        "InPort": "Take what it reads: get_source().",
        "Node": "Take its port: node.out_port(0).",
    }
    hint = hints.get(type(value).__name__, "node.out_port(0) is one.")
    return LiteRtError(Status.INVALID_ARGUMENT, f"{value!r:.100} is no output port", hint=hint)
