"""Loads one OpenCL driver into this process: pyopencl, its loader, and the driver's library.

A process keeps the drivers that it begins with, since the loader reads their list once. A program that has used
OpenCL before us has chosen its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.device.scratch_folder import make_scratch_folder
from vendor_reference.drivers.choice import install_hint
from vendor_reference.drivers.driver import driver_of_library

if TYPE_CHECKING:
    import pyopencl as cl

_PLATFORM_NOT_FOUND = -1001
_PYOPENCL_HINT = "pip install pyopencl"

_lock = threading.Lock()
_platforms: Sequence[cl.Platform] = ()


def check_installed() -> None:
    """Refuses a machine where OpenCL cannot be loaded, without loading it.

    Raises:
      LiteRtError: UNSUPPORTED_RUNTIME_VERSION.
    """
    if find_spec("pyopencl") is None:
        raise LiteRtError(
            Status.UNSUPPORTED_RUNTIME_VERSION, "pyopencl is not installed", hint=_PYOPENCL_HINT
        )


def load_driver(library: str) -> Sequence[cl.Device]:
    """The devices of this process; the first call loads the driver.

    Args:
      library: of the driver; nothing, once another is loaded.

    Raises:
      LiteRtError: DYNAMIC_LOADING, if it does not start or has no device.
    """
    global _platforms
    with _lock:
        if not _platforms:
            _platforms = _load(library)
    devices = [device for platform in _platforms for device in _devices(platform)]
    if not devices:
        raise LiteRtError(Status.DYNAMIC_LOADING, "it has no device here", library, install_hint())
    return devices


def import_pyopencl() -> None:
    """Imports pyopencl, which loads no driver.

    Raises:
      LiteRtError: DYNAMIC_LOADING.
    """
    # It keeps code in the home folder otherwise, and fails where it cannot write there.
    with _environment({"PYOPENCL_NO_CACHE": "1"}):
        try:
            import pyopencl  # noqa: F401  # here: 0.1 s
        except ImportError as error:
            raise LiteRtError(
                Status.DYNAMIC_LOADING,
                f"pyopencl cannot be imported: {error}",
                hint=_PYOPENCL_HINT,
            ) from error


def _load(library: str) -> Sequence[cl.Platform]:
    import_pyopencl()
    import pyopencl as cl

    environment = {
        "OCL_ICD_VENDORS": library,  # ocl-icd's, which is in pyopencl's wheels: this driver alone
        "OCL_ICD_FILENAMES": library,  # Khronos's loader
        **driver_of_library(library).environment(make_scratch_folder),
    }
    with _environment(environment):
        try:
            platforms = cl.get_platforms()
            for platform in platforms:
                _devices(platform)  # PoCL reads its part of the environment here
        except cl.Error as error:
            reason = "its library cannot be loaded" if error.code == _PLATFORM_NOT_FOUND else error
            raise LiteRtError(
                Status.DYNAMIC_LOADING, f"OpenCL does not start: {reason}", library, install_hint()
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
    """Sets variables for a while: what this process starts later is not to see them."""
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
