"""Calls the OpenCL compiler, which may crash or hang: see `program_builder.py` for who calls it where."""

from __future__ import annotations

import pyopencl as cl

from vendor_reference.device.kernel_arguments import read_signature
from vendor_reference.device.opencl_errors import build_error, opencl_error
from vendor_reference.device.program_cache import BuiltProgram
from vendor_reference.device.program_text import ProgramText

_OPTIONS = "-cl-kernel-arg-info"
"""Names and types of arguments, for checks and messages."""


def compile_text(context: cl.Context, device: cl.Device, text: ProgramText) -> BuiltProgram:
    """Compiles a program down to machine code.

    Raises:
      LiteRtError: COMPILATION.
    """
    # Not `cl.Program`, which adds options and a cache of its own.
    program = cl._cl._Program(context, text.text)
    _build(program, device, text)
    try:
        kernels = {k.function_name: read_signature(k, device) for k in program.all_kernels()}
        # PoCL compiles kernels to machine code only when it is asked for it.
        binaries = program.get_info(cl.program_info.BINARIES)
    except cl.Error as error:
        raise opencl_error(error, text.name) from error
    assert isinstance(binaries, list)
    log = program.get_build_info(device, cl.program_build_info.LOG)
    return BuiltProgram(kernels, binaries[0], str(log).strip())


def load_binary(
    context: cl.Context, device: cl.Device, text: ProgramText, binary: bytes
) -> cl._cl._Program:
    """A program from its binary.

    Raises:
      LiteRtError: COMPILATION, if the driver does not take it.
    """
    try:
        program = cl._cl._Program(context, [device], [binary])
    except cl.Error as error:
        raise build_error(text, "", error) from error
    _build(program, device, text)
    return program


def _build(program: cl._cl._Program, device: cl.Device, text: ProgramText) -> None:
    try:
        program._build(f"{text.options} {_OPTIONS}".strip().encode(), [device])
    except cl.Error as error:
        log = program.get_build_info(device, cl.program_build_info.LOG)
        raise build_error(text, str(log), error) from error
