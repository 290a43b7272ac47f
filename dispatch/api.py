"""The dispatch table: the functions that a vendor implements so that the host can run byte code on a device.

The functions have the names of LiteRT's C tables without the prefix (`litert/vendors/c/litert_dispatch_api.h`:
interface, async and graph parts). `register_asset` follows the custom op assets guide. A function that the vendor
does not override has a default, which works on host memory. The vendor's module exposes its table as the variable
`DISPATCH`.

Order of calls: The host calls `initialize`, `check_runtime_compatibility` and `device_context_create`, then
`register_asset` for each companion and then for each asset. For each NPU call, the host calls
`invocation_context_create` and then asks for the buffer requirements of all inputs and outputs. For each buffer,
the host calls `register_tensor_buffer` and `attach_input` or `attach_output`. For each run, the host calls
`set_scheduling_info`, `set_options` and `invoke`. To replace a buffer, the host registers and attaches the new
buffer, then detaches and unregisters the old one. To release a model, the host detaches all buffers, then
unregisters them, then destroys the contexts.

Threads: The host makes one call at a time with a context, from any thread. The host uses different contexts in
parallel, also two invocation contexts of the same device context.

Errors: A function reports an error by raising `LiteRtError` with a suitable status. The user sees the error with
the names of the vendor and the function. After an error, the host releases each object that was created, once.
The host logs errors that a release function raises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntFlag
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from dispatch.event import Event
from dispatch.mem_buffer import MemBuffer
from dispatch.parts import (
    AsyncInterface,
    BufferHandlers,
    ExecutableType,
    GraphInterface,
    LockMode,
    NodeType,
)
from dispatch.scheduling import SchedulingInfo
from dispatch.shared_memory import SharedMemory
from dispatch.tensor_buffer import TensorBuffer, TensorBufferRequirements
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.core.version import DISPATCH_API_VERSION, ApiVersion
from litert.host.sandbox import Sandbox

__all__ = [
    "AsyncInterface", "BufferHandlers", "Capability", "Dispatch", "Event", "ExecutableType",
    "GraphInterface", "HostInvocationContext", "LockMode", "MemBuffer", "Metric", "NodeType",
    "Receive", "SchedulingInfo", "TensorBuffer", "TensorBufferRequirements", "is_filled", "not_filled",
]  # fmt: skip

DeviceContext = TypeVar("DeviceContext")
InvocationContext = TypeVar("InvocationContext")


class Capability(IntFlag):
    """LiteRT's `LiteRtDispatchCapabilities`."""

    NONE = 0
    BASIC = 1
    ASYNC = 2
    GRAPH = 4


@dataclass(frozen=True, slots=True)
class Metric:
    """One measurement of the metrics part: a name and a number or text."""

    name: str
    value: bool | int | float | str


Receive: TypeAlias = Callable[[str, RankedTensorType, memoryview], None]
"""A function that takes one tensor from inside an NPU call: name, type and bytes.

The name and the shape are those of the model. The element type may be another float type, if the NPU computes in
that type. The bytes are in row-major order and valid only during the call.
"""


class Dispatch(Generic[DeviceContext, InvocationContext]):
    """A vendor's dispatch table; each process has one instance.

    Attributes:
      api_version: Version of the dispatch interface that the table is written for; (0, 1, 0).
      vendor_id, build_id: Names of the vendor and of the build, for messages; the host does not use them to find
        the vendor.
      capabilities: BASIC, plus ASYNC if `async_interface` is set, plus GRAPH if `graph_interface` is set.
      can_reshape: Whether `get_input_requirements` and `get_output_requirements` can be called again on an open
        NPU call with attached buffers, for other shapes and for unknown dimensions. If False, the host opens a new
        call for other shapes.
      async_interface, graph_interface: The optional asynchronous part and graph part of the table; None if the
        vendor has no such part.
      buffer_handlers: Functions that create memory of the vendor's own types, for requirements that exclude host
        memory; None if the vendor has no such memory.
      host_side: Name of a function, as `package.module:function`, that runs in the host's process if the device
        runs in a separate process. The function answers the questions that the table asks with
        `litert.host.serving.ask_host`. Its arguments are the options, a question and the question's data as JSON
        values. The function must not trust the question or the data. "" if the table asks no questions.
      shared_memory: Shared memory in which the host must place tensors; None if tensors may lie in any host
        memory. Vendors leave `shared_memory` None: only the host's own tables set it.
    """

    api_version: ClassVar[ApiVersion] = DISPATCH_API_VERSION
    vendor_id: str
    build_id: str = ""
    capabilities: Capability = Capability.BASIC
    can_reshape: bool = False
    host_side: str = ""

    async_interface: AsyncInterface[Any] | None = None
    graph_interface: GraphInterface[Any, Any] | None = None
    buffer_handlers: BufferHandlers[Any] | None = None
    shared_memory: SharedMemory | None = None

    def initialize(
        self, environment_options: EnvironmentOptions, options: Mapping[str, str]
    ) -> None:
        """Initializes the vendor's table, once in a process, with the options of the first model that is loaded.

        The host calls this function before all others, except the checks and `sandbox_needs`. After an error, the
        host calls it again for the next model.

        Args:
          environment_options: Options of the environment that the first model is loaded in.
          options: The vendor's own options, by name.
        """

    def check_runtime_compatibility(
        self,
        host_version: ApiVersion,
        environment_options: EnvironmentOptions,
        options: Mapping[str, str],
    ) -> None:
        """Raises an error if the vendor's driver does not support this host; the default accepts every host.

        Raises:
          LiteRtError: UNSUPPORTED_RUNTIME_VERSION, if the driver does not support the host's version.
        """

    def check_device(self, soc_model: str) -> str:
        """Checks for `litert-npu check` whether this machine has the device, without loading the driver.

        The host may call this function before `initialize`, or without calling any other function.

        Returns:
          A phrase that names the device that was found; "" if the vendor cannot tell.

        Raises:
          LiteRtError: NOT_FOUND or UNSUPPORTED, if a file compiled for that SoC model cannot run on this machine.
        """
        return ""

    def check_byte_code(self, byte_code: memoryview, function_names: Sequence[str]) -> None:
        """Checks for `litert-npu check` whether the device can read a byte code module; loads no driver.

        The host may call this function before `initialize`, or without calling any other function. The default
        accepts every module.

        Args:
          byte_code: Bytes of one byte code module of the model, mapped from the file.
          function_names: Names of the functions in the module that the model's NPU calls run.

        Raises:
          LiteRtError: The error that `invocation_context_create` would raise for the module or for one of its
            functions.
        """

    def sandbox_needs(self, options: Mapping[str, str]) -> Sandbox:
        """Returns what the driver needs to access if its process runs in a sandbox.

        The host calls this function first, before a driver is loaded. Every sandbox allows access to Python's own
        files, the system's libraries and the folder of this table's module.
        """
        return Sandbox()

    def device_context_create(self, options: Mapping[str, str]) -> DeviceContext:
        """Opens the device for one loaded model.

        Returns:
          The device context, which can be any object except None.
        """
        raise not_filled(self, "device_context_create")

    def device_context_destroy(self, device_context: DeviceContext) -> None:
        """Closes a device; the host has already released everything that was created in the device context."""

    def register_asset(
        self, device_context: DeviceContext, asset_name: str, asset_buffer: MemBuffer
    ) -> None:
        """Gives the vendor one of the model's assets: an op's asset, or a companion named `<op>/<relative path>`.

        The bytes of the asset are mapped and stay valid as long as the device context. Keep the buffer instead of
        a copy (custom op assets guide, section 3).
        """

    def get_input_requirements(
        self, invocation_context: InvocationContext, input_index: int, tensor_type: RankedTensorType
    ) -> TensorBufferRequirements:
        """Returns the buffer requirements of input `input_index`; the default is host memory in row-major order.

        A dimension of -1 is not known yet. The required size must then be enough for the largest possible tensor.
        """
        return find_requirements(self, "get_input_requirements", tensor_type)

    def get_output_requirements(
        self,
        invocation_context: InvocationContext,
        output_index: int,
        tensor_type: RankedTensorType,
    ) -> TensorBufferRequirements:
        """Returns the buffer requirements of output `output_index`, in the same way as `get_input_requirements`.

        The host asks for the requirements of all inputs first, with the current input types. If the input types
        determine an output shape that has a dimension of -1, return that shape as `shape`, so that programs know
        it before a run.
        """
        return find_requirements(self, "get_output_requirements", tensor_type)

    def register_tensor_buffer(
        self, device_context: DeviceContext, tensor_buffer: TensorBuffer
    ) -> Any:
        """Registers a buffer with the device.

        The host registers a buffer once, even if several NPU calls use the buffer. The host registers a buffer
        again if the buffer was unregistered before. The host keeps the buffer and its memory until the buffer is
        unregistered.

        Returns:
          A handle that is unique to this registration and is not None. The host passes the handle to the attach,
          detach and unregister functions. The default handle is the buffer itself.
        """
        return tensor_buffer

    def unregister_tensor_buffer(self, device_context: DeviceContext, handle: Any) -> None:
        """Unregisters a buffer that is not attached to any NPU call."""

    def invocation_context_create(
        self,
        device_context: DeviceContext,
        executable_type: ExecutableType,
        byte_code: MemBuffer,
        function_name: str,
        num_inputs: int,
        num_outputs: int,
    ) -> InvocationContext:
        """Loads one function of a byte code module; the host creates one context for each NPU call of a model.

        The default stores the arguments in a `HostInvocationContext`.
        """
        context: Any = HostInvocationContext(
            device_context, byte_code, function_name, [None] * num_inputs, [None] * num_outputs
        )
        return context  # type: ignore[no-any-return]

    def invocation_context_destroy(self, invocation_context: InvocationContext) -> None:
        """Releases what the NPU call holds; all buffers are already detached."""

    def set_scheduling_info(
        self, invocation_context: InvocationContext, scheduling_info: SchedulingInfo
    ) -> None:
        """Sets the scheduling info of the next run; no field is None.

        If the function raises an error, the run starts all the same.
        """

    def set_options(
        self, invocation_context: InvocationContext, run_options: Mapping[str, str] | None
    ) -> None:
        """Sets the options of the next run only; None means no options. The vendor may ignore the options.

        Raises:
          LiteRtError: UNSUPPORTED, if the vendor takes no options; then only runs with options fail.
        """

    def attach_input(self, invocation_context: InvocationContext, index: int, handle: Any) -> None:
        """Attaches a buffer to input `index` for all later runs, in place of the buffer attached before.

        After an error, the host uses neither the new nor the old buffer for this input.
        """
        attach(self, invocation_context, "input", index, handle)

    def attach_output(self, invocation_context: InvocationContext, index: int, handle: Any) -> None:
        """Attaches a buffer to output `index`, in the same way as `attach_input`."""
        attach(self, invocation_context, "output", index, handle)

    def detach_input(self, invocation_context: InvocationContext, index: int, handle: Any) -> None:
        """Detaches a buffer from input `index`; does nothing if another buffer or no buffer is attached there."""
        detach(self, invocation_context, "input", index, handle)

    def detach_output(self, invocation_context: InvocationContext, index: int, handle: Any) -> None:
        """Detaches a buffer from output `index`, in the same way as `detach_input`."""
        detach(self, invocation_context, "output", index, handle)

    def invoke(self, invocation_context: InvocationContext) -> None:
        """Runs the function on the attached buffers; when `invoke` returns, the outputs are written.

        Raises:
          LiteRtError: RUNTIME_FAILURE, if the run fails; the context can still be used after that.
        """
        raise not_filled(self, "invoke")

    def invoke_tapped(self, invocation_context: InvocationContext, receive: Receive) -> None:
        """Runs like `invoke`, and passes tensors between the function's ops to `receive`. Optional.

        A debugger compares the tensors with those of a CPU. Byte code has the names of the tensors if it is
        compiled with `CompilerOptions.taps`. The vendor passes each tensor once in a run, after the tensor's op
        has written it and before another tensor takes its memory. The vendor leaves out tensors that its compiler
        has fused away. An exception from `receive` ends the run.

        Raises:
          LiteRtError: UNSUPPORTED, if the vendor has no taps; the same errors as `invoke`.
        """
        raise LiteRtError(Status.UNSUPPORTED, f"vendor '{self.vendor_id}' has no taps")

    def watch_tasks(
        self, invocation_context: InvocationContext, running: memoryview[int]
    ) -> Sequence[str]:
        """Makes each run write the number of its current task to `running`, starting from 1. Optional.

        A host that runs the device in a separate process calls this function. If that process crashes or hangs,
        the host's error message names the task.

        Args:
          invocation_context: Context of the NPU call.
          running: Memory for one number, valid as long as the context; other processes read the number.

        Returns:
          A description of each task for messages, such as "kernel 'f' of op 'MyOp'". An empty sequence if runs do
          not report their tasks. A call with only one task does not have to write a number.
        """
        return ()

    def kernel_texts(self, device_context: DeviceContext, byte_code: MemBuffer) -> Sequence[str]:
        """Returns the text of each kernel in a byte code module, as passed to the kernel compiler. Optional.

        The host calls this function after `register_asset`, before it loads a function of the module. So the texts
        include kernels that do not build. If a text depends on shapes, the text is the one for the largest shapes.

        Raises:
          LiteRtError: UNSUPPORTED, if the vendor does not show its kernels.
        """
        raise LiteRtError(
            Status.UNSUPPORTED,
            f"vendor '{self.vendor_id}' does not show its kernels",
            hint="Load the model without dump_kernels.",
        )

    def start_metrics_collection(
        self, invocation_context: InvocationContext, detail_level: int
    ) -> None:
        """Starts measuring runs; a higher detail level measures more and may be slower."""
        raise LiteRtError(Status.UNSUPPORTED, f"vendor '{self.vendor_id}' has no metrics")

    def stop_metrics_collection(self, invocation_context: InvocationContext) -> Sequence[Metric]:
        """Stops measuring runs, and returns the measurements since `start_metrics_collection`."""
        raise LiteRtError(Status.UNSUPPORTED, f"vendor '{self.vendor_id}' has no metrics")


def is_filled(dispatch: Dispatch[Any, Any], function: str) -> bool:
    """Returns whether a table overrides the default of a function."""
    default = getattr(Dispatch, function)
    return getattr(getattr(dispatch, function), "__func__", None) is not default


def not_filled(dispatch: Dispatch[Any, Any], function: str) -> LiteRtError:
    """Returns the error for a table that does not override a function without a default."""
    vendor = getattr(dispatch, "vendor_id", type(dispatch).__name__)
    return LiteRtError(
        Status.DYNAMIC_LOADING,
        f"the dispatch table has no '{function}'",
        f"vendor '{vendor}'",
        f"Override {function} in {type(dispatch).__name__}.",
    )


@dataclass(slots=True)
class HostInvocationContext:
    """The invocation context of vendors that use the default `invocation_context_create`, attach and detach.

    A vendor that needs more fields derives a class from `HostInvocationContext`.

    Attributes:
      device_context, byte_code, function_name: The arguments of `invocation_context_create`.
      inputs, outputs: The attached buffers as NumPy arrays, by index; None for an index without a buffer.
      attached: The attached buffers, by kind ("input" or "output") and index.
    """

    device_context: Any
    byte_code: MemBuffer
    function_name: str
    inputs: list[Any] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    attached: dict[tuple[str, int], TensorBuffer] = field(default_factory=dict)


def find_requirements(
    dispatch: object, function: str, tensor_type: RankedTensorType
) -> TensorBufferRequirements:
    """Returns requirements for host memory of the tensor's size; all dimensions must be known."""
    if not tensor_type.layout.is_static:
        raise LiteRtError(
            Status.UNSUPPORTED,
            f"the size of {tensor_type} is not known",
            hint=f"Override {function} in {type(dispatch).__name__}, and return the largest size.",
        )
    return TensorBufferRequirements(tensor_type.size_bytes)


def attach(dispatch: object, context: object, kind: str, index: int, handle: object) -> None:
    """Attaches a buffer to a `HostInvocationContext`; raises an error for other context or handle types."""
    host = _host_context(dispatch, context, f"attach_{kind}")
    if not isinstance(handle, TensorBuffer):
        name = type(dispatch).__name__
        raise LiteRtError(
            Status.DYNAMIC_LOADING,
            f"the default attach_{kind} takes no handle of the type {type(handle).__name__}",
            hint=f"Override it in {name}, or return the buffer from register_tensor_buffer.",
        )
    getattr(host, f"{kind}s")[index] = handle.array()
    host.attached[kind, index] = handle


def detach(dispatch: object, context: object, kind: str, index: int, handle: object) -> None:
    """Detaches a buffer from a `HostInvocationContext`, if the buffer is attached."""
    host = _host_context(dispatch, context, f"detach_{kind}")
    if host.attached.get((kind, index)) is handle:
        del host.attached[kind, index]
        getattr(host, f"{kind}s")[index] = None


def _host_context(dispatch: object, context: object, function: str) -> HostInvocationContext:
    if isinstance(context, HostInvocationContext):
        return context
    name = type(dispatch).__name__
    raise LiteRtError(
        Status.DYNAMIC_LOADING,
        f"the default {function} takes no context of the type {type(context).__name__}",
        hint=f"Override it in {name}, or derive the context from HostInvocationContext.",
    )
