"""Represents the NPU by an OpenCL device; all models of the process share one OpenCL context."""

from __future__ import annotations

import ctypes
import threading
from collections import Counter
from collections.abc import Sequence
from copy import copy
from dataclasses import replace

import pyopencl as cl

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.cpu_layer.library import CpuLayerLibrary
from vendor_reference.device.firmware_choice import default_tuning, find_tuning
from vendor_reference.device.opencl import describe_device, load_npu
from vendor_reference.device.opencl_context import OpenClContext
from vendor_reference.device.opencl_memory import (
    VECTOR_ALIGNMENT,
    BufferMemory,
    read_constant,
)
from vendor_reference.device.program_builder import DeviceProgram, ProgramBuilder
from vendor_reference.executable.executable import Constant
from vendor_reference.firmware.program import firmware_text
from vendor_reference.programs.program_text import ProgramText


class OpenClDevice(OpenClContext):
    """An OpenCL device that serves as the NPU; several threads may use it.

    Attributes:
      library: Path of the OpenCL driver's library, with which a child process builds kernels.
      builder: Builder of the device's programs.
      default_tuning: Firmware tuning that is used if the device has not been measured.
      firmware_tuning: Firmware tuning for functions that are loaded from now on.
    """

    def __init__(self, device: cl.Device, library: str) -> None:
        super().__init__(device)
        self.library = library
        self.builder = ProgramBuilder(self, library)
        self.default_tuning = default_tuning(self.info, device.native_vector_width_float)
        self.firmware_tuning = find_tuning(self.info) or self.default_tuning

    def limited(self, num_units: int) -> OpenClDevice:
        """Returns a device that shares this device's memory and programs, but uses only `num_units` compute units.

        Raises:
          LiteRtError: UNSUPPORTED, if the OpenCL device cannot be split.
        """
        if num_units >= self.info.compute_units:
            return self
        part = self._parts.get(num_units)
        if part is None:
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"dispatch option 'threads' is {num_units}, but this OpenCL device cannot use only a part of its "
                f"{self.info.compute_units} compute units",
                str(self.info),
                "Omit the option, or use another OpenCL device.",
            )
        found = copy(self)
        found.cl_device = part
        found.info = replace(self.info, compute_units=num_units)
        found._parts = {units: p for units, p in self._parts.items() if units < num_units}
        return found

    def build_firmware(self) -> DeviceProgram:
        """Returns the firmware program, which runs library layers.

        Builds the program if the cache does not contain it.
        """
        text = firmware_text(self.firmware_tuning)
        return self.builder.build([ProgramText("firmware", text, self.ordering_option or "")])[0]

    def load_constant(self, constant: Constant) -> BufferMemory:
        """Returns a constant's memory for kernels: the host memory itself if kernels can use it, otherwise a copy.

        The constant's data must stay valid as long as the returned memory is in use.
        """
        with self.allocating(f"a constant {constant.tensor_type}"):
            data = read_constant(constant)
            if not data.nbytes:
                return BufferMemory(None, 0)
            use = cl.mem_flags.USE_HOST_PTR if self.in_place else cl.mem_flags.COPY_HOST_PTR
            buffer = cl.Buffer(self.cl_context, cl.mem_flags.READ_ONLY | use, hostbuf=data)
            return BufferMemory(buffer, data.nbytes)

    def share(self, address: int, size_bytes: int) -> BufferMemory:
        """Wraps host memory at any address for use as an input or output.

        The memory must outlive the returned object.
        """
        if not size_bytes:
            return BufferMemory(None, 0)
        host = (ctypes.c_ubyte * size_bytes).from_address(address)
        with self.allocating(f"a buffer of {size_bytes} bytes"):
            if not self.in_place or address % VECTOR_ALIGNMENT:
                buffer = cl.Buffer(self.cl_context, cl.mem_flags.READ_WRITE, size_bytes)
                return BufferMemory(buffer, size_bytes, host)
            flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
            return BufferMemory(cl.Buffer(self.cl_context, flags, hostbuf=host), size_bytes)


_devices: dict[Sequence[str], OpenClDevice] = {}
_libraries: dict[str, CpuLayerLibrary] = {}
"""Libraries of CPU layers that this process has loaded; each library is loaded once."""
_library_uses: Counter[str] = Counter()

_lock = threading.Lock()


def shared_device(wanted: str) -> OpenClDevice:
    """Returns the device with the given name (see `load_npu`); a process opens each device once."""
    found, library = load_npu(wanted)
    identity = describe_device(found).identity
    with _lock:
        if identity not in _devices:
            _devices[identity] = OpenClDevice(found, library)
        device = _devices[identity]
    device.check_home()
    return device


def load_library(name: str, sha256: str, data: memoryview) -> CpuLayerLibrary:
    """Loads a library of CPU layers on first use; copies `data`, and gives `name` in messages.

    The caller must give the library back with `release_library`.
    """
    with _lock:
        if sha256 not in _libraries:
            _libraries[sha256] = CpuLayerLibrary(data, name)
        elif not _library_uses[sha256] and _libraries[sha256].table is None:
            _libraries[sha256].open()
        _library_uses[sha256] += 1
        return _libraries[sha256]


def release_library(sha256: str) -> None:
    """Ends one use of a library; the last use closes the library, if the library allows that."""
    with _lock:
        _library_uses[sha256] -= 1
        library = _libraries[sha256]
        if not _library_uses[sha256] and library.has_release:
            library.close()
            if not library.is_loaded:
                del _libraries[sha256]
