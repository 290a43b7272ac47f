"""Calls into a vendor's code: whatever goes wrong there names the vendor and the call."""

from __future__ import annotations

from types import TracebackType

from litert.core.errors import LiteRtError
from litert.core.status import Status


class VendorCall:
    """A context manager around one call of a vendor's function.

    A `LiteRtError` keeps its status; any other exception becomes one, with the file and line it came from.
    """

    __slots__ = ("_call", "_status", "_vendor")

    def __init__(self, vendor: str, call: str, status: Status = Status.RUNTIME_FAILURE) -> None:
        """Names the call.

        Args:
          vendor: its manufacturer's name.
          call: the function's name.
          status: of exceptions that are no `LiteRtError`.
        """
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
        if isinstance(error, LiteRtError):
            known = ("", f"vendor '{self._vendor}'", self.where)
            where = self.where if error.where in known else f"{self.where}: {error.where}"
            raise LiteRtError(error.status, error.what, where, error.hint) from error
        if isinstance(error, MemoryError):
            raise LiteRtError(
                Status.MEMORY_ALLOCATION_FAILURE, "out of memory", self.where
            ) from error
        if isinstance(error, (Exception, SystemExit)):
            raise LiteRtError(
                self._status,
                f"{type(error).__name__}: {error}",
                f"{self.where}{_last_line(trace)}",
                "This is the vendor's to repair; the traceback tells more.",
            ) from error


def _last_line(trace: TracebackType | None) -> str:
    """Where in the vendor's code an exception was raised, or what of it was called last."""
    place = ""
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        place = f", at {path}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place
