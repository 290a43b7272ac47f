"""Loads a driver in the child process that `drivers/proof.py` starts, and runs a kernel on each device."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import TYPE_CHECKING

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.drivers.device_info import DEVICE_INFO

if TYPE_CHECKING:
    import pyopencl as cl

_GROUP, _ITEMS = 4, 16


def prove(library: str) -> Iterator[object]:
    """Loads a driver and tests its devices.

    Yields each device's description and its problem; the problem is "" if the device works.

    Raises:
      LiteRtError: DYNAMIC_LOADING, if the OpenCL driver does not start.
    """
    from vendor_reference.device.opencl import describe_device, load_driver

    try:
        ctypes.CDLL(library)  # first, since the OpenCL loader does not report what is missing
    except OSError as error:
        raise LiteRtError(
            Status.DYNAMIC_LOADING, f"the driver's library cannot be loaded: {error}", library
        ) from error
    for device in load_driver(library):
        info = DEVICE_INFO.dump(describe_device(device))
        yield {"device": info, "problem": _find_problem(device)}


def _find_problem(device: cl.Device) -> str:
    import pyopencl as cl

    if not (device.available and device.compiler_available):
        return "the device or its compiler is not available"
    try:
        found = _run(device)
    except LiteRtError as error:
        _, _, log = error.what.partition("\n")  # after the sentence for kernels of users
        log = log.strip()
        return f"the device cannot build a kernel: {log or error.what}"
    except cl.Error as error:
        return f"the device cannot run a kernel: {error}"
    reversed_in_group = [i - i % _GROUP + _GROUP - 1 - i % _GROUP for i in range(_ITEMS)]
    expected = [2.0 * i + 1.0 for i in reversed_in_group]
    return "" if found == expected else f"the test kernel's results are wrong: {found}"


def _run(device: cl.Device) -> list[float]:
    """Builds, saves, reloads and runs a test kernel, like all programs; returns the kernel's results."""
    import pyopencl as cl

    from vendor_reference.device.compiler import PROBE, compile_text, load_binary

    context = cl.Context([device])
    queue = cl.CommandQueue(context, device)
    program = load_binary(context, device, PROBE, compile_text(context, device, PROBE).binary)
    kernel = cl.Kernel(program, "probe")
    x = (ctypes.c_float * _ITEMS)(*range(_ITEMS))
    y = (ctypes.c_float * _ITEMS)()
    flags = cl.mem_flags
    source = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=x)
    target = cl.Buffer(context, flags.WRITE_ONLY, ctypes.sizeof(y))
    kernel.set_arg(0, source)
    kernel.set_arg(1, target)
    kernel.set_arg(2, cl.LocalMemory(4 * _GROUP))  # type: ignore[arg-type]  # its stub lacks it
    cl.enqueue_nd_range_kernel(queue, kernel, (_ITEMS,), (_GROUP,))
    cl.enqueue_copy(queue, y, target, is_blocking=True)
    return list(y)
