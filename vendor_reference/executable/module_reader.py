"""Reads byte code modules that the installed firmware can run; needs no OpenCL driver."""

from __future__ import annotations

from collections.abc import Mapping

from litert.core.counts import names_text
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.suggestion import did_you_mean
from vendor_reference.executable.byte_code import read_executable
from vendor_reference.executable.executable import Executable, Function
from vendor_reference.firmware.instructions import instruction_set


def read_module(byte_code: memoryview) -> Executable:
    """Reads the executable in a byte code module, and checks that the firmware has all of its instructions.

    Raises:
      LiteRtError: The errors of `read_executable`; INCOMPATIBLE_BYTE_CODE_VERSION, if the firmware lacks an
        instruction, or if the firmware's instruction has different fields.
    """
    executable = read_executable(byte_code)
    known = instruction_set()
    for instruction in executable.instructions:
        if known.get(instruction.name) != instruction:
            raise LiteRtError(
                Status.INCOMPATIBLE_BYTE_CODE_VERSION,
                f"the byte code contains instruction '{instruction.name}' in a form that the installed firmware "
                "does not know",
                "",
                "Compile the model again with apply_plugin.",
            )
    return executable


def find_function(functions: Mapping[str, Function], name: str) -> Function:
    """Returns the function with the given name; if there is none, raises NOT_FOUND with all function names."""
    if name in functions:
        return functions[name]
    known = f"{names_text('function', list(functions))}."
    what = f"the byte code has no function '{name}'"
    raise LiteRtError(Status.NOT_FOUND, what, hint=did_you_mean(name, functions, known))
