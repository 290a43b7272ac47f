"""The optional parts of a dispatch table: asynchronous runs, graphs, and the vendor's own types of memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Generic, TypeVar

from dispatch.event import Event
from dispatch.mem_buffer import MemBuffer
from litert.core.tensor_type import RankedTensorType

DeviceContext = TypeVar("DeviceContext")
InvocationContext = TypeVar("InvocationContext")
Graph = TypeVar("Graph")
Memory = TypeVar("Memory")


class ExecutableType(IntEnum):
    """The kind of a byte code module (LiteRT's `LiteRtDispatchExecutableType`)."""

    UNKNOWN = 0
    DSP_LIBRARY = 1
    ML_MODEL = 2
    JIT_HANDLE = 3
    TFLITE_MODEL = 4


class AsyncInterface(ABC, Generic[InvocationContext]):
    """The part for asynchronous runs; the host does not use a call until the events of its run are signaled.

    If a vendor has no asynchronous part, the host calls `invoke` in a thread of its own.
    """

    @abstractmethod
    def attach_input_event(
        self, invocation_context: InvocationContext, index: int, event: Event
    ) -> None:
        """Makes the next run wait for the event before it reads input `index`."""

    @abstractmethod
    def invoke_async(self, invocation_context: InvocationContext) -> Sequence[Event]:
        """Starts a run without waiting for its end.

        Returns:
          One event for each output, which the vendor signals when the output is written, or marks as failed.
          Several outputs may have the same event.
        """


class NodeType(IntEnum):
    """LiteRT's `LiteRtDispatchNodeType`."""

    UNKNOWN = 0
    DSP = 1
    NPU = 2
    CPU = 3


class GraphInterface(ABC, Generic[DeviceContext, Graph]):
    """The part for `Capability.GRAPH`: runs several executables as one call; the caller chooses all ids."""

    @abstractmethod
    def graph_create(self, device_context: DeviceContext) -> Graph:
        """Creates an empty graph."""

    @abstractmethod
    def graph_destroy(self, graph: Graph) -> None:
        """Releases a graph."""

    @abstractmethod
    def add_node(self, graph: Graph, node_id: int, node_type: NodeType) -> None:
        """Adds a node to the graph; a node runs one function."""

    @abstractmethod
    def add_edge(self, graph: Graph, edge_id: int) -> None:
        """Adds an edge to the graph; an edge is one tensor."""

    @abstractmethod
    def connect_node_input(
        self, graph: Graph, node_id: int, input_index: int, edge_id: int
    ) -> None:
        """Makes an input of a node read an edge."""

    @abstractmethod
    def connect_node_output(
        self, graph: Graph, node_id: int, output_index: int, edge_id: int
    ) -> None:
        """Makes an output of a node write an edge."""

    @abstractmethod
    def connect_graph_input(self, graph: Graph, input_index: int, edge_id: int) -> None:
        """Makes an edge an input of the graph."""

    @abstractmethod
    def connect_graph_output(self, graph: Graph, output_index: int, edge_id: int) -> None:
        """Makes an edge an output of the graph."""

    @abstractmethod
    def load_executable(
        self, device_context: DeviceContext, executable_type: ExecutableType, byte_code: MemBuffer
    ) -> int:
        """Loads a byte code module and returns the id of the executable."""

    @abstractmethod
    def unload_executable(self, device_context: DeviceContext, executable_id: int) -> None:
        """Releases an executable that no graph uses."""

    @abstractmethod
    def assign_node_function(
        self, graph: Graph, node_id: int, executable_id: int, function_name: str
    ) -> None:
        """Sets the executable and the function that a node runs; "" if the executable has only one function."""

    @abstractmethod
    def annotate_graph(self, graph: Graph, key: str, value: str) -> None:
        """Adds a note about the graph for the vendor, as a key and a value."""

    @abstractmethod
    def annotate_node(self, graph: Graph, node_id: int, key: str, value: str) -> None:
        """Adds a note about a node for the vendor, as a key and a value."""

    @abstractmethod
    def annotate_edge(self, graph: Graph, edge_id: int, key: str, value: str) -> None:
        """Adds a note about an edge for the vendor, as a key and a value."""

    @abstractmethod
    def invocation_context_create_from_graph(
        self, device_context: DeviceContext, graph: Graph
    ) -> Any:
        """Creates an invocation context that runs the whole graph."""

    @abstractmethod
    def invocation_context_get_graph(self, invocation_context: Any) -> Graph:
        """Returns the graph that an invocation context was created from."""


class LockMode(IntEnum):
    """The host's use of locked memory: reading, writing or both (LiteRT's `LiteRtTensorBufferLockMode`)."""

    READ = 0
    WRITE = 1
    READ_WRITE = 2


class BufferHandlers(ABC, Generic[Memory]):
    """Creates memory that the device can use, and maps it for the host (`LiteRtCustomTensorBufferHandlersDef`).

    Vendors need this part if their buffer requirements exclude host memory. Host and device use the memory in
    turn: the host from `lock` to `unlock`, the device at other times. If `lock` returns the same address each
    time, CPU kernels and the application use the memory directly. Otherwise, the host copies the data to and from
    the memory.

    Attributes:
      supported_types: Types of memory that `create` can make; vendors may choose numbers from 100 to 199.
    """

    supported_types: Sequence[int]

    @abstractmethod
    def create(self, tensor_type: RankedTensorType, buffer_type: int, size: int) -> Memory:
        """Creates memory for a tensor.

        Args:
          tensor_type: Type of the tensor that the memory will hold.
          buffer_type: Type of the memory, one of `supported_types`.
          size: Size of the memory in bytes; at least the size of the tensor.

        Returns:
          Any object that identifies the memory, except None.
        """

    @abstractmethod
    def destroy(self, memory: Memory) -> None:
        """Releases memory that is neither locked nor registered; the device context may be gone already."""

    @abstractmethod
    def lock(self, memory: Memory, mode: LockMode) -> int:
        """Gives the memory to the host.

        Returns:
          Address of the memory in this process, valid until `unlock`.
        """

    @abstractmethod
    def unlock(self, memory: Memory) -> None:
        """Gives the memory back to the device."""
