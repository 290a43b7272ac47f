"""Known facts about OpenCL drivers; each module in `known/` declares one driver as `DRIVER`.

A driver is an implementation of OpenCL, such as Intel's runtime, PoCL or the driver of a GPU. For unknown drivers,
the defaults of class `Driver` apply. The capabilities of drivers are not listed here, but tested; see `proof.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from litert.host.extensions import load_package
from vendor_reference.drivers.device_info import DeviceInfo

VARIABLE = "LITERT_NPU_OPENCL"
"""Environment variable that selects a driver by its name, or a device as `platform[:device]`.

`platform` and `device` are parts of names or versions; upper and lower case are the same.
"""

NOT_THE_KERNEL = (
    "The kernel is not the cause. Run litert-npu info to test all drivers, and choose another driver with the "
    f"environment variable {VARIABLE}."
)
"""Hint in errors about a driver that fails with every kernel."""

CRASH_HINT = (
    f"Simplify the kernel, or choose another driver with the environment variable {VARIABLE}."
)
"""Hint in errors about a kernel that makes a driver's compiler crash or hang."""


@dataclass(frozen=True, slots=True)
class SandboxNeeds:
    """The file access that a driver needs in a sandbox, in addition to the system's libraries.

    Attributes:
      folders: Folders that the driver may read recursively, if they exist.
      programs: Names of programs in `PATH` that the driver may start.
      listed: Folders that the driver may list, without reading the files.
      device_files: Device files that the driver may read and write; `*` matches any name.
    """

    folders: Sequence[str]
    programs: Sequence[str] = ()
    listed: Sequence[str] = ()
    device_files: Sequence[str] = ()


_SYSTEM_FOLDERS = ("/sys", "/proc/driver", "/proc/devices", "/proc/modules", "/dev/dri")
"""Folders and files from which drivers read information about the hardware."""


class Driver:
    """Facts about an OpenCL driver; the defaults apply to unknown drivers.

    Attributes:
      name: Short name of the driver in this project, in lower case, such as `pocl`.
      library: Start of the file name of the driver's library.
      platform: Name of the driver's OpenCL platform.
      hint: Hint that says how to install the driver.
      is_simulator: Whether the driver is a simulator, which is slow because it checks each memory access;
        simulators are used only if the user names them.
      compiles_for_group_sizes: Whether the driver compiles a kernel again for each work group size.
      orders_groups: Whether work groups of the same launch can exchange results, if the device supports it.
      keeps_variants: Whether a binary that is saved after a run contains the code that was compiled for the run's
        work sizes.
      widest_vector: Number of floats in the widest vector that the driver handles safely.
      guard: Text that is put before each program. It is needed if a part of the driver's compiler runs outside the
        sandbox.
      threads_variable: Environment variable that limits the number of the driver's threads; "" if there is none.
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
        """Finds the driver's library if the driver is installed, but not registered with the OpenCL loader."""
        return ()

    def environment(self, make_scratch_folder: Callable[[], str]) -> Mapping[str, str]:
        """Returns the environment variables that the driver needs while it is loaded.

        Args:
          make_scratch_folder: Function that creates a temporary folder, which is removed when the process ends.
        """
        return {}

    def sandbox_needs(self, library: str) -> SandboxNeeds:
        """Returns the file access that the driver's compiler and kernels need.

        This access was determined by tracing the compiler and kernels.

        Args:
          library: Path of the driver's library.
        """
        folders = (os.path.dirname(library), *_SYSTEM_FOLDERS)
        return SandboxNeeds(folders, device_files=("/dev/dri/*", "/dev/kfd", "/dev/nvidia*"))

    def merit(self, info: DeviceInfo) -> tuple[int, ...]:
        """Returns the driver's rank among drivers for the same type of device.

        The driver with the highest rank is used.
        """
        return (1000,)

    def crash_cause(self, text: str) -> str:
        """Describes code in a kernel that is known to crash or hang the driver.

        Returns "" if there is no such code.
        """
        return ""

    def clean_log(self, log: str) -> str:
        """Reduces a build log to its messages, which begin with `error: file:line:column: `."""
        return log


@cache
def known_drivers() -> Mapping[str, Driver]:
    """Returns all known drivers by name."""
    return load_package("vendor_reference.drivers.known", "DRIVER", lambda driver: driver.name)


def driver_of_library(path: str) -> Driver:
    """Returns the known driver to which a library belongs; if none is known, a driver with the defaults."""
    name = os.path.basename(path).lower()
    fitting = (d for d in known_drivers().values() if name.startswith(d.library))
    return next(fitting, _UNKNOWN)


def driver_of_device(info: DeviceInfo) -> Driver:
    """Returns the known driver to which a device belongs; if none is known, a driver with the defaults."""
    fitting = (d for d in known_drivers().values() if info.platform == d.platform)
    return next(fitting, _UNKNOWN)


_UNKNOWN = Driver()
