"""Reads byte code modules that the installed firmware can run; needs no OpenCL driver."""

from __future__ import annotations

from collections.abc import Mapping

from litert.core.errors import LiteRtError
from litert.core.status import Status
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
                f"this firmware has no instruction '{instruction.name}' with these fields",
                "byte code",
                "Compile the model again with apply_plugin.",
            )
    return executable


def find_function(functions: Mapping[str, Function], name: str) -> Function:
    """Returns the function with the given name; if there is none, raises NOT_FOUND with all function names."""
    if name in functions:
        return functions[name]
    there = ", ".join(f"'{name}'" for name in functions)
    raise LiteRtError(
        Status.NOT_FOUND, f"there is no function '{name}', only {there or 'none'}", "byte code"
    )
