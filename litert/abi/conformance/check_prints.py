"""What a vendor prints in each check: the process that runs the checks marks where one begins."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

_MARK = b"\x1e"  # record separator, which begins the line that names a check
_KEPT = 16 << 10
_STDERR = 2


def mark_begins(answers: Iterable[Mapping[str, str]]) -> Iterator[Mapping[str, str]]:
    """Answers of `run_checks` as they are; each check that begins is named on standard error before it does."""
    for answer in answers:
        if key := answer.get("begin"):
            os.write(_STDERR, b"\n%s%s\n" % (_MARK, key.encode()))
        yield answer


class CheckPrints:
    """What came on a process's standard error, by the check in which it was printed."""

    def __init__(self) -> None:
        self._prints: dict[str, bytearray] = {}
        self._current = bytearray()
        self._line = b""

    def add(self, data: bytes) -> None:
        """Takes the next bytes."""
        *lines, self._line = (self._line + data).split(b"\n")
        for line in lines:
            if line.startswith(_MARK):
                key = line[1:].decode("utf-8", "replace")
                self._current = self._prints.setdefault(key, bytearray())
            else:
                self._keep(line + b"\n")
        if len(self._line) > _KEPT:
            self._keep(self._line)
            self._line = b""

    def of(self, key: str) -> str:
        """The first of what was printed in a check, once the process has ended."""
        last = self._line if self._current is self._prints.get(key) else b""
        return (self._prints.get(key, b"") + last).decode("utf-8", "replace").strip()

    def _keep(self, data: bytes) -> None:
        self._current.extend(data[: max(0, _KEPT - len(self._current))])
