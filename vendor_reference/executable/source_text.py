"""Creates a program's source text: replaces placeholders (holes) by sizes, and `#include` directives by headers.

The resulting text needs no other files: it builds anywhere, and contains everything on which its build depends.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from litert.core.errors import LiteRtError
from litert.core.quoting import name_text
from litert.core.sizes import Expression, Shapes, Size, evaluate
from litert.core.status import Status
from vendor_reference.executable.executable import HOLE, Program, Source

USER_DEFINES = "// Custom Layer User Defines\n"
"""Line in a program's prelude that separates the built-in defines from the layer's own defines."""

_COMMENT_OR_TEXT = re.compile(
    r"""//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL
)
_DIRECTIVE = re.compile(
    r'^[ \t]*#[ \t]*(?:include[ \t]*(?:"(?P<path>[^"\n]+)"|(?P<macro>[A-Za-z_]\w*))'
    r'|define[ \t]+(?P<name>\w+)[ \t]+"(?P<value>[^"\n]+)"|pragma[ \t]+(?P<once>once)\b)',
    re.MULTILINE,
)
_TEXT_LIMIT = 64 << 20
_DEPTH_LIMIT = 100


def size_text(size: Size, holes: list[Size]) -> str:
    """Formats a size for a program's text, as digits or as a placeholder; adds a placeholder's size to `holes`."""
    if isinstance(size, Expression):
        holes.append(size)
        return HOLE
    return str(size)


def hole_values(program: Program, shapes: Shapes) -> tuple[int, ...]:
    """Evaluates the sizes for a program's holes (placeholders); equal sizes give the same program."""
    where = f"defines of {program.sources[0].file_name if program.sources else 'a kernel'}"
    return tuple(evaluate(size, shapes, where) for size in program.holes)


def fill_program(program: Program, values: Sequence[int]) -> Program:
    """Replaces a program's holes (placeholders) by values."""
    if not program.holes:
        return program
    first, *rest = program.prelude.split(HOLE)
    filled = [first]
    for value, text in zip(values, rest, strict=True):
        filled += [str(value), text]
    return replace(program, prelude="".join(filled), holes=())


def expand_sources(
    program: Program, read: Callable[[Source], memoryview], has_line_marks: bool
) -> Sequence[str]:
    """Returns the text of each source with its headers; a header with `#pragma once` occurs once in all texts.

    `read` returns the bytes of a source file. If `has_line_marks` is true, `#line` directives are added, so that
    build errors refer to the user's own files.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if a source file is not text; or the error of `read`.
    """
    headers = {source.file_name: source for source in program.headers}
    expansion = _Expansion(headers, read, has_line_marks)
    return [expansion.expand(source) for source in program.sources]


def line_mark(number: int, name: str) -> str:
    """Returns a `#line` directive, which says that the next line is line `number` of a file."""
    escaped = name_text(name).replace("\\", "\\\\").replace('"', '\\"')
    return f'\n#line {number} "{escaped}"\n'


class _Expansion:
    """The sources of one program."""

    def __init__(
        self,
        headers: dict[str, Source],
        read: Callable[[Source], memoryview],
        has_line_marks: bool,
    ) -> None:
        self._headers = headers
        self._read = read
        self._has_line_marks = has_line_marks
        self._once: set[str] = set()
        self._open: list[str] = []
        self._defined: dict[str, str] = {}
        self._size = 0

    def expand(self, source: Source) -> str:
        name = source.file_name
        text = _decode(self._read(source), name)
        self._size += len(text)
        if self._size > _TEXT_LIMIT:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the kernel's source code is larger than {_TEXT_LIMIT >> 20} MiB, including all files that it "
                "includes",
                name,
            )
        self._open.append(name)
        if len(self._open) > _DEPTH_LIMIT:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"#include lines are nested more than {_DEPTH_LIMIT} levels deep",
                name,
                "Combine some of the included files into one file.",
            )
        parts, end = [self._mark(1, name)], 0
        for found in _DIRECTIVE.finditer(blank_comments(text)):
            if found["name"]:
                self._defined[found["name"]] = found["value"]
                continue
            parts.append(text[end : found.start()])
            end = found.end()
            if found["once"]:
                self._once.add(name)
            else:
                path = found["path"] or self._defined.get(found["macro"], "")
                parts.append(self._include(path, name, text[found.start() : end]))
                parts.append(self._mark(text.count("\n", 0, end) + 1, name))
        parts.append(text[end:])
        if not parts[-1].endswith("\n"):
            parts.append("\n")
        self._open.pop()
        return "".join(parts)

    def _mark(self, number: int, name: str) -> str:
        return line_mark(number, name) if self._has_line_marks else ""

    def _include(self, path: str, including: str, directive: str) -> str:
        """Returns the text of the included header; the directive itself if there is no such header."""
        beside = posixpath.normpath(posixpath.join(posixpath.dirname(including), path))
        header = self._headers.get(beside) or self._headers.get(posixpath.normpath(path))
        if header is None:
            return f"{directive}\n"  # in an `#if 0`, or an error that the compiler reports best
        if header.file_name in self._once or header.file_name in self._open:
            return ""  # a header that includes itself, perhaps indirectly: its guard would empty it
        return self.expand(header)


def _decode(data: memoryview, name: str) -> str:
    """Decodes a source file; bytes that are not UTF-8 are not an error, since comments may contain them."""
    text = str(data, "utf-8-sig", "replace")
    if "\0" in text:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            "the source file is not text, since it contains zero bytes",
            name,
        )
    return text.replace("\r\n", "\n").replace("\r", "\n")


def blank_comments(text: str) -> str:
    """Replaces comments in source code by blanks; line and column numbers stay the same."""

    def blank(found: re.Match[str]) -> str:
        token = found[0]
        return token if token[0] in "\"'" else re.sub(r"[^\n]", " ", token)

    return _COMMENT_OR_TEXT.sub(blank, text)
