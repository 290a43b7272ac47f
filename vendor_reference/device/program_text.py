"""A program of an executable becomes the text that the OpenCL compiler gets: prelude, sources, headers.

Headers are put in place of their `#include`, so that a text needs no files: it can be built anywhere, and says
all that its build depends on. `#line` keeps the user's own files and lines in build errors.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.executable.executable import Program, Source

_PRELUDE = "defines of this op"
_COMMENT_OR_TEXT = re.compile(
    r"""//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL
)
_DIRECTIVE = re.compile(
    r'^[ \t]*#[ \t]*(?:include[ \t]*"(?P<path>[^"\n]+)"|pragma[ \t]+(?P<once>once)\b)', re.MULTILINE
)
_TEXT_LIMIT = 64 << 20
_DEPTH_LIMIT = 100


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
    headers = {source.file_name: source for source in program.headers}
    parts = [_line(1, _PRELUDE), program.prelude, "\n"]
    for source in program.sources:
        parts.append(_Expansion(headers, read).expand(source))
    name = ", ".join(source.file_name for source in program.sources)
    return ProgramText(name, "".join(parts), program.build_options)


class _Expansion:
    """One source with its headers in place; each header that says `#pragma once` comes once."""

    def __init__(self, headers: Mapping[str, Source], read: Callable[[Source], memoryview]) -> None:
        self._headers = headers
        self._read = read
        self._once: set[str] = set()
        self._open: list[str] = []
        self._size = 0

    def expand(self, source: Source) -> str:
        name = source.file_name
        text = _decode(self._read(source), name)
        self._size += len(text)
        if self._size > _TEXT_LIMIT:
            raise LiteRtError(
                Status.INVALID_ARGUMENT, f"more than {_TEXT_LIMIT >> 20} MiB of text", name
            )
        self._open.append(name)
        if len(self._open) > _DEPTH_LIMIT:
            raise LiteRtError(
                Status.INVALID_ARGUMENT, f"includes more than {_DEPTH_LIMIT} deep", name
            )
        parts, end = [_line(1, name)], 0
        for found in _DIRECTIVE.finditer(_without_comments(text)):
            parts.append(text[end : found.start()])
            end = found.end()
            if found["once"]:
                self._once.add(name)
            else:
                parts.append(self._include(found["path"], name, text[found.start() : end]))
                parts.append(_line(text.count("\n", 0, end) + 1, name))
        parts += [text[end:], "\n"]
        self._open.pop()
        return "".join(parts)

    def _include(self, path: str, including: str, directive: str) -> str:
        """The header's text; the directive itself, where no header has that name."""
        beside = posixpath.normpath(posixpath.join(posixpath.dirname(including), path))
        header = self._headers.get(beside) or self._headers.get(posixpath.normpath(path))
        if header is None:
            return f"{directive}\n"  # in an `#if 0`, or an error that the compiler tells best
        if header.file_name in self._once or header.file_name in self._open:
            return ""  # a header that includes itself, directly or not: its guard would empty it
        return self.expand(header)


def _line(number: int, name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'\n#line {number} "{escaped}"\n'


def _decode(data: memoryview, name: str) -> str:
    """Bytes that are not UTF-8 can stand in comments, so they are no error here."""
    text = str(data, "utf-8-sig", "replace")
    if "\0" in text:
        raise LiteRtError(Status.INVALID_ARGUMENT, "a source with zero bytes is no text", name)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _without_comments(text: str) -> str:
    """The text with blanks for comments; places and lines stay."""

    def blank(found: re.Match[str]) -> str:
        token = found[0]
        return token if token[0] in "\"'" else re.sub(r"[^\n]", " ", token)

    return _COMMENT_OR_TEXT.sub(blank, text)
