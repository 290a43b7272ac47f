"""The device over OpenCL: one context for the process, shared by all models that are loaded in it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import pyopencl as cl

from vendor_reference.cpu_layer.library import CpuLayerLibrary
from vendor_reference.device.module_programs import ModulePrograms
from vendor_reference.device.opencl import describe_device, load_npu
from vendor_reference.device.opencl_context import OpenClContext
from vendor_reference.device.opencl_function import OpenClFunction
from vendor_reference.device.opencl_memory import BufferMemory, load_constant, share_memory
from vendor_reference.device.program_builder import ProgramBuilder
from vendor_reference.device.task_sequence import TaskSequence
from vendor_reference.executable.executable import Constant, Function


class OpenClDevice:
    """An OpenCL device as the NPU; safe to use from several threads.

    Attributes:
      context: of its functions.
      info: its names and versions.
      library: of its driver; "" for one that the program has loaded.
      builder: of its programs.
    """

    def __init__(self, device: cl.Device, library: str) -> None:
        """Opens the device.

        Args:
          device: to open.
          library: of its driver, which builds kernels in a child process; "" to build them in this one.
        """
        self.context = OpenClContext(device)
        self.info = self.context.info
        self.library = library
        self.builder = ProgramBuilder(self.context, library)

    def load_constant(self, constant: Constant) -> BufferMemory:
        """A constant as kernels read it; its data must live as long as the result."""
        with self.context.allocating(f"a constant {constant.tensor_type}"):
            return load_constant(self.context, constant)

    def share(self, address: int, size_bytes: int) -> BufferMemory:
        """Host memory for inputs and outputs, at any address; it must live as long as the result."""
        with self.context.allocating(f"a buffer of {size_bytes} bytes"):
            return share_memory(self.context, address, size_bytes)

    def load(
        self,
        function: Function,
        programs: ModulePrograms,
        constants: Mapping[int, BufferMemory],
        libraries: Mapping[str, CpuLayerLibrary],
    ) -> OpenClFunction:
        """Makes a function ready to run.

        Args:
          function: of an executable.
          programs: of its module.
          constants: those that its tasks name, by their index.
          libraries: of CPU layers that its tasks name, by SHA-256.

        Raises:
          LiteRtError: NOT_FOUND, if a program has not the kernel; INVALID_ARGUMENT, if a kernel takes other
            arguments; MEMORY_ALLOCATION_FAILURE.
        """
        with self.context.allocating(f"function '{function.name}'"):
            tasks = TaskSequence(self.context, function, programs, constants, libraries)
            return OpenClFunction(self.context, tasks)


_devices: dict[Sequence[str], OpenClDevice] = {}
_libraries: dict[str, CpuLayerLibrary] = {}
"""The libraries of CPU layers that this process has loaded, each once; none is ever unloaded."""

_lock = threading.Lock()


def shared_device(wanted: str) -> OpenClDevice:
    """The device of that name (see `load_npu`), opened once in a process."""
    found, library = load_npu(wanted)
    identity = describe_device(found).identity
    with _lock:
        if identity not in _devices:
            _devices[identity] = OpenClDevice(found, library)
        device = _devices[identity]
    device.context.check_home()
    return device


def load_library(name: str, sha256: str, data: memoryview) -> CpuLayerLibrary:
    """A library of CPU layers, loaded on first use.

    Args:
      name: of its file, for messages.
      sha256: of its bytes.
      data: the shared object, which is copied.

    Raises:
      LiteRtError: as `CpuLayerLibrary`.
    """
    with _lock:
        if sha256 not in _libraries:
            _libraries[sha256] = CpuLayerLibrary(data, name)
        return _libraries[sha256]
