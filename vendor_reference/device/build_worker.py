"""The child process's side of `program_builder.py`: compiles programs, where it may crash or hang."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.device.program_text import ProgramText
from vendor_reference.executable.kernel_signature import dump_signatures


def build(request: Mapping[str, Sequence[Any]]) -> Iterator[object]:
    """Compiles programs in order.

    Args:
      request: `identity` of the device, and `programs`: for each its name, text and options.

    Yields:
      For each program its kernels, log and binary.

    Raises:
      LiteRtError: COMPILATION; DYNAMIC_LOADING, if there is no such device here.
    """
    from vendor_reference.device.opencl import load_devices

    devices = load_devices()  # first: it sets what pyopencl reads when it is imported
    import pyopencl as cl

    from vendor_reference.device.compiler import compile_text
    from vendor_reference.device.device_info import describe_device

    identity = list(request["identity"])
    fitting = [device for device in devices if list(describe_device(device).identity) == identity]
    if not fitting:
        raise LiteRtError(Status.DYNAMIC_LOADING, f"no device {' '.join(identity)} in the child")
    context = cl.Context([fitting[0]])
    for name, text, options in request["programs"]:
        built = compile_text(context, fitting[0], ProgramText(name, text, options))
        yield {
            "kernels": dump_signatures(built.kernels),
            "log": built.log,
            "binary": base64.b64encode(built.binary).decode(),
        }
