"""Implements `LiteRtDispatchGraphInterface` by calls of a Python dispatch table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dispatch.api import GraphInterface, NodeType
from dispatch.native.exported.functions import Functions
from dispatch.native.exported.host import need, read_text
from dispatch.native.exported.objects import ExportedCall, ExportedDevice
from litert.core.errors import VENDOR_REPAIRS, LiteRtError
from litert.core.status import Status


@dataclass(slots=True, eq=False)
class _Graph:
    """A graph of the vendor, its device, and the indices of its connected inputs and outputs."""

    graph: Any
    device: ExportedDevice
    inputs: set[int] = field(default_factory=set)
    outputs: set[int] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class _Executable:
    """An executable, identified by the vendor's number."""

    number: int


class GraphFunctions:
    """C functions for graphs of several executables; the host chooses the ids of nodes and edges."""

    def __init__(self, functions: Functions, interface: GraphInterface[Any, Any]) -> None:
        self._functions = functions
        self._handles = functions.handles
        self._interface = interface
        for name in ("add_edge", "connect_node_input", "connect_node_output"):
            setattr(self, name, self._on_graph(getattr(interface, name)))
        for name in ("annotate_graph", "annotate_node", "annotate_edge"):
            setattr(self, name, self._annotate(getattr(interface, name)))

    def graph_create(self, device_handle: int, out: Any) -> None:
        device = self._handles.get(device_handle, ExportedDevice)
        need(out)
        out[0] = self._handles.put(_Graph(self._interface.graph_create(device.context), device))

    def graph_destroy(self, handle: int) -> None:
        graph = self._handles.get(handle, _Graph)
        self._handles.drop(handle)
        self._interface.graph_destroy(graph.graph)

    def _on_graph(self, function: Callable[..., None]) -> Callable[..., None]:
        def act(handle: int, *ids: int) -> None:
            function(self._handles.get(handle, _Graph).graph, *ids)

        return act

    def _annotate(self, function: Callable[..., None]) -> Callable[..., None]:
        def act(handle: int, *arguments: Any) -> None:
            *ids, key, value = arguments
            graph = self._handles.get(handle, _Graph).graph
            function(
                graph,
                *ids,
                read_text(key, "the key of an annotation"),
                read_text(value, "the value of an annotation"),
            )

        return act

    def add_node(self, handle: int, node_id: int, node_type: int) -> None:
        graph = self._handles.get(handle, _Graph)
        try:
            kind = NodeType(node_type)
        except ValueError:
            kind = NodeType.UNKNOWN
        self._interface.add_node(graph.graph, node_id, kind)

    def connect_graph_input(self, handle: int, index: int, edge_id: int) -> None:
        graph = self._handles.get(handle, _Graph)
        self._interface.connect_graph_input(graph.graph, index, edge_id)
        graph.inputs.add(index)

    def connect_graph_output(self, handle: int, index: int, edge_id: int) -> None:
        graph = self._handles.get(handle, _Graph)
        self._interface.connect_graph_output(graph.graph, index, edge_id)
        graph.outputs.add(index)

    def load_executable(
        self, device_handle: int, executable_type: int, byte_code: Any, out: Any
    ) -> None:
        device = self._handles.get(device_handle, ExportedDevice)
        need(out)
        kind, module = self._functions.open_module(
            device, executable_type, need(byte_code, "the byte code")
        )
        number = self._interface.load_executable(device.context, kind, module)
        out[0] = self._handles.put(_Executable(number))

    def unload_executable(self, device_handle: int, handle: int) -> None:
        device = self._handles.get(device_handle, ExportedDevice)
        executable = self._handles.get(handle, _Executable)
        self._handles.drop(handle)
        self._interface.unload_executable(device.context, executable.number)

    def assign_node_function(
        self, handle: int, node_id: int, executable_handle: int, name: Any
    ) -> None:
        graph = self._handles.get(handle, _Graph)
        executable = self._handles.get(executable_handle, _Executable)
        function = read_text(name, "the function's name") if name else ""
        self._interface.assign_node_function(graph.graph, node_id, executable.number, function)

    def invocation_context_create_from_graph(
        self, device_handle: int, handle: int, out: Any
    ) -> None:
        device = self._handles.get(device_handle, ExportedDevice)
        graph = self._handles.get(handle, _Graph)
        need(out)
        context = self._interface.invocation_context_create_from_graph(device.context, graph.graph)
        if context is None:
            raise LiteRtError(
                Status.RUNTIME_FAILURE,
                "invocation_context_create_from_graph returned None, not an invocation context",
                hint=VENDOR_REPAIRS,
            )
        run = self._functions.vendor.bind("invoke", context, detail=" of a graph")
        call = ExportedCall(context, device, "graph", run, graph=handle)
        self._functions.put_call(call, len(graph.inputs), len(graph.outputs), out)

    def invocation_context_get_graph(self, handle: int, out: Any) -> None:
        call = self._handles.get(handle, ExportedCall)
        need(out)[0] = call.graph
