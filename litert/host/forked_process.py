"""A fork of this process as a child, with the part of `subprocess.Popen` that `ChildProcess` uses.

It is there at once, with all that this process has imported; a new interpreter takes tens of milliseconds. It must
not be made where another thread may hold a lock, which nobody would release in the child.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import IO, NoReturn, TextIO


class ForkedProcess:
    """A running fork.

    Attributes:
      pid: of the process.
      stdin, stdout, stderr: pipes to its standard streams, without buffers.
    """

    def __init__(
        self, run: Callable[[], object], *, shared: Sequence[int], new_session: bool
    ) -> None:
        """Forks.

        Args:
          run: what the child does; then it ends, as C programs do, without the exit functions of this program.
          shared: descriptors above the standard streams' that the child keeps; all others are closed in it.
          new_session: whether it gets a session of its own, out of Ctrl-C's reach.

        Raises:
          OSError: there are no more processes or descriptors.
        """
        inner, outer = _pipes()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()  # or both would write it
        # What comes before the child has lost this process's handlers waits: it would end as this process does.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of other threads
                self.pid = os.fork()
            if not self.pid:
                _be_child(run, inner, shared, new_session, mask)
        except OSError:
            for fd in (*inner, *outer):
                os.close(fd)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for fd in inner:
            os.close(fd)
        self.stdin: IO[bytes] = os.fdopen(outer[0], "wb", buffering=0)
        self.stdout: IO[bytes] = os.fdopen(outer[1], "rb", buffering=0)
        self.stderr: IO[bytes] = os.fdopen(outer[2], "rb", buffering=0)
        self._status: int | None = None

    def poll(self) -> int | None:
        """Its exit status, or minus the signal that ended it; None while it runs."""
        self._wait(os.WNOHANG)
        return self._status

    def wait(self) -> int:
        """Waits for its end, and returns what `poll` does."""
        self._wait(0)
        assert self._status is not None
        return self._status

    def kill(self) -> None:
        """Ends it, if it still runs."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _wait(self, options: int) -> None:
        if self._status is None:
            try:
                pid, status = os.waitpid(self.pid, options)
            except ChildProcessError:  # somebody else has waited for all children
                self._status = 0
                return
            if pid:
                self._status = os.waitstatus_to_exitcode(status)


def _pipes() -> tuple[list[int], list[int]]:
    """The ends of three pipes, for standard input, output and error: the child's, and this process's."""
    inner: list[int] = []
    outer: list[int] = []
    try:
        for number in range(3):
            reader, writer = os.pipe()
            inner.append(writer if number else reader)
            outer.append(reader if number else writer)
    except OSError:
        for fd in (*inner, *outer):
            os.close(fd)
        raise
    return inner, outer


def _be_child(
    run: Callable[[], object],
    streams: Sequence[int],
    shared: Sequence[int],
    new_session: bool,
    mask: Iterable[int],
) -> NoReturn:
    """In the child: leaves nothing of the parent's but its memory, runs, and never returns."""
    status = 1
    try:
        if new_session:
            os.setsid()
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):  # as exec does
                signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _take_descriptors(streams, shared)
        # Kept: they would close what is the child's now.
        _parents = sys.stdin, sys.stdout, sys.stderr
        sys.stdin = _text_stream(0, "r")
        sys.stdout = _text_stream(1, "w")
        sys.stderr = _text_stream(2, "w")
        run()
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        _exit(status)


def _text_stream(fd: int, mode: str) -> TextIO:
    stream: TextIO = open(fd, mode, encoding="utf-8", errors="backslashreplace", closefd=False)  # type: ignore[assignment]  # noqa: SIM115
    return stream


def _take_descriptors(streams: Sequence[int], shared: Sequence[int]) -> None:
    """Makes the pipes 0, 1 and 2, and closes what is neither these nor shared."""
    high = [os.dup(fd) for fd in streams]  # none of them below 3: those may be closed, and taken
    while min(high) < 3:
        high = [os.dup(fd) for fd in high]
    for number, fd in enumerate(high):
        os.dup2(fd, number)
    kept = {*range(len(streams)), *shared}
    # A range would need an end: the limit may be none, or lower than some that are open.
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd not in kept:
            with suppress(OSError):  # that of the folder itself
                os.close(fd)


def _exit(status: int) -> NoReturn:
    """Ends the process with C's exit functions, which native code may count on."""
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        import ctypes

        ctypes.CDLL(None).exit(status)
    finally:
        os._exit(status or 1)
