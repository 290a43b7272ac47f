"""The device over OpenCL: one context for the process, shared by all models that are loaded in it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import pyopencl as cl

from litert.core.errors import LiteRtError
from vendor_reference.cpu_layer.library import CpuLayerLibrary
from vendor_reference.device.constants import read_constant
from vendor_reference.device.cpu_libraries import load_library
from vendor_reference.device.device import Programs
from vendor_reference.device.home_process import HomeProcess
from vendor_reference.device.loaded_devices import describe_device, load_npu
from vendor_reference.device.loaded_tasks import LoadedTasks
from vendor_reference.device.opencl_errors import opencl_error
from vendor_reference.device.opencl_function import OpenClFunction
from vendor_reference.device.opencl_memory import BufferMemory, load_memory, share_memory
from vendor_reference.device.program_builder import DeviceProgram, ProgramBuilder
from vendor_reference.device.program_text import ProgramText
from vendor_reference.device.shaves import Shaves
from vendor_reference.drivers.choice import is_simulator
from vendor_reference.executable.binary_layer import DeviceCode
from vendor_reference.executable.executable import Constant, Function


class OpenClDevice:
    """An OpenCL device as the NPU.

    Attributes:
      info: its names and versions.
      library: of its driver; "" for one that the program has loaded.
      home_process: where it was opened, and can be used.
    """

    def __init__(self, device: cl.Device, library: str) -> None:
        """Opens the device.

        Args:
          device: to open.
          library: of its driver, which builds kernels in a child process; "" to build them in this one.
        """
        self.info = describe_device(device)
        self.library = library
        self._device = device
        self._shaves = Shaves(device)
        self._context = cl.Context([device, *self._shaves.devices])
        self._builder = ProgramBuilder(self._context, device, self.info, library)
        # A CPU's kernels see host memory as it is; to others it must be sent. A simulator checks what was written.
        self._in_place = self.info.kind == "CPU" and not is_simulator(self.info)
        self.home_process = HomeProcess(str(self.info))

    def build(self, texts: Sequence[ProgramText]) -> Sequence[DeviceProgram]:
        return self._builder.build(texts)

    def load_code(self, name: str, code: DeviceCode) -> DeviceProgram:
        return self._builder.load_code(name, code)

    def load_library(self, name: str, sha256: str, data: memoryview) -> CpuLayerLibrary:
        return load_library(name, sha256, data)

    def load_constant(self, constant: Constant) -> BufferMemory:
        data = read_constant(constant)
        try:
            return load_memory(self._context, data, data.nbytes, self._in_place)
        except cl.Error as error:
            raise self._no_memory(error, f"a constant {constant.tensor_type}") from error

    def share(self, address: int, size_bytes: int) -> BufferMemory:
        try:
            return share_memory(self._context, address, size_bytes, self._in_place)
        except cl.Error as error:
            raise self._no_memory(error, f"a buffer of {size_bytes} bytes") from error

    def load(
        self,
        function: Function,
        programs: Programs[DeviceProgram],
        constants: Mapping[int, BufferMemory],
        libraries: Mapping[str, CpuLayerLibrary],
    ) -> OpenClFunction:
        try:
            loaded = LoadedTasks(
                self._context,
                self._device,
                self._shaves,
                function,
                programs,
                constants,
                libraries,
            )
            return OpenClFunction(self._context, self._device, loaded, self.home_process)
        except cl.Error as error:
            raise self._no_memory(error, f"function '{function.name}'") from error

    def _no_memory(self, error: cl.Error, what: str) -> LiteRtError:
        limit = self._device.max_mem_alloc_size
        hint = f"The device has {self.info.memory_bytes} bytes, {limit} at most for one buffer."
        return opencl_error(error, f"{what}, device {self.info}", hint)


_devices: dict[Sequence[str], OpenClDevice] = {}
_lock = threading.Lock()


def shared_device(wanted: str) -> OpenClDevice:
    """The device of that name, opened once in a process (see `open_device`)."""
    found, library = load_npu(wanted)
    identity = describe_device(found).identity
    with _lock:
        if identity not in _devices:
            _devices[identity] = OpenClDevice(found, library)
        device = _devices[identity]
    device.home_process.check()
    return device
