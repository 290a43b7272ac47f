"""Provides terminals for tests: a terminal for a stream, and a terminal in which a command runs."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

CTRL_C = b"\x03"
_PATIENCE_S = 60
_LOOK_S = 0.05


class Terminal:
    """A terminal with a stream that writes to it."""

    def __init__(self) -> None:
        self._master, slave = pty.openpty()
        self.stream = os.fdopen(slave, "w", encoding="utf-8")

    def resize(self, columns: int) -> None:
        size = struct.pack("4H", 24, columns, 0, 0)
        fcntl.ioctl(self.stream.fileno(), termios.TIOCSWINSZ, size)

    def shows(self) -> list[str]:
        """Returns the lines that appeared since the last call; the last is empty if its line was cleared."""
        self.stream.write("|end")
        self.stream.flush()
        text = ""
        while not text.endswith("|end"):
            text += os.read(self._master, 4096).decode()
        return text.removesuffix("|end").replace("\x1b[K", "").split("\r")[1:]

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()
        os.close(self._master)


class CommandInTerminal:
    """A command of this project in a terminal, as a context manager that kills the command at the end."""

    def __init__(
        self, *command: object, folder: Path, more: Mapping[str, str] | None = None
    ) -> None:
        """Starts an installed program, for example `litert-npu`, in a folder."""
        program = Path(sys.executable).parent / str(command[0])
        # The slave end stays open here, because Linux may drop the last output when all processes have closed it.
        self._master, self._slave = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", **(more or {})}
        # The terminal controls a new session, so that Ctrl-C interrupts only the processes of this session.
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, str(program), *map(str, command[1:])],
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        self._said = b""

    def await_text(self, pattern: str) -> str:
        """Waits until the output matches a regular expression; returns all output so far."""
        while not re.search(pattern.encode(), self._said):
            assert self._read(), f"it ended without {pattern!r}: {self._said.decode()}"
        return self._said.decode()

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def end(self) -> tuple[int, Sequence[str]]:
        """Waits until the command ends; returns its exit status and the lines that remain on the terminal."""
        while self._read():
            continue
        status = self._process.wait(_PATIENCE_S)
        return status, _lines(self._said.decode())

    def children(self) -> list[int]:
        """Returns the IDs of the command's child processes that still run."""
        found = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # the process has ended meanwhile
                fields = path.read_text().rsplit(")", 1)[1].split()
                if int(fields[1]) == self._process.pid and fields[0] != "Z":
                    found.append(int(path.parent.name))
        return found

    def _read(self) -> bool:
        """Reads the next output; returns False if the command has ended and there is no more output."""
        has_ended = False
        while not select.select([self._master], [], [], _LOOK_S)[0]:
            if has_ended:
                return False
            has_ended = self._process.poll() is not None
        self._said += os.read(self._master, 1 << 16)
        return True

    def __enter__(self) -> CommandInTerminal:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        os.close(self._master)
        os.close(self._slave)


_START = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def _lines(text: str) -> Sequence[str]:
    """Returns the lines that remain after a text with carriage returns and codes that clear the rest of a line."""
    lines = [""]
    column = 0
    for part in re.findall(r"\r|\n|\x1b\[K|[^\r\n\x1b]+", text):
        if part == "\n":
            lines.append("")
            column = 0
        elif part == "\r":
            column = 0
        elif part == "\x1b[K":
            lines[-1] = lines[-1][:column]
        else:
            lines[-1] = lines[-1][:column] + part + lines[-1][column + len(part) :]
            column += len(part)
    return [line for line in lines if line]
