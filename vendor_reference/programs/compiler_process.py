"""Compiles programs in a child process, since a kernel can make an OpenCL compiler crash, hang or read files.

The child process gets only the programs' source texts, and runs in a sandbox; `device/compiler_worker.py` is its
code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from litert.core.checked_json import JsonNode
from litert.core.errors import LiteRtError
from litert.core.progress import counted
from litert.core.status import Status
from vendor_reference.drivers.device_info import DeviceInfo
from vendor_reference.drivers.driver import CRASH_HINT, driver_of_device
from vendor_reference.drivers.proof import call_compiler
from vendor_reference.programs.program_cache import (
    COMPILED_PROGRAM,
    CompiledProgram,
    ProgramCache,
)
from vendor_reference.programs.program_text import ProgramText

TIMEOUT_S = 120.0
"""Time limit for building all programs of one call, in seconds.

A driver builds even a large program in seconds.
"""

_CHILD = "vendor_reference.device.compiler_worker:build"


def find_or_compile(
    library: str, info: DeviceInfo, texts: Sequence[ProgramText], timeout_s: float | None = None
) -> Iterator[CompiledProgram]:
    """Yields the program of each text, in order: from the cache if possible, otherwise newly compiled.

    Newly compiled programs are cached.

    Raises:
      LiteRtError: See `compile_in_child`.
    """
    cache = ProgramCache(info.identity)
    found = {text: cache.find(text) for text in texts}
    missing = [text for text, program in found.items() if program is None]
    compiled = compile_in_child(library, info, missing, timeout_s) if missing else ()
    builds = counted("build", compiled, len(missing))
    for text in texts:
        program = found[text]
        if program is None:
            program = found[text] = next(builds)
            cache.store(text, program)
        yield program
    if missing:
        assert next(builds, None) is None  # lets the child process end


def compile_in_child(
    library: str, info: DeviceInfo, texts: Sequence[ProgramText], timeout_s: float | None = None
) -> Iterator[CompiledProgram]:
    """Compiles one or more source texts in a child process; yields each program as soon as it is built, in order.

    The default time limit is longer than any correct build takes.

    Raises:
      LiteRtError: COMPILATION, with the compiler's log or a description of the compiler's crash; DYNAMIC_LOADING,
        if the child process cannot start or does not have the device; UNSUPPORTED, if a sandbox is required but
        unavailable.
    """
    programs = [[text.name, text.text, text.options] for text in texts]
    request = {"library": library, "identity": list(info.identity), "programs": programs}
    done = 0
    try:
        for answer in call_compiler(
            _CHILD, request, timeout_s=timeout_s or TIMEOUT_S, library=library
        ):
            yield COMPILED_PROGRAM.read(JsonNode(answer, "$", _CHILD, Status.RUNTIME_FAILURE))
            done += 1
    except LiteRtError as error:
        if error.status in (Status.COMPILATION, Status.DYNAMIC_LOADING, Status.UNSUPPORTED):
            raise
        cause = driver_of_device(info).crash_cause(texts[done].text)
        hint = f"{cause} {CRASH_HINT}".lstrip()
        raise LiteRtError(Status.COMPILATION, error.what, texts[done].name, hint) from error
