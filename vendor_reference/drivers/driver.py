"""Known facts about an OpenCL driver: each module in `known/` declares one `DRIVER`.

A driver is an implementation of OpenCL: Intel's runtime, PoCL, a GPU's. An unknown driver works with the defaults
  of this class. Abilities of a driver are not listed here, but tried; see `proof.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from litert.host.extensions import load_package
from vendor_reference.drivers.device_info import DeviceInfo

VARIABLE = "LITERT_NPU_OPENCL"
"""Environment variable with `platform[:device]`: parts of names and versions, in any case, or a driver's name."""

NOT_THE_KERNEL = (
    f"The kernel is not at fault. litert-npu info tries all drivers; {VARIABLE} chooses one."
)
"""Hint about a driver that fails."""

CRASH_HINT = f"Simplify the kernel, or use another driver ({VARIABLE})."
"""Hint about a kernel that crashes or hangs a driver's compiler."""


@dataclass(frozen=True, slots=True)
class SandboxNeeds:
    """The access that a driver needs in a sandbox, in addition to the system's libraries.

    Attributes:
      folders: Folders to read recursively, if they exist.
      programs: Programs to start, by their names in `PATH`.
      listed: Folders to list without reading files.
      device_files: Device files to open for reading and writing; `*` matches any name.
    """

    folders: Sequence[str]
    programs: Sequence[str] = ()
    listed: Sequence[str] = ()
    device_files: Sequence[str] = ()


_SYSTEM_FOLDERS = ("/sys", "/proc/driver", "/proc/devices", "/proc/modules", "/dev/dri")
"""Folder in which drivers find their hardware."""


class Driver:
    """An OpenCL driver; the defaults hold for unknown drivers.

    Attributes:
      name: This project's name for the driver, in lower case: `pocl`.
      library: Beginning of the library's file name.
      platform: Name of the OpenCL platform.
      hint: How to install the driver.
      is_simulator: Whether the driver is a slow simulator that checks each access; it is used only by name.
      compiles_for_group_sizes: Whether the driver compiles a kernel again for each work group size.
      orders_groups: Whether work groups of one launch can exchange results, if the device supports it.
      keeps_variants: Whether a binary that is saved after runs contains the code for their work sizes.
      widest_vector: Number of floats in the widest vector that the driver handles safely.
      guard: Text in front of each program, if the sandbox does not contain all of the driver's compiler.
      threads_variable: Environment variable that limits the driver's threads; "" for none.
    """

    name = ""
    library = ""
    platform = ""
    hint = ""
    is_simulator = False
    compiles_for_group_sizes = True
    orders_groups = True
    keeps_variants = False
    widest_vector = 16
    guard = ""
    threads_variable = ""

    def find(self) -> Sequence[str]:
        """Finds the library's paths if it is installed but not registered with the OpenCL loader."""
        return ()

    def environment(self, make_scratch_folder: Callable[[], str]) -> Mapping[str, str]:
        """Environment variables that the driver needs while it loads.

        Args:
          make_scratch_folder: Makes a temporary folder that is removed with the process.
        """
        return {}

    def sandbox_needs(self, library: str) -> SandboxNeeds:
        """The access that the driver's compiler and kernels need, found by tracing them.

        Args:
          library: Path of the driver's library.
        """
        folders = (os.path.dirname(library), *_SYSTEM_FOLDERS)
        return SandboxNeeds(folders, device_files=("/dev/dri/*", "/dev/kfd", "/dev/nvidia*"))

    def merit(self, info: DeviceInfo) -> tuple[int, ...]:
        """Rank among drivers for the same type of device; the greatest is used."""
        return (1000,)

    def crash_cause(self, text: str) -> str:
        """Describes text in a kernel that is known to crash or hang the driver; "" for none."""
        return ""

    def clean_log(self, log: str) -> str:
        """Cleans a build log so that only messages remain; messages begin with `error: file:line:column: `."""
        return log


@cache
def known_drivers() -> Mapping[str, Driver]:
    """Loads all known drivers by name."""
    return load_package("vendor_reference.drivers.known", "DRIVER", lambda driver: driver.name)


def driver_of_library(path: str) -> Driver:
    """Finds the known driver of a library."""
    name = os.path.basename(path).lower()
    fitting = (d for d in known_drivers().values() if name.startswith(d.library))
    return next(fitting, _UNKNOWN)


def driver_of_device(info: DeviceInfo) -> Driver:
    """Finds the known driver of a device."""
    fitting = (d for d in known_drivers().values() if info.platform == d.platform)
    return next(fitting, _UNKNOWN)


_UNKNOWN = Driver()
