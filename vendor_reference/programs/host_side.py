"""Answers the requests that an isolated device process makes for compiled programs.

The device process runs in a sandbox, since it may run programs that are not trusted. The host process therefore
reads programs from the cache, or compiles programs in another child process and caches them itself. Thus no data
from the device process enters the cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from litert.core.errors import VENDOR_REPAIRS, LiteRtError
from litert.core.status import Status
from vendor_reference.drivers.device_choice import ChosenDevice, find_devices
from vendor_reference.programs.compiler_process import find_or_compile
from vendor_reference.programs.program_cache import COMPILED_PROGRAM
from vendor_reference.programs.program_text import ProgramText

PROGRAMS = "programs"
"""Codec of a request for programs for the device `identity`, each with name, source text and build options."""


def answer(options: Mapping[str, str], question: str, argument: Any) -> object:
    """Returns the requested programs as plain data; `options` are the options of the dispatch table.

    Raises:
      LiteRtError: UNSUPPORTED, for an unknown request; NOT_FOUND, for an unknown device; or the error of the
        compilation.
    """
    if question != PROGRAMS:
        what = f"the device process sent an unknown request, '{question}'"
        raise LiteRtError(Status.UNSUPPORTED, what, hint=VENDOR_REPAIRS)
    device = _find_device(options.get("opencl", ""), argument["identity"])
    texts = [ProgramText(*map(str, text)) for text in argument["programs"]]
    programs = find_or_compile(device.installation.library, device.info, texts)
    return [COMPILED_PROGRAM.dump(program) for program in programs]


def _find_device(wanted: str, identity: Sequence[str]) -> ChosenDevice:
    """Returns one of the user's devices by its identity, so that the caller cannot choose a library to load."""
    for device in find_devices(wanted):
        if list(device.info.identity) == list(identity):
            return device
    what = f"the device process needs programs for an OpenCL device that does not exist: {identity!r:.80}"
    raise LiteRtError(Status.NOT_FOUND, what)
