"""Tests that an exported Python table works the same through LiteRT's C interface as when called directly."""

from __future__ import annotations

import gc
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from dispatch.api import (
    Capability,
    Dispatch,
    ExecutableType,
    GraphInterface,
    HostInvocationContext,
    MemBuffer,
    NodeType,
    TensorBuffer,
    TensorBufferRequirements,
)
from dispatch.native.export import export_table
from dispatch.native.exported.objects import (
    ExportedCall,
    ExportedDevice,
    ExportedPort,
    ExportedRegistration,
)
from dispatch.native.runtime_context import RuntimeContext
from dispatch.session import Session
from litert.abi.definitions import ffi
from litert.abi.tensor_types import to_c
from litert.core.element_type import ElementType
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.model.assets import Asset
from litert.model.blob import Blob
from litert.model.byte_code_container import pack
from tests.dispatch.exported_library import through_c
from tests.dispatch.strict_vendor import (
    FLOATS,
    StrictAsyncDispatch,
    StrictDispatch,
    bind_all,
    open_call,
    open_session,
)


def use(vendor: Dispatch[Any, Any]) -> None:
    """Runs two models with changed buffers, options and metrics."""
    with open_session(vendor, ["Gain/lib.h", "Gain"]) as session:
        first, second = open_call(session, inputs=2, outputs=2), open_call(session, name="g")
        buffers = bind_all(first)
        first.bind_input(0, buffers[0])
        second.bind_input(0, buffers[2])
        second.bind_output(0, TensorBuffer.allocate(FLOATS))
        for call in (first, second, first):
            call.invoke()
        first.bind_input(1, TensorBuffer.allocate(FLOATS))
        first.bind_output(1, TensorBuffer.allocate(FLOATS))
        first.invoke()
        first.start_metrics(1)
        first.invoke()
        assert [(m.name, m.value) for m in first.stop_metrics()] == [("runs", 5)]
        with open_session(vendor) as other:
            bind_all(open_call(other))


def test_the_vendor_sees_the_same_calls_on_either_way() -> None:
    directly, behind_c = StrictDispatch(), StrictDispatch()
    use(directly)
    use(through_c(behind_c))
    assert behind_c.calls == directly.calls
    assert behind_c.scheduled == directly.scheduled
    assert behind_c.run_options == directly.run_options
    assert not behind_c.broken and not behind_c.open


def test_nothing_is_left_of_models_that_are_closed() -> None:
    vendor = through_c(StrictDispatch())
    use(vendor)
    gc.collect()
    kinds = (ExportedDevice, ExportedCall, ExportedRegistration, ExportedPort)
    assert not [found for found in gc.get_objects() if isinstance(found, kinds)]


def test_outputs_are_written_where_the_host_has_them() -> None:
    with open_session(through_c(StrictDispatch())) as session:
        call = open_call(session)
        x, y = bind_all(call)
        for value in (3, 4):
            x.array()[:] = value
            call.invoke()
            assert list(y.array()) == [value + 1] * 4


def test_runs_that_do_not_wait_end_when_the_vendor_says_so() -> None:
    vendor = StrictAsyncDispatch()
    with open_session(through_c(vendor)) as session:
        first, second = open_call(session, outputs=2), open_call(session)
        x, y, z = bind_all(first)
        second.bind_input(0, y)
        second.bind_output(0, last := TensorBuffer.allocate(FLOATS))
        x.array()[:] = 6
        events = first.invoke_async()
        assert len(events) == 2 and not any(event.is_signaled() for event in events)
        second.invoke_async()
        assert "attach_input_event 0" in vendor.calls
        with pytest.raises(LiteRtError) as error:
            y.wait(0.01)
        assert error.value.status is Status.TIMEOUT_EXPIRED
        vendor.async_interface.finish()
        for buffer, value in ((y, 7), (z, 7), (last, 8)):
            buffer.wait(10)
            assert list(buffer.array()) == [value] * 4
    assert not vendor.broken


@pytest.mark.parametrize(
    "function",
    [
        "initialize",
        "check_runtime_compatibility",
        "device_context_create",
        "register_asset",
        "invocation_context_create",
        "get_input_requirements",
        "get_output_requirements",
        "register_tensor_buffer",
        "attach_input",
        "attach_output",
        "set_options",
        "invoke",
        "start_metrics_collection",
        "stop_metrics_collection",
    ],
)
@pytest.mark.parametrize(
    ("error", "status"),
    [
        (LiteRtError(Status.COMPILATION, "the tiles are wet", "tile 3"), Status.COMPILATION),
        (ZeroDivisionError("of tiles"), Status.RUNTIME_FAILURE),
        (SystemExit(3), Status.RUNTIME_FAILURE),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_is_a_status_and_a_line_in_the_log(
    caplog: pytest.LogCaptureFixture, function: str, error: BaseException, status: Status
) -> None:
    vendor = StrictDispatch()
    vendor.failing, vendor.error = function, error
    with caplog.at_level(logging.ERROR), pytest.raises(LiteRtError) as raised:
        use(through_c(vendor))
    assert raised.value.status is status
    said = "\n".join(record.getMessage() for record in caplog.records)
    named = {"register_asset": "RegisterAsset"}.get(function, function)
    assert named in said and str(error.args[1] if status is Status.COMPILATION else error) in said
    vendor.failing = ""
    assert not vendor.broken and not vendor.open


class AssetDispatch(Dispatch[dict[str, bytes], HostInvocationContext]):
    """A vendor that records the assets and byte code that it gets, in order."""

    vendor_id = "Assets"

    def __init__(self) -> None:
        self.given: list[tuple[str, bytes]] = []
        self.byte_code: list[bytes] = []

    def device_context_create(self, options: Mapping[str, str]) -> dict[str, bytes]:
        return {}

    def register_asset(
        self, device_context: dict[str, bytes], asset_name: str, asset_buffer: MemBuffer
    ) -> None:
        self.given.append((asset_name, bytes(asset_buffer.view)))

    def invoke(self, invocation_context: HostInvocationContext) -> None:
        self.byte_code.append(bytes(invocation_context.byte_code.view))


@pytest.mark.parametrize("by_host", [(), ("Gain",)], ids=["none", "one"])
def test_byte_code_comes_out_of_its_container_and_each_asset_once(by_host: Sequence[str]) -> None:
    vendor = AssetDispatch()
    carried = [Asset("Gain", "", Blob(b"3")), Asset("Gain", "lib.h", Blob(b"header"))]
    modules = [
        MemBuffer.from_memory(b"odd" + pack(Blob(text), carried), 3) for text in (b"one", b"two")
    ]
    assets = [(name, MemBuffer.from_memory(b"3")) for name in by_host]
    environment = EnvironmentOptions()
    with Session(
        through_c(vendor), environment_options=environment, options={}, assets=assets
    ) as session:
        for module in modules:
            call = session.open_call(module, "f", [FLOATS], [FLOATS])
            bind_all(call)
            call.invoke()
    assert vendor.byte_code == [b"one", b"two"]
    assert sorted(vendor.given) == [("Gain", b"3"), ("Gain/lib.h", b"header")]


class PlainDispatch(Dispatch[object, HostInvocationContext]):
    """A vendor that overrides as little as possible."""

    vendor_id = "Plain"

    def device_context_create(self, options: Mapping[str, str]) -> object:
        self.options = options
        return object()

    def invoke(self, invocation_context: HostInvocationContext) -> None:
        invocation_context.outputs[0][...] = invocation_context.inputs[0]


def test_what_a_vendor_does_not_override_costs_a_host_no_call() -> None:
    table = export_table(PlainDispatch())
    interface = table.api.interface
    for slot in (
        "invocation_context_set_scheduling_info", "invocation_context_set_options",
        "start_metrics_collection", "stop_metrics_collection", "get_num_metrics", "get_metric",
        "destroy_metrics", "get_hooks",
    ):  # fmt: skip
        assert not getattr(interface, slot), slot
    assert not table.api.async_interface and not table.api.graph_interface


def test_the_vendors_options_come_from_the_host_and_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LITERT_NPU_DISPATCH_OPTIONS", "tiles=4; speed=slow")
    vendor = PlainDispatch()
    environment = EnvironmentOptions(dispatch_library_path="/somewhere")
    options = {"speed": 'very; "fast"', "count": "3"}
    native = through_c(vendor)
    with Session(native, environment_options=environment, options=options, assets=[]):
        assert vendor.options == {"tiles": "4", **options}


# The tests below call slots as C does, and break rules that our host keeps.


class RawHost:
    """Calls the slots of a table with handles as numbers."""

    def __init__(self, dispatch: Dispatch[Any, Any]) -> None:
        self.runtime = RuntimeContext("a test")
        self.table = export_table(dispatch)
        self.slots = self.table.api.interface
        assert self.slots.initialize(self.runtime.table, ffi.NULL, ffi.NULL) == Status.OK

    def call(self, slot: str, *arguments: Any) -> Status:
        function = getattr(self.slots, slot)
        kinds = ffi.typeof(function).args
        return Status(function(*(_as_c(k, a) for k, a in zip(kinds, arguments, strict=True))))

    def device(self) -> Any:
        out = ffi.new("LiteRtDispatchDeviceContext*")
        assert self.call("device_context_create", self.runtime.table, 0, out) is Status.OK
        return out[0]

    def invocation(self, device: Any, inputs: int = 1, outputs: int = 1) -> Any:
        code = ffi.from_buffer(b"byte code")
        module = ffi.new("LiteRtMemBuffer*", [-1, code, 0, len(code), 0])
        out = ffi.new("LiteRtDispatchInvocationContext*")
        name = ffi.new("char[]", b"f")
        arguments = (self.runtime.table, device, 2, module, name, inputs, outputs, out)
        assert self.call("invocation_context_create", *arguments) is Status.OK
        return out[0]

    def buffer(self, device: Any, elements: int = 4) -> int:
        tensor_type = RankedTensorType.of(ElementType.FLOAT32, (elements,))
        self.last = self.runtime.buffers.put(TensorBuffer.allocate(tensor_type))
        out = ffi.new("LiteRtTensorBufferHandle*")
        assert self.call("register_tensor_buffer", device, self.last, out) is Status.OK
        return int(out[0])


def _as_c(kind: Any, value: Any) -> Any:
    return ffi.cast(kind, value) if kind.kind == "pointer" and _is_opaque(kind) else value


def test_nothing_of_a_table_is_harmed_by_null_and_garbage() -> None:
    """Calls each slot with NULL for all pointers, then with numbers that are not handles."""
    vendor = StrictAsyncDispatch()
    host = RawHost(vendor)
    asyncs = host.table.api.async_interface
    for table in (host.slots, asyncs):
        for name, field in ffi.typeof(table).item.fields:
            function = getattr(table, name)
            if not function:
                continue
            for number in (0, 1, 0x7EAD_BEEF):
                arguments = [
                    (ffi.cast(kind, number) if _is_opaque(kind) else ffi.NULL)
                    if kind.kind == "pointer"
                    else ffi.new("LiteRtApiVersion*", [0, 1, 0])[0]
                    if kind.kind == "struct"
                    else number
                    for kind in field.type.args
                ]
                status = function(*arguments)
                if name not in ("check_runtime_compatibility", "initialize"):
                    assert status == Status.INVALID_ARGUMENT, name
    assert host.table.get_api(ffi.NULL) == Status.INVALID_ARGUMENT
    assert host.table.register_asset(ffi.NULL, ffi.NULL, ffi.NULL) == Status.INVALID_ARGUMENT
    assert [call for call in vendor.calls if "compat" not in call and "init" not in call] == []


def _is_opaque(kind: Any) -> bool:
    try:
        return kind.item.kind == "struct" and not ffi.sizeof(kind.item)
    except ffi.error:
        return True


def test_a_handle_is_of_no_use_once_it_is_gone() -> None:
    vendor = StrictDispatch()
    host = RawHost(vendor)
    device = host.device()
    call, buffer = host.invocation(device), host.buffer(device)
    assert host.call("attach_input", call, 0, buffer) is Status.OK
    assert host.call("unregister_tensor_buffer", device, buffer) is Status.OK
    assert host.call("unregister_tensor_buffer", device, buffer) is Status.INVALID_ARGUMENT
    assert host.call("attach_input", call, 0, buffer) is Status.INVALID_ARGUMENT
    assert host.call("invoke", call) is Status.MISSING_INPUT_TENSOR
    for slot, handle in (("invocation_context_destroy", call), ("device_context_destroy", device)):
        assert host.call(slot, handle) is Status.OK
        assert host.call(slot, handle) is Status.INVALID_ARGUMENT
    assert host.call("invoke", call) is Status.INVALID_ARGUMENT
    assert host.call("invoke", device) is Status.INVALID_ARGUMENT
    assert not vendor.broken and not vendor.open


def test_attaching_replaces_and_a_stale_detach_changes_nothing() -> None:
    vendor = StrictDispatch()
    host = RawHost(vendor)
    device = host.device()
    call, old, new = host.invocation(device), host.buffer(device), host.buffer(device)
    out = host.buffer(device)
    for slot, handle in (
        ("attach_output", out), ("attach_input", old), ("attach_input", new), ("detach_input", old),
        ("detach_input", old), ("attach_input", old), ("detach_input", new), ("attach_input", old),
        ("detach_output", old),
    ):  # fmt: skip
        assert host.call(slot, call, 0, handle) is Status.OK
    assert host.call("invoke", call) is Status.OK
    assert host.call("detach_input", call, 0, old) is Status.OK
    assert host.call("invoke", call) is Status.MISSING_INPUT_TENSOR
    assert host.call("attach_input", call, 1, old) is Status.INDEX_OOB
    assert host.call("attach_input", call, -1, old) is Status.INDEX_OOB
    other = host.buffer(host.device())
    assert host.call("attach_input", call, 0, other) is Status.INVALID_ARGUMENT
    assert not vendor.broken


def test_a_buffer_that_is_too_small_is_refused() -> None:
    class Padded(PlainDispatch):
        def get_input_requirements(self, context: Any, index: int, tensor_type: Any) -> Any:
            return TensorBufferRequirements(64)

    host = RawHost(Padded())
    device = host.device()
    call, buffer = host.invocation(device), host.buffer(device)
    tensor_type = ffi.new("LiteRtRankedTensorType*")
    tensor_type.element_type, tensor_type.layout.rank = 1, 1
    tensor_type.layout.dimensions[0] = 4
    out = ffi.new("LiteRtTensorBufferRequirements*")
    assert host.call("get_input_requirements", call, 1, tensor_type, out) is Status.INDEX_OOB
    assert host.call("get_input_requirements", call, 0, tensor_type, out) is Status.OK
    assert host.runtime.take_requirements(out[0]).size == 64
    assert host.call("attach_input", call, 0, buffer) is Status.INVALID_ARGUMENT


@pytest.mark.parametrize("element_type", [ElementType.FLOAT32, ElementType.INT4])
def test_strides_are_handed_on_as_elements(element_type: ElementType) -> None:
    class Strided(PlainDispatch):
        def get_input_requirements(self, context: Any, index: int, tensor_type: Any) -> Any:
            return TensorBufferRequirements(64, strides=(5, 1))

    host = RawHost(Strided())
    call = host.invocation(host.device())
    tensor_type = ffi.new("LiteRtRankedTensorType*")
    to_c(RankedTensorType.of(element_type, (2, 3)), tensor_type)
    out = ffi.new("LiteRtTensorBufferRequirements*")
    assert host.call("get_input_requirements", call, 0, tensor_type, out) is Status.OK
    assert list(host.runtime.take_requirements(out[0]).strides) == [5, 1]


def test_metrics_have_an_order_and_an_end() -> None:
    host = RawHost(StrictDispatch())
    call = host.invocation(host.device())
    out, number, metric = (
        ffi.new("LiteRtDispatchMetrics*"),
        ffi.new("int*"),
        ffi.new("LiteRtMetric*"),
    )
    assert host.call("stop_metrics_collection", call, out) is Status.RUNTIME_FAILURE
    assert host.call("start_metrics_collection", call, 0) is Status.OK
    assert host.call("stop_metrics_collection", call, out) is Status.OK
    assert host.call("get_num_metrics", out[0], number) is Status.OK and number[0] == 1
    assert host.call("get_metric", out[0], 0, metric) is Status.OK
    assert ffi.string(metric.name) == b"runs" and metric.value.int_value == 0
    assert host.call("get_metric", out[0], 1, metric) is Status.INDEX_OOB
    assert host.call("destroy_metrics", out[0]) is Status.OK
    assert host.call("destroy_metrics", out[0]) is Status.INVALID_ARGUMENT


class Adder(GraphInterface[Any, list[str]]):
    """A graph interface that records the calls on a graph."""

    def graph_create(self, device_context: Any) -> list[str]:
        return ["created"]

    def graph_destroy(self, graph: list[str]) -> None:
        graph.append("destroyed")

    def add_node(self, graph: list[str], node_id: int, node_type: NodeType) -> None:
        graph.append(f"node {node_id} {node_type.name}")

    def add_edge(self, graph: list[str], edge_id: int) -> None:
        graph.append(f"edge {edge_id}")

    def connect_node_input(self, graph: list[str], node: int, index: int, edge: int) -> None:
        graph.append(f"node {node} input {index} edge {edge}")

    def connect_node_output(self, graph: list[str], node: int, index: int, edge: int) -> None:
        graph.append(f"node {node} output {index} edge {edge}")

    def connect_graph_input(self, graph: list[str], index: int, edge: int) -> None:
        graph.append(f"input {index} edge {edge}")

    def connect_graph_output(self, graph: list[str], index: int, edge: int) -> None:
        graph.append(f"output {index} edge {edge}")

    def load_executable(self, device: Any, kind: ExecutableType, byte_code: MemBuffer) -> int:
        self.loaded = bytes(byte_code.view)
        return 7

    def unload_executable(self, device: Any, executable_id: int) -> None:
        assert executable_id == 7
        self.loaded = b""

    def assign_node_function(self, graph: list[str], node: int, executable: int, name: str) -> None:
        graph.append(f"node {node} executable {executable} {name}")

    def annotate_graph(self, graph: list[str], key: str, value: str) -> None:
        graph.append(f"{key}={value}")

    def annotate_node(self, graph: list[str], node_id: int, key: str, value: str) -> None:
        graph.append(f"node {node_id} {key}={value}")

    def annotate_edge(self, graph: list[str], edge_id: int, key: str, value: str) -> None:
        graph.append(f"edge {edge_id} {key}={value}")

    def invocation_context_create_from_graph(self, device: Any, graph: list[str]) -> Any:
        self.graph = graph
        return HostInvocationContext(device, MemBuffer.from_memory(b""), "graph", [None], [None])

    def invocation_context_get_graph(self, invocation_context: Any) -> list[str]:
        return self.graph


class GraphDispatch(PlainDispatch):
    """A vendor with graphs."""

    capabilities = Capability.BASIC | Capability.GRAPH
    graph_interface = Adder()


def test_a_graph_is_built_and_run() -> None:
    vendor = GraphDispatch()
    native = through_c(vendor)
    native.initialize(EnvironmentOptions(), {})
    graphs = native.graph_interface
    assert graphs is not None
    device = native.device_context_create({})
    graph = graphs.graph_create(device)
    graphs.add_node(graph, 1, NodeType.NPU)
    for edge in (5, 6):
        graphs.add_edge(graph, edge)
    graphs.connect_node_input(graph, 1, 0, 5)
    graphs.connect_node_output(graph, 1, 0, 6)
    graphs.connect_graph_input(graph, 0, 5)
    graphs.connect_graph_output(graph, 0, 6)
    code = MemBuffer.from_memory(b"byte code")
    executable = graphs.load_executable(device, ExecutableType.ML_MODEL, code)
    assert vendor.graph_interface.loaded == b"byte code"
    graphs.assign_node_function(graph, 1, executable, "f")
    graphs.annotate_graph(graph, "k", "v")
    graphs.annotate_node(graph, 1, "k", "n")
    graphs.annotate_edge(graph, 6, "k", "e")
    call = graphs.invocation_context_create_from_graph(device, graph)
    x, y = TensorBuffer.allocate(FLOATS), TensorBuffer.allocate(FLOATS)
    handles = [native.register_tensor_buffer(device, buffer) for buffer in (x, y)]
    native.attach_input(call, 0, handles[0])
    native.attach_output(call, 0, handles[1])
    x.array()[:] = 2
    native.invoke(call)
    np.testing.assert_array_equal(y.array(), x.array())
    assert vendor.graph_interface.graph == [
        "created", "node 1 NPU", "edge 5", "edge 6", "node 1 input 0 edge 5",
        "node 1 output 0 edge 6", "input 0 edge 5", "output 0 edge 6", "node 1 executable 7 f",
        "k=v", "node 1 k=n", "edge 6 k=e",
    ]  # fmt: skip
    native.invocation_context_destroy(call)
    graphs.unload_executable(device, executable)
    graphs.graph_destroy(graph)
    assert vendor.graph_interface.graph[-1] == "destroyed" and not vendor.graph_interface.loaded
    with pytest.raises(LiteRtError):
        graphs.graph_destroy(graph)


def test_a_node_s_function_may_have_no_name_and_a_call_no_graph() -> None:
    vendor = GraphDispatch()
    host = RawHost(vendor)
    graphs, device = host.table.api.graph_interface, host.device()
    graph, executable = ffi.new("LiteRtDispatchGraph*"), ffi.new("LiteRtDispatchExecutableHandle*")
    code = ffi.from_buffer(b"byte code")
    module = ffi.new("LiteRtMemBuffer*", [-1, code, 0, len(code), 0])
    assert graphs.graph_create(device, graph) == Status.OK
    assert graphs.load_executable(device, ExecutableType.ML_MODEL, module, executable) == Status.OK
    assert graphs.assign_node_function(graph[0], 1, executable[0], ffi.NULL) == Status.OK
    call = ffi.new("LiteRtDispatchInvocationContext*")
    assert graphs.invocation_context_create_from_graph(device, graph[0], call) == Status.OK
    assert vendor.graph_interface.graph == ["created", "node 1 executable 7 "]
    found = ffi.new("LiteRtDispatchGraph*")
    assert graphs.invocation_context_get_graph(call[0], found) == Status.OK
    assert found[0] == graph[0]
    assert graphs.invocation_context_get_graph(host.invocation(device), found) == Status.OK
    assert not found[0]
