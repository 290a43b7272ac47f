"""Defines `LiteRtError`, the error class of this project, and functions that make or describe errors."""

from collections.abc import Callable

from litert.core.status import Status

VENDOR_REPAIRS = "This is a bug in the vendor's code; report it to the vendor."
"""Beginning of an error's hint if only the vendor can fix the problem."""

PRINTED = "; it printed:\n"
"""Text between the description of a failed library or process and the lines that it printed."""

_NO_THREAD = "can't start new thread"
"""Python's text for a thread that the operating system does not start."""


class LiteRtError(RuntimeError):
    """An error with a status, a description of the problem, its place, and a hint.

    Attributes:
      status: Status of the error, the same number as in C. If the constructor gets a number that is not a status,
        the status is UNKNOWN.
      what: A phrase about the problem, with the actual value and the allowed values.
      where: The file, op, tensor or vendor call in which the error occurred; empty if the caller knows the place.
      hint: A sentence that says how to fix the problem; empty if the user cannot fix it.
    """

    def __init__(self, status: int, what: str, where: str = "", hint: str = "") -> None:
        """Makes an error.

        If a vendor's code returns a number that is not a status, the status of the error is UNKNOWN, and the
        message contains the number.
        """
        if not isinstance(status, Status):
            try:
                status = Status(status)
            except ValueError:
                status, what = Status.UNKNOWN, f"{what} (status {status!r})"
        super().__init__(
            status, what, where, hint
        )  # all arguments, because errors are pickled between processes
        self.status = status
        self.what = what
        self.where = where
        self.hint = hint

    @property
    def text(self) -> str:
        """The description with the place and the hint, but without the status.

        If the description has several lines, such as a compiler's messages, the place follows the first line.
        """
        from litert.core.quoting import (
            name_text,
        )  # imported here, because most errors are not printed

        what, printed, lines = self.what.partition(PRINTED)
        if not printed:
            what, newline, lines = self.what.partition("\n")
            what, printed = (what.rstrip(" :"), ":\n") if newline else (what, "")
        where = f" ({name_text(self.where)})" if self.where else ""
        hint = name_text(self.hint)
        if lines:
            return f"{what}{where}{printed}{lines.rstrip()}" + (hint and f"\n{hint}")
        return f"{what}{where}." + (hint and f" {hint}")

    def __str__(self) -> str:
        return f"{self.status.name}: {self.text}"


class ChildStartError(LiteRtError):
    """A child process could not be started."""


class ChildEndedError(LiteRtError):
    """A child process crashed or ended unexpectedly, or was stopped because of a timeout."""


def file_error(error: OSError, what: str, where: str, hint: str = "") -> LiteRtError:
    """Makes a FILE_IO error with the system's reason, such as `cannot write: no space left on device`."""
    reason = (error.strerror or str(error)).lower()
    return LiteRtError(Status.FILE_IO, f"{what}: {reason}", where, hint)


def describe(error: BaseException) -> str:
    """Describes an exception from a user's or vendor's code as text, such as `ValueError: no such file`.

    If the exception has no printable text, the result contains the exception's type.
    """
    try:
        text = str(error)
    except Exception:
        text = "(the exception has no text)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def memory_text(error: MemoryError) -> str:
    """Returns `out of memory` with the error's text, or with the last line that ran if there is no text."""
    return f"out of memory: {error}" if str(error) else f"out of memory, at {last_line(error)}"


def refusal_of(error: BaseException) -> LiteRtError | None:
    """Converts an unhandled error of the operating system to an error of this project.

    The status is FILE_IO or MEMORY_ALLOCATION_FAILURE.
    """
    if isinstance(error, MemoryError):
        return LiteRtError(Status.MEMORY_ALLOCATION_FAILURE, memory_text(error))
    if isinstance(error, RuntimeError) and str(error) == _NO_THREAD:
        return LiteRtError(
            Status.MEMORY_ALLOCATION_FAILURE,
            "the system cannot start a thread",
            hint="Allow more memory, or more processes (ulimit -u).",
        )
    if isinstance(error, OSError):
        return file_error(error, "a system call failed", str(error.filename or ""))
    return None


def last_line(error: BaseException, counts: Callable[[str], bool] = lambda path: True) -> str:
    """Returns `path:line` of the last line that ran in a file with a matching path; "" if no such line ran."""
    place, trace = "", error.__traceback__
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if counts(path):
            place = f"{path}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place
