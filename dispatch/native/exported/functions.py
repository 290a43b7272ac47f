"""Implements `LiteRtDispatchInterface` by calls of a Python dispatch table; see `litert_npu/dispatch.h`.

Handles are passed as numbers (`litert.abi.tables`). The functions check the host's arguments, so that the vendor
never gets an invalid handle.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partialmethod
from typing import Any

from dispatch.api import Dispatch, ExecutableType, Metric
from dispatch.mem_buffer import MemBuffer
from dispatch.native.exported.host import Host, need, read_text
from dispatch.native.exported.memory_functions import MemoryFunctions
from dispatch.native.exported.model_assets import to_mem_buffer
from dispatch.native.exported.objects import (
    ExportedCall,
    ExportedDevice,
    ExportedMetrics,
    ExportedPort,
    ExportedRegistration,
)
from dispatch.native.exported.option_text import parse_options, parse_text
from dispatch.requirements import ask_requirements, refuse_misfit
from dispatch.scheduling import SchedulingInfo
from dispatch.vendor import Vendor, initialize_once
from litert.abi.definitions import ffi
from litert.abi.handles import Handles
from litert.abi.status_codes import check
from litert.abi.tensor_types import from_c, new_type
from litert.core.counts import count_text, out_of_range
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.core.version import ApiVersion

_BOOL, _INT, _REAL, _STRING = 1, 2, 3, 8  # LiteRtAnyType
_ORIGINAL_UID, _DEBUG_FEATURE, _PRIORITY, _GROUP = 1, 2, 4, 8  # LiteRtSchedulingInfoField


class Functions:
    """The C functions of one dispatch table; each method implements the slot of the same name.

    Attributes:
      vendor: The vendor's dispatch table.
      handles: Handles of all objects that the host currently uses.
      host, environment: Host and environment that were passed to `initialize`.
      memory: Functions for the vendor's device memory; None if the vendor has no device memory.
    """

    def __init__(self, dispatch: Dispatch[Any, Any]) -> None:
        self.vendor = Vendor(dispatch)
        self.handles = Handles()
        handlers = dispatch.buffer_handlers
        self.memory = MemoryFunctions(handlers, dispatch.vendor_id) if handlers else None
        self.host: Host | None = None
        self.environment = 0
        self._ids = [ffi.new("char[]", t.encode()) for t in (dispatch.vendor_id, dispatch.build_id)]
        self._identifier = dispatch.vendor_id.lower()  # of the vendor's opaque options
        self._calls: dict[int, ExportedCall] = {}  # by handle: looked up at each run

    def initialize(self, runtime_context: Any, environment: int, options: int) -> None:
        self.host = host = Host(runtime_context)
        self.environment = environment
        initialize_once(
            self.vendor.dispatch, host.read_environment(environment), self._options(host, options)
        )

    def get_vendor_id(self, vendor_id: Any) -> None:
        need(vendor_id)[0] = self._ids[0]

    def get_build_id(self, build_id: Any) -> None:
        need(build_id)[0] = self._ids[1]

    def get_capabilities(self, capabilities: Any) -> None:
        need(capabilities)[0] = int(self.vendor.dispatch.capabilities)

    def check_runtime_compatibility(self, version: Any, environment: int, options: int) -> None:
        given = ApiVersion(version.major, version.minor, version.patch)
        host = self.host
        environment_options = (
            host.read_environment_options(environment) if host else EnvironmentOptions()
        )
        self.vendor.call(
            "check_runtime_compatibility",
            given,
            environment_options,
            self._options(host, options) if host else parse_options(""),
        )

    def device_context_create(self, runtime_context: Any, options: int, out: Any) -> None:
        host = Host(runtime_context)
        need(out)
        context = self.vendor.create("device_context_create", self._options(host, options))
        out[0] = self.handles.put(ExportedDevice(context, host))

    def device_context_destroy(self, handle: int) -> None:
        device = self.handles.get(handle, ExportedDevice)
        self.handles.drop(handle)
        try:
            self.vendor.call("device_context_destroy", device.context)
        finally:
            device.found.close()

    def register_asset(self, handle: int, name: Any, buffer: Any) -> None:
        device = self.handles.get(handle, ExportedDevice)
        asset_name = read_text(name, "the asset's name")
        device.takes_assets = True
        self._register(device, asset_name, to_mem_buffer(need(buffer, "the asset")))

    def register_tensor_buffer(self, handle: int, tensor_buffer: int, out: Any) -> None:
        device = self.handles.get(handle, ExportedDevice)
        need(out)
        need(tensor_buffer, "the tensor buffer")
        buffer = device.host.wrap_buffer(tensor_buffer, self.memory)
        known = self.vendor.create("register_tensor_buffer", device.context, buffer)
        out[0] = self.handles.put(ExportedRegistration(device, buffer, known))

    def unregister_tensor_buffer(self, device_handle: int, handle: int) -> None:
        device = self.handles.get(device_handle, ExportedDevice)
        registration = self._registration(handle, device)
        for port in list(registration.ports):
            self._detach(port, registration)
        self.handles.drop(handle)
        self.vendor.call("unregister_tensor_buffer", device.context, registration.handle)

    def invocation_context_create(
        self,
        runtime_context: Any,
        device_handle: int,
        executable_type: int,
        byte_code: Any,
        function_name: Any,
        num_inputs: int,
        num_outputs: int,
        out: Any,
    ) -> None:
        device = self.handles.get(device_handle, ExportedDevice)
        need(out)
        name = read_text(function_name, "the function's name")
        if num_inputs < 0 or num_outputs < 0:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the host requests an NPU call with {count_text(num_inputs, 'input')} and "
                f"{count_text(num_outputs, 'output')}, but these numbers must be at least 0",
                f"function '{name}'",
            )
        kind, module = self.open_module(device, executable_type, need(byte_code, "the byte code"))
        detail = f" of '{name}'"
        context = self.vendor.create(
            "invocation_context_create",
            device.context, kind, module, name, num_inputs, num_outputs, detail=detail,
        )  # fmt: skip
        run = self.vendor.bind("invoke", context, detail=detail)
        self.put_call(ExportedCall(context, device, name, run), num_inputs, num_outputs, out)

    def open_module(
        self, device: ExportedDevice, executable_type: int, byte_code: Any
    ) -> tuple[ExecutableType, MemBuffer]:
        """Returns a byte code module's kind and bytes; registers assets that are stored with the module."""
        try:
            kind = ExecutableType(executable_type)
        except ValueError:
            kind = ExecutableType.UNKNOWN
        file_offset = int(byte_code.alloc_base_file_offset)
        module, assets = device.found.open(
            to_mem_buffer(byte_code), file_offset, look_around=not device.takes_assets
        )
        for asset in assets:
            if asset.name not in device.asset_names:  # several modules may contain the same asset
                self._register(device, asset.name, MemBuffer.from_blob(asset.blob))
        return kind, module

    def put_call(self, call: ExportedCall, num_inputs: int, num_outputs: int, out: Any) -> None:
        """Stores a new NPU call, and writes its handle to `out` for the host."""
        call.inputs = [ExportedPort("input", index, call) for index in range(num_inputs)]
        call.outputs = [ExportedPort("output", index, call) for index in range(num_outputs)]
        handle = self.handles.put(call)
        self._calls[handle] = call
        out[0] = handle

    def invocation_context_destroy(self, handle: int) -> None:
        call = self.handles.get(handle, ExportedCall)
        self.handles.drop(handle)
        del self._calls[handle]
        for port in (*call.inputs, *call.outputs):
            for registration in port.known:
                registration.ports.remove(port)
        self.vendor.call("invocation_context_destroy", call.context, detail=_of(call))

    def invocation_context_set_scheduling_info(self, handle: int, info: Any) -> None:
        call = self.handles.get(handle, ExportedCall)
        info = need(info, "the scheduling info")
        mask = int(info.fields_mask)
        given = SchedulingInfo(
            int(info.original_uid) if mask & _ORIGINAL_UID else None,
            str(ffi.string(info.debug_feature_id), "utf-8", "replace")
            if mask & _DEBUG_FEATURE and info.debug_feature_id
            else None,
            int(info.job_priority) if mask & _PRIORITY else None,
            bytes(info.group_id) if mask & _GROUP else None,
        )
        self.vendor.call(
            "set_scheduling_info", call.context, given.with_defaults(), detail=_of(call)
        )

    def invocation_context_set_options(self, handle: int, options: int) -> None:
        call = self.handles.get(handle, ExportedCall)
        given = parse_text(call.device.host.read_payload(options, self._identifier)) or None
        self.vendor.call("set_options", call.context, given, detail=_of(call))

    def invoke(self, handle: int) -> None:
        call = self._calls.get(handle)
        if call is None:
            call = self.handles.get(handle, ExportedCall)
        if not call.is_ready:
            call.check_ready()
        call.run()

    def invoke_tapped(self, handle: int, receive: Any, user_data: Any) -> None:
        call = self.handles.get(handle, ExportedCall)
        need(receive, "the function for intermediate tensors")
        call.check_ready()

        def show(name: str, tensor_type: RankedTensorType, data: memoryview) -> None:
            bytes_ = ffi.from_buffer(data)
            status = receive(user_data, name.encode(), new_type(tensor_type), bytes_, data.nbytes)
            check(status, "the host's function for intermediate tensors failed", f"tensor '{name}'")

        self.vendor.call("invoke_tapped", call.context, show, detail=_of(call))

    def start_metrics_collection(self, handle: int, detail_level: int) -> None:
        call = self.handles.get(handle, ExportedCall)
        self.vendor.call("start_metrics_collection", call.context, detail_level)
        call.is_measured = True

    def stop_metrics_collection(self, handle: int, out: Any) -> None:
        call = self.handles.get(handle, ExportedCall)
        need(out)
        if not call.is_measured:
            raise LiteRtError(
                Status.RUNTIME_FAILURE,
                "the host stops the collection of metrics, but did not start the collection",
                f"function '{call.function_name}'",
            )
        call.is_measured = False
        measured = self.vendor.call("stop_metrics_collection", call.context)
        out[0] = self.handles.put(ExportedMetrics(list(measured)))

    def get_num_metrics(self, handle: int, out: Any) -> None:
        need(out)[0] = len(self.handles.get(handle, ExportedMetrics).values)

    def get_metric(self, handle: int, index: int, out: Any) -> None:
        metrics = self.handles.get(handle, ExportedMetrics)
        need(out)
        if not 0 <= index < len(metrics.values):
            raise LiteRtError(
                Status.INDEX_OOB,
                out_of_range("metric", index, len(metrics.values)),
            )
        _write_metric(metrics.values[index], out, metrics.texts)

    def destroy_metrics(self, handle: int) -> None:
        self.handles.get(handle, ExportedMetrics)
        self.handles.drop(handle)

    def _options(self, host: Host, options: int) -> Mapping[str, str]:
        return parse_options(host.read_payload(options, self._identifier))

    def _register(self, device: ExportedDevice, name: str, buffer: Any) -> None:
        self.vendor.call("register_asset", device.context, name, buffer, detail=f" '{name}'")
        device.asset_names.add(name)

    def _get_requirements(
        self, kind: str, handle: int, index: int, tensor_type: Any, out: Any
    ) -> None:
        call = self.handles.get(handle, ExportedCall)
        port = call.port(kind, index)
        wanted = from_c(tensor_type)
        need(out)
        requirements = ask_requirements(self.vendor, call.context, kind, index, wanted, _of(call))
        call.device.host.create_requirements(requirements, self.memory, out)
        port.told = requirements, wanted

    def _attach(self, kind: str, handle: int, index: int, buffer: int) -> None:
        call = self.handles.get(handle, ExportedCall)
        port = call.port(kind, index)
        registration = self._registration(buffer, call.device)
        if port.told is not None:
            refuse_misfit(registration.buffer, *port.told, f"{kind} {index}{_of(call)}")
        call.is_ready = False
        former, port.attached = port.attached, None
        if former is registration:  # after an error, it is not attached any more
            port.forget(registration)
        self._call_port("attach", port, registration)
        port.attached = registration
        if registration not in port.known:
            port.known.append(registration)
            registration.ports.append(port)

    def _detach_handle(self, kind: str, handle: int, index: int, buffer: int) -> None:
        call = self.handles.get(handle, ExportedCall)
        port = call.port(kind, index)
        registration = self._registration(buffer, call.device)
        if registration in port.known:
            self._detach(port, registration)

    get_input_requirements = partialmethod(_get_requirements, "input")
    get_output_requirements = partialmethod(_get_requirements, "output")
    attach_input = partialmethod(_attach, "input")
    attach_output = partialmethod(_attach, "output")
    detach_input = partialmethod(_detach_handle, "input")
    detach_output = partialmethod(_detach_handle, "output")

    def _detach(self, port: ExportedPort, registration: ExportedRegistration) -> None:
        port.forget(registration)
        if port.attached is registration:
            port.attached = None
            port.call.is_ready = False
        self._call_port("detach", port, registration)

    def _call_port(self, verb: str, port: ExportedPort, registration: ExportedRegistration) -> None:
        self.vendor.call(
            f"{verb}_{port.kind}",
            port.call.context,
            port.index,
            registration.handle,
            detail=f" {port.index}{_of(port.call)}",
        )

    def _registration(self, handle: int, device: ExportedDevice) -> ExportedRegistration:
        registration = self.handles.get(handle, ExportedRegistration)
        if registration.device is not device:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the host registered the tensor buffer with handle {handle:#x} for another device context",
                hint="Register the buffer for the device context of this NPU call.",
            )
        return registration


def _of(call: ExportedCall) -> str:
    return f" of '{call.function_name}'"


def _write_metric(metric: Metric, out: Any, texts: list[object]) -> None:
    def keep(text: str) -> Any:
        kept = ffi.new("char[]", text.encode())
        texts.append(kept)
        return kept

    out.name = keep(metric.name)
    value = metric.value
    if isinstance(value, bool):
        out.value.type, out.value.bool_value = _BOOL, value
    elif isinstance(value, int):
        out.value.type, out.value.int_value = _INT, value
    elif isinstance(value, float):
        out.value.type, out.value.real_value = _REAL, value
    else:
        out.value.type, out.value.str_value = _STRING, keep(value)
