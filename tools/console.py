"""Prints the output of commands as text for people or as JSON for programs, without control characters."""

from __future__ import annotations

import io
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TextIO, TypeVar

from litert.core.counts import count_text
from litert.core.errors import LiteRtError, file_error
from litert.core.plain_report import PlainReport
from litert.core.quoting import continued
from litert.core.quoting import name_text as name_text

_Value = TypeVar("_Value")
_PROJECT = "litert-npu"


def print_text(text: str, stream: TextIO) -> None:
    """Prints a text; escapes control characters, and characters that the stream's encoding cannot represent."""
    encoding = stream.encoding or "utf-8"
    safe = printable(text).encode(encoding, "backslashreplace").decode(encoding)
    with writing_to(stream):
        print(safe, file=stream, flush=True)


def print_version(program: str) -> None:
    """Prints the name of the program, the name of this project and its version to stdout."""
    from litert.core.version import SDK_VERSION  # here: few command lines ask for it

    name = os.path.basename(program)
    print_text(f"{name} {'' if name == _PROJECT else f'({_PROJECT}) '}{SDK_VERSION}", sys.stdout)


def print_lines(lines: Iterable[str], stream: TextIO) -> None:
    """Prints lines. A line break in a name does not begin a new line."""
    print_text("\n".join(map(continued, lines)), stream)


def printable(text: str) -> str:
    """Returns a text with escapes for unprintable characters, such as control characters and line breaks."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text
    )


@contextmanager
def writing_to(stream: TextIO) -> Iterator[None]:
    """Converts an OSError that a stream raises in the `with` block to a LiteRtError.

    Raises:
      LiteRtError: FILE_IO.
      BrokenPipeError: The process that reads the output has closed the pipe.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        drop_output(stream)
        standard = {id(sys.stdout): "standard output", id(sys.stderr): "standard error"}
        name = standard.get(id(stream)) or stream.name
        raise file_error(error, "cannot write", name) from error


def is_closed(stream: TextIO) -> bool:
    """Returns whether a standard stream was closed when the process started; if so, its output is lost."""
    return getattr(stream, "name", "") == os.devnull


def drop_output(stream: TextIO) -> None:
    """Discards the buffered output of a stream, so that Python does not try to write it when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def size_text(size: int) -> str:
    """Returns a size as text: `312 bytes`, `1.5 KiB`, `2.0 GiB`."""
    if size < 1024:
        return count_text(size, "byte")
    amount = float(size)
    for unit in ("KiB", "MiB", "GiB"):
        amount /= 1024
        if amount < 1024:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1024:.1f} TiB"


def counts_text(names: Iterable[str]) -> str:
    """Returns how often each name occurs, the most frequent name first: `3 RELU, 1 ADD`."""
    counts = Counter(names).most_common()
    return ", ".join(f"{count} {name_text(name)}" for name, count in counts)


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Returns a table as CSV.

    If a spreadsheet would read a text as a formula, an apostrophe is put before the text.
    """
    import csv  # here: --help must not wait for it

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        writer.writerow([_cell(value) if isinstance(value, str) else value for value in row])
    return text.getvalue().rstrip("\n")


def _cell(text: str) -> str:
    shown = name_text(text)
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@")) else shown


def table_lines(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yields the lines of a table; the first row contains the column heads.

    Columns of numbers are aligned to the right, other columns to the left.
    """
    lines = list(rows)
    columns = list(zip(*lines, strict=True))
    widths = [max(map(len, column)) for column in columns]
    is_right = [all(text[:1] in "0123456789<>?" for text in column[1:]) for column in columns]
    for line in lines:
        cells = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, is_right, strict=True)
        ]
        yield f"  {'  '.join(cells)}".rstrip()


def ask(question: Callable[[], _Value], problems: list[str]) -> _Value | None:
    """Returns the result of `question`; if that raises an error, adds the error to `problems` and returns None."""
    try:
        return question()
    except LiteRtError as error:
        problems.append(str(error))
        return None


class PrintedReport(PlainReport):
    """A dataclass that a command prints as its report: JSON for programs, or a few lines for people."""

    __slots__ = ()

    def lines(self) -> Iterator[str]:
        """Yields the lines of the text report."""
        raise NotImplementedError

    def to_json(self) -> str:
        """Returns the whole report as one JSON object."""
        return json_text(self.to_values())

    def to_text(self) -> str:
        """Returns the lines of the text report as one text, with line breaks in names escaped."""
        return "\n".join(map(continued, self.lines()))

    def to_csv(self) -> str:
        """Returns the table of the report as CSV; only some reports have a table."""
        raise NotImplementedError

    def show(self, form: str) -> None:
        """Prints the report as `text`, `json` or `csv`."""
        text = {"text": self.to_text, "json": self.to_json, "csv": self.to_csv}[form]
        print_text(text(), sys.stdout)


def json_text(value: object, is_compact: bool = False) -> str:
    """Returns a report as JSON; NaN and infinite numbers become null."""
    import json  # here: --help must not wait for it

    separators = (",", ":") if is_compact else None
    indent = None if is_compact else 1
    return json.dumps(_plain(value), indent=indent, separators=separators, allow_nan=False)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def native_output_to_stderr(is_wanted: bool) -> Iterator[None]:
    """Redirects the output of kernels to standard error, so that standard output has only the report."""
    if not is_wanted:
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
