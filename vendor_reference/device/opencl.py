"""Loads OpenCL: pyopencl, and the drivers that it finds.

Drivers come from PyPI (`pocl-binary-distribution` installs PoCL where pyopencl's own loader looks) and from the
system (`/etc/OpenCL/vendors`, or `$OCL_ICD_VENDORS`).
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

if TYPE_CHECKING:
    import pyopencl as cl

_HINT = (
    "Install a driver: pip install pocl-binary-distribution (x86-64 Linux), or your device's own."
)
_PLATFORM_NOT_FOUND = -1001

_lock = threading.Lock()
_platforms: Sequence[cl.Platform] = ()


def check_installed() -> None:
    """Refuses a machine where OpenCL cannot be loaded, without loading it.

    Raises:
      LiteRtError: UNSUPPORTED_RUNTIME_VERSION.
    """
    if find_spec("pyopencl") is None:
        raise LiteRtError(
            Status.UNSUPPORTED_RUNTIME_VERSION,
            "pyopencl is not installed",
            hint="pip install pyopencl pocl-binary-distribution",
        )


def load_platforms() -> Sequence[cl.Platform]:
    """The platforms of this process, loaded on the first call.

    Raises:
      LiteRtError: DYNAMIC_LOADING, if there is none.
    """
    global _platforms
    with _lock:
        if not _platforms:
            _platforms = _load()
        return _platforms


def _load() -> Sequence[cl.Platform]:
    environment = {
        # PoCL's: see scratch_folder.py. A program that has loaded PoCL before us keeps its own.
        "POCL_CACHE_DIR": make_scratch_folder(),
        # pyopencl's: it keeps code in the home folder, and fails where it cannot write there.
        "PYOPENCL_NO_CACHE": "1",
    }
    with _environment(environment):
        try:
            import pyopencl as cl  # here: 0.1 s, and the environment above is read when it loads
        except ImportError as error:
            raise LiteRtError(
                Status.DYNAMIC_LOADING,
                f"pyopencl cannot be imported: {error}",
                hint="pip install pyopencl",
            ) from error
        try:
            platforms = cl.get_platforms()
            for platform in platforms:
                _devices(platform)  # PoCL reads its part of the environment here
        except cl.Error as error:
            if error.code != _PLATFORM_NOT_FOUND:
                raise LiteRtError(
                    Status.DYNAMIC_LOADING, f"OpenCL does not start: {error}", hint=_HINT
                ) from error
            platforms = []
    if not platforms:
        raise LiteRtError(Status.DYNAMIC_LOADING, "no OpenCL driver is installed", hint=_HINT)
    return platforms


def _devices(platform: cl.Platform) -> Sequence[cl.Device]:
    import pyopencl as cl

    try:
        return platform.get_devices()
    except cl.Error:  # DEVICE_NOT_FOUND: a driver without its hardware
        return ()


def load_devices() -> Sequence[cl.Device]:
    """All devices of all platforms, in the drivers' order.

    Raises:
      LiteRtError: DYNAMIC_LOADING, if there is no driver, or none has a device.
    """
    devices = [device for platform in load_platforms() for device in _devices(platform)]
    if not devices:
        raise LiteRtError(
            Status.DYNAMIC_LOADING,
            "the OpenCL drivers that are installed have no device",
            hint=_HINT,
        )
    return devices


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
