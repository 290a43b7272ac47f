"""The sandbox in which a driver compiles or runs kernels, with access only to the files that the driver needs."""

from __future__ import annotations

import os
from glob import glob
from importlib.util import find_spec

from litert.host.sandbox import DRIVER_VARIABLES, Sandbox, chosen_mode, find_programs
from vendor_reference.drivers.driver import driver_of_library

VARIABLES = (*DRIVER_VARIABLES, "LD_", "OCLGRIND_BUILD_")
"""Prefixes of the names of environment variables that influence OpenCL compilers."""

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def driver_sandbox(library: str) -> Sandbox:
    """Returns the sandbox for a child process that uses a driver.

    An environment variable decides whether the sandbox is used.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the environment variable for the sandbox has an unknown value.
    """
    needs = driver_of_library(library).sandbox_needs(library)
    pyopencl = find_spec("pyopencl")
    packages = (
        os.path.dirname(os.path.dirname(pyopencl.origin)) if pyopencl and pyopencl.origin else ""
    )
    linked = os.path.dirname(os.path.realpath(library)) if os.path.isabs(library) else ""
    folders = (*needs.folders, linked, packages, _PACKAGE)
    return Sandbox(
        readable=tuple(folder for folder in folders if os.path.isabs(folder)),
        listed=tuple(needs.listed),
        programs=tuple(find_programs(needs.programs)),
        devices=tuple(path for pattern in needs.device_files for path in glob(pattern)),
        variables=VARIABLES,
        mode=chosen_mode(),
    )
