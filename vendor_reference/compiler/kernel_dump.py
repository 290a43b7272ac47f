"""`--dump_kernels`: writes the complete source code that the OpenCL compiler gets for each custom kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from litert.model.kernel_files import write_kernels
from vendor_reference.executable.executable import Program, Source
from vendor_reference.programs.kernel_text import kernel_text


def dump_kernels(
    folder: str,
    programs: Sequence[Program],
    titles: Sequence[str],
    read: Callable[[Source], memoryview],
) -> str:
    """Writes a file for each program of a custom layer, and returns a sentence for the report.

    `titles` contains the title of each program with source code, in order, for example `Layer relu1 using Custom
    Layer ReLU`. `read` returns the bytes of a source file. For a program that depends on shapes, the file has the
    source code for the largest shapes.

    Raises:
      LiteRtError: FILE_IO, if a file cannot be written; INVALID_ARGUMENT, if a source file is not text.
    """
    custom = [program for program in programs if program.sources]
    return write_kernels(
        folder,
        [kernel_text(program, title, read) for program, title in zip(custom, titles, strict=True)],
    )
