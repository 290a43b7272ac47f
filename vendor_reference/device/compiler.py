"""Calls the OpenCL compiler, which may crash or hang: see `program_builder.py` for who calls it where."""

from __future__ import annotations

import pyopencl as cl

from vendor_reference.device.opencl_errors import build_error, opencl_error
from vendor_reference.device.program_cache import BuiltProgram
from vendor_reference.device.program_text import ProgramText

_OPTIONS = "-cl-kernel-arg-info"
"""Names and types of arguments, for messages."""


def compile_text(context: cl.Context, device: cl.Device, text: ProgramText) -> BuiltProgram:
    """Compiles a program down to machine code.

    Raises:
      LiteRtError: COMPILATION.
    """
    program = cl._cl._Program(
        context, text.text
    )  # not `cl.Program`, which adds options and a cache
    build(program, device, text)
    try:
        kernels = {kernel.function_name: kernel.num_args for kernel in program.all_kernels()}
        binary = binary_of(program)  # PoCL compiles kernels to machine code only now
    except cl.Error as error:
        raise opencl_error(error, text.name) from error
    log = program.get_build_info(device, cl.program_build_info.LOG)
    return BuiltProgram(kernels, binary, str(log).strip())


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
        raise build_error(text.name, "", error) from error
    build(program, device, text)
    return program


def kernel_names(program: cl._cl._Program) -> set[str]:
    """The kernels that a built program has."""
    names = str(program.get_info(cl.program_info.KERNEL_NAMES))
    return set(filter(None, names.split(";")))


def build(program: cl._cl._Program, device: cl.Device, text: ProgramText) -> None:
    """Builds a program from its source or binary."""
    try:
        program._build(f"{text.options} {_OPTIONS}".strip().encode(), [device])
    except cl.Error as error:
        log = program.get_build_info(device, cl.program_build_info.LOG)
        raise build_error(text.name, str(log), error) from error


def binary_of(program: cl._cl._Program) -> bytes:
    """What the driver has compiled so far."""
    binaries = program.get_info(cl.program_info.BINARIES)
    assert isinstance(binaries, list) and isinstance(binaries[0], bytes)
    return binaries[0]
