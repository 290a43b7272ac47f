"""The only error class of this project: a status, what is wrong, where, and what to do."""

from collections.abc import Callable

from litert.core.status import Status

VENDOR_REPAIRS = "This is a bug in the vendor's code; report it to the vendor."
"""First words of an error's hint where only the vendor can fix the problem."""


class LiteRtError(RuntimeError):
    """An error with a status, what is wrong, where, and what to do.

    Attributes:
      status: The status, a number that C callers know too; may be given as any `int`.
      what: A phrase that shows the value that was found and the values that are allowed.
      where: The file, op, tensor or vendor call; empty if the caller knows the place.
      hint: A sentence that says what to do; empty if the user cannot do anything.
    """

    def __init__(self, status: int, what: str, where: str = "", hint: str = "") -> None:
        """Makes an error.

        A number that is no status, which a vendor's code may return, becomes UNKNOWN and is shown.
        """
        if not isinstance(status, Status):
            try:
                status = Status(status)
            except ValueError:
                status, what = Status.UNKNOWN, f"{what} (status {status!r})"
        super().__init__(status, what, where, hint)  # all of it: errors cross processes
        self.status = status
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        from litert.core.quoting import name_text  # here: most errors are not shown

        where = f" ({name_text(self.where)})" if self.where else ""
        hint = f" {name_text(self.hint)}" if self.hint else ""
        return f"{self.status.name}: {self.what}{where}.{hint}"


class ChildEndedError(LiteRtError):
    """A child process crashed, ended or was stopped because it took too long."""


def file_error(error: OSError, what: str, where: str, hint: str = "") -> LiteRtError:
    """Returns a FILE_IO error with the operating system's reason: `cannot write: no space left on device`."""
    reason = (error.strerror or str(error)).lower()
    return LiteRtError(Status.FILE_IO, f"{what}: {reason}", where, hint)


def describe(error: BaseException) -> str:
    """Returns an exception of foreign code as text, such as `ValueError: no such file`.

    An exception that cannot be printed is named by its type.
    """
    try:
        text = str(error)
    except Exception:
        text = "(the exception has no text)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def memory_text(error: MemoryError) -> str:
    """Returns `out of memory: no room for 8 bytes`, with the error's text, or with the last line that ran."""
    return f"out of memory: {error}" if str(error) else f"out of memory, at {last_line(error)}"


def refusal_of(error: BaseException) -> LiteRtError | None:
    """Returns the error for a failed system call that no other code has described.

    The status is FILE_IO or MEMORY_ALLOCATION_FAILURE.
    """
    if isinstance(error, MemoryError):
        return LiteRtError(Status.MEMORY_ALLOCATION_FAILURE, memory_text(error))
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
