"""The graph part of a dispatch library."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dispatch.api import ExecutableType, GraphInterface, MemBuffer, NodeType
from dispatch.native.answers import check_answer
from dispatch.native.contexts import NativeCall, NativeDevice
from litert.abi.definitions import ffi
from litert.abi.handles import address_of
from litert.core.errors import LiteRtError
from litert.core.status import Status


@dataclass(slots=True, eq=False)
class NativeGraph:
    """A graph.

    Attributes:
      handle: cffi's `LiteRtDispatchGraph`.
      inputs, outputs: indices that are connected.
    """

    handle: Any
    inputs: set[int] = field(default_factory=set)
    outputs: set[int] = field(default_factory=set)


class NativeGraphInterface(GraphInterface[NativeDevice, NativeGraph]):
    """Graphs of a library; executables are its numbers."""

    def __init__(self, functions: Any) -> None:
        """Takes cffi's `LiteRtDispatchGraphInterface*`."""
        self._functions = functions
        self._graphs: dict[int, NativeGraph] = {}  # by address

    def graph_create(self, device_context: NativeDevice) -> NativeGraph:
        made = ffi.new("LiteRtDispatchGraph*")
        check_answer(self._functions.graph_create(device_context.handle, made))
        if not made[0]:
            raise LiteRtError(Status.RUNTIME_FAILURE, "the graph is NULL")
        graph = self._graphs[address_of(made[0])] = NativeGraph(made[0])
        return graph

    def graph_destroy(self, graph: NativeGraph) -> None:
        self._graphs.pop(address_of(graph.handle), None)
        check_answer(self._functions.graph_destroy(graph.handle))

    def add_node(self, graph: NativeGraph, node_id: int, node_type: NodeType) -> None:
        check_answer(self._functions.add_node(graph.handle, node_id, int(node_type)))

    def add_edge(self, graph: NativeGraph, edge_id: int) -> None:
        check_answer(self._functions.add_edge(graph.handle, edge_id))

    def connect_node_input(
        self, graph: NativeGraph, node_id: int, input_index: int, edge_id: int
    ) -> None:
        check_answer(
            self._functions.connect_node_input(graph.handle, node_id, input_index, edge_id)
        )

    def connect_node_output(
        self, graph: NativeGraph, node_id: int, output_index: int, edge_id: int
    ) -> None:
        check_answer(
            self._functions.connect_node_output(graph.handle, node_id, output_index, edge_id)
        )

    def connect_graph_input(self, graph: NativeGraph, input_index: int, edge_id: int) -> None:
        check_answer(self._functions.connect_graph_input(graph.handle, input_index, edge_id))
        graph.inputs.add(input_index)

    def connect_graph_output(self, graph: NativeGraph, output_index: int, edge_id: int) -> None:
        check_answer(self._functions.connect_graph_output(graph.handle, output_index, edge_id))
        graph.outputs.add(output_index)

    def load_executable(
        self, device_context: NativeDevice, executable_type: ExecutableType, byte_code: MemBuffer
    ) -> int:
        executable = ffi.new("LiteRtDispatchExecutableHandle*")
        check_answer(
            self._functions.load_executable(
                device_context.handle,
                int(executable_type),
                device_context.keep(byte_code),
                executable,
            )
        )
        return int(executable[0])

    def unload_executable(self, device_context: NativeDevice, executable_id: int) -> None:
        check_answer(self._functions.unload_executable(device_context.handle, executable_id))

    def assign_node_function(
        self, graph: NativeGraph, node_id: int, executable_id: int, function_name: str
    ) -> None:
        name = function_name.encode()
        check_answer(
            self._functions.assign_node_function(graph.handle, node_id, executable_id, name)
        )

    def annotate_graph(self, graph: NativeGraph, key: str, value: str) -> None:
        check_answer(self._functions.annotate_graph(graph.handle, key.encode(), value.encode()))

    def annotate_node(self, graph: NativeGraph, node_id: int, key: str, value: str) -> None:
        check_answer(
            self._functions.annotate_node(graph.handle, node_id, key.encode(), value.encode())
        )

    def annotate_edge(self, graph: NativeGraph, edge_id: int, key: str, value: str) -> None:
        check_answer(
            self._functions.annotate_edge(graph.handle, edge_id, key.encode(), value.encode())
        )

    def invocation_context_create_from_graph(
        self, device_context: NativeDevice, graph: NativeGraph
    ) -> NativeCall:
        context = ffi.new("LiteRtDispatchInvocationContext*")
        check_answer(
            self._functions.invocation_context_create_from_graph(
                device_context.handle, graph.handle, context
            )
        )
        if not context[0]:
            raise LiteRtError(Status.RUNTIME_FAILURE, "the invocation context is NULL")
        return NativeCall(context[0], device_context, len(graph.inputs), len(graph.outputs))

    def invocation_context_get_graph(self, invocation_context: NativeCall) -> NativeGraph:
        found = ffi.new("LiteRtDispatchGraph*")
        check_answer(self._functions.invocation_context_get_graph(invocation_context.handle, found))
        graph = self._graphs.get(address_of(found[0]))
        if graph is None:
            raise LiteRtError(Status.RUNTIME_FAILURE, f"{found[0]} is no graph that it has made")
        return graph
