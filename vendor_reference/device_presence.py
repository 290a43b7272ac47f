"""Whether an NPU could be emulated here: which OpenCL drivers are installed, found without loading one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from glob import glob
from importlib.util import find_spec

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.soc import get_soc_model

_SYSTEM_FOLDER = "/etc/OpenCL/vendors"


def check_device(soc_model: str) -> str:
    """Names the drivers that would be tried, as their registrations (`.icd` files) say.

    Raises:
      LiteRtError: UNSUPPORTED, for a SoC model that there is not; NOT_FOUND, without pyopencl or a driver.
    """
    soc = get_soc_model(soc_model)
    pyopencl = find_spec("pyopencl")  # its own import would load the drivers
    if pyopencl is None:
        raise LiteRtError(
            Status.NOT_FOUND, "pyopencl is not installed", hint="pip install pyopencl"
        )
    drivers = [
        name
        for folder in _folders(pyopencl.submodule_search_locations or ())
        for name in _drivers(folder)
    ]
    if not drivers:
        raise LiteRtError(
            Status.NOT_FOUND,
            "no OpenCL driver is installed",
            hint="Install one: pip install pocl-binary-distribution (x86-64 Linux), or your device's own.",
        )
    return f"{soc.name}, emulated on OpenCL ({', '.join(dict.fromkeys(drivers))})"


def _folders(package: Sequence[str]) -> Iterator[str]:
    """Where the OpenCL loader looks: beside itself in pyopencl's wheel, and in the system's folder."""
    yield from (os.path.join(folder, ".libs") for folder in package)
    yield os.environ.get("OCL_ICD_VENDORS") or _SYSTEM_FOLDER


def _drivers(folder: str) -> Iterator[str]:
    """Drivers that a folder registers, by their registrations' names; a `.icd` file may be named itself."""
    paths = [folder] if folder.endswith(".icd") else sorted(glob(os.path.join(folder, "*.icd")))
    for path in paths:
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                library = file.readline().strip()
        except OSError:
            continue
        # A name without a folder is looked for beside the registration, then by the system's linker.
        if not os.path.isabs(library) or os.path.exists(library):
            yield os.path.splitext(os.path.basename(path))[0]
