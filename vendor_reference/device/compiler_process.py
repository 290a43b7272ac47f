"""Compiles programs in a child process, since a kernel can make an OpenCL compiler crash or hang."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from litert.core.checked_json import JsonNode
from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.device.program_cache import COMPILED_PROGRAM, CompiledProgram
from vendor_reference.device.program_text import ProgramText
from vendor_reference.drivers.device_info import DeviceInfo
from vendor_reference.drivers.driver import CRASH_HINT, driver_of_device
from vendor_reference.drivers.proof import call_compiler

TIMEOUT_S = 120.0
"""For all programs of one call; drivers build a large one in seconds."""

_CHILD = "vendor_reference.device.compiler_process:build"


def compile_in_child(
    library: str, info: DeviceInfo, texts: Sequence[ProgramText]
) -> Iterator[CompiledProgram]:
    """The programs of some texts (one at least), in order, each as soon as it is built.

    Raises:
      LiteRtError: COMPILATION, with the compiler's log, or how it crashed; DYNAMIC_LOADING, if no child can be
        started, or it has no such device.
    """
    programs = [[text.name, text.text, text.options] for text in texts]
    request = {"library": library, "identity": list(info.identity), "programs": programs}
    done = 0
    try:
        for answer in call_compiler(_CHILD, request, timeout_s=TIMEOUT_S, library=library):
            yield COMPILED_PROGRAM.read(JsonNode(answer, "$", _CHILD, Status.RUNTIME_FAILURE))
            done += 1
    except LiteRtError as error:
        if error.status in (Status.COMPILATION, Status.DYNAMIC_LOADING):
            raise
        cause = driver_of_device(info).crash_cause(texts[done].text)
        hint = f"{cause} {CRASH_HINT}".lstrip()
        raise LiteRtError(Status.COMPILATION, error.what, texts[done].name, hint) from error


def build(request: Mapping[str, Any]) -> Iterator[object]:
    """Compiles programs in order, in the child process, and yields each as plain data.

    A request has the driver's `library`, the device's `identity`, and `programs`: name, text and options of each.
    """
    from vendor_reference.device.opencl import import_pyopencl

    import_pyopencl()  # first: it sets what pyopencl reads when it is imported
    import pyopencl as cl

    from vendor_reference.device.compiler import compile_text
    from vendor_reference.device.opencl import find_device

    device = find_device(request["library"], request["identity"])
    context = cl.Context([device])
    for name, text, options in request["programs"]:
        built = compile_text(context, device, ProgramText(name, text, options))
        yield COMPILED_PROGRAM.dump(built)
