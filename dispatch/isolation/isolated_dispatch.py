"""A dispatch table that runs the device in a separate process; each table is for one loaded model.

If the process crashes, hangs or ends during a call, the call fails with an error that says what the device was
doing. The next call starts a new process. The host records all contexts, registered buffers and attached buffers,
and restores them in the new process.

Tensors are in memory that both processes share. To start a run, the host writes a number to shared memory and
sends a signal; when the run has ended, the process sends a signal back. All other requests are sent as JSON.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dispatch.api import (
    Dispatch,
    ExecutableType,
    MemBuffer,
    Metric,
    Receive,
    SchedulingInfo,
    TensorBuffer,
    TensorBufferRequirements,
)
from dispatch.isolation.limits import Limits
from dispatch.isolation.plain import (
    environment_to_plain,
    requirements_from_plain,
    scheduling_to_plain,
    type_from_plain,
    type_to_plain,
)
from dispatch.isolation.table_process import TableProcess
from dispatch.shared_memory import SharedMemory
from litert.core.element_type import ElementType
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import ChildEndedError, LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.core.tracing import RECORDINGS, is_recording
from litert.core.version import ApiVersion
from litert.host.serving import RING

_TARGET = "dispatch.isolation.served_table:serve_table"

_AGAIN = "The next run opens the device again in a new process."

Kind = str
"""Whether a tensor of an NPU call is an `input` or an `output`."""


@dataclass(eq=False)
class IsolatedDevice:
    """A device context, with all data that a new process needs to create the context again."""

    options: Mapping[str, str]
    assets: list[tuple[str, MemBuffer]] = field(default_factory=list)
    calls: dict[int, IsolatedCall] = field(default_factory=dict)
    buffers: dict[int, IsolatedBuffer] = field(default_factory=dict)


@dataclass(eq=False)
class IsolatedBuffer:
    """A registered tensor buffer, which the device context keeps alive."""

    number: int
    buffer: TensorBuffer


@dataclass(eq=False)
class IsolatedCall:
    """An invocation context, with all data that a new process needs to create the context again.

    Attributes:
      types: Tensor types for which the host last requested buffer requirements, by kind (`input` or `output`) and
        index.
      attached: Attached buffers, by kind (`input` or `output`) and index.
      has_run: Whether the NPU call has already run in the current process with the current shapes.
    """

    number: int
    executable_type: ExecutableType
    byte_code: MemBuffer
    function_name: str
    num_inputs: int
    num_outputs: int
    types: dict[tuple[Kind, int], RankedTensorType] = field(default_factory=dict)
    attached: dict[tuple[Kind, int], IsolatedBuffer] = field(default_factory=dict)
    scheduling_info: SchedulingInfo | None = None
    run_options: Mapping[str, str] | None = None
    detail_level: int | None = None
    has_run: bool = False


class IsolatedDispatch(Dispatch[IsolatedDevice, IsolatedCall]):
    """The dispatch table of a manufacturer, which runs in a separate process; the owner must close the table."""

    def __init__(
        self,
        manufacturer: str,
        library_path: str,
        files: Sequence[int],
        options: Mapping[str, str],
        limits: Limits,
    ) -> None:
        """Starts the separate process without waiting until it is ready.

        Args:
          manufacturer: Name of the manufacturer; the process loads the manufacturer's dispatch table.
          library_path: Folder to search for dispatch tables, as in `find_dispatch`.
          files: File descriptors of the files that contain byte code and assets; the files must stay open.
          options: The vendor's options, which are passed to the table's `sandbox_needs`.
          limits: Time and memory limits of the process.

        Raises:
          LiteRtError: UNSUPPORTED, if a sandbox is required, but the system does not support sandboxes.
        """
        self.vendor_id = manufacturer  # until the table returns its own id
        self._files = tuple(dict.fromkeys(files))
        self._limits = limits
        self._lock = threading.RLock()
        self._owner = os.getpid()
        self._numbers = 0
        self._is_closed = False
        self._initial: tuple[EnvironmentOptions, Mapping[str, str]] | None = None
        self._checked: tuple[Any, ...] | None = None
        self._device: IsolatedDevice | None = None
        self._copies: dict[tuple[int, int], tuple[MemBuffer, TensorBuffer]] = {}
        self._receive: Receive | None = None
        self._raised: BaseException | None = None
        self.shared_memory = self._memory = SharedMemory(limits.most_bytes)
        try:
            self._process = TableProcess(
                _TARGET,
                (manufacturer, library_path, dict(options)),
                limits,
                {"receive": self._show},
                subject="the device's process",
                shared=[self._memory.fd, *self._files],
            )
        except BaseException:
            self._memory.close()
            raise

    def close(self) -> None:
        """Ends the separate process."""
        with self._lock:
            self._is_closed = True
            self._process.close()
            self._device = None
            self._copies.clear()
            self._memory.close()

    def initialize(
        self, environment_options: EnvironmentOptions, options: Mapping[str, str]
    ) -> None:
        self._initial = environment_options, dict(options)
        with self._lock:
            self._load()

    def check_runtime_compatibility(
        self,
        host_version: ApiVersion,
        environment_options: EnvironmentOptions,
        options: Mapping[str, str],
    ) -> None:
        self._checked = host_version, environment_to_plain(environment_options), dict(options)
        self._ask("check_runtime_compatibility", self._checked)

    def device_context_create(self, options: Mapping[str, str]) -> IsolatedDevice:
        assert self._device is None
        self._ask("device_context_create", dict(options))
        self._device = IsolatedDevice(dict(options))
        return self._device

    def device_context_destroy(self, device_context: IsolatedDevice) -> None:
        self._device = None
        self._release("device_context_destroy", None)

    def register_asset(
        self, device_context: IsolatedDevice, asset_name: str, asset_buffer: MemBuffer
    ) -> None:
        self._ask("register_asset", [asset_name, self._place_bytes(asset_buffer)])
        device_context.assets.append((asset_name, asset_buffer))

    def invocation_context_create(
        self,
        device_context: IsolatedDevice,
        executable_type: ExecutableType,
        byte_code: MemBuffer,
        function_name: str,
        num_inputs: int,
        num_outputs: int,
    ) -> IsolatedCall:
        call = IsolatedCall(
            self._next_number(), executable_type, byte_code, function_name, num_inputs, num_outputs
        )
        with self._lock:
            self._ensure_open()
            self._create(call)
            device_context.calls[call.number] = call
        return call

    def invocation_context_destroy(self, invocation_context: IsolatedCall) -> None:
        if self._device is not None:
            self._device.calls.pop(invocation_context.number, None)
        self._release("invocation_context_destroy", invocation_context.number)

    def get_input_requirements(
        self, invocation_context: IsolatedCall, input_index: int, tensor_type: RankedTensorType
    ) -> TensorBufferRequirements:
        return self._ask_requirements(invocation_context, "input", input_index, tensor_type)

    def get_output_requirements(
        self, invocation_context: IsolatedCall, output_index: int, tensor_type: RankedTensorType
    ) -> TensorBufferRequirements:
        return self._ask_requirements(invocation_context, "output", output_index, tensor_type)

    def register_tensor_buffer(
        self, device_context: IsolatedDevice, tensor_buffer: TensorBuffer
    ) -> IsolatedBuffer:
        made = IsolatedBuffer(self._next_number(), tensor_buffer)
        with self._lock:
            self._ensure_open()
            self._register(made)
            device_context.buffers[made.number] = made
        return made

    def unregister_tensor_buffer(
        self, device_context: IsolatedDevice, handle: IsolatedBuffer
    ) -> None:
        device_context.buffers.pop(handle.number, None)
        self._release("unregister_tensor_buffer", handle.number)

    def attach_input(
        self, invocation_context: IsolatedCall, index: int, handle: IsolatedBuffer
    ) -> None:
        self._attach(invocation_context, "input", index, handle)

    def attach_output(
        self, invocation_context: IsolatedCall, index: int, handle: IsolatedBuffer
    ) -> None:
        self._attach(invocation_context, "output", index, handle)

    def detach_input(
        self, invocation_context: IsolatedCall, index: int, handle: IsolatedBuffer
    ) -> None:
        self._detach(invocation_context, "input", index, handle)

    def detach_output(
        self, invocation_context: IsolatedCall, index: int, handle: IsolatedBuffer
    ) -> None:
        self._detach(invocation_context, "output", index, handle)

    def invoke(self, invocation_context: IsolatedCall) -> None:
        call = invocation_context
        with self._lock:
            self._ensure_open()
            limits = self._limits
            timeout_s = limits.call_timeout_s if call.has_run else limits.build_timeout_s
            service = self._process.service
            try:
                if RECORDINGS and is_recording():
                    service.ask(RING, call.number, timeout_s)
                else:
                    service.ring("invoke", call.number, timeout_s)
            except LiteRtError as error:
                raise self._failure(error) from error
            call.has_run = True

    def invoke_tapped(self, invocation_context: IsolatedCall, receive: Receive) -> None:
        with self._lock:
            self._receive, self._raised = receive, None
            try:
                self._ask("invoke_tapped", invocation_context.number)
            except LiteRtError:
                if self._raised is not None:
                    raise self._raised from None
                raise
            finally:
                self._receive = self._raised = None

    def kernel_texts(self, device_context: IsolatedDevice, byte_code: MemBuffer) -> Sequence[str]:
        found: Sequence[str] = self._ask("kernel_texts", self._place_bytes(byte_code))
        return found

    def start_metrics_collection(self, invocation_context: IsolatedCall, detail_level: int) -> None:
        self._ask("start_metrics_collection", [invocation_context.number, detail_level])
        invocation_context.detail_level = detail_level

    def stop_metrics_collection(self, invocation_context: IsolatedCall) -> Sequence[Metric]:
        invocation_context.detail_level = None
        found = self._ask("stop_metrics_collection", invocation_context.number)
        return [Metric(name, value) for name, value in found]

    def _set_scheduling_info(
        self, invocation_context: IsolatedCall, scheduling_info: SchedulingInfo
    ) -> None:
        if scheduling_info is not invocation_context.scheduling_info:
            invocation_context.scheduling_info = scheduling_info
            self._set_up(invocation_context)

    def _set_options(
        self, invocation_context: IsolatedCall, run_options: Mapping[str, str] | None
    ) -> None:
        if run_options is not invocation_context.run_options:
            invocation_context.run_options = run_options
            self._set_up(invocation_context)

    def _load(self) -> None:
        """Waits until the process has loaded the table, and initializes the table."""
        assert self._initial is not None
        environment, options = self._initial
        try:
            self._process.load()
        except LiteRtError as error:
            raise self._failure(error) from error
        request = [self._memory.fd, environment_to_plain(environment), options]
        found = self._ask_now("initialize", request)
        self.vendor_id, self.build_id = found["vendor_id"], found["build_id"]
        self.can_reshape = found["can_reshape"]
        # The host checks which functions are overridden, and does not call the others.
        for name, function in (
            ("set_scheduling_info", self._set_scheduling_info),
            ("set_options", self._set_options),
        ):
            if name in found["filled"]:
                setattr(self, name, function)

    def _ensure_open(self) -> None:
        """Starts a new process after the previous process has ended, and restores the previous state."""
        if self._process.service.is_alive:
            return
        if self._is_closed:
            raise LiteRtError(Status.RUNTIME_FAILURE, "the device is closed")
        self._process.start()
        try:
            self._load()
            if self._checked is not None:
                self._ask_now("check_runtime_compatibility", self._checked)
            if self._device is not None:
                self._restore(self._device)
        except BaseException:
            self._process.service.close()
            raise

    def _restore(self, device: IsolatedDevice) -> None:
        self._ask_now("device_context_create", device.options)
        for name, buffer in device.assets:
            self._ask_now("register_asset", [name, self._place_bytes(buffer)])
        for registered in device.buffers.values():
            self._register(registered)
        for call in device.calls.values():
            self._create(call)
            for (kind, index), tensor_type in sorted(call.types.items()):  # inputs are first
                request = [call.number, kind, index, type_to_plain(tensor_type)]
                self._ask_now("get_requirements", request)
            for (kind, index), handle in call.attached.items():
                self._ask_now("attach", [call.number, kind, index, handle.number])
            if call.scheduling_info is not None or call.run_options is not None:
                self._set_up(call)
            if call.detail_level is not None:
                self._ask_now("start_metrics_collection", [call.number, call.detail_level])

    def _create(self, call: IsolatedCall) -> None:
        place = self._place_bytes(call.byte_code)
        sizes = [call.num_inputs, call.num_outputs]
        request = [call.number, int(call.executable_type), place, call.function_name, *sizes]
        self._ask_now("invocation_context_create", request)
        call.has_run = False

    def _register(self, made: IsolatedBuffer) -> None:
        buffer = made.buffer
        offset = self._memory.find(buffer)
        assert offset is not None  # others do not meet the requirements
        request = [made.number, type_to_plain(buffer.tensor_type), offset, buffer.size]
        self._ask_now("register_tensor_buffer", request)

    def _attach(self, call: IsolatedCall, kind: Kind, index: int, handle: IsolatedBuffer) -> None:
        self._ask("attach", [call.number, kind, index, handle.number])
        call.attached[kind, index] = handle

    def _detach(self, call: IsolatedCall, kind: Kind, index: int, handle: IsolatedBuffer) -> None:
        if call.attached.get((kind, index)) is handle:
            del call.attached[kind, index]
        self._release("detach", [call.number, kind, index, handle.number])

    def _ask_requirements(
        self, call: IsolatedCall, kind: Kind, index: int, tensor_type: RankedTensorType
    ) -> TensorBufferRequirements:
        request = [call.number, kind, index, type_to_plain(tensor_type)]
        found = requirements_from_plain(self._ask("get_requirements", request))
        if tensor_type.layout.is_static or (kind, index) not in call.types:
            call.has_run = call.has_run and call.types.get((kind, index)) == tensor_type
            call.types[kind, index] = tensor_type
        return found

    def _set_up(self, call: IsolatedCall) -> None:
        info = call.scheduling_info
        settings = None if info is None else scheduling_to_plain(info)
        options = None if call.run_options is None else dict(call.run_options)
        self._ask("set_settings", [call.number, settings, options])

    def _place_bytes(self, buffer: MemBuffer) -> list[Any]:
        """Returns where the process finds bytes: in an inherited file, or copied to shared memory."""
        if buffer.fd in self._files:
            return [buffer.fd, buffer.offset, buffer.size]
        key = buffer.base_address + buffer.offset, buffer.size
        if key not in self._copies:
            room = self._memory.allocate(_bytes_type(buffer.size))
            ctypes.memmove(room.address, key[0], buffer.size)
            self._copies[key] = buffer, room
        return [-1, self._memory.find(self._copies[key][1]), buffer.size]

    def _next_number(self) -> int:
        with self._lock:
            self._numbers += 1
            return self._numbers

    def _ask(self, call: str, argument: object) -> Any:
        with self._lock:
            self._ensure_open()
            return self._ask_now(call, argument)

    def _ask_now(self, call: str, argument: object) -> Any:
        """Sends a request to the current process; opening, loading and building have a longer time limit."""
        try:
            return self._process.service.ask(call, argument, self._limits.build_timeout_s)
        except LiteRtError as error:
            raise self._failure(error) from error

    def _failure(self, error: LiteRtError) -> LiteRtError:
        """Returns an error of the process with a hint about the memory limit, or about what happens next."""
        hint = self._process.memory_hint(error)
        if isinstance(error, ChildEndedError):
            return ChildEndedError(error.status, error.what, hint=hint or _AGAIN)
        return LiteRtError(error.status, error.what, error.where, hint or error.hint)

    def _release(self, call: str, argument: object) -> None:
        """Makes the process release an object; does nothing if the process has ended."""
        with self._lock:
            if self._process.service.is_alive and os.getpid() == self._owner:
                self._ask_now(call, argument)

    def _show(self, argument: Any) -> None:
        """Passes an intermediate tensor from the process to the receiver."""
        if self._receive is None:
            raise LiteRtError(
                Status.RUNTIME_FAILURE,
                "the device's process passed an intermediate tensor, but the host did not ask for any",
            )
        name, plain, size = argument
        try:
            data = memoryview(os.pread(self._process.service.fd, size, 0))
            self._receive(name, type_from_plain(plain), data)
        except BaseException as error:
            self._raised = error
            raise LiteRtError(
                Status.CANCELLED, "the host has stopped the passing of intermediate tensors"
            ) from error


def _bytes_type(size: int) -> RankedTensorType:
    return RankedTensorType.of(ElementType.UINT8, (size,))
