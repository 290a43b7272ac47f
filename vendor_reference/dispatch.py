"""The reference vendor's dispatch table; copy this file to start your own vendor's dispatch table.

Besides a dispatch table, a vendor needs a reader of its byte code (here `executable/`), and code that runs the
byte code on its device (here `device/`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dispatch.api import (
    AsyncInterface,
    Capability,
    Dispatch,
    Event,
    ExecutableType,
    MemBuffer,
    Metric,
    Receive,
    TensorBuffer,
    TensorBufferRequirements,
)
from litert.core.counts import count_text
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.core.version import SDK_VERSION, ApiVersion
from litert.host.named_frames import name_frames
from litert.host.sandbox import Sandbox
from vendor_reference.cache import cache_folder
from vendor_reference.device.opencl import check_installed, import_pyopencl
from vendor_reference.drivers.device_choice import choose_device
from vendor_reference.drivers.sandbox import driver_sandbox
from vendor_reference.executable.executable import ArgumentKind, Function, describe_tasks
from vendor_reference.soc import get_soc_model

if TYPE_CHECKING:  # these modules load OpenCL
    from vendor_reference.device.module import Module
    from vendor_reference.device.opencl_device import OpenClDevice
    from vendor_reference.device.opencl_function import OpenClFunction

_OPENCL = "opencl"
"""Name of the option that selects the device, as `platform[:device]`, like the variable LITERT_NPU_OPENCL."""

_NATIVE = "allow_native_assets"
"""Name of an option. If it is `true`, machine code in assets may run; otherwise, machine code is rejected."""

_THREADS = "threads"
"""Name of the option that limits the number of kernel threads on a CPU; by default, there is no limit."""

_OPTIONS = (_OPENCL, _NATIVE, _THREADS)


@dataclass(eq=False)
class DeviceContext:
    """The state of one loaded model on the device: its registered assets and its byte code modules.

    Attributes:
      device: OpenCL device, or a part of its compute units. All models in the process share the OpenCL device.
      allow_native_assets: Whether machine code in assets may run.
      assets: Registered assets by name; an asset's file is memory-mapped, so that it is read only when a function
        needs the asset.
      modules: Loaded byte code modules by the memory address of their byte code; several calls may share a module.
    """

    device: OpenClDevice
    allow_native_assets: bool = False
    assets: dict[str, MemBuffer] = field(default_factory=dict)
    modules: dict[tuple[int, int], Module] = field(default_factory=dict)


@dataclass(eq=False)
class InvocationContext:
    """One NPU call.

    Attributes:
      function: Description of the called function in the executable.
      module: Byte code module that contains the function.
      loaded: Loaded function that runs the NPU call.
      run: The `run` method of the loaded function, wrapped so that stack traces show the function's name.
      input_events: Events that the next run of the NPU call waits for.
    """

    function: Function
    module: Module
    loaded: OpenClFunction
    run: Callable[[], None]
    input_events: list[Event] = field(default_factory=list)


class ReferenceAsync(AsyncInterface[InvocationContext]):
    """Starts NPU calls asynchronously, without waiting until they have finished."""

    def attach_input_event(
        self, invocation_context: InvocationContext, index: int, event: Event
    ) -> None:
        invocation_context.input_events.append(event)

    def invoke_async(self, invocation_context: InvocationContext) -> Sequence[Event]:
        after, invocation_context.input_events = invocation_context.input_events, []
        ended = invocation_context.loaded.start(after)
        return [ended] * len(invocation_context.function.outputs)


class ReferenceDispatch(Dispatch[DeviceContext, InvocationContext]):
    """The reference vendor's dispatch table."""

    vendor_id = "Reference"
    build_id = SDK_VERSION
    capabilities = Capability.BASIC | Capability.ASYNC
    can_reshape = True
    host_side = "vendor_reference.programs.host_side:answer"
    async_interface = ReferenceAsync()

    def check_runtime_compatibility(
        self,
        host_version: ApiVersion,
        environment_options: EnvironmentOptions,
        options: Mapping[str, str],
    ) -> None:
        for name in options:
            if name not in _OPTIONS:
                raise LiteRtError(
                    Status.INVALID_ARGUMENT, f"there is no dispatch option '{name}'", "vendor 'Reference'",
                    f"The dispatch options are '{_OPENCL}' (platform[:device]), '{_NATIVE}' (true or false) "
                    f"and '{_THREADS}' (a number).",
                )  # fmt: skip
        _is_set(options, _NATIVE)
        _count_threads(options)
        check_installed()

    def check_device(self, soc_model: str) -> str:
        check_installed()
        soc = get_soc_model(soc_model)
        return f"{soc.name}, emulated on OpenCL ({choose_device()})"

    def check_byte_code(self, byte_code: memoryview, function_names: Sequence[str]) -> None:
        from vendor_reference.executable.module_reader import find_function, read_module

        functions = {function.name: function for function in read_module(byte_code).functions}
        for name in function_names:
            find_function(functions, name)

    def sandbox_needs(self, options: Mapping[str, str]) -> Sandbox:
        chosen = choose_device(
            options.get(_OPENCL, "")
        )  # tries drivers, which is not possible inside the sandbox
        sandbox = driver_sandbox(chosen.installation.library)
        try:
            tuning = cache_folder("tuning")
        except OSError:
            return sandbox
        return replace(sandbox, readable=(*sandbox.readable, tuning))

    def device_context_create(self, options: Mapping[str, str]) -> DeviceContext:
        device = open_device(options.get(_OPENCL, ""))
        num_threads = _count_threads(options)
        if num_threads is not None:
            device = device.limited(num_threads)
        return DeviceContext(device, _is_set(options, _NATIVE))

    def device_context_destroy(self, device_context: DeviceContext) -> None:
        for module in device_context.modules.values():
            module.close()
        device_context.modules.clear()
        device_context.assets.clear()

    def register_asset(
        self, device_context: DeviceContext, asset_name: str, asset_buffer: MemBuffer
    ) -> None:
        device_context.assets[asset_name] = asset_buffer

    def register_tensor_buffer(
        self, device_context: DeviceContext, tensor_buffer: TensorBuffer
    ) -> Any:
        return device_context.device.share(tensor_buffer.address, tensor_buffer.size)

    def invocation_context_create(
        self,
        device_context: DeviceContext,
        executable_type: ExecutableType,
        byte_code: MemBuffer,
        function_name: str,
        num_inputs: int,
        num_outputs: int,
    ) -> InvocationContext:
        module = _find_module(device_context, byte_code)
        function = module.find_function(function_name)
        for kind, given, wanted in (
            ("input", num_inputs, len(function.inputs)),
            ("output", num_outputs, len(function.outputs)),
        ):
            if given != wanted:
                raise LiteRtError(
                    Status.INVALID_ARGUMENT,
                    f"the call passes {count_text(given, kind)}, but function '{function_name}' of the byte code "
                    f"has {wanted}",
                )
        loaded = module.load(function)
        run = name_frames(loaded.run, describe_tasks(function))
        return InvocationContext(function, module, loaded, run)

    def invocation_context_destroy(self, invocation_context: InvocationContext) -> None:
        invocation_context.module.give_back(invocation_context.function, invocation_context.loaded)

    def get_input_requirements(
        self, invocation_context: InvocationContext, input_index: int, tensor_type: RankedTensorType
    ) -> TensorBufferRequirements:
        expected = invocation_context.function.inputs[input_index]
        loaded = invocation_context.loaded
        if loaded.has_dynamic_input(input_index) and tensor_type.layout.is_static:
            loaded.set_input_shape(input_index, tensor_type.shape)
            expected = RankedTensorType.of(expected.element_type, tensor_type.shape)
        _check_type(f"input {input_index}", _fill(tensor_type, expected), expected)
        return _host_memory(expected.size_bytes)

    def get_output_requirements(
        self,
        invocation_context: InvocationContext,
        output_index: int,
        tensor_type: RankedTensorType,
    ) -> TensorBufferRequirements:
        function = invocation_context.function
        expected = function.outputs[output_index]
        is_dynamic = any(output.output == output_index for output in function.dynamic_outputs)
        if is_dynamic and tensor_type.layout.is_static and tensor_type != expected:
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"the host program has allocated memory for output {output_index} of type {tensor_type}, but the "
                f"shape of this output is known only after a run, and can be as large as {expected}",
                hint="For this host program, compile a model that has only fixed shapes.",
            )
        found = None
        if is_dynamic and len(tensor_type.shape) == len(expected.shape):
            found = invocation_context.loaded.find_output_shape(output_index)
            tensor_type = _fill(tensor_type, expected)
        _check_type(f"output {output_index}", tensor_type, expected)
        return _host_memory(expected.size_bytes, found)

    def attach_input(self, invocation_context: InvocationContext, index: int, handle: Any) -> None:
        invocation_context.loaded.attach(ArgumentKind.INPUT, index, handle)

    def attach_output(self, invocation_context: InvocationContext, index: int, handle: Any) -> None:
        invocation_context.loaded.attach(ArgumentKind.OUTPUT, index, handle)

    def detach_input(self, invocation_context: InvocationContext, index: int, handle: Any) -> None:
        invocation_context.loaded.detach(ArgumentKind.INPUT, index, handle)

    def detach_output(self, invocation_context: InvocationContext, index: int, handle: Any) -> None:
        invocation_context.loaded.detach(ArgumentKind.OUTPUT, index, handle)

    def invoke(self, invocation_context: InvocationContext) -> None:
        invocation_context.run()

    def invoke_tapped(self, invocation_context: InvocationContext, receive: Receive) -> None:
        invocation_context.loaded.run_tapped(receive)

    def kernel_texts(self, device_context: DeviceContext, byte_code: MemBuffer) -> Sequence[str]:
        return _find_module(device_context, byte_code).kernel_texts()

    def watch_tasks(
        self, invocation_context: InvocationContext, running: memoryview[int]
    ) -> Sequence[str]:
        return invocation_context.loaded.watch_tasks(running)

    def start_metrics_collection(
        self, invocation_context: InvocationContext, detail_level: int
    ) -> None:
        invocation_context.loaded.start_measuring(with_tasks=detail_level > 0)

    def stop_metrics_collection(self, invocation_context: InvocationContext) -> Sequence[Metric]:
        return invocation_context.loaded.stop_measuring()


def open_device(wanted: str = "") -> OpenClDevice:
    """Returns the OpenCL device that this process uses as the NPU, and opens the device on first use.

    Args:
      wanted: Device to use, as `platform[:device]`; if it is "", the environment variable LITERT_NPU_OPENCL
        selects the device. If this variable is not set, the best device is used.

    Raises:
      LiteRtError: NOT_FOUND, if no OpenCL driver works on this machine, or no driver has the wanted device.
    """
    import_pyopencl()  # first, since it sets variables that pyopencl's import reads
    from vendor_reference.device.opencl_device import shared_device

    return shared_device(wanted)


def _find_module(device_context: DeviceContext, byte_code: MemBuffer) -> Module:
    """Returns the module, which is read at the first request."""
    place = (byte_code.base_address + byte_code.offset, byte_code.size)
    module = device_context.modules.get(place)
    if module is None:
        from vendor_reference.device.module import Module

        assets, is_native = device_context.assets, device_context.allow_native_assets
        module = Module(device_context.device, byte_code.view, assets, is_native)
        device_context.modules[place] = module
    return module


def _is_set(options: Mapping[str, str], name: str) -> bool:
    value = options.get(name, "false")
    if value not in ("true", "false"):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"dispatch option '{name}' is '{value}', but must be true or false",
            "vendor 'Reference'",
        )
    return value == "true"


def _host_memory(size_bytes: int, shape: Sequence[int] | None = None) -> TensorBufferRequirements:
    """Returns requirements for host memory at any address.

    The device copies what kernels cannot use directly.
    """
    return TensorBufferRequirements(size_bytes, alignment=1, shape=shape)


def _count_threads(options: Mapping[str, str]) -> int | None:
    value = options.get(_THREADS)
    if value is None:
        return None
    if not (value.isdecimal() and value.isascii() and int(value)):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"dispatch option '{_THREADS}' is '{value}', but must be a whole number of at least 1",
            "vendor 'Reference'",
            "To let the NPU use all compute units (on a CPU, these are its threads), omit the option.",
        )
    return int(value)


def _fill(given: RankedTensorType, largest: RankedTensorType) -> RankedTensorType:
    """Returns a type with the largest sizes in place of unknown ones.

    A type of another rank stays unchanged.
    """
    if given.layout.is_static or len(given.shape) != len(largest.shape):
        return given
    sizes = zip(given.shape, largest.shape, strict=True)
    shape = tuple(most if size < 0 else size for size, most in sizes)
    return RankedTensorType.of(given.element_type, shape)


def _check_type(which: str, given: RankedTensorType, expected: RankedTensorType) -> None:
    if given != expected:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the program passes {which} as {given}, but the model was compiled for {expected}",
            hint="Pass a tensor of this type and shape, or compile the model again for the one that you want to "
            "pass.",
        )


DISPATCH = ReferenceDispatch()
