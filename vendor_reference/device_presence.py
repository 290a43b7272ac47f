"""Whether an NPU could be emulated here: which OpenCL drivers are installed, found without loading one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from glob import glob
from importlib.util import find_spec

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.soc import get_soc_model

SIMULATOR = "oclgrind"
"""The driver that checks each access; nothing runs on it but what asks for it by name."""

_SYSTEM_FOLDER = "/etc/OpenCL/vendors"


def check_device(soc_model: str) -> str:
    """Names the drivers that would be tried, as their registrations (`.icd` files) say.

    Raises:
      LiteRtError: UNSUPPORTED, for a SoC model that there is not; NOT_FOUND, without pyopencl or a driver.
    """
    soc = get_soc_model(soc_model)
    if find_spec("pyopencl") is None:  # its own import would load the drivers
        raise LiteRtError(
            Status.NOT_FOUND, "pyopencl is not installed", hint="pip install pyopencl"
        )
    names = [name for path in find_registrations() if (name := _driver(path))]
    drivers = [name for name in names if SIMULATOR not in name]
    if not drivers:
        raise LiteRtError(
            Status.NOT_FOUND,
            "no OpenCL driver is installed",
            hint="Install one: pip install pocl-binary-distribution (x86-64 Linux), or your device's own.",
        )
    return f"{soc.name}, emulated on OpenCL ({', '.join(dict.fromkeys(drivers))})"


def has_simulator() -> bool:
    """Whether Oclgrind is installed."""
    return any(SIMULATOR in _driver(path) for path in find_registrations())


def find_registrations() -> Sequence[str]:
    """The `.icd` files that the OpenCL loader reads: beside itself in pyopencl's wheel, and the system's."""
    pyopencl = find_spec("pyopencl")
    package = (pyopencl.submodule_search_locations or ()) if pyopencl else ()
    folders = [os.path.join(folder, ".libs") for folder in package]
    folders.append(os.environ.get("OCL_ICD_VENDORS") or _SYSTEM_FOLDER)
    return [path for folder in folders for path in _registrations(folder)]


def _registrations(folder: str) -> Sequence[str]:
    """A folder's `.icd` files; one may be named itself."""
    return [folder] if folder.endswith(".icd") else sorted(glob(os.path.join(folder, "*.icd")))


def _driver(registration: str) -> str:
    """The driver that is registered, by its registration's name; "" where its library is gone."""
    try:
        with open(registration, encoding="utf-8", errors="replace") as file:
            library = file.readline().strip()
    except OSError:
        return ""
    # A name without a folder is looked for beside the registration, then by the system's linker.
    if os.path.isabs(library) and not os.path.exists(library):
        return ""
    return os.path.splitext(os.path.basename(registration))[0]
