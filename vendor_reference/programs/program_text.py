"""Makes the text of an executable's program for the OpenCL compiler: prelude, then sources.

`#line` directives keep the user's own files and lines in build errors. So messages of an OpenCL compiler or
checker can show the author's own line without reading a file.
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
    """The text for the OpenCL compiler; its name lists the user's files, for messages."""

    name: str
    text: str
    options: str


def compose_text(program: Program, read: Callable[[Source], memoryview]) -> ProgramText:
    """Assembles a program's text; `read` returns a source's bytes."""
    return _join(program, program.prelude, expand_sources(program, read, has_line_marks=True))


def compose_open_text(
    program: Program, read: Callable[[Source], memoryview]
) -> tuple[ProgramText, OpenProgram]:
    """Assembles a program for all shapes, whose kernels take sizes as arguments; the second result names them.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if a source is not text; or the error of `read`.
    """
    opened = open_program(program, read)
    return _join(program, opened.prelude, opened.sources), opened


def _join(program: Program, prelude: str, sources: Sequence[str]) -> ProgramText:
    text = "".join([line_mark(1, _PRELUDE), prelude, "\n", *sources])
    name = ", ".join(source.file_name for source in program.sources)
    return ProgramText(name, text, program.build_options)


def find_source_line(text: str, file_name: str, line: int) -> str | None:
    """Returns a line of one of the files in a program's text; None if the text has no such place."""
    place = (file_name, line)
    rows = zip(find_places(text), text.split("\n"), strict=True)
    return next((row for found, row in rows if found == place), None)


def find_places(text: str) -> Iterator[tuple[str, int]]:
    """Yields the file and line of each row of a program's text; "" and 0 for `#line` rows."""
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
    """Formats a source line with its number and a caret below the column (from 1); [] if the line is unknown."""
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
    """Adds the source line to each message of a compiler's log that has a place."""
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
