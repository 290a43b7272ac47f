"""The dispatch table: the functions that a vendor implements so that the host can run byte code on a device.

The functions have the same names as in LiteRT's C tables, without the prefix
(`litert/vendors/c/litert_dispatch_api.h`). `register_asset` follows the custom op assets guide. If the vendor does
not override a function, the host uses the function's default implementation, which works on host memory. The
vendor's module contains the table as the variable `DISPATCH`.

Order of calls: The host calls `initialize`, `check_runtime_compatibility` and `device_context_create`, then
`register_asset` for each companion and then for each asset. For each NPU call, the host calls
`invocation_context_create` and then asks for the buffer requirements of all inputs and outputs. For each buffer,
the host calls `register_tensor_buffer` and `attach_input` or `attach_output`. For each run, the host calls
`set_scheduling_info`, `set_options` and `invoke`. To replace a buffer, the host registers and attaches the new
buffer, then detaches and unregisters the old buffer. To release a model, the host detaches all buffers, then
unregisters all buffers, then destroys the contexts.

Threads: For each context, the host makes one call at a time, from any thread. The host makes calls for different
  contexts in parallel, even for two invocation contexts of the same device context.

Errors: To report an error, a function raises `LiteRtError` with a suitable status. The error message that the user
  sees also contains the vendor and the function. After an error, the host releases each created object exactly
  once. Errors from release functions are logged.
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
    """The parts of the dispatch interface that a vendor supports (LiteRT's `LiteRtDispatchCapabilities`)."""

    NONE = 0
    BASIC = 1
    ASYNC = 2
    GRAPH = 4


@dataclass(frozen=True, slots=True)
class Metric:
    """One measurement of an NPU call's runs: a name and a value, which is a number or a text.

    If the name ends with `, mean_us`, the value is the mean time of a part of the call, such as a task. The text
    report of `litert-npu benchmark` shows only the parts with the longest times.
    """

    name: str
    value: bool | int | float | str


Receive: TypeAlias = Callable[[str, RankedTensorType, memoryview], None]
"""A function that gets the name, the type and the bytes of one intermediate tensor of an NPU call.

The tensor has the same name and shape as in the model. Its element type may be another float type, if the NPU
computes in that type. The bytes are in row-major order, and are valid only until the function returns.
"""


class Dispatch(Generic[DeviceContext, InvocationContext]):
    """Base class of a vendor's dispatch table: the functions by which the host runs byte code on a device.

    Each process has one instance of the vendor's class.

    Attributes:
      api_version: Version of the dispatch interface that the table implements; currently (0, 1, 0).
      vendor_id, build_id: Name of the vendor, and name of the driver's build. The names appear in messages; the
        host does not use them to find a vendor's table.
      capabilities: BASIC, plus ASYNC if `async_interface` is set, plus GRAPH if `graph_interface` is set.
      can_reshape: Whether the host may change the input and output shapes of an existing invocation context (the
        object for one NPU call). To change shapes, the host calls `get_input_requirements` and
        `get_output_requirements` again; during these calls, buffers may be attached to the context. If False, the
        host creates a new invocation context when the shapes change.
      async_interface, graph_interface: Optional functions for asynchronous runs and for graphs; None if the vendor
        does not support them.
      buffer_handlers: Functions that allocate device memory, for vendors whose buffer requirements exclude host
        memory; None if the vendor uses host memory only.
      host_side: Name of a function that handles requests in the host's process, as `package.module:function`. If
        the table runs in a separate process, the table can send such requests with `litert.host.serving.ask_host`.
        The function gets the vendor's options, the name of the request, and the request's data as a JSON value.
        The function must not trust the name or the data. "" means that the table sends no requests.
      shared_memory: Shared memory in which the host must allocate tensors; None if tensors may be in any host
        memory. Vendors must not set `shared_memory`: it is for the host's own table, which passes calls to a
        device in a separate process.
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
        """Initializes the vendor's table; the host calls this function once in a process, for the first model.

        The host calls no other function before `initialize`, except the `check_` functions and `sandbox_needs`. If
        `initialize` fails, the host calls it again for the next model.

        Args:
          environment_options: Options of the environment in which the first model is loaded.
          options: The vendor's own options by name; users set them with `--dispatch_option`.
        """

    def check_runtime_compatibility(
        self,
        host_version: ApiVersion,
        environment_options: EnvironmentOptions,
        options: Mapping[str, str],
    ) -> None:
        """Raises an error if the vendor's driver does not support this host; by default, every host is supported.

        Raises:
          LiteRtError: UNSUPPORTED_RUNTIME_VERSION, if the driver does not support the host's version.
        """

    def check_device(self, soc_model: str) -> str:
        """Checks whether this machine has the device, without loading a driver.

        The command `litert-npu check` calls this function; this call may come before all other calls, even before
        `initialize`.

        Returns:
          A short description of the device that was found; "" if the vendor cannot describe the device.

        Raises:
          LiteRtError: NOT_FOUND or UNSUPPORTED, if files compiled for the SoC model cannot run on this machine.
        """
        return ""

    def check_byte_code(self, byte_code: memoryview, function_names: Sequence[str]) -> None:
        """Checks whether the device can read a byte code module, without loading a driver.

        The command `litert-npu check` calls this function; this call may come before all other calls, even before
        `initialize`. The default implementation accepts every module.

        Args:
          byte_code: Bytes of one byte code module of the model, mapped from the file.
          function_names: Names of the module's functions that the model's NPU calls run.

        Raises:
          LiteRtError: Any error that `invocation_context_create` would raise for the module or for one of its
            functions.
        """

    def sandbox_needs(self, options: Mapping[str, str]) -> Sandbox:
        """Returns the files and devices that the driver needs to access if its process runs in a sandbox.

        In a process that will enter a sandbox, `sandbox_needs` is the first call; no driver is loaded yet. Every
        sandbox already allows access to Python's files, the system's libraries and the folder of this table's
        module.
        """
        return Sandbox()

    def device_context_create(self, options: Mapping[str, str]) -> DeviceContext:
        """Opens the device for one model that is being loaded.

        Returns:
          The device context; any object except None.
        """
        raise not_filled(self, "device_context_create")

    def device_context_destroy(self, device_context: DeviceContext) -> None:
        """Closes a device context; the host has already released all objects that were created in it."""

    def register_asset(
        self, device_context: DeviceContext, asset_name: str, asset_buffer: MemBuffer
    ) -> None:
        """Gives the vendor one asset of the model, or one companion file (a file that an asset refers to).

        The name of a companion file is `<op>/<path>`, where `<path>` is the compiler plugin's
        `Companion.relative_path`. The asset is mapped into memory and stays valid until the device context is
        destroyed. The vendor should store the buffer, not a copy of its bytes (section 3 of LiteRT's custom op
        assets guide).
        """

    def get_input_requirements(
        self, invocation_context: InvocationContext, input_index: int, tensor_type: RankedTensorType
    ) -> TensorBufferRequirements:
        """Returns the requirements for the buffer of an input; the default is host memory in row-major order.

        In `tensor_type`, a dimension of -1 is not known yet. If a dimension is -1, the returned size must be
        enough for the largest possible tensor.
        """
        return find_requirements(self, "get_input_requirements", tensor_type)

    def get_output_requirements(
        self,
        invocation_context: InvocationContext,
        output_index: int,
        tensor_type: RankedTensorType,
    ) -> TensorBufferRequirements:
        """Returns the requirements for the buffer of an output, in the same way as `get_input_requirements`.

        The host first calls `get_input_requirements` for all inputs, with their current types. A dimension of -1
        in `tensor_type` is not known yet. If the input types determine all dimensions, set `shape` of the returned
        requirements to the output's full shape. Programs can then read the shape before a run.
        """
        return find_requirements(self, "get_output_requirements", tensor_type)

    def register_tensor_buffer(
        self, device_context: DeviceContext, tensor_buffer: TensorBuffer
    ) -> Any:
        """Registers a tensor buffer with the device.

        Even if several NPU calls use a buffer, the host registers the buffer only once. After the host has
        unregistered a buffer, it can register the buffer again. The host keeps the buffer and its memory until the
        buffer is unregistered.

        Returns:
          A handle for the registered buffer, which must be unique and not None. The host passes the handle to the
          attach, detach and unregister functions. By default, the handle is the buffer itself.
        """
        return tensor_buffer

    def unregister_tensor_buffer(self, device_context: DeviceContext, handle: Any) -> None:
        """Unregisters a buffer; the host has already detached the buffer from all NPU calls."""

    def invocation_context_create(
        self,
        device_context: DeviceContext,
        executable_type: ExecutableType,
        byte_code: MemBuffer,
        function_name: str,
        num_inputs: int,
        num_outputs: int,
    ) -> InvocationContext:
        """Loads one function of a byte code module; the host creates one invocation context for each NPU call.

        The default implementation stores the arguments in a `HostInvocationContext`.
        """
        context: Any = HostInvocationContext(
            device_context, byte_code, function_name, [None] * num_inputs, [None] * num_outputs
        )
        return context  # type: ignore[no-any-return]

    def invocation_context_destroy(self, invocation_context: InvocationContext) -> None:
        """Releases the resources of an NPU call; its buffers are already detached."""

    def set_scheduling_info(
        self, invocation_context: InvocationContext, scheduling_info: SchedulingInfo
    ) -> None:
        """Sets the priority and the other scheduling info of the next run; the host has set all fields.

        If this function raises an error, the host logs the error and starts the run anyway.
        """

    def set_options(
        self, invocation_context: InvocationContext, run_options: Mapping[str, str] | None
    ) -> None:
        """Sets the options for the next run only; None means no options. The vendor may ignore the options.

        Raises:
          LiteRtError: UNSUPPORTED, if the vendor does not support run options; then every run with options fails.
        """

    def attach_input(self, invocation_context: InvocationContext, index: int, handle: Any) -> None:
        """Attaches a buffer to an input for all later runs; a buffer that was attached before is replaced.

        If this function raises an error, no buffer is attached to the input any more.
        """
        attach(self, invocation_context, "input", index, handle)

    def attach_output(self, invocation_context: InvocationContext, index: int, handle: Any) -> None:
        """Attaches a buffer to an output, in the same way as `attach_input`."""
        attach(self, invocation_context, "output", index, handle)

    def detach_input(self, invocation_context: InvocationContext, index: int, handle: Any) -> None:
        """Detaches a buffer from an input; does nothing if the buffer is not attached to this input."""
        detach(self, invocation_context, "input", index, handle)

    def detach_output(self, invocation_context: InvocationContext, index: int, handle: Any) -> None:
        """Detaches a buffer from an output, in the same way as `detach_input`."""
        detach(self, invocation_context, "output", index, handle)

    def invoke(self, invocation_context: InvocationContext) -> None:
        """Runs the NPU call's function on the attached buffers; when `invoke` returns, all outputs are written.

        Raises:
          LiteRtError: RUNTIME_FAILURE, if the run fails; the invocation context can still be used after this
            error.
        """
        raise not_filled(self, "invoke")

    def invoke_tapped(self, invocation_context: InvocationContext, receive: Receive) -> None:
        """Runs the function like `invoke`, and also passes its intermediate tensors to `receive`. Optional.

        Debuggers compare these tensors with the same tensors computed on a CPU. The byte code contains the names
        of tensors if it was compiled with `CompilerOptions.taps`. The vendor calls `receive` once for each tensor
        in a run, after an op has written the tensor and before the tensor's memory is reused. Tensors that the
        vendor's compiler has fused away are omitted. If `receive` raises an exception, the run ends.

        Raises:
          LiteRtError: UNSUPPORTED, if the vendor cannot pass intermediate tensors; any error of `invoke`.
        """
        raise LiteRtError(
            Status.UNSUPPORTED,
            "the vendor cannot pass an NPU call's intermediate tensors to the host",
            f"vendor '{self.vendor_id}'",
        )

    def watch_tasks(
        self, invocation_context: InvocationContext, running: memoryview[int]
    ) -> Sequence[str]:
        """Makes each run write the number of its current task to `running`. Optional.

        A task is a step of a run, such as a kernel; the first task has number 1. The host calls this function only
        if the device runs in a separate process. If the process crashes or hangs, the host's error message
        contains the description of the current task.

        Args:
          invocation_context: Context of the NPU call.
          running: Memory to which each run writes the number of its current task. If the device's process ends,
            the host reads this number. The memory is valid as long as the invocation context.

        Returns:
          Descriptions of the tasks for error messages, for example "kernel 'f' of op 'MyOp'"; empty if the vendor
          does not report tasks. If a run has only one task, the run need not write the task's number.
        """
        return ()

    def kernel_texts(self, device_context: DeviceContext, byte_code: MemBuffer) -> Sequence[str]:
        """Returns the source code of each kernel in a byte code module, as the kernel compiler gets it. Optional.

        The host calls this function after `register_asset`, before it loads a function of the module. Therefore
        the result also contains kernels that fail to compile. If the source code depends on shapes, the vendor
        returns the source code for the largest shapes.

        Raises:
          LiteRtError: UNSUPPORTED, if the vendor cannot return the source code of its kernels.
        """
        raise LiteRtError(
            Status.UNSUPPORTED,
            "the vendor cannot return the source code of its kernels",
            f"vendor '{self.vendor_id}'",
            "Load the model without dump_kernels.",
        )

    def start_metrics_collection(
        self, invocation_context: InvocationContext, detail_level: int
    ) -> None:
        """Starts collecting metrics of runs; a higher detail level gives more metrics, and may slow down runs."""
        raise _no_metrics(self.vendor_id)

    def stop_metrics_collection(self, invocation_context: InvocationContext) -> Sequence[Metric]:
        """Stops collecting metrics, and returns the metrics collected since `start_metrics_collection`."""
        raise _no_metrics(self.vendor_id)


def _no_metrics(vendor_id: str) -> LiteRtError:
    return LiteRtError(
        Status.UNSUPPORTED, "the vendor does not support metrics", f"vendor '{vendor_id}'"
    )


def is_filled(dispatch: Dispatch[Any, Any], function: str) -> bool:
    """Returns whether a dispatch table overrides the default implementation of a function."""
    default = getattr(Dispatch, function)
    return getattr(getattr(dispatch, function), "__func__", None) is not default


def not_filled(dispatch: Dispatch[Any, Any], function: str) -> LiteRtError:
    """Returns the error for a dispatch table that lacks a required function."""
    vendor = getattr(dispatch, "vendor_id", type(dispatch).__name__)
    return LiteRtError(
        Status.DYNAMIC_LOADING,
        f"the dispatch table has no function '{function}'",
        f"vendor '{vendor}'",
        f"Override {function} in class {type(dispatch).__name__}.",
    )


@dataclass(slots=True)
class HostInvocationContext:
    """The kind of invocation context that the default functions of a dispatch table create and use.

    These functions are `invocation_context_create`, and the functions with the prefixes `attach_` and `detach_`.

    If a vendor needs more fields, it can derive a class from `HostInvocationContext`.

    Attributes:
      device_context, byte_code, function_name: Arguments of the call of `invocation_context_create`.
      inputs, outputs: Attached buffers as NumPy arrays, by index; None for an input or output without a buffer.
      attached: Attached buffers, by kind ("input" or "output") and index.
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
    """Returns requirements for host memory of the tensor's size; all dimensions of the tensor must be known."""
    if not tensor_type.layout.is_static:
        raise LiteRtError(
            Status.UNSUPPORTED,
            f"the default {function} cannot return the size of {tensor_type}, because a dimension is unknown",
            hint=f"Override {function} in class {type(dispatch).__name__}, and return the largest size.",
        )
    return TensorBufferRequirements(tensor_type.size_bytes)


def attach(dispatch: object, context: object, kind: str, index: int, handle: object) -> None:
    """Attaches a buffer to a `HostInvocationContext`; a context or handle of another type is an error."""
    host = _host_context(dispatch, context, f"attach_{kind}")
    if not isinstance(handle, TensorBuffer):
        name = type(dispatch).__name__
        raise LiteRtError(
            Status.DYNAMIC_LOADING,
            f"the default attach_{kind} needs a TensorBuffer as handle, but got "
            f"{type(handle).__name__}",
            hint=f"Override this function in class {name}, or let register_tensor_buffer return the TensorBuffer.",
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
        f"the default {function} needs a HostInvocationContext, but got {type(context).__name__}",
        hint=f"Override this function in class {name}, or derive the context's class from HostInvocationContext.",
    )
