"""What OpenCL says of its devices."""

from __future__ import annotations

from collections.abc import Sequence

import pyopencl as cl

from vendor_reference.device.device_choice import DeviceInfo
from vendor_reference.device.opencl import load_devices


def describe_device(device: cl.Device) -> DeviceInfo:
    """A device's names, versions and size."""
    platform = device.platform
    return DeviceInfo(
        platform=platform.name.strip(),
        platform_version=platform.version.strip(),
        name=device.name.strip(),
        version=device.version.strip(),
        driver_version=device.driver_version.strip(),
        kind=_kind(device),
        compute_units=device.max_compute_units,
        memory_bytes=device.global_mem_size,
        has_fp16="cl_khr_fp16" in device.extensions.split(),
    )


def find_usable_devices() -> Sequence[cl.Device]:
    """The devices that can compile and run kernels.

    Raises:
      LiteRtError: DYNAMIC_LOADING, if there is no OpenCL.
    """
    return [d for d in load_devices() if d.available and d.compiler_available]


def _kind(device: cl.Device) -> str:
    for name in ("CPU", "GPU", "ACCELERATOR"):
        if device.type & getattr(cl.device_type, name):
            return name
    return "CUSTOM"
