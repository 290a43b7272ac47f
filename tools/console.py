"""What commands print: text that no terminal can be confused by, and progress where somebody watches."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from litert.core.errors import LiteRtError
from litert.core.status import Status

_WIDTH = 30
_PATIENCE_S = 0.5
_INTERVAL_S = 0.1


def print_text(text: str, stream: TextIO) -> None:
    """Prints lines; what cannot be printed is escaped, such as control characters in the names of a model.

    Raises:
      LiteRtError: FILE_IO, where the stream cannot be written.
    """
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
        reason = (error.strerror or str(error)).lower()
        name = "standard error" if stream is sys.stderr else "standard output"
        raise LiteRtError(Status.FILE_IO, f"cannot write: {reason}", name) from error


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
