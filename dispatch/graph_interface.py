"""The part of the dispatch table for `Capability.GRAPH`: several executables as one call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import IntEnum
from typing import Any, Generic, TypeVar

from dispatch.executable_type import ExecutableType
from dispatch.mem_buffer import MemBuffer

DeviceContext = TypeVar("DeviceContext")
Graph = TypeVar("Graph")


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
