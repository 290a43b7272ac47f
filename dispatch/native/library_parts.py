"""Wraps the optional interfaces of a dispatch library for a Python dispatch table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dispatch.api import (
    AsyncInterface,
    BufferHandlers,
    Event,
    ExecutableType,
    GraphInterface,
    LockMode,
    MemBuffer,
)
from dispatch.native.contexts import NativeCall, NativeDevice
from dispatch.native.library_answers import answer, check_answer
from dispatch.native.library_events import CustomEvent, FenceEvent
from dispatch.native.runtime_context import RuntimeContext
from dispatch.tensor_buffer import BufferType
from litert.abi.definitions import ffi
from litert.abi.handles import address_of
from litert.abi.tensor_types import to_c
from litert.core.counts import count_text, list_text
from litert.core.errors import VENDOR_REPAIRS, LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType


class NativeAsyncInterface(AsyncInterface[NativeCall]):
    """Starts asynchronous runs by calls of a dispatch library."""

    def __init__(self, functions: Any, runtime: RuntimeContext) -> None:
        """Stores cffi's `LiteRtDispatchAsyncInterface*`, and the runtime context that creates the events."""
        self._functions = functions
        self._runtime = runtime

    def attach_input_event(self, invocation_context: NativeCall, index: int, event: Event) -> None:
        if not isinstance(event, (CustomEvent, FenceEvent)):
            event.wait()  # an event of a host thread; drivers cannot wait for it
            return
        handle = self._runtime.handles.put(event)
        invocation_context.input_events.append(handle)
        check_answer(
            self._functions.attach_input_event(
                invocation_context.handle, index, ffi.cast("LiteRtEvent", handle)
            )
        )

    def invoke_async(self, invocation_context: NativeCall) -> Sequence[Event]:
        number = invocation_context.num_outputs
        made = ffi.new("LiteRtEvent[]", number)
        handles = self._runtime.handles
        # The library may look at a run's events until the next one begins.
        for handle in invocation_context.run_events:
            handles.drop(handle)
        invocation_context.run_events = invocation_context.input_events
        invocation_context.input_events = []
        check_answer(self._functions.invoke_async(invocation_context.handle, number, made))
        invocation_context.run_events += map(address_of, made)
        return [handles.get(handle, Event) for handle in made]


@dataclass(slots=True, eq=False)
class NativeGraph:
    """A `LiteRtDispatchGraph` of a library, and the indices of its connected inputs and outputs."""

    handle: Any
    inputs: set[int] = field(default_factory=set)
    outputs: set[int] = field(default_factory=set)


def _on_graph(function: str) -> Callable[..., None]:
    """Makes a method that calls a library's function with a graph, numbers and strings."""

    def act(interface: NativeGraphInterface, graph: NativeGraph, *arguments: int | str) -> None:
        given = [each.encode() if isinstance(each, str) else each for each in arguments]
        check_answer(getattr(interface.functions, function)(graph.handle, *given))

    return act


class NativeGraphInterface(GraphInterface[NativeDevice, NativeGraph]):
    """Builds graphs by calls of a dispatch library; the library identifies executables by number."""

    def __init__(self, functions: Any) -> None:
        self.functions = functions  # cffi's `LiteRtDispatchGraphInterface*`
        self._graphs: dict[int, NativeGraph] = {}  # by address

    def graph_create(self, device_context: NativeDevice) -> NativeGraph:
        made = answer("LiteRtDispatchGraph", self.functions.graph_create, device_context.handle)
        if not made:
            raise LiteRtError(
                Status.RUNTIME_FAILURE,
                "the graph that the library returned is NULL",
                hint=VENDOR_REPAIRS,
            )
        graph = self._graphs[address_of(made)] = NativeGraph(made)
        return graph

    def graph_destroy(self, graph: NativeGraph) -> None:
        self._graphs.pop(address_of(graph.handle), None)
        check_answer(self.functions.graph_destroy(graph.handle))

    add_node = _on_graph("add_node")
    add_edge = _on_graph("add_edge")
    connect_node_input = _on_graph("connect_node_input")
    connect_node_output = _on_graph("connect_node_output")
    assign_node_function = _on_graph("assign_node_function")
    annotate_graph = _on_graph("annotate_graph")
    annotate_node = _on_graph("annotate_node")
    annotate_edge = _on_graph("annotate_edge")

    def connect_graph_input(self, graph: NativeGraph, input_index: int, edge_id: int) -> None:
        check_answer(self.functions.connect_graph_input(graph.handle, input_index, edge_id))
        graph.inputs.add(input_index)

    def connect_graph_output(self, graph: NativeGraph, output_index: int, edge_id: int) -> None:
        check_answer(self.functions.connect_graph_output(graph.handle, output_index, edge_id))
        graph.outputs.add(output_index)

    def load_executable(
        self, device_context: NativeDevice, executable_type: ExecutableType, byte_code: MemBuffer
    ) -> int:
        executable = answer(
            "LiteRtDispatchExecutableHandle",
            self.functions.load_executable,
            device_context.handle,
            int(executable_type),
            device_context.keep(byte_code),
        )
        return int(executable)

    def unload_executable(self, device_context: NativeDevice, executable_id: int) -> None:
        check_answer(self.functions.unload_executable(device_context.handle, executable_id))

    def invocation_context_create_from_graph(
        self, device_context: NativeDevice, graph: NativeGraph
    ) -> NativeCall:
        create = self.functions.invocation_context_create_from_graph
        device = device_context.handle
        context = answer("LiteRtDispatchInvocationContext", create, device, graph.handle)
        if not context:
            raise LiteRtError(
                Status.RUNTIME_FAILURE,
                "the invocation context that the library returned is NULL",
                hint=VENDOR_REPAIRS,
            )
        return NativeCall(context, device_context, len(graph.inputs), len(graph.outputs))

    def invocation_context_get_graph(self, invocation_context: NativeCall) -> NativeGraph:
        asked = self.functions.invocation_context_get_graph
        found = answer("LiteRtDispatchGraph", asked, invocation_context.handle)
        graph = self._graphs.get(address_of(found))
        if graph is None:
            raise LiteRtError(
                Status.RUNTIME_FAILURE,
                f"the library returned {address_of(found):#x}, which is not a graph that the library created",
                hint=VENDOR_REPAIRS,
            )
        return graph


_new_address = partial(ffi.new, ffi.typeof("void**"))  # types by name take longer to find
_as_number = partial(ffi.cast, ffi.typeof("uintptr_t"))
_NEEDED = ("create_func", "destroy_func", "lock_func", "unlock_func")


class NativeBufferHandlers(BufferHandlers[Any]):
    """Allocates memory by calls of a dispatch library. A memory object is cffi's `HwMemoryInfo*`."""

    def __init__(self, definition: Any, where: str) -> None:
        """Checks a library's `LiteRtCustomTensorBufferHandlersDef*`; `where` is the library's file, for errors."""
        missing = [name for name in _NEEDED if not getattr(definition, name)]
        if missing:
            raise _broken(
                f"the buffer handlers of the dispatch library lack the {list_text('function', missing)}",
                where,
            )
        self._functions = definition
        self._lock, self._unlock = definition.lock_func, definition.unlock_func
        self.supported_types = _types(definition, where)

    def create(self, tensor_type: RankedTensorType, buffer_type: int, size: int) -> Any:
        c_type, info = ffi.new("LiteRtRankedTensorType*"), ffi.new("HwMemoryInfoPtr*")
        to_c(tensor_type, c_type)
        # Device and queue are NULL, because only handlers for a graphics environment need them.
        check_answer(
            self._functions.create_func(
                ffi.NULL, ffi.NULL, c_type, buffer_type, size, tensor_type.size_bytes, info
            )
        )
        return info[0] or None

    def destroy(self, memory: Any) -> None:
        check_answer(self._functions.destroy_func(memory))

    def lock(self, memory: Any, mode: LockMode) -> int:
        address = _new_address()
        status = self._lock(memory, mode, address)
        if status:
            check_answer(status)
        return int(_as_number(address[0]))

    def unlock(self, memory: Any) -> None:
        status = self._unlock(memory)
        if status:
            check_answer(status)


def _types(definition: Any, where: str) -> Sequence[int]:
    number, types = int(definition.num_supported_buffer_types), definition.supported_buffer_types
    if not 0 < number <= len(types):
        raise _broken(
            "the buffer handlers of the dispatch library have "
            f"{count_text(number, 'memory type')}, but the number must be from 1 to {len(types)}",
            where,
        )
    found = [int(types[i]) for i in range(number)]
    if min(found) <= BufferType.HOST_MEMORY:
        raise _broken(
            "the buffer handlers of the dispatch library have the memory "
            f"types {found}, but each type must be greater than {BufferType.HOST_MEMORY:d}, the type "
            "of host memory",
            where,
        )
    return found


def _broken(what: str, where: str) -> LiteRtError:
    return LiteRtError(Status.DYNAMIC_LOADING, what, where, VENDOR_REPAIRS)
