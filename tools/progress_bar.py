"""Shows the progress of long work on standard error: in one changing line on a terminal, else in many lines."""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack, redirect_stderr, redirect_stdout, suppress
from enum import Enum, auto
from types import TracebackType
from typing import Any, ClassVar, TextIO

from litert.core.interrupts import on_interrupt
from litert.core.progress import listening

from .console import name_text, print_text

_PATIENCE_S = 0.5
_LINE_INTERVAL_S = 0.1
_LOG_INTERVAL_S = 5.0
_TICK_S = 1.0
_COLUMNS = 80
_LEAST_COLUMNS = 45  # narrower terminals show text without a bar
_LARGE = 1_000_000  # such numbers are bytes, and are shown like 1.07G


class ProgressStyle(Enum):
    """The way to show progress."""

    AUTOMATIC = auto()  # depends on the stream
    LINES = auto()  # lines as in a log, also on terminals
    QUIET = auto()  # show nothing


class ProgressBar:
    """Shows the progress of long work as a changing line on a terminal.

    If the output is not a terminal, a line is printed every few seconds.

    The bar is a context manager: it shows the progress of work in its block, and clears the terminal's line at
    the end. For short work, nothing is shown. If a step takes long, a thread updates the elapsed time. Text that
    Python code prints during the work appears above the line. Output of native code appears after the line, since
    native code writes to the terminal directly.
    """

    style: ClassVar[ProgressStyle] = ProgressStyle.AUTOMATIC
    """Style of all progress bars; each command line sets it."""

    _shown: ClassVar[ProgressBar | None] = None
    """The progress bar whose line is on the terminal."""

    def __init__(self, stream: TextIO | None = None, interval_s: float | None = None) -> None:
        """Shows progress on a stream, by default standard error, at most once every `interval_s` seconds."""
        self._stream = stream or sys.stderr
        is_terminal = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._is_line = is_terminal and self.style is ProgressStyle.AUTOMATIC
        self._interval_s = interval_s or (_LINE_INTERVAL_S if self._is_line else _LOG_INTERVAL_S)
        self._block = ExitStack()
        self._tick_s = interval_s or _TICK_S
        self._lock = threading.RLock()
        self._is_in_line = False
        self._has_ended = threading.Event()
        self._work = ("", 0, 0)
        self._start_s = time.monotonic()
        self._due_s = self._start_s + (interval_s or max(self._interval_s, _PATIENCE_S))
        if self.style is ProgressStyle.QUIET:
            self._due_s = math.inf

    def __call__(self, step: str, done: int, total: int) -> None:
        """Shows how much of a step is done; a `total` of 0 means that the amount of work is unknown."""
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
            if self._is_line:
                self._block.enter_context(redirect_stdout(_above(sys.stdout, self)))
                self._block.enter_context(redirect_stderr(_above(sys.stderr, self)))
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
            if not isinstance(error, KeyboardInterrupt):  # the message of Ctrl-C replaces the line
                self._clear()
        self._block.__exit__(kind, error, trace)

    def note(self, text: str) -> None:
        """Prints a message about the work above the progress line, unless `--quiet` is given."""
        if self.style is not ProgressStyle.QUIET:
            print_text(text, _above(self._stream, self))

    def _position(self) -> str:
        """Returns a sentence about the progress of the work."""
        step, done, total = self._work
        if not total:
            return f"The work was at step '{step}'" if step else ""
        count = f"{done / total:.0%}" if total >= _LARGE else f"{done} of {total}"
        return f"The work was at step '{step}' ({count} done)"

    def _tick(self) -> None:
        """Runs in the thread: updates the line if nothing has changed for a while."""
        while not self._has_ended.wait(self._tick_s):
            self._show()

    def _show(self) -> None:
        with self._lock:
            now = time.monotonic()
            if now < self._due_s or not self._work[0] or self._is_in_line:
                return
            self._due_s = now + self._interval_s
            try:
                self._stream.write(self._text(now - self._start_s))
                self._stream.flush()
            except (OSError, ValueError):  # the line cannot be shown: the work continues
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
        """Returns the width of the line, which leaves space for the characters that Ctrl-C prints."""
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

    def write_above(self, stream: TextIO, text: str) -> int:
        """Writes a text to a stream of the same terminal.

        The progress line reappears with the next update, after the text's last line is complete.
        """
        with self._lock:
            self._clear()
            if text:
                self._is_in_line = not text.endswith("\n")
            return stream.write(text)

    @classmethod
    def make_room(cls) -> bool:
        """Clears the line that Ctrl-C has left on the terminal, if there is one."""
        shown = cls._shown
        if shown is None:
            return False
        with shown._lock:
            shown._clear()
        return True


class _Above:
    """A stream of the terminal with the progress line: text that is written appears above the line."""

    def __init__(self, stream: TextIO, bar: ProgressBar) -> None:
        self._stream, self._bar = stream, bar

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        return self._bar.write_above(self._stream, text)

    def writelines(self, lines: Iterable[str]) -> None:
        self.write("".join(lines))


def _above(stream: Any, bar: ProgressBar) -> Any:
    """Returns the stream for other code while the line is shown; the same stream if it is not the terminal."""
    return _Above(stream, bar) if stream is not None and stream.isatty() else stream
