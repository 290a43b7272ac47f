"""Calls the OpenCL compiler, which may crash or hang; `program_builder.py` runs it in a child process.

When a build fails, the driver also builds a test kernel of this module. The error blames the user's kernel only if
the test kernel builds.
"""

from __future__ import annotations

import re

import pyopencl as cl

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tracing import SpanKind, span
from vendor_reference.device.kernel_arguments import read_signature
from vendor_reference.device.opencl import describe_device
from vendor_reference.device.opencl_errors import build_error, load_error, opencl_error
from vendor_reference.drivers.driver import NOT_THE_KERNEL, driver_of_device
from vendor_reference.programs.program_cache import CompiledProgram
from vendor_reference.programs.program_text import ProgramText

_OPTIONS = "-cl-kernel-arg-info"
"""Build option that keeps the names and types of kernel arguments, for checks and messages."""

_ERROR = re.compile("^error: ", re.MULTILINE)

PROBE = ProgramText(
    "probe.cl",
    """__kernel void probe(__global const float* x, __global float* y, __local float* z) {
  size_t i = get_global_id(0), k = get_local_id(0), n = get_local_size(0);
  z[k] = fma(x[i], 2.0f, 1.0f);
  barrier(CLK_LOCAL_MEM_FENCE);
  y[i] = z[n - 1 - k];
}
""",
    "",
)
"""Test program that every working driver can build."""


def compile_text(context: cl.Context, device: cl.Device, text: ProgramText) -> CompiledProgram:
    """Compiles the text of a program to machine code."""
    with span(SpanKind.BUILD, text.name or "program", origin="compiler"):
        return _compile_text(context, device, text)


def _compile_text(context: cl.Context, device: cl.Device, text: ProgramText) -> CompiledProgram:
    # `_Program`, because `cl.Program` adds options and its own cache.
    guard = driver_of_device(describe_device(device)).guard
    program = cl._cl._Program(context, guard + text.text)
    _build(context, program, device, text)
    try:
        kernels = {
            kernel.function_name: read_signature(kernel, device, text.text)
            for kernel in program.all_kernels()
        }
        # PoCL compiles kernels to machine code only when a program requests the binaries.
        binaries = program.get_info(cl.program_info.BINARIES)
    except cl.Error as error:
        raise opencl_error(error, text.name) from error
    assert isinstance(binaries, list)
    log = _read_log(program, device)
    if _ERROR.search(log):  # Intel's driver accepts assembly that it cannot assemble
        raise build_error(text, log)
    return CompiledProgram(kernels, binaries[0], log)


def load_binary(
    context: cl.Context, device: cl.Device, text: ProgramText, binary: bytes
) -> cl._cl._Program:
    """Loads a program from its binary; raises COMPILATION if the driver does not accept the binary."""
    with span(SpanKind.BUILD, text.name or "program", origin="binary"):
        try:
            program = cl._cl._Program(context, [device], [binary])
        except cl.Error as error:
            raise load_error(text, error) from error
        _build(context, program, device, text)
        return program


def _build(
    context: cl.Context, program: cl._cl._Program, device: cl.Device, text: ProgramText
) -> None:
    try:
        program._build(f"{text.options} {_OPTIONS}".strip().encode(), [device])
    except cl.Error as error:
        log = _read_log(program, device)
        if text is not PROBE and not _builds_probe(context, device):
            raise LiteRtError(
                Status.COMPILATION,
                f"the OpenCL driver cannot build any kernel:\n{log}\n",
                str(describe_device(device)),
                NOT_THE_KERNEL,
            ) from error
        raise build_error(text, log, error) from error


def _read_log(program: cl._cl._Program, device: cl.Device) -> str:
    log = str(program.get_build_info(device, cl.program_build_info.LOG))
    return driver_of_device(describe_device(device)).clean_log(log).strip()


def _builds_probe(context: cl.Context, device: cl.Device) -> bool:
    try:
        compile_text(context, device, PROBE)
    except LiteRtError:
        return False
    return True
