"""A program of an executable becomes the text that the OpenCL compiler gets: prelude, then sources.

`#line` keeps the user's own files and lines in build errors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vendor_reference.executable.executable import Program, Source
from vendor_reference.executable.source_text import expand_sources, line_mark

_PRELUDE = "defines of this op"


@dataclass(frozen=True, slots=True)
class ProgramText:
    """What the OpenCL compiler gets.

    Attributes:
      name: the user's files in it, for messages.
    """

    name: str
    text: str
    options: str


def compose_text(program: Program, read: Callable[[Source], memoryview]) -> ProgramText:
    """Puts a program together.

    Args:
      program: of an executable.
      read: gives a source's bytes.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if a source is no text; what `read` raises.
    """
    sources = expand_sources(program, read, has_line_marks=True)
    text = "".join([line_mark(1, _PRELUDE), program.prelude, "\n", *sources])
    name = ", ".join(source.file_name for source in program.sources)
    return ProgramText(name, text, program.build_options)
