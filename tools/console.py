"""What commands print: words for people, JSON for machines, and no text that a terminal can be confused by."""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from enum import Enum, auto
from types import TracebackType
from typing import ClassVar, TextIO, TypeVar

from litert.core.errors import LiteRtError, file_error
from litert.core.interrupts import on_interrupt
from litert.core.plain_report import PlainReport
from litert.core.progress import listening

_Value = TypeVar("_Value")
_PATIENCE_S = 0.5
_LINE_INTERVAL_S = 0.1
_LOG_INTERVAL_S = 5.0
_TICK_S = 1.0
_COLUMNS = 80
_LEAST_COLUMNS = 45  # narrower ones have no bar: the text tells more
_LARGE = 1_000_000  # bytes, not things: 1.07G


def print_text(text: str, stream: TextIO) -> None:
    """Prints lines; what cannot be printed is escaped, such as control characters in the names of a model."""
    ProgressBar.make_room()
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


class ProgressStyle(Enum):
    """How progress is shown."""

    AUTOMATIC = auto()  # as the stream allows
    LINES = auto()  # as in a log, on terminals too
    QUIET = auto()  # not at all


class ProgressBar:
    """How far long work is: a line that changes on a terminal; elsewhere, as in logs, a line every few seconds.

    A context manager, which listens to what is told in its block, and clears the terminal's line at its end. Short
    work shows nothing. While a step takes long, a thread shows that time passes.
    """

    style: ClassVar[ProgressStyle] = ProgressStyle.AUTOMATIC
    """That of all progress; each command line sets it."""

    _shown: ClassVar[ProgressBar | None] = None
    """The one whose line stands on the terminal."""

    def __init__(self, stream: TextIO | None = None, interval_s: float | None = None) -> None:
        """Shows on a stream, by default the standard error, at most once in so many seconds."""
        self._stream = stream or sys.stderr
        is_terminal = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._is_line = is_terminal and self.style is ProgressStyle.AUTOMATIC
        self._interval_s = interval_s or (_LINE_INTERVAL_S if self._is_line else _LOG_INTERVAL_S)
        self._block = ExitStack()
        self._tick_s = interval_s or _TICK_S
        self._lock = threading.Lock()
        self._has_ended = threading.Event()
        self._work = ("", 0, 0)
        self._start_s = time.monotonic()
        self._due_s = self._start_s + (interval_s or max(self._interval_s, _PATIENCE_S))
        if self.style is ProgressStyle.QUIET:
            self._due_s = math.inf

    def __call__(self, step: str, done: int, total: int) -> None:
        """Shows how much of a step is done; a total of 0 is unknown."""
        now = time.monotonic()
        if step != self._work[0]:
            self._start_s = now
        self._work = step, done, total
        if now >= self._due_s:
            self._show()

    def __enter__(self) -> ProgressBar:
        self._block.enter_context(on_interrupt(self._position))
        self._block.enter_context(listening(self))
        if self._due_s < math.inf:
            threading.Thread(target=self._tick, name="progress", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._has_ended.set()
        with self._lock:
            self._due_s = math.inf
            if not isinstance(error, KeyboardInterrupt):  # whose message takes the line's place
                self._clear()
        self._block.__exit__(kind, error, trace)

    def note(self, text: str) -> None:
        """Prints lines about the work, unless progress is not wanted."""
        if self.style is not ProgressStyle.QUIET:
            print_text(text, self._stream)

    def _position(self) -> str:
        """A sentence about how far the work is."""
        step, done, total = self._work
        if not total:
            return f"The work was at step '{step}'" if step else ""
        count = f"{done / total:.0%}" if total >= _LARGE else f"{done} of {total}"
        return f"The work was at step '{step}', {count}"

    def _tick(self) -> None:
        """The thread's part: it shows what has not changed for a while."""
        while not self._has_ended.wait(self._tick_s):
            self._show()

    def _show(self) -> None:
        with self._lock:
            now = time.monotonic()
            if now < self._due_s or not self._work[0]:
                return
            self._due_s = now + self._interval_s
            try:
                self._stream.write(self._text(now - self._start_s))
                self._stream.flush()
            except (OSError, ValueError):  # nobody can read it: the work goes on
                self._due_s = math.inf

    def _text(self, seconds: float) -> str:
        from tqdm import tqdm  # here: short work must not wait for it

        step, done, total = self._work
        columns = self._columns() if self._is_line else 0
        bar = "{percentage:3.0f}%|{bar}| " if total and columns >= _LEAST_COLUMNS else ""
        shown = ["{n_fmt}/{total_fmt}" if total else "{n_fmt}"] if total or done else []
        if not (self._is_line and total and done):
            shown.append("{elapsed} passed")
        if total and done:
            shown.append("{remaining} left")
        text = tqdm.format_meter(
            done,
            total or math.inf,
            seconds,
            ncols=columns or None,
            prefix=name_text(step),
            ascii=" #",
            unit_scale=max(done, total) >= _LARGE,
            bar_format=f"{{desc}}: {bar}{', '.join(shown)}",
        )
        if not self._is_line:
            return f"{text}\n"
        ProgressBar._shown = self
        return f"\r{text}\x1b[K"

    def _columns(self) -> int:
        """The width of the line, which leaves room for what Ctrl-C prints."""
        columns = 0
        with suppress(OSError):
            columns = os.get_terminal_size(self._stream.fileno()).columns
        return max(1, min(columns or _COLUMNS, _COLUMNS) - len("^C") - 1)

    def _clear(self) -> None:
        if ProgressBar._shown is self:
            ProgressBar._shown = None
            with suppress(OSError, ValueError):
                self._stream.write("\r\x1b[K")
                self._stream.flush()

    @classmethod
    def make_room(cls) -> bool:
        """Clears the terminal's line for a message, if there is one; it comes back when there is more to show."""
        shown = cls._shown
        if shown is None:
            return False
        with shown._lock:
            shown._clear()
        return True


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


def table_lines(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Lines of a table whose first row is its head: columns of numbers are flush right, others left."""
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
    """The answer to a question; None where that is an error, which is one more problem then."""
    try:
        return question()
    except LiteRtError as error:
        problems.append(str(error))
        return None


class PrintedReport(PlainReport):
    """A dataclass that a command prints: as JSON for machines, or as a few lines for people."""

    __slots__ = ()

    def lines(self) -> Iterator[str]:
        """What people read."""
        raise NotImplementedError

    def to_json(self) -> str:
        """All of it, as one JSON object."""
        return json_text(self.to_values())

    def to_text(self) -> str:
        """The lines."""
        return "\n".join(self.lines())

    def to_csv(self) -> str:
        """A table of it, for reports that have one."""
        raise NotImplementedError

    def show(self, form: str) -> None:
        """Prints it as `text`, `json` or `csv`."""
        text = {"text": self.to_text, "json": self.to_json, "csv": self.to_csv}[form]
        print_text(text(), sys.stdout)


def json_text(value: object, is_compact: bool = False) -> str:
    """A report as JSON; numbers that JSON has not are null."""
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
