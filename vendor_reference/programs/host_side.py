"""What the device's process asks the host, where it is apart: for programs.

That process may be in a sandbox, and its programs a stranger's. So the host finds them in the cache, or has them
compiled in a child of their own, and keeps them: nothing that the device's process says gets into the cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.drivers.device_choice import ChosenDevice, find_devices
from vendor_reference.programs.compiler_process import find_or_compile
from vendor_reference.programs.program_cache import COMPILED_PROGRAM
from vendor_reference.programs.program_text import ProgramText

PROGRAMS = "programs"
"""The question: programs for the device of an `identity`, with name, text and options of each."""


def answer(options: Mapping[str, str], question: str, argument: Any) -> object:
    """The programs, as plain data; `options` are those of the dispatch table.

    Raises:
      LiteRtError: UNSUPPORTED, for another question; NOT_FOUND, for another device; what compiling raises.
    """
    if question != PROGRAMS:
        raise LiteRtError(Status.UNSUPPORTED, f"no answer to '{question}'")
    device = _find_device(options.get("opencl", ""), argument["identity"])
    texts = [ProgramText(*map(str, text)) for text in argument["programs"]]
    programs = find_or_compile(device.installation.library, device.info, texts)
    return [COMPILED_PROGRAM.dump(program) for program in programs]


def _find_device(wanted: str, identity: Sequence[str]) -> ChosenDevice:
    """The device, of those that the user has: whoever asks names no library to load."""
    for device in find_devices(wanted):
        if list(device.info.identity) == list(identity):
            return device
    raise LiteRtError(Status.NOT_FOUND, f"no device {identity!r:.80}")
