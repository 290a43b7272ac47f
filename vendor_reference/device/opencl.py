"""Loads one OpenCL driver into this process, and finds the device of this driver that serves as the NPU.

A process cannot change its OpenCL drivers, since the OpenCL loader reads the list of drivers only once. If a
program uses OpenCL before it imports this module, the drivers that the program loaded are used.
"""

from __future__ import annotations

import ctypes
import logging
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.device.scratch_folder import make_scratch_folder
from vendor_reference.drivers.device_choice import (
    ChosenDevice,
    choose_device,
    find_devices,
    install_hint,
    prove_all,
    rank_devices,
)
from vendor_reference.drivers.device_info import DeviceInfo, describe_processor
from vendor_reference.drivers.driver import VARIABLE, driver_of_library, known_drivers
from vendor_reference.drivers.installation import Installation
from vendor_reference.drivers.proof import prove

if TYPE_CHECKING:
    import pyopencl as cl

_PLATFORM_NOT_FOUND = -1001
_ENTRY = "clGetExtensionFunctionAddress"
"""Symbol that each driver's library exports for the OpenCL loader; the loader itself also exports the symbol."""

_LOADER = "libOpenCL"

_HIDDEN_HINT = (
    "The program may have loaded other versions of libraries that the driver needs, such as OpenVINO's libtbb. "
    "Load a model for the NPU before the program loads these libraries, or choose another driver: "
)
_LOG = logging.getLogger(__name__)
_PYOPENCL_HINT = "Install it: pip install pyopencl"

_lock = threading.Lock()
_platforms: Sequence[cl.Platform] = ()


def check_installed() -> None:
    """Raises an error if OpenCL cannot be loaded on this machine; does not load OpenCL itself."""
    if find_spec("pyopencl") is None:
        raise LiteRtError(
            Status.UNSUPPORTED_RUNTIME_VERSION, "pyopencl is not installed", hint=_PYOPENCL_HINT
        )


def load_driver(library: str) -> Sequence[cl.Device]:
    """Returns the OpenCL devices of this process.

    The first call loads the driver, and later calls ignore `library`.

    Raises:
      LiteRtError: DYNAMIC_LOADING, if the OpenCL driver does not start or has no device.
    """
    global _platforms
    with _lock:
        if not _platforms:
            _platforms = _load(library)
    devices = [device for platform in _platforms for device in _devices(platform)]
    if not devices:
        raise LiteRtError(
            Status.DYNAMIC_LOADING,
            "the driver has no device on this machine",
            library,
            install_hint(),
        )
    return devices


def import_pyopencl() -> None:
    """Imports pyopencl without loading a driver; raises DYNAMIC_LOADING if the import fails."""
    # Otherwise pyopencl stores code in the home folder, and fails if the folder is not writable.
    with _environment({"PYOPENCL_NO_CACHE": "1"}):
        try:
            import pyopencl  # imported here, because the import takes 0.1 s
        except ImportError as error:
            raise LiteRtError(
                Status.DYNAMIC_LOADING,
                f"pyopencl cannot be imported: {error}",
                hint=_PYOPENCL_HINT,
            ) from error
    pyopencl._PYOPENCL_NO_CACHE = True  # also if other code has imported it before


def describe_device(device: cl.Device) -> DeviceInfo:
    """Returns a device's names, versions and memory sizes."""
    import pyopencl as cl

    platform = device.platform
    kinds = ("CPU", "GPU", "ACCELERATOR")
    kind = next((k for k in kinds if device.type & getattr(cl.device_type, k)), "CUSTOM")
    return DeviceInfo(
        platform=platform.name.strip(),
        platform_version=platform.version.strip(),
        name=device.name.strip(),
        version=device.version.strip(),
        driver_version=device.driver_version.strip(),
        kind=kind,
        compute_units=device.max_compute_units,
        memory_bytes=device.global_mem_size,
        has_fp16="cl_khr_fp16" in device.extensions.split(),
        processor=describe_processor() if kind == "CPU" else "",
    )


def find_device(library: str, identity: Sequence[str]) -> cl.Device:
    """Returns a driver's device with the given identity; raises DYNAMIC_LOADING if there is no such device."""
    for device in load_driver(library):
        if list(describe_device(device).identity) == list(identity):
            return device
    raise LiteRtError(
        Status.DYNAMIC_LOADING,
        f"the OpenCL driver no longer has the device {' '.join(identity)}",
        library,
    )


def load_npu(wanted: str = "") -> tuple[cl.Device, str]:
    """Returns the device that serves as the NPU, and the library of the device's driver.

    `wanted` is `platform[:device]`; if it is "", the value of the environment variable LITERT_NPU_OPENCL is used,
    if the variable is set. If a driver conflicts with libraries that this process has loaded, the next driver is
    used.

    Raises:
      LiteRtError: NOT_FOUND, if no driver works, or if no loaded driver has the wanted device.
    """
    chosen = choose_device(wanted) if _platforms else _first_that_loads(find_devices(wanted))
    try:
        devices = load_driver(chosen.installation.library)
    except LiteRtError:  # the stored proof is out of date; the next process needs a new one
        prove(chosen.installation, again=True)
        raise
    infos = [describe_device(device) for device in devices]
    identity = chosen.info.identity
    for device, info in zip(devices, infos, strict=True):
        if info.identity == identity:
            return device, chosen.installation.library
    return _load_other(devices, infos, wanted)


def _first_that_loads(devices: Sequence[ChosenDevice]) -> ChosenDevice:
    """Returns the best device whose driver this process can load; OpenCL's loader reads the drivers only once."""
    libc = ctypes.CDLL(None)
    libc.dlopen.restype, libc.dlerror.restype = ctypes.c_void_p, ctypes.c_char_p
    problems: dict[str, str] = {}
    for device in devices:
        library = device.installation.library
        if library in problems:
            continue
        with _environment(driver_of_library(library).environment(make_scratch_folder)):
            if libc.dlopen(os.fsencode(library), os.RTLD_LAZY):
                for problem in problems.values():
                    _LOG.warning("An OpenCL driver cannot be loaded into this process: %s", problem)
                return device
            problems[library] = libc.dlerror().decode(errors="replace")
    library, problem = next(iter(problems.items()))
    reason = problem.removeprefix(library).lstrip(": ")
    what = f"the OpenCL driver cannot be loaded into this process: {reason}"
    hint = _HIDDEN_HINT + known_drivers()["pocl"].hint
    raise LiteRtError(Status.DYNAMIC_LOADING, what, library, hint)


def _load(library: str) -> Sequence[cl.Platform]:
    import_pyopencl()
    import pyopencl as cl

    environment = {
        "OCL_ICD_VENDORS": library,  # only this driver, for ocl-icd, which is in pyopencl's wheels
        "OCL_ICD_FILENAMES": library,  # the same for Khronos's loader
        **driver_of_library(library).environment(make_scratch_folder),
    }
    with _environment(environment):
        try:
            platforms = cl.get_platforms()
            for platform in platforms:
                _devices(platform)  # PoCL reads its part of the environment here
        except cl.Error as error:
            reason = (
                "the driver's library cannot be loaded"
                if error.code == _PLATFORM_NOT_FOUND
                else error
            )
            raise LiteRtError(
                Status.DYNAMIC_LOADING,
                f"the OpenCL driver does not start: {reason}",
                library,
                install_hint(),
            ) from error
    return platforms


def _devices(platform: cl.Platform) -> Sequence[cl.Device]:
    import pyopencl as cl

    try:
        return platform.get_devices()
    except cl.Error:  # DEVICE_NOT_FOUND: a driver without its hardware
        return ()


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Sets environment variables temporarily, so that processes that are started later do not inherit them."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _load_other(
    devices: Sequence[cl.Device], infos: Sequence[DeviceInfo], wanted: str
) -> tuple[cl.Device, str]:
    """Returns the best device of the drivers that were loaded before, in place of the chosen device."""
    wanted = wanted or os.environ.get(VARIABLE, "")
    ranked = rank_devices(infos, wanted)
    if not ranked:
        there = "; ".join(map(str, infos))
        raise LiteRtError(
            Status.NOT_FOUND,
            f"the OpenCL drivers that this process has loaded do not have the device '{wanted}', only {there}",
            hint=f"Use another driver in a separate process, or set {VARIABLE} before the process starts.",
        )
    index = ranked[0]
    for proof in chain(prove_all(wanted), map(prove, _loaded())):
        if any(info.identity == infos[index].identity for info in proof.devices):
            return devices[index], proof.installation.library
    raise LiteRtError(
        Status.NOT_FOUND,
        "this process has loaded an OpenCL driver from an unknown library file, so child processes cannot use it",
        str(infos[index]),
        "Load a model for the NPU before other uses of OpenCL, or load the model in a separate process.",
    )


def _loaded() -> Iterator[Installation]:
    """Returns the drivers that this process has loaded, including drivers that other code has loaded."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as lines:
        fields = (line.rstrip("\n").split(maxsplit=5) for line in lines)
        paths = dict.fromkeys(field[5] for field in fields if len(field) > 5)
    for path in paths:
        name = os.path.basename(path)
        if not name.startswith("lib") or name.startswith(_LOADER):
            continue
        with suppress(OSError):  # no library
            if hasattr(ctypes.CDLL(path, os.RTLD_NOLOAD | os.RTLD_LAZY), _ENTRY):
                yield Installation(driver_of_library(path), path, path)
