"""`--dump_kernels`: writes each custom kernel as the OpenCL compiler gets it."""

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
    """Writes a file for each program of a custom layer, and returns a sentence that says so.

    `titles`, such as `Layer relu1 using Custom Layer ReLU`, belong to the programs with sources, in
    order; `read` returns a source's bytes. Programs that depend on shapes are written for the
    largest shapes.

    Raises:
      LiteRtError: FILE_IO, if a file cannot be written; INVALID_ARGUMENT, for a source that is not
        text.
    """
    custom = [program for program in programs if program.sources]
    return write_kernels(
        folder,
        [kernel_text(program, title, read) for program, title in zip(custom, titles, strict=True)],
    )
