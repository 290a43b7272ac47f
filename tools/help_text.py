"""Lays out the help of commands in the width of the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

_WIDTH = 100
"""Number of columns if the output is not a terminal, but a file or a pipe."""

_LEAST_TEXT = 30  # columns of an explanation; a narrower terminal wraps the lines itself


def help_width() -> int:
    """Returns the number of columns for help text: COLUMNS, or the width of the terminal, but at most 100."""
    if not sys.stdout.isatty():
        return _WIDTH
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns):
        return min(int(columns), _WIDTH)
    try:
        return min(os.get_terminal_size(sys.stdout.fileno()).columns or _WIDTH, _WIDTH)
    except (OSError, ValueError):  # the stream is not a file
        return _WIDTH


def wrap_text(text: str) -> Iterator[str]:
    """Wraps the paragraphs of a text, and yields the lines. Indented lines are not wrapped."""
    paragraph: list[str] = []
    for line in text.split("\n"):
        if line and not line.startswith(" "):
            paragraph.append(line)
            continue
        if paragraph:
            yield from _wrap(" ".join(paragraph), help_width())
            paragraph = []
        yield line
    if paragraph:
        yield from _wrap(" ".join(paragraph), help_width())


def help_entry(name: str, text: str, column: int) -> Iterator[str]:
    """Yields the help lines of a flag or a command: its name, and its description, which starts in a given column.

    In a narrow terminal, the description begins on the next line, indented by eight columns.
    """
    width = help_width()
    if width - column < _LEAST_TEXT:
        yield f"  {name}"
        yield from (f"        {line}" for line in _wrap(text, max(width - 8, _LEAST_TEXT)))
        return
    lines = _wrap(text, width - column)
    if len(name) > column - 4:
        yield f"  {name}"
    else:
        yield f"  {name:{column - 4}}  {lines.pop(0)}"
    yield from (" " * column + line for line in lines)


def _wrap(text: str, width: int) -> list[str]:
    from textwrap import wrap  # here: most commands show no help

    return wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]
