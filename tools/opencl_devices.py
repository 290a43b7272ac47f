"""The OpenCL devices on this machine, asked for in a child process: drivers crash, and hang."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from litert.host.child import call_in_child

_TIMEOUT_S = 30.0


def list_opencl_devices() -> list[str]:
    """A line for each device that can run kernels.

    Raises:
      LiteRtError: DYNAMIC_LOADING, without OpenCL; RUNTIME_FAILURE or TIMEOUT_EXPIRED, for a driver that crashes
        or hangs.
    """
    target = f"{__name__}:describe_devices"
    answers = call_in_child(target, None, timeout_s=_TIMEOUT_S, subject="OpenCL")
    return [cast(str, answer) for answer in answers]


def describe_devices(_: object) -> Iterator[str]:
    """The child's part."""
    from vendor_reference.device.device_info import describe_device, find_usable_devices

    for device in find_usable_devices():
        info = describe_device(device)
        half = "" if info.has_fp16 else ", no fp16 arithmetic"
        yield (
            f"{info.platform}: {info.name} ({info.kind}, {info.compute_units} compute units{half}; "
            f"{info.platform_version})"
        )
