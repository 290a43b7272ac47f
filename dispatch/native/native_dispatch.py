"""Wraps a native dispatch library as a Python dispatch table; each function calls the library.

Like stock LiteRT, the host calls no function of the library before `initialize`. The vendor id and the
capabilities of the library are known only after `initialize`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dispatch.api import (
    Capability,
    Dispatch,
    ExecutableType,
    MemBuffer,
    Metric,
    Receive,
    SchedulingInfo,
    TensorBuffer,
    TensorBufferRequirements,
)
from dispatch.native.contexts import NativeCall, NativeDevice, NativeRegistration
from dispatch.native.dispatch_library import DispatchLibrary
from dispatch.native.library_answers import answer, check_answer, decode, read_metrics
from dispatch.native.library_parts import (
    NativeAsyncInterface,
    NativeBufferHandlers,
    NativeGraphInterface,
)
from dispatch.native.runtime_context import RuntimeContext
from litert.abi.definitions import ffi
from litert.abi.options_table import options_table
from litert.abi.tensor_types import from_c, to_c
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import VENDOR_REPAIRS, LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.core.version import ApiVersion

_LOG = logging.getLogger(__name__)


def _on_buffer(function: str) -> Callable[..., None]:
    """Makes a method that calls a library's function with an index and a buffer; a NULL function is not called."""

    def act(
        table: NativeDispatch,
        invocation_context: NativeCall,
        index: int,
        handle: NativeRegistration,
    ) -> None:
        if found := getattr(table._functions, function):
            check_answer(found(invocation_context.handle, index, handle.handle))

    return act


def _asking(function: str) -> Callable[..., TensorBufferRequirements]:
    """Makes a method that returns buffer requirements from a library's function."""

    def ask(
        table: NativeDispatch,
        invocation_context: NativeCall,
        index: int,
        tensor_type: RankedTensorType,
    ) -> TensorBufferRequirements:
        c_type = ffi.new("LiteRtRankedTensorType*")
        to_c(tensor_type, c_type)
        asked = getattr(table._functions, function)
        context = invocation_context.handle
        made = answer("LiteRtTensorBufferRequirements", asked, context, index, c_type)
        return table.runtime.take_requirements(made)

    return ask


class NativeDispatch(Dispatch[NativeDevice, NativeCall]):
    """The dispatch table of a native library.

    Attributes:
      runtime: Runtime context that the host passes to the library.
    """

    def __init__(self, library: DispatchLibrary) -> None:
        self.vendor_id = library.name  # until the library returns its own id
        self._library = library
        self._functions = functions = library.api.interface  # `LiteRtDispatchInterface*`
        self._invoke = functions.invoke
        self.runtime = RuntimeContext(f"vendor '{library.name}'")
        self._options = options_table()
        if library.api.tensor_buffer_handlers_def:
            handlers = library.api.tensor_buffer_handlers_def
            self.buffer_handlers = NativeBufferHandlers(handlers, library.path)
        # The host checks which functions are overridden, and does not call the others.
        for slot, is_filled, function in (
            (
                "set_scheduling_info",
                functions.invocation_context_set_scheduling_info,
                self._set_scheduling_info,
            ),
            ("set_options", functions.invocation_context_set_options, self._set_options),
            ("invoke_tapped", library.invoke_tapped, self._invoke_tapped),
            ("start_metrics_collection", library.has_metrics, self._start_metrics),
            ("stop_metrics_collection", library.has_metrics, self._stop_metrics),
        ):
            if is_filled:
                setattr(self, slot, function)

    def initialize(
        self, environment_options: EnvironmentOptions, options: Mapping[str, str]
    ) -> None:
        runtime = self.runtime
        environment = runtime.put_environment(environment_options)
        settings = self._put_options(
            options
        )  # both are never freed, because a library may keep them
        check_answer(
            self._functions.initialize(
                runtime.table,
                ffi.cast("LiteRtEnvironment", environment),
                ffi.cast("LiteRtOptions", settings),
            )
        )
        self._read_ids()
        self._read_capabilities()

    def check_runtime_compatibility(
        self,
        host_version: ApiVersion,
        environment_options: EnvironmentOptions,
        options: Mapping[str, str],
    ) -> None:
        environment = self._options.put_environment(environment_options)
        settings = self._put_options(options)
        version = ffi.new("LiteRtApiVersion*", list(host_version))
        try:
            check_answer(
                self._functions.check_runtime_compatibility(
                    version[0],
                    ffi.cast("LiteRtEnvironmentOptions", environment),
                    ffi.cast("LiteRtOptions", settings),
                )
            )
        finally:
            self._options.drop_environment(environment)
            self._options.drop_options(settings)

    def device_context_create(self, options: Mapping[str, str]) -> NativeDevice:
        settings = self._put_options(options)
        try:
            made = answer(
                "LiteRtDispatchDeviceContext",
                self._functions.device_context_create,
                self.runtime.table,
                ffi.cast("LiteRtOptions", settings),
            )
            if not made:
                raise _nonsense("the device context that the library returned is NULL")
        except BaseException:
            self._options.drop_options(settings)
            raise
        return NativeDevice(made, settings)

    def device_context_destroy(self, device_context: NativeDevice) -> None:
        try:
            if self._functions.device_context_destroy:
                check_answer(self._functions.device_context_destroy(device_context.handle))
        finally:
            self._options.drop_options(device_context.options)
            device_context.kept.clear()

    def register_asset(
        self, device_context: NativeDevice, asset_name: str, asset_buffer: MemBuffer
    ) -> None:
        register = self._library.register_asset
        if register is not None:
            struct = device_context.keep(asset_buffer)
            check_answer(register(device_context.handle, asset_name.encode(), struct))
        elif not device_context.was_told_of_assets:
            device_context.was_told_of_assets = True
            _LOG.warning(
                "%s does not export LiteRtDispatchRegisterAsset; the model's assets are not "
                "passed to the library",
                self._library.path,
            )

    get_input_requirements = _asking("get_input_requirements")
    get_output_requirements = _asking("get_output_requirements")

    def register_tensor_buffer(
        self, device_context: NativeDevice, tensor_buffer: TensorBuffer
    ) -> NativeRegistration:
        buffer = self.runtime.buffers.put(tensor_buffer)
        try:
            handle = answer(
                "LiteRtTensorBufferHandle",
                self._functions.register_tensor_buffer,
                device_context.handle,
                ffi.cast("LiteRtTensorBuffer", buffer),
            )
        except BaseException:
            self.runtime.buffers.drop(buffer)
            raise
        return NativeRegistration(int(handle), buffer)

    def unregister_tensor_buffer(
        self, device_context: NativeDevice, handle: NativeRegistration
    ) -> None:
        try:
            unregister = self._functions.unregister_tensor_buffer
            if unregister:
                check_answer(unregister(device_context.handle, handle.handle))
        finally:
            self.runtime.buffers.drop(handle.buffer)

    def invocation_context_create(
        self,
        device_context: NativeDevice,
        executable_type: ExecutableType,
        byte_code: MemBuffer,
        function_name: str,
        num_inputs: int,
        num_outputs: int,
    ) -> NativeCall:
        made = answer(
            "LiteRtDispatchInvocationContext",
            self._functions.invocation_context_create,
            self.runtime.table,
            device_context.handle,
            int(executable_type),
            device_context.keep(byte_code),
            function_name.encode(),
            num_inputs,
            num_outputs,
        )
        if not made:
            raise _nonsense("the invocation context that the library returned is NULL")
        return NativeCall(made, device_context, num_inputs, num_outputs)

    def invocation_context_destroy(self, invocation_context: NativeCall) -> None:
        try:
            if self._functions.invocation_context_destroy:
                check_answer(self._functions.invocation_context_destroy(invocation_context.handle))
        finally:
            for event in (*invocation_context.input_events, *invocation_context.run_events):
                self.runtime.handles.drop(event)
            self._drop_run_options(invocation_context)

    attach_input = _on_buffer("attach_input")
    attach_output = _on_buffer("attach_output")
    detach_input = _on_buffer("detach_input")
    detach_output = _on_buffer("detach_output")

    def invoke(self, invocation_context: NativeCall) -> None:
        status = self._invoke(invocation_context.handle)
        if status:
            check_answer(status)

    def _read_ids(self) -> None:
        vendor_id = decode(answer("const char*", self._functions.get_vendor_id), "the vendor's id")
        if not vendor_id:
            raise _nonsense("the vendor's id is empty")
        self.build_id = decode(
            answer("const char*", self._functions.get_build_id), "the build's id"
        )
        self.vendor_id = vendor_id

    def _read_capabilities(self) -> None:
        found = answer("int", self._functions.get_capabilities)
        capabilities = Capability(found & sum(Capability))
        if not capabilities & Capability.BASIC:
            raise _nonsense(f"the capabilities of the library are {found}, but must include BASIC")
        if capabilities & Capability.ASYNC:
            self._library.check_part("async_interface")
            functions = self._library.api.async_interface
            self.async_interface = NativeAsyncInterface(functions, self.runtime)
        if capabilities & Capability.GRAPH:
            self._library.check_part("graph_interface")
            self.graph_interface = NativeGraphInterface(self._library.api.graph_interface)
        self.capabilities = capabilities

    def _put_options(self, options: Mapping[str, str]) -> int:
        if not options:
            return self._options.put_options({})
        from litert.abi.vendor_flags import dispatch_payloads  # here: few programs have options

        return self._options.put_options(dispatch_payloads(self._library.name, options))

    def _set_scheduling_info(
        self, invocation_context: NativeCall, scheduling_info: SchedulingInfo
    ) -> None:
        status = self._functions.invocation_context_set_scheduling_info(
            invocation_context.handle, invocation_context.scheduling_struct(scheduling_info)
        )
        if status:
            check_answer(status)

    def _set_options(
        self, invocation_context: NativeCall, run_options: Mapping[str, str] | None
    ) -> None:
        self._drop_run_options(invocation_context)
        if run_options is not None:
            invocation_context.run_options = self._put_options(run_options)
        settings = ffi.cast("LiteRtOptions", invocation_context.run_options)
        set_options = self._functions.invocation_context_set_options
        status = set_options(invocation_context.handle, settings)
        if status:
            check_answer(status)

    def _drop_run_options(self, call: NativeCall) -> None:
        if call.run_options:
            self._options.drop_options(call.run_options)
            call.run_options = 0

    def _invoke_tapped(self, invocation_context: NativeCall, receive: Receive) -> None:
        raised: list[BaseException] = []

        def take(_: Any, name: Any, tensor_type: Any, data: Any, size_bytes: int) -> int:
            try:
                if raised:  # the library should have stopped
                    return int(Status.RUNTIME_FAILURE)
                view = memoryview(ffi.buffer(data, size_bytes) if data else b"")
                receive(decode(name, "a tensor's name"), from_c(tensor_type), view)
            except BaseException as error:  # exceptions must not reach C code
                raised.append(error)
                return int(Status.RUNTIME_FAILURE)
            return 0

        callback = ffi.callback("LiteRtDispatchReceiveTensor", take)
        status = self._library.invoke_tapped(invocation_context.handle, callback, ffi.NULL)
        if raised:
            raise raised[0]
        check_answer(status)

    def _start_metrics(self, invocation_context: NativeCall, detail_level: int) -> None:
        start = self._functions.start_metrics_collection
        check_answer(start(invocation_context.handle, detail_level))

    def _stop_metrics(self, invocation_context: NativeCall) -> Sequence[Metric]:
        stop = self._functions.stop_metrics_collection
        metrics = answer("LiteRtDispatchMetrics", stop, invocation_context.handle)
        return read_metrics(self._functions, metrics)


def _nonsense(what: str) -> LiteRtError:
    return LiteRtError(Status.RUNTIME_FAILURE, what, hint=VENDOR_REPAIRS)
