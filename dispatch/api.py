"""The dispatch table as a vendor fills it: from byte code to a device.

The functions are those of LiteRT's C tables (`litert/vendors/c/litert_dispatch_api.h`: interface, async
and graph parts) without the prefix, with `register_asset` as the custom op assets guide has it. What is not
overridden has a default for host memory. A module that holds a table has it as `DISPATCH`.

Order of calls: `initialize`, `check_runtime_compatibility`, `device_context_create`, `register_asset` for each
companion and then each asset; for each NPU call `invocation_context_create`, then requirements of all inputs and
outputs; for each buffer `register_tensor_buffer` and `attach_input` or `attach_output`; for each run
`set_scheduling_info`, `set_options` and `invoke`. Another buffer is registered and attached in the place of the
one before, which is then detached and unregistered. Release is in reverse: all is detached, then unregistered,
then the contexts are destroyed.

Threads: one context gets one call at a time, from any thread; different contexts are used in parallel, also
two invocation contexts of one device context.

Errors: raise `LiteRtError` with a status that fits; it reaches the user with the vendor and the function. After an
error the host releases what was made, each thing once. What a release raises is logged.
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
"""Takes a tensor inside an NPU call: its name in the model; its type, whose shape is the model's, and whose
element type may be another float where the NPU computes in it; its bytes in row order, valid during the call."""


class Dispatch(Generic[DeviceContext, InvocationContext]):
    """A vendor's dispatch table; one for the process.

    Attributes:
      api_version: of this interface, as the table was written for it; (0, 1, 0).
      vendor_id, build_id: for people; no vendor is found by them.
      capabilities: BASIC, and ASYNC or GRAPH where those parts are filled.
      can_reshape: whether an open call, with its buffers attached, answers `get_input_requirements` and
        `get_output_requirements` again, for other shapes and for unknown dimensions. If it is False, the host
        opens a new call for other shapes.
      async_interface, graph_interface: those parts, or None.
      buffer_handlers: makes memory of the vendor's own kinds, for requirements without host memory; or None.
      host_side: for a host whose device is in a process of its own, `package.module:function`, which answers there
        what the table asks by `litert.host.serving.ask_host`: its arguments are the options, a question and what
        comes with it, as JSON has it. Neither is to be trusted. "" for none.
      shared_memory: where tensors of the host must lie; None for anywhere. Only tables of this host's own have it.
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
        """Called once in a process, before all else, with the options of the first model that is loaded.

        After an error the next model tries again.

        Args:
          environment_options: of the environment of that model.
          options: the vendor's own, by name.
        """

    def check_runtime_compatibility(
        self,
        host_version: ApiVersion,
        environment_options: EnvironmentOptions,
        options: Mapping[str, str],
    ) -> None:
        """Refuses a host that the vendor's driver cannot serve; the default takes all.

        Raises:
          LiteRtError: UNSUPPORTED_RUNTIME_VERSION.
        """

    def check_device(self, soc_model: str) -> str:
        """Says whether the device is here, without loading the driver: for `litert-npu check`.

        It may be called before `initialize`, or alone.

        Returns:
          A phrase that names what was found; "" where the vendor cannot tell.

        Raises:
          LiteRtError: NOT_FOUND or UNSUPPORTED: no file for that SoC model would run here.
        """
        return ""

    def check_byte_code(self, byte_code: memoryview, function_names: Sequence[str]) -> None:
        """Refuses a module that its device cannot read, without loading the driver: for `litert-npu check`.

        It may be called before `initialize`, or alone. The default takes every module.

        Args:
          byte_code: a module of the model, mapped.
          function_names: the functions that NPU calls name in it.

        Raises:
          LiteRtError: what `invocation_context_create` would raise for the module or one of its functions.
        """

    def sandbox_needs(self, options: Mapping[str, str]) -> Sandbox:
        """What the driver must have where its process is in a sandbox: asked for first, before a driver is loaded.

        Python's own files, the system's libraries and the folder of this table's module are open without that.
        """
        return Sandbox()

    def device_context_create(self, options: Mapping[str, str]) -> DeviceContext:
        """Opens the device for one loaded model.

        Returns:
          The device context: any object but None.
        """
        raise not_filled(self, "device_context_create")

    def device_context_destroy(self, device_context: DeviceContext) -> None:
        """Closes it; all that was made in it is gone already."""

    def register_asset(
        self, device_context: DeviceContext, asset_name: str, asset_buffer: MemBuffer
    ) -> None:
        """Takes one of the model's assets: an op's, or a companion as `<op>/<relative path>`.

        The bytes are mapped and valid as long as the device context: keep the buffer, not a copy
        (guide, section 3).
        """

    def get_input_requirements(
        self, invocation_context: InvocationContext, input_index: int, tensor_type: RankedTensorType
    ) -> TensorBufferRequirements:
        """What memory input `input_index` must have; the default is host memory in row order.

        A dimension of -1 is not known yet: the size must then do for the largest.
        """
        return find_requirements(self, "get_input_requirements", tensor_type)

    def get_output_requirements(
        self,
        invocation_context: InvocationContext,
        output_index: int,
        tensor_type: RankedTensorType,
    ) -> TensorBufferRequirements:
        """What memory output `output_index` must have; else as `get_input_requirements`.

        The inputs were asked for before, by the types that they have now: where those tell a shape with a
        dimension of -1, give it as `shape`, so that programs know it before a run.
        """
        return find_requirements(self, "get_output_requirements", tensor_type)

    def register_tensor_buffer(
        self, device_context: DeviceContext, tensor_buffer: TensorBuffer
    ) -> Any:
        """Makes a buffer known to the device.

        A buffer that several calls use is registered once; one that comes back is registered anew. The host keeps
        it, and its memory, until it is unregistered.

        Returns:
          A handle of this registration alone, not None, which `attach_input` and its fellows get. The default
          is the buffer itself.
        """
        return tensor_buffer

    def unregister_tensor_buffer(self, device_context: DeviceContext, handle: Any) -> None:
        """Forgets a buffer; it is attached nowhere."""

    def invocation_context_create(
        self,
        device_context: DeviceContext,
        executable_type: ExecutableType,
        byte_code: MemBuffer,
        function_name: str,
        num_inputs: int,
        num_outputs: int,
    ) -> InvocationContext:
        """Loads a function of a byte code module; one context for each NPU call of a model.

        The default keeps its arguments in a `HostInvocationContext`.
        """
        context: Any = HostInvocationContext(
            device_context, byte_code, function_name, [None] * num_inputs, [None] * num_outputs
        )
        return context  # type: ignore[no-any-return]

    def invocation_context_destroy(self, invocation_context: InvocationContext) -> None:
        """Releases what a call holds; nothing is attached to it any more."""

    def set_scheduling_info(
        self, invocation_context: InvocationContext, scheduling_info: SchedulingInfo
    ) -> None:
        """Says how the next run stands among others; no field is None. An error does not keep it from running."""

    def set_options(
        self, invocation_context: InvocationContext, run_options: Mapping[str, str] | None
    ) -> None:
        """Options of the next run alone; None is none. May be ignored.

        Raises:
          LiteRtError: UNSUPPORTED, which fails only runs with options.
        """

    def attach_input(self, invocation_context: InvocationContext, index: int, handle: Any) -> None:
        """Gives input `index` its buffer, in place of one attached before, for all runs to come.

        After an error neither is used any more.
        """
        attach(self, invocation_context, "input", index, handle)

    def attach_output(self, invocation_context: InvocationContext, index: int, handle: Any) -> None:
        """Gives output `index` its buffer; else as `attach_input`."""
        attach(self, invocation_context, "output", index, handle)

    def detach_input(self, invocation_context: InvocationContext, index: int, handle: Any) -> None:
        """Takes a buffer off; a handle that is not attached (any more) changes nothing, whatever is there now."""
        detach(self, invocation_context, "input", index, handle)

    def detach_output(self, invocation_context: InvocationContext, index: int, handle: Any) -> None:
        """Takes a buffer off; else as `detach_input`."""
        detach(self, invocation_context, "output", index, handle)

    def invoke(self, invocation_context: InvocationContext) -> None:
        """Runs the function on what is attached; when it returns, the outputs are written.

        Raises:
          LiteRtError: RUNTIME_FAILURE; the context can be used again.
        """
        raise not_filled(self, "invoke")

    def invoke_tapped(self, invocation_context: InvocationContext, receive: Receive) -> None:
        """Runs as `invoke`, and shows tensors between the ops inside the function. Optional.

        A debugger compares them with a CPU's. Byte code that was compiled with `CompilerOptions.taps` has their
        names. A vendor shows each tensor once in a run, when its op has written it and before another tensor takes
        its memory, and leaves out those that its compiler has fused away. What `receive` raises ends the run.

        Raises:
          LiteRtError: UNSUPPORTED, where the vendor has no taps; as `invoke`.
        """
        raise LiteRtError(Status.UNSUPPORTED, f"vendor '{self.vendor_id}' has no taps")

    def watch_tasks(
        self, invocation_context: InvocationContext, running: memoryview[int]
    ) -> Sequence[str]:
        """Has each run write the number of the task that it is at to `running`, from 1 on. Optional.

        A host whose device is in a process of its own asks for it: if that process crashes or hangs, its error
        says where.

        Args:
          invocation_context: of the call.
          running: one number, valid as long as the context; other processes read it.

        Returns:
          What each task is, for people: "kernel 'f' of op 'MyOp'"; nothing where runs do not say. A call that has
          one task alone need not write.
        """
        return ()

    def kernel_texts(self, device_context: DeviceContext, byte_code: MemBuffer) -> Sequence[str]:
        """The kernels of a byte code module, each as its compiler gets it, for people to read. Optional.

        It is called behind `register_asset`, before a function of the module is loaded: a kernel that does
        not build is among them. Where a text depends on shapes, it is that for the largest ones.

        Raises:
          LiteRtError: UNSUPPORTED, where the vendor has no texts.
        """
        raise LiteRtError(
            Status.UNSUPPORTED,
            f"vendor '{self.vendor_id}' does not show its kernels",
            hint="Load the model without dump_kernels.",
        )

    def start_metrics_collection(
        self, invocation_context: InvocationContext, detail_level: int
    ) -> None:
        """Measures from now on; a higher level is finer and may be slower."""
        raise LiteRtError(Status.UNSUPPORTED, f"vendor '{self.vendor_id}' has no metrics")

    def stop_metrics_collection(self, invocation_context: InvocationContext) -> Sequence[Metric]:
        """What was measured since the start."""
        raise LiteRtError(Status.UNSUPPORTED, f"vendor '{self.vendor_id}' has no metrics")


def is_filled(dispatch: Dispatch[Any, Any], function: str) -> bool:
    """Whether a table has a function of its own, in place of the default."""
    default = getattr(Dispatch, function)
    return getattr(getattr(dispatch, function), "__func__", None) is not default


def not_filled(dispatch: Dispatch[Any, Any], function: str) -> LiteRtError:
    """The error of a table that lacks a function which has no default."""
    vendor = getattr(dispatch, "vendor_id", type(dispatch).__name__)
    return LiteRtError(
        Status.DYNAMIC_LOADING,
        f"the dispatch table has no '{function}'",
        f"vendor '{vendor}'",
        f"Override {function} in {type(dispatch).__name__}.",
    )


@dataclass(slots=True)
class HostInvocationContext:
    """What the default `invocation_context_create` makes, and the default attach and detach fill.

    A vendor that needs more derives from it.

    Attributes:
      device_context, byte_code, function_name: as given.
      inputs, outputs: attached buffers as NumPy arrays; None while nothing is attached.
      attached: the buffers themselves, by kind and index.
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
    """Host memory in row order, of the size of the tensor, whose dimensions must be known."""
    if not tensor_type.layout.is_static:
        raise LiteRtError(
            Status.UNSUPPORTED,
            f"the size of {tensor_type} is not known",
            hint=f"Override {function} in {type(dispatch).__name__}, and give the largest size.",
        )
    return TensorBufferRequirements(tensor_type.size_bytes)


def attach(dispatch: object, context: object, kind: str, index: int, handle: object) -> None:
    """Puts a buffer into a `HostInvocationContext`; a context or handle of the vendor's own is refused."""
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
    """Takes a buffer out of a `HostInvocationContext`, if it is there."""
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
