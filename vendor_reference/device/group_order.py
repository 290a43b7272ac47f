"""Finds the build option with which work groups of the same kernel launch can pass results to each other.

In OpenCL 1, atomic operations do not order the memory accesses of different work groups. In OpenCL 2, they order
these accesses; in OpenCL 3, they do so if the device reports this capability. On a CPU, atomic operations always
order memory accesses, since drivers use the processor's atomic instructions.
"""

from __future__ import annotations

import re

import pyopencl as cl

from vendor_reference.drivers.device_info import DeviceInfo
from vendor_reference.drivers.driver import driver_of_device

_CAPABILITIES = cl.device_atomic_capabilities
_NEEDED = _CAPABILITIES.ORDER_ACQ_REL | _CAPABILITIES.SCOPE_DEVICE


def ordering_option(info: DeviceInfo, atomic_capabilities: int) -> str | None:
    """Returns the build option with which atomic operations order memory between work groups.

    Returns None if the device has no such ordering.

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
