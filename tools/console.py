"""What commands print: words for people, JSON for machines, and no text that a terminal can be confused by."""

from __future__ import annotations

import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, ClassVar, TextIO, TypeVar

from litert.core.errors import LiteRtError, file_error

_Value = TypeVar("_Value")
_WIDTH = 30
_PATIENCE_S = 0.5
_INTERVAL_S = 0.1


def print_text(text: str, stream: TextIO) -> None:
    """Prints lines; what cannot be printed is escaped, such as control characters in the names of a model."""
    safe = "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text
    )
    encoding = stream.encoding or "utf-8"
    with writing_to(stream):
        print(safe.encode(encoding, "backslashreplace").decode(encoding), file=stream, flush=True)


@contextmanager
def writing_to(stream: TextIO) -> Iterator[None]:
    """Says in words that a standard stream cannot be written in the block.

    Raises:
      LiteRtError: FILE_IO.
      BrokenPipeError: as it comes; the reader has seen enough.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        drop_output(stream)
        name = "standard error" if stream is sys.stderr else "standard output"
        raise file_error(error, "cannot write", name) from error


def drop_output(stream: TextIO) -> None:
    """Lets go what a stream still holds, which Python would try to write at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class ProgressBar:
    """A line that shows how far long work is, on a terminal only; a context manager that clears it.

    Work that is done at once shows nothing.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        """Shows on a stream, by default the standard error."""
        self._stream = stream or sys.stderr
        self._is_shown = False
        self._next_s = time.monotonic() + _PATIENCE_S
        self._is_terminal = self._stream.isatty()

    def __call__(self, step: str, done: int, total: int) -> None:
        """Shows how much of a step is done."""
        now = time.monotonic()
        if not self._is_terminal or now < self._next_s:
            return
        self._next_s = now + _INTERVAL_S
        part = done / total if total else 1.0
        bar = "#" * round(part * _WIDTH)
        self._stream.write(f"\r{step:10} [{bar:{_WIDTH}}] {part:4.0%}")
        self._stream.flush()
        self._is_shown = True

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def size_text(size: int) -> str:
    """`312 bytes`, `1.5 KiB`, `2.0 GiB`."""
    if size < 1024:
        return count_text(size, "byte")
    amount = float(size)
    for unit in ("KiB", "MiB", "GiB"):
        amount /= 1024
        if amount < 1024:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1024:.1f} TiB"


def count_text(number: int, noun: str) -> str:
    """`1 op`, `2 ops`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def name_text(name: str) -> str:
    """A name from a file: as it is, or with escapes for what would not print."""
    return name if name.isprintable() else ascii(name)[1:-1]


def counts_text(names: Iterable[str]) -> str:
    """`3 RELU, 1 ADD`: the most frequent first."""
    counts = Counter(names).most_common()
    return ", ".join(f"{count} {name_text(name)}" for name, count in counts)


def ask(question: Callable[[], _Value], problems: list[str]) -> _Value | None:
    """The answer to a question; None where that is an error, which is one more problem then."""
    try:
        return question()
    except LiteRtError as error:
        problems.append(str(error))
        return None


class PrintedReport:
    """A dataclass that a command prints: as JSON for machines, or as a few lines for people."""

    __slots__ = ()

    answers: ClassVar[Sequence[str]] = ()
    """Properties that JSON has beyond the fields."""

    def lines(self) -> Iterator[str]:
        """What people read."""
        raise NotImplementedError

    def to_json(self) -> str:
        """All of it, as one JSON object."""
        fields: Any = self
        return json_text(asdict(fields) | {name: getattr(self, name) for name in self.answers})

    def to_text(self) -> str:
        """The lines."""
        return "\n".join(self.lines())

    def show(self, form: str) -> None:
        """Prints it as `text` or `json`."""
        print_text(self.to_json() if form == "json" else self.to_text(), sys.stdout)


def json_text(value: object) -> str:
    """A report as JSON; numbers that JSON has not are null."""
    import json  # here: --help must not wait for it

    return json.dumps(_plain(value), indent=1, allow_nan=False)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def native_output_to_stderr(is_wanted: bool) -> Iterator[None]:
    """Sends what kernels print to standard error, while a report is made that is to be alone on the output."""
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
