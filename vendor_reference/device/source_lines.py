"""Places that an OpenCL compiler or checker names, shown with the author's own line and a caret below it.

A program's text has the author's files in it, each behind a `#line`; so a place needs no file to be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_LINE = re.compile(r'#line (\d+) "(.*)"')
_PLACE = re.compile(r"^(?:\w+: )?(?P<file>[^\n:]+):(?P<line>\d+):(?P<column>\d+): ")
_MOST_EXCERPTS = 8
_WIDTH = 120


def find_source_line(text: str, file_name: str, line: int) -> str | None:
    """A line of one of the files in a program's text; None, if the text has no such place."""
    place = (file_name, line)
    rows = zip(find_places(text), text.split("\n"), strict=True)
    return next((row for found, row in rows if found == place), None)


def find_places(text: str) -> Iterator[tuple[str, int]]:
    """The file and the line of each row of a program's text; "" and 0 for the rows that say so."""
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
    """A source line with its number, and a caret below the column, which counts from 1; [] where it is unknown."""
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
    """A compiler's log, with the source line behind each message that has a place."""
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
