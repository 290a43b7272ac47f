"""What is known of an OpenCL driver: each module in `known/` has one as `DRIVER`.

A driver is an implementation of OpenCL: Intel's runtime, PoCL, a GPU's. A driver that no module knows works with
the defaults here. What a driver can do is not asked here, but tried: see `proof.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from litert.host.extensions import load_package
from vendor_reference.drivers.device_info import DeviceInfo

VARIABLE = "LITERT_NPU_OPENCL"
"""`platform[:device]`: parts of their names and versions, whatever the case; a driver's name will do, too."""

NOT_THE_KERNEL = (
    f"The kernel is not at fault. litert-npu info tries all drivers; {VARIABLE} chooses one."
)
"""What to do about a driver that fails."""

CRASH_HINT = f"Simplify the kernel, or use another driver ({VARIABLE})."
"""What to do about a kernel that crashes or hangs a driver's compiler."""


@dataclass(frozen=True, slots=True)
class SandboxNeeds:
    """What a sandbox leaves open for a driver, beside the system's libraries.

    Attributes:
      folders: to read, where they exist, with what is in them.
      programs: to start, by their names in `PATH`.
      listed: folders in which it looks for names alone.
      device_files: to open for reading and writing; `*` stands for any name.
    """

    folders: Sequence[str]
    programs: Sequence[str] = ()
    listed: Sequence[str] = ()
    device_files: Sequence[str] = ()


_SYSTEM_FOLDERS = ("/sys", "/proc/driver", "/proc/devices", "/proc/modules", "/dev/dri")
"""Where a driver finds its hardware."""


class Driver:
    """A driver; what is not overridden holds for one that nobody knows.

    Attributes:
      name: ours, in lower case: `pocl`.
      library: beginning of its library's file name.
      platform: name of its OpenCL platform.
      hint: what a user does to install it.
      is_simulator: whether it checks each access rather than run kernels fast; used only where it is named.
      compiles_for_group_sizes: whether it compiles a kernel again for each size of work group.
      orders_groups: whether groups of one launch can hand results to each other, where its devices say so.
      keeps_variants: whether a binary made after runs holds what was compiled for their work sizes.
      widest_vector: floats in the widest vector that it can be trusted with.
      guard: text that comes before each program's, where the driver's sandbox does not hold all of its compiler.
      threads_variable: the environment's variable that limits its threads; "" where it has none.
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
        """Paths of its library where it is installed and not registered with the OpenCL loader."""
        return ()

    def environment(self, make_scratch_folder: Callable[[], str]) -> Mapping[str, str]:
        """Variables that it needs while it loads.

        Args:
          make_scratch_folder: makes a folder that is gone with the process.
        """
        return {}

    def sandbox_needs(self, library: str) -> SandboxNeeds:
        """What its compiler and its kernels use, as far as a trace of them shows it.

        Args:
          library: path of its library.
        """
        folders = (os.path.dirname(library), *_SYSTEM_FOLDERS)
        return SandboxNeeds(folders, device_files=("/dev/dri/*", "/dev/kfd", "/dev/nvidia*"))

    def merit(self, info: DeviceInfo) -> tuple[int, ...]:
        """How good it is among drivers for the same kind of device; the greatest is used."""
        return (1000,)

    def crash_cause(self, text: str) -> str:
        """A sentence about what a kernel's text has that is known to crash or hang the driver; "" for nothing."""
        return ""

    def clean_log(self, log: str) -> str:
        """A build log without what is no message; messages begin with `error: file:line:column: `."""
        return log


@cache
def known_drivers() -> Mapping[str, Driver]:
    """The drivers that modules know, by name."""
    return load_package("vendor_reference.drivers.known", "DRIVER", lambda driver: driver.name)


def driver_of_library(path: str) -> Driver:
    """The driver whose library it is."""
    name = os.path.basename(path).lower()
    fitting = (d for d in known_drivers().values() if name.startswith(d.library))
    return next(fitting, _UNKNOWN)


def driver_of_device(info: DeviceInfo) -> Driver:
    """The driver of a device."""
    fitting = (d for d in known_drivers().values() if info.platform == d.platform)
    return next(fitting, _UNKNOWN)


_UNKNOWN = Driver()
