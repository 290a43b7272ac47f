"""Calls a vendor's code, so that errors from the call contain the vendor's name and the call's name."""

from __future__ import annotations

import os
from types import TracebackType

from litert.core.errors import VENDOR_REPAIRS, LiteRtError, describe, last_line, memory_text
from litert.core.status import Status

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ENDING = (KeyboardInterrupt, SystemExit)
"""Exceptions that a signal handler may raise at any point, so that they are not the vendor's fault."""

_PACKAGES = ("litert", "compiler_plugin", "dispatch", "tools", "litert_npu_tools")
_HOST = tuple(os.path.join(_ROOT, package, "") for package in _PACKAGES)
"""Directories that contain the host's own code.

A vendor's error comes from a file outside these directories, or from code that such a file called.
"""


def is_foreign(path: str) -> bool:
    """Returns whether a file is outside of the host's code."""
    return not path.startswith(_HOST)


class VendorCall:
    """A context manager that is used around one call of a vendor's function.

    A `LiteRtError` keeps its status; any other exception becomes a `LiteRtError` that contains the vendor's file
    and line. Only KeyboardInterrupt is not converted, since the user may press Ctrl-C at any time.
    """

    __slots__ = ("_call", "_status", "_vendor")

    def __init__(self, vendor: str, call: str, status: Status = Status.RUNTIME_FAILURE) -> None:
        """Stores the name of the call.

        `status` is used for exceptions that are not a `LiteRtError`, or that have the status OK.
        """
        self._vendor = vendor
        self._call = call
        self._status = status

    @property
    def where(self) -> str:
        """Text for the field `where` of errors from this call."""
        return f"vendor '{self._vendor}', in {self._call}"

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
        """Returns the error for an exception that the call raised, in this thread or in another thread."""
        if isinstance(error, LiteRtError):
            vendor = f"vendor '{self._vendor}'"
            known = ("", vendor, self.where)
            inner = self._without_function(error.where)
            where = self.where if inner in known else f"{inner}; {self.where}"
            if error.where.startswith(f"{self.where}, ") or error.where.endswith(f"; {self.where}"):
                where = error.where  # the process that made the call has added the place
            if " of " in self._call and f" in {self._call}" in error.what:  # its process ended
                where = vendor
            return LiteRtError(error.status or self._status, error.what, where, error.hint)
        if isinstance(error, MemoryError):
            return LiteRtError(Status.MEMORY_ALLOCATION_FAILURE, memory_text(error), self.where)
        place = last_line(error, is_foreign)
        return LiteRtError(
            self._status,
            f"the vendor's code raised {describe(error)}",
            f"{self.where}, at {place}" if place else self.where,
            f"{VENDOR_REPAIRS} The flag --debug also prints the traceback.",
        )

    def _without_function(self, where: str) -> str:
        """Removes the function's name from the end of an error's place if the call's name contains the name."""
        function = f"function {self._call.rpartition(' of ')[2]}"
        return "" if where == function else where.removesuffix(f", {function}")
