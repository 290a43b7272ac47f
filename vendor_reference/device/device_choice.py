"""Which OpenCL device stands for the NPU: on purpose, not by accident.

The best one is taken: a GPU before a CPU, a newer PoCL before an older one. Oclgrind, a simulator that checks
each access and takes hours for a network, is taken only where it is asked for by name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.device_presence import SIMULATOR

VARIABLE = "LITERT_NPU_OPENCL"
"""`platform[:device]`: parts of their names and versions, whatever the case."""

_KINDS = ("CPU", "ACCELERATOR", "GPU")
"""From good to better; others come before all of them."""


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """What a device says of itself.

    Attributes:
      kind: GPU, CPU, ACCELERATOR or CUSTOM.
      memory_bytes: that kernels can address.
      has_fp16: whether kernels can compute with `half`.
    """

    platform: str
    platform_version: str
    name: str
    version: str
    driver_version: str
    kind: str
    compute_units: int
    memory_bytes: int
    has_fp16: bool

    @property
    def identity(self) -> Sequence[str]:
        """What a binary is built for: equal for devices that run the same one."""
        return (
            self.platform,
            self.platform_version,
            self.name,
            self.version,
            self.driver_version,
        )

    def __str__(self) -> str:
        return f"{self.platform}:{self.name} ({self.kind}, {self.platform_version.strip()})"


def choose_device(devices: Sequence[DeviceInfo], wanted: str = "") -> int:
    """The index of the device to use.

    Args:
      devices: all there are, usable for building and running kernels.
      wanted: `platform[:device]`; "" is what the environment says, if it says something.

    Raises:
      LiteRtError: NOT_FOUND, if no device is called so; or if all are simulators, and none is wanted.
    """
    wanted = wanted or os.environ.get(VARIABLE, "")
    platform, _, name = wanted.partition(":")
    fitting = [
        index
        for index, device in enumerate(devices)
        if _is_called(platform, f"{device.platform} {device.platform_version}")
        and _is_called(name, f"{device.name} {device.version}")
        and (not is_simulator(device) or SIMULATOR in wanted.lower())
    ]
    if not fitting:
        what = f"no OpenCL device '{wanted}'" if wanted else "no OpenCL device but a simulator"
        there = "; ".join(str(device) for device in devices)
        raise LiteRtError(
            Status.NOT_FOUND,
            f"{what}; there is: {there or 'none'}",
            hint=f"Set {VARIABLE} to platform[:device], parts of these names.",
        )
    return max(fitting, key=lambda index: (*_merit(devices[index]), -index))


def _is_called(part: str, name: str) -> bool:
    return part.strip().lower() in name.lower()


def is_simulator(device: DeviceInfo) -> bool:
    """Whether a device checks each access rather than running kernels fast."""
    return SIMULATOR in f"{device.platform} {device.name}".lower()


def _merit(device: DeviceInfo) -> tuple[bool, int, tuple[int, ...]]:
    kind = _KINDS.index(device.kind) if device.kind in _KINDS else -1
    return not is_simulator(device), kind, _pocl_version(device)


def _pocl_version(device: DeviceInfo) -> tuple[int, ...]:
    """Of PoCL; drivers that a CPU's maker has for it come before all of PoCL's."""
    found = re.search(r"PoCL (\d+)\.(\d+)", device.platform_version, re.IGNORECASE)
    return (int(found[1]), int(found[2])) if found else (1000, 0)
