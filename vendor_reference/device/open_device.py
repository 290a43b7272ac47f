"""Opens the NPU; where it is emulated, that loads OpenCL."""

from __future__ import annotations

from typing import Any

from vendor_reference.device.device import Device


def open_device(wanted: str = "") -> Device[Any, Any, Any]:
    """The device of this process, opened on first use.

    Args:
      wanted: `platform[:device]`; "" is the best there is, or what $LITERT_NPU_OPENCL says.

    Raises:
      LiteRtError: NOT_FOUND, if no OpenCL driver works here, or none has such a device.
    """
    from vendor_reference.device.opencl import import_pyopencl  # here: it loads OpenCL

    import_pyopencl()  # first: it sets what pyopencl reads when it is imported
    from vendor_reference.device.opencl_device import shared_device

    return shared_device(wanted)
