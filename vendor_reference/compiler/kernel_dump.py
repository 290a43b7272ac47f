"""`--dump_kernels`: each custom kernel as its compiler gets it, for people to read, and to compile on their own.

The form is that of custom layers of the Inference Engine: built-in defines, the layer's title, its own defines,
its sources. What the device builds is the same, with `#line` for messages and without the title.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from litert.model.atomic_file import make_folder, open_atomic
from litert.model.output import write_at
from vendor_reference.compiler.simplegpu_defines import USER_DEFINES
from vendor_reference.executable.executable import Program, Source
from vendor_reference.executable.source_text import expand_sources


def dump_kernels(
    folder: str,
    programs: Sequence[Program],
    titles: Sequence[str],
    read: Callable[[Source], memoryview],
) -> Sequence[str]:
    """Writes `program<n>.cl` for each program of a custom layer: for each distinct set of parameters.

    Titles, `Layer relu1 using Custom Layer ReLU`, are those of programs that have sources, in order; `read` gives
    a source's bytes. Programs that depend on shapes are those for the largest ones.

    Returns:
      The files' names.

    Raises:
      LiteRtError: FILE_IO, if a file cannot be written; INVALID_ARGUMENT, for a source that is no text.
    """
    custom = [program for program in programs if program.sources]
    texts = [
        kernel_text(program, title, read) for program, title in zip(custom, titles, strict=True)
    ]
    names = [f"program{number}.cl" for number in range(len(texts))]
    make_folder(folder)
    for name, text in zip(names, texts, strict=True):
        with open_atomic(os.path.join(folder, name)) as fd:
            write_at(fd, text.encode(), 0)
    return names


def kernel_text(program: Program, title: str, read: Callable[[Source], memoryview]) -> str:
    """A program as one text, which needs no other file to compile."""
    builtin, mark, own = program.prelude.partition(USER_DEFINES)
    parts = [builtin, f"// {_comment(title)}\n", mark, own]
    texts = expand_sources(program, read, has_line_marks=False)
    for source, text in zip(program.sources, texts, strict=True):
        parts += [f"// Custom Layer Kernel {_comment(source.file_name)}\n", text]
    return "".join(parts)


def _comment(text: str) -> str:
    """A text that stays within its line: tensors and files may be called anything."""
    return "".join(c if c.isprintable() and c != "\\" else "?" for c in text)
