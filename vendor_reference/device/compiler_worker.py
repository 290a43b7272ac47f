"""Builds programs in the child process that `programs/compiler_process.py` starts, and sends back the results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vendor_reference.programs.program_cache import COMPILED_PROGRAM
from vendor_reference.programs.program_text import ProgramText


def build(request: Mapping[str, Any]) -> Iterator[object]:
    """Compiles the programs of a request in order, and yields each result as plain data.

    A request contains the path of the driver's `library`, the device's `identity`, and `programs`, each with a
    name, a source text and build options.
    """
    from vendor_reference.device.opencl import import_pyopencl

    import_pyopencl()  # first, since it sets variables that pyopencl's import reads
    import pyopencl as cl

    from vendor_reference.device.compiler import compile_text
    from vendor_reference.device.opencl import find_device

    device = find_device(request["library"], request["identity"])
    context = cl.Context([device])
    for name, text, options in request["programs"]:
        built = compile_text(context, device, ProgramText(name, text, options))
        yield COMPILED_PROGRAM.dump(built)
