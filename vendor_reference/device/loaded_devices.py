"""The OpenCL devices of this process: what they say of themselves, and which of them is the NPU."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pyopencl as cl

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.device.opencl import load_driver
from vendor_reference.drivers.choice import VARIABLE, choose_device, prove_all, rank_devices
from vendor_reference.drivers.device_info import DeviceInfo, describe_processor
from vendor_reference.drivers.proof import prove


def describe_device(device: cl.Device) -> DeviceInfo:
    """A device's names, versions and size."""
    platform = device.platform
    kind = _kind(device)
    return DeviceInfo(
        platform=platform.name.strip(),
        platform_version=platform.version.strip(),
        name=device.name.strip(),
        version=device.version.strip(),
        driver_version=device.driver_version.strip(),
        kind=kind,
        compute_units=device.max_compute_units,
        memory_bytes=device.global_mem_size,
        has_fp16="cl_khr_fp16" in device.extensions.split(),
        processor=describe_processor() if kind == "CPU" else "",
    )


def find_device(library: str, identity: Sequence[str]) -> cl.Device:
    """The device of that identity, in a process that uses this driver.

    Raises:
      LiteRtError: DYNAMIC_LOADING, if there is no such device here.
    """
    for device in load_driver(library):
        if list(describe_device(device).identity) == list(identity):
            return device
    raise LiteRtError(Status.DYNAMIC_LOADING, f"no device {' '.join(identity)}", library)


def load_npu(wanted: str = "") -> tuple[cl.Device, str]:
    """The device that stands for the NPU, and its driver's library; "" for a driver that the program has loaded.

    Args:
      wanted: `platform[:device]`; "" is what the environment says, if it says something.

    Raises:
      LiteRtError: NOT_FOUND, if no driver works, or none that is loaded has such a device.
    """
    chosen = choose_device(wanted)
    try:
        devices = load_driver(chosen.installation.library)
    except LiteRtError:  # what was proved does not hold any more: the next process shall know
        prove(chosen.installation, again=True)
        raise
    infos = [describe_device(device) for device in devices]
    identity = chosen.info.identity
    for device, info in zip(devices, infos, strict=True):
        if info.identity == identity:
            return device, chosen.installation.library
    return _load_other(devices, infos, wanted)


def _load_other(
    devices: Sequence[cl.Device], infos: Sequence[DeviceInfo], wanted: str
) -> tuple[cl.Device, str]:
    """The best device of drivers that were loaded before, other than the chosen one."""
    wanted = wanted or os.environ.get(VARIABLE, "")
    ranked = rank_devices(infos, wanted)
    if not ranked:
        there = "; ".join(map(str, infos))
        raise LiteRtError(
            Status.NOT_FOUND,
            f"no OpenCL device '{wanted}' in this process, which has loaded {there}",
            hint=f"Use a process of its own for another driver, or set {VARIABLE} before it starts.",
        )
    index = ranked[0]
    for proof in prove_all(wanted):
        if any(info.identity == infos[index].identity for info in proof.devices):
            return devices[index], proof.installation.library
    return devices[index], ""


def _kind(device: cl.Device) -> str:
    for name in ("CPU", "GPU", "ACCELERATOR"):
        if device.type & getattr(cl.device_type, name):
            return name
    return "CUSTOM"
