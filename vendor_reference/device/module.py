"""A byte code module on a device; each program and constant is created when a function first needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dispatch.mem_buffer import MemBuffer
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tracing import SpanKind, span
from vendor_reference.cpu_layer.library import CpuLayerLibrary
from vendor_reference.device.layer_constants import LayerConstants
from vendor_reference.device.layer_run import LayerProgram
from vendor_reference.device.module_programs import ModulePrograms
from vendor_reference.device.opencl_device import OpenClDevice, load_library, release_library
from vendor_reference.device.opencl_function import OpenClFunction
from vendor_reference.device.opencl_memory import BufferMemory
from vendor_reference.device.task_sequence import TaskSequence
from vendor_reference.executable.executable import (
    ArgumentKind,
    CpuTask,
    Function,
    KernelTask,
    LayerTask,
    Source,
)
from vendor_reference.executable.module_reader import find_function, read_module
from vendor_reference.programs.asset_sources import AssetSources
from vendor_reference.programs.kernel_text import kernel_texts


class Module:
    """An executable and its programs, constants and functions on the device."""

    def __init__(
        self,
        device: OpenClDevice,
        byte_code: memoryview,
        assets: Mapping[str, MemBuffer],
        allow_native_assets: bool = False,
    ) -> None:
        """Reads byte code, which must stay in memory as long as the module exists.

        `assets` are the registered assets.
        """
        self._device = device
        with span(SpanKind.LOAD, "read byte code", bytes=byte_code.nbytes):
            self._executable = read_module(byte_code)
        self._sources = AssetSources(lambda name: assets[name].view if name in assets else None)
        self._programs = ModulePrograms(
            device.builder, self._executable.programs, self._sources, allow_native_assets
        )
        self._allow_native_assets = allow_native_assets
        self._constants: dict[int, BufferMemory] = {}
        self._layers: dict[str, LayerProgram] = {}
        self._idle: dict[str, OpenClFunction] = {}
        self._libraries: dict[str, CpuLayerLibrary] = {}

    def find_function(self, name: str) -> Function:
        """Returns the function with the given name.

        If there is none, raises NOT_FOUND with the names of all functions.
        """
        return find_function(self._executable.functions_on(self._device.info.has_fp16), name)

    def kernel_texts(self) -> Sequence[str]:
        """Returns the OpenCL source of each custom layer's program.

        Raises the same errors as `load` if an asset is unusable.
        """
        return kernel_texts(self._executable, self._sources)

    def load(self, function: Function) -> OpenClFunction:
        """Loads one function of the module onto the device, so that the function can run.

        Raises:
          LiteRtError: NOT_FOUND, if an asset is missing; INVALID_ARGUMENT, if an asset has other contents;
            UNSUPPORTED, if machine code is not allowed or cannot run on this device; other statuses, if the device
            reports an error.
        """
        if self._idle.get(function.name):
            return self._idle.pop(function.name)
        cpu_tasks = [task for task in function.tasks if isinstance(task, CpuTask)]
        libraries = {task.asset.sha256: self._load_library(task.asset) for task in cpu_tasks}
        with span(SpanKind.LOAD, "build programs"):
            self._programs.prepare({task.program for task in function.kernel_tasks})
        used = function.find_used(ArgumentKind.CONSTANT, KernelTask, CpuTask)
        for index in used - self._constants.keys():
            constant = self._executable.constants[index]
            with span(SpanKind.TRANSFER, f"constant {index}", bytes=constant.data.size):
                self._constants[index] = self._device.load_constant(constant)
        constants = {index: self._constants[index] for index in used}
        device = self._device
        with device.allocating(f"function '{function.name}'"):
            layers = self._load_layers(function)
            tasks = TaskSequence(device, function, self._programs, constants, libraries, layers)
            return OpenClFunction(device, tasks)

    def give_back(self, function: Function, loaded: OpenClFunction) -> None:
        """Takes back a loaded function that its user no longer needs.

        A loaded function with dynamic shapes is kept for reuse, so that a new call with another shape does not
        have to allocate memory or build programs.
        """
        if function.shapes and function.name not in self._idle:
            loaded.detach_all()
            self._idle[function.name] = loaded
        else:
            loaded.close()

    def close(self) -> None:
        """Releases the loaded functions that are kept for reuse; no function of the module may be in use."""
        for loaded in self._idle.values():
            loaded.close()
        self._idle.clear()
        for sha256 in self._libraries:
            release_library(sha256)
        self._libraries.clear()

    def _load_layers(self, function: Function) -> LayerProgram | None:
        """Returns the program that runs the library layers of a function; None if there are no library layers.

        All calls of the function share constants.
        """
        if not any(isinstance(task, LayerTask) for task in function.tasks):
            return None
        if function.name not in self._layers:
            with span(SpanKind.LOAD, "build firmware"):
                firmware = self._device.build_firmware()
            used = sorted(function.find_used(ArgumentKind.CONSTANT, LayerTask))
            constants = {index: self._executable.constants[index] for index in used}
            with span(SpanKind.TRANSFER, "constants of layers"):
                made = LayerConstants(self._device, constants)
            self._layers[function.name] = LayerProgram(firmware, self._device.firmware_tuning, made)
        return self._layers[function.name]

    def _load_library(self, asset: Source) -> CpuLayerLibrary:
        if not self._allow_native_assets:
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"asset '{asset.asset}' ({asset.file_name}) is machine code, which is not allowed to run here",
                "option allow_native_assets",
                "If you trust the file, allow it: Options(allow_native_assets=True), or --allow_native_assets.",
            )
        if asset.sha256 not in self._libraries:
            data = self._sources.read(asset)
            self._libraries[asset.sha256] = load_library(asset.file_name, asset.sha256, data)
        return self._libraries[asset.sha256]
