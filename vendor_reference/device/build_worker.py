"""The child process's side of `program_builder.py`: compiles programs, where it may crash or hang."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from vendor_reference.device.program_text import ProgramText
from vendor_reference.executable.kernel_signature import dump_signatures


def build(request: Mapping[str, Any]) -> Iterator[object]:
    """Compiles programs in order.

    Args:
      request: `library` of the driver, `identity` of the device, and `programs`: for each its name, text and
        options.

    Yields:
      For each program its kernels, log and binary.

    Raises:
      LiteRtError: COMPILATION; DYNAMIC_LOADING, if there is no such device here.
    """
    from vendor_reference.device.opencl import import_pyopencl

    import_pyopencl()  # first: it sets what pyopencl reads when it is imported
    import pyopencl as cl

    from vendor_reference.device.compiler import compile_text
    from vendor_reference.device.loaded_devices import find_device

    device = find_device(request["library"], request["identity"])
    context = cl.Context([device])
    for name, text, options in request["programs"]:
        built = compile_text(context, device, ProgramText(name, text, options))
        yield {
            "kernels": dump_signatures(built.kernels),
            "log": built.log,
            "binary": base64.b64encode(built.binary).decode(),
        }
