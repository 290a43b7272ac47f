"""Assembles the source text of an executable's program for the OpenCL compiler: prelude, then sources.

With `#line` directives, build errors refer to the files and lines of the kernel's author. Messages of an OpenCL
compiler or checker can thus show the author's own source line without reading a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from vendor_reference.executable.executable import Program, Source
from vendor_reference.executable.size_arguments import OpenProgram, open_program
from vendor_reference.executable.source_text import expand_sources, line_mark

_PRELUDE = "defines of this op"
_LINE = re.compile(r'#line (\d+) "(.*)"')
_PLACE = re.compile(r"^(?:\w+: )?(?P<file>[^\n:]+):(?P<line>\d+):(?P<column>\d+): ")
_MOST_EXCERPTS = 8
_WIDTH = 120


@dataclass(frozen=True, slots=True)
class ProgramText:
    """The source text for the OpenCL compiler; its name consists of the user's file names, for messages."""

    name: str
    text: str
    options: str


def compose_text(program: Program, read: Callable[[Source], memoryview]) -> ProgramText:
    """Assembles the source text of a program; `read` returns the bytes of a source file."""
    return _join(program, program.prelude, expand_sources(program, read, has_line_marks=True))


def compose_open_text(
    program: Program, read: Callable[[Source], memoryview]
) -> tuple[ProgramText, OpenProgram]:
    """Assembles the text of a program for all shapes.

    The second result lists the sizes that kernels take as arguments.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if a source file is not text; or the error of `read`.
    """
    opened = open_program(program, read)
    return _join(program, opened.prelude, opened.sources), opened


def _join(program: Program, prelude: str, sources: Sequence[str]) -> ProgramText:
    text = "".join([line_mark(1, _PRELUDE), prelude, "\n", *sources])
    name = ", ".join(source.file_name for source in program.sources)
    return ProgramText(name, text, program.build_options)


def find_source_line(text: str, file_name: str, line: int) -> str | None:
    """Returns a source line of a file from a program's text.

    Returns None if the text does not contain this file and line.
    """
    place = (file_name, line)
    rows = zip(find_places(text), text.split("\n"), strict=True)
    return next((row for found, row in rows if found == place), None)


def find_places(text: str) -> Iterator[tuple[str, int]]:
    """Yields the file name and line number of each row in a program's text; for a `#line` row, yields "" and 0."""
    name, number = "", 0
    for row in text.split("\n"):
        directive = _LINE.fullmatch(row)
        if directive:
            number = int(directive[1])
            name = directive[2].replace('\\"', '"').replace("\\\\", "\\")
            yield "", 0
        else:
            yield name, number
            number += 1


def show_place(text: str, file_name: str, line: int, column: int = 0) -> list[str]:
    """Formats a source line with its number and a caret below the column (from 1).

    Returns [] if the line is unknown.
    """
    found = find_source_line(text, file_name, line)
    if found is None or not found.strip() or len(found) > _WIDTH:
        return []
    shown = found.replace("\t", " ")
    margin = f"{line:5} | "
    lines = [margin + shown.rstrip()]
    if 0 < column <= len(shown):
        lines.append(" " * (len(margin) - 2) + "| " + " " * (column - 1) + "^")
    return lines


def with_source_lines(log: str, text: str) -> str:
    """In a compiler's log, adds the source line to each message that contains a file and line."""
    lines: list[str] = []
    num_excerpts = 0
    for row in log.split("\n"):
        lines.append(row)
        place = _PLACE.match(row)
        if place and num_excerpts < _MOST_EXCERPTS:
            excerpt = show_place(text, place["file"], int(place["line"]), int(place["column"]))
            lines += excerpt
            num_excerpts += bool(excerpt)
    return "\n".join(lines)
