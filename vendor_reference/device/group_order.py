"""Finds out whether work groups of one launch can pass results to each other, and the build option for that.

Atomic operations of OpenCL 1 do not order memory between work groups. Those of OpenCL 2 do, and those of OpenCL 3
do if the device reports it. On a CPU all of them do, since drivers use the processor's atomic instructions, which
order all memory.
"""

from __future__ import annotations

import re

import pyopencl as cl

from vendor_reference.drivers.device_info import DeviceInfo
from vendor_reference.drivers.driver import driver_of_device

_CAPABILITIES = cl.device_atomic_capabilities
_NEEDED = _CAPABILITIES.ORDER_ACQ_REL | _CAPABILITIES.SCOPE_DEVICE


def ordering_option(info: DeviceInfo, atomic_capabilities: int) -> str | None:
    """Returns the build option with which atomic operations order memory between work groups; None without one.

    `atomic_capabilities` are the capabilities that an OpenCL 3 device reports; 0 for an older device.
    """
    if not driver_of_device(info).orders_groups:
        return None
    if info.kind == "CPU":
        return ""
    version = re.match(r"OpenCL (\d+)", info.version)
    if version and version[1] == "2":
        return "-cl-std=CL2.0"
    return "-cl-std=CL3.0" if atomic_capabilities & _NEEDED == _NEEDED else None
