"""Calls into a vendor's code: whatever goes wrong there names the vendor and the call."""

from __future__ import annotations

import os
from types import TracebackType

from litert.core.errors import VENDOR_REPAIRS, LiteRtError, describe, last_line, memory_text
from litert.core.status import Status

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ENDING = (KeyboardInterrupt, SystemExit)
"""What a signal's handler may raise anywhere, and no vendor is to blame for."""

_PACKAGES = ("litert", "compiler_plugin", "dispatch", "tools", "litert_npu_tools")
_HOST = tuple(os.path.join(_ROOT, package, "") for package in _PACKAGES)
"""Where the host's own code is: a vendor's error is in another file, or in what that one called."""


def is_foreign(path: str) -> bool:
    """Whether a file's code is not the host's."""
    return not path.startswith(_HOST)


class VendorCall:
    """A context manager around one call of a vendor's function.

    A `LiteRtError` keeps its status; any other exception becomes one, with the vendor's file and line. Only
    KeyboardInterrupt passes: the user's Ctrl-C may come anywhere.
    """

    __slots__ = ("_call", "_status", "_vendor")

    def __init__(self, vendor: str, call: str, status: Status = Status.RUNTIME_FAILURE) -> None:
        """Names the call; `status` is that of exceptions that are no `LiteRtError`, or are one that says OK."""
        self._vendor = vendor
        self._call = call
        self._status = status

    @property
    def where(self) -> str:
        """What errors of this call say under `where`."""
        return f"vendor '{self._vendor}', {self._call}"

    def __enter__(self) -> VendorCall:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None and not isinstance(error, KeyboardInterrupt):
            raise self.wrap(error) from error

    def wrap(self, error: BaseException) -> LiteRtError:
        """The error of this call for what its code raised, here or in a thread."""
        if isinstance(error, LiteRtError):
            known = ("", f"vendor '{self._vendor}'", self.where)
            where = self.where if error.where in known else f"{self.where}: {error.where}"
            if error.where.startswith((f"{self.where}: ", f"{self.where}, ")):  # of its process
                where = error.where
            return LiteRtError(error.status or self._status, error.what, where, error.hint)
        if isinstance(error, MemoryError):
            return LiteRtError(Status.MEMORY_ALLOCATION_FAILURE, memory_text(error), self.where)
        place = last_line(error, is_foreign)
        return LiteRtError(
            self._status,
            describe(error),
            f"{self.where}, at {place}" if place else self.where,
            f"{VENDOR_REPAIRS} The traceback (--debug) tells more.",
        )
