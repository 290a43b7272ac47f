"""The optional parts of a dispatch table: runs that do not wait, graphs, and memory of the vendor's own kinds."""

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
    """What kind of module byte code is (LiteRT's `LiteRtDispatchExecutableType`)."""

    UNKNOWN = 0
    DSP_LIBRARY = 1
    ML_MODEL = 2
    JIT_HANDLE = 3
    TFLITE_MODEL = 4


class AsyncInterface(ABC, Generic[InvocationContext]):
    """Starts runs; a call is left alone until the events of its run are signaled.

    A vendor without this part gets `invoke` in a thread of the host's.
    """

    @abstractmethod
    def attach_input_event(
        self, invocation_context: InvocationContext, index: int, event: Event
    ) -> None:
        """The next run reads input `index` only after the event."""

    @abstractmethod
    def invoke_async(self, invocation_context: InvocationContext) -> Sequence[Event]:
        """Starts a run.

        Returns:
          One event for each output: signaled once it is written, or failed. Several may be the same one.
        """


class NodeType(IntEnum):
    """LiteRT's `LiteRtDispatchNodeType`."""

    UNKNOWN = 0
    DSP = 1
    NPU = 2
    CPU = 3


class GraphInterface(ABC, Generic[DeviceContext, Graph]):
    """The part for `Capability.GRAPH`: several executables as one call. Ids are the caller's."""

    @abstractmethod
    def graph_create(self, device_context: DeviceContext) -> Graph:
        """Makes an empty graph."""

    @abstractmethod
    def graph_destroy(self, graph: Graph) -> None:
        """Releases a graph."""

    @abstractmethod
    def add_node(self, graph: Graph, node_id: int, node_type: NodeType) -> None:
        """Adds a node, which runs one function."""

    @abstractmethod
    def add_edge(self, graph: Graph, edge_id: int) -> None:
        """Adds an edge, which is one tensor."""

    @abstractmethod
    def connect_node_input(
        self, graph: Graph, node_id: int, input_index: int, edge_id: int
    ) -> None:
        """The node reads the edge."""

    @abstractmethod
    def connect_node_output(
        self, graph: Graph, node_id: int, output_index: int, edge_id: int
    ) -> None:
        """The node writes the edge."""

    @abstractmethod
    def connect_graph_input(self, graph: Graph, input_index: int, edge_id: int) -> None:
        """The edge is the graph's input."""

    @abstractmethod
    def connect_graph_output(self, graph: Graph, output_index: int, edge_id: int) -> None:
        """The edge is the graph's output."""

    @abstractmethod
    def load_executable(
        self, device_context: DeviceContext, executable_type: ExecutableType, byte_code: MemBuffer
    ) -> int:
        """Loads a module; returns its id."""

    @abstractmethod
    def unload_executable(self, device_context: DeviceContext, executable_id: int) -> None:
        """Releases a module; no graph has it."""

    @abstractmethod
    def assign_node_function(
        self, graph: Graph, node_id: int, executable_id: int, function_name: str
    ) -> None:
        """Says which function of which module a node runs; "" where the module has one."""

    @abstractmethod
    def annotate_graph(self, graph: Graph, key: str, value: str) -> None:
        """Notes something for the vendor."""

    @abstractmethod
    def annotate_node(self, graph: Graph, node_id: int, key: str, value: str) -> None:
        """Notes something about a node."""

    @abstractmethod
    def annotate_edge(self, graph: Graph, edge_id: int, key: str, value: str) -> None:
        """Notes something about an edge."""

    @abstractmethod
    def invocation_context_create_from_graph(
        self, device_context: DeviceContext, graph: Graph
    ) -> Any:
        """An invocation context that runs the whole graph."""

    @abstractmethod
    def invocation_context_get_graph(self, invocation_context: Any) -> Graph:
        """The graph that a context was made from."""


class LockMode(IntEnum):
    """What the host does with memory that it holds (LiteRT's `LiteRtTensorBufferLockMode`)."""

    READ = 0
    WRITE = 1
    READ_WRITE = 2


class BufferHandlers(ABC, Generic[Memory]):
    """Makes memory that the device can use, and shows it to the host (`LiteRtCustomTensorBufferHandlersDef`).

    For vendors whose requirements have no host memory. Host and device have it in turn: the host from `lock` to
    `unlock`, the device else. Where `lock` gives the same address each time, the CPU's kernels and the application
    work in that memory; elsewhere the host copies to and from it.

    Attributes:
      supported_types: the types of memory that `create` makes; numbers from 100 to 199 are for vendors to choose.
    """

    supported_types: Sequence[int]

    @abstractmethod
    def create(self, tensor_type: RankedTensorType, buffer_type: int, size: int) -> Memory:
        """Makes memory for a tensor.

        Args:
          tensor_type: of what it will hold.
          buffer_type: one of `supported_types`.
          size: in bytes; at least the tensor's.

        Returns:
          Whatever stands for it, but None.
        """

    @abstractmethod
    def destroy(self, memory: Memory) -> None:
        """Releases memory, which nobody has locked or registered; maybe after the device context is gone."""

    @abstractmethod
    def lock(self, memory: Memory, mode: LockMode) -> int:
        """Gives it to the host.

        Returns:
          Its address in this process, valid until `unlock`.
        """

    @abstractmethod
    def unlock(self, memory: Memory) -> None:
        """Gives it back to the device."""
