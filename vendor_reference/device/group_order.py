"""Whether the work groups of one launch can hand results to each other, and how programs are built for that.

Atomic operations of OpenCL 1 order nothing between groups; those of OpenCL 2 do, and those of OpenCL 3 where the
device says so. On a CPU all do, since drivers make them of the processor's own, which order all memory.
"""

from __future__ import annotations

import re

import pyopencl as cl

from vendor_reference.drivers.device_info import DeviceInfo
from vendor_reference.drivers.driver import driver_of_device

_CAPABILITIES = cl.device_atomic_capabilities
_NEEDED = _CAPABILITIES.ORDER_ACQ_REL | _CAPABILITIES.SCOPE_DEVICE


def ordering_option(info: DeviceInfo, atomic_capabilities: int) -> str | None:
    """The build option with which atomic operations order memory between groups; None where nothing does.

    `atomic_capabilities` are what a device of OpenCL 3 says; 0 for an older one.
    """
    if not driver_of_device(info).orders_groups:
        return None
    if info.kind == "CPU":
        return ""
    version = re.match(r"OpenCL (\d+)", info.version)
    if version and version[1] == "2":
        return "-cl-std=CL2.0"
    return "-cl-std=CL3.0" if atomic_capabilities & _NEEDED == _NEEDED else None
