"""The optional parts of a dispatch table: asynchronous runs, graphs, and device memory."""

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
    """Functions for asynchronous runs; the host waits for all events of a run before it uses the NPU call again.

    If a vendor does not provide these functions, the host calls `invoke` in a separate thread for asynchronous
    runs.
    """

    @abstractmethod
    def attach_input_event(
        self, invocation_context: InvocationContext, index: int, event: Event
    ) -> None:
        """Makes the next run wait for an event before the run reads input `index`."""

    @abstractmethod
    def invoke_async(self, invocation_context: InvocationContext) -> Sequence[Event]:
        """Starts a run without waiting for its end.

        Returns:
          One event for each output. When the output is written, the vendor signals the event. If the run fails,
          the vendor marks the event as failed. Several outputs may share one event.
        """


class NodeType(IntEnum):
    """The hardware that runs a node of a graph (LiteRT's `LiteRtDispatchNodeType`)."""

    UNKNOWN = 0
    DSP = 1
    NPU = 2
    CPU = 3


class GraphInterface(ABC, Generic[DeviceContext, Graph]):
    """Functions for graphs; a graph runs several executables (loaded byte code modules) as one NPU call.

    The caller chooses the ids of nodes and edges; the vendor chooses the ids of executables.
    """

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
        """Connects an edge to an input of a node, so that the node reads the edge's tensor."""

    @abstractmethod
    def connect_node_output(
        self, graph: Graph, node_id: int, output_index: int, edge_id: int
    ) -> None:
        """Connects an edge to an output of a node, so that the node writes the edge's tensor."""

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
        """Loads a byte code module as an executable, and returns the executable's id."""

    @abstractmethod
    def unload_executable(self, device_context: DeviceContext, executable_id: int) -> None:
        """Releases an executable; when the host calls this function, no node uses the executable any more."""

    @abstractmethod
    def assign_node_function(
        self, graph: Graph, node_id: int, executable_id: int, function_name: str
    ) -> None:
        """Sets a node's executable and function; `function_name` is "" if the executable has only one function."""

    @abstractmethod
    def annotate_graph(self, graph: Graph, key: str, value: str) -> None:
        """Annotates a graph with a key and a value, whose meaning the vendor defines."""

    @abstractmethod
    def annotate_node(self, graph: Graph, node_id: int, key: str, value: str) -> None:
        """Annotates a node with a key and a value, whose meaning the vendor defines."""

    @abstractmethod
    def annotate_edge(self, graph: Graph, edge_id: int, key: str, value: str) -> None:
        """Annotates an edge with a key and a value, whose meaning the vendor defines."""

    @abstractmethod
    def invocation_context_create_from_graph(
        self, device_context: DeviceContext, graph: Graph
    ) -> Any:
        """Creates an invocation context that runs the whole graph."""

    @abstractmethod
    def invocation_context_get_graph(self, invocation_context: Any) -> Graph:
        """Returns the graph from which an invocation context was created."""


class LockMode(IntEnum):
    """The host's use of locked memory: reading, writing, or both (LiteRT's `LiteRtTensorBufferLockMode`)."""

    READ = 0
    WRITE = 1
    READ_WRITE = 2


class BufferHandlers(ABC, Generic[Memory]):
    """Allocates device memory, and maps it for the host, like `LiteRtCustomTensorBufferHandlersDef` in C.

    Vendors need buffer handlers if their buffer requirements exclude host memory. The host accesses the memory
    only between `lock` and `unlock`; during this time, the device does not access the memory. If `lock` returns
    the same address each time, CPU kernels and the application use the memory directly. Otherwise, the host copies
    the data to and from the memory.

    Attributes:
      supported_types: Numbers of the memory types that `create` can allocate; vendors may choose numbers from 100
        to 199.
    """

    supported_types: Sequence[int]

    @abstractmethod
    def create(self, tensor_type: RankedTensorType, buffer_type: int, size: int) -> Memory:
        """Allocates memory for a tensor.

        Args:
          tensor_type: Type of the tensor that will be stored in the memory.
          buffer_type: Type of the memory, one of `supported_types`.
          size: Size of the memory in bytes; at least the size of the tensor.

        Returns:
          An object that identifies the memory; any object except None.
        """

    @abstractmethod
    def destroy(self, memory: Memory) -> None:
        """Frees memory that is neither locked nor registered; the device context may already be destroyed."""

    @abstractmethod
    def lock(self, memory: Memory, mode: LockMode) -> int:
        """Gives the host access to the memory.

        Returns:
          Address of the memory in this process, valid until `unlock`.
        """

    @abstractmethod
    def unlock(self, memory: Memory) -> None:
        """Ends the host's access to the memory, so that the device can use it."""
