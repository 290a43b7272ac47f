"""The one error of this project: a status, what is wrong, where, and what to do."""

from collections.abc import Callable

from litert.core.status import Status

VENDOR_REPAIRS = "This is the vendor's to repair."
"""How the hint of an error begins that nothing in the user's hands can mend."""


class LiteRtError(RuntimeError):
    """A status, what is wrong, where, and what to do.

    Attributes:
      status: a number that C callers know too; made of any `int`.
      what: a phrase that shows what was found, and what is allowed.
      where: file, op, tensor or vendor call; empty if the caller knows.
      hint: a sentence that says what to do; empty if nothing can be done.
    """

    def __init__(self, status: int, what: str, where: str = "", hint: str = "") -> None:
        """Makes an error; a number that is no status, as a vendor's code may give, is UNKNOWN and is shown."""
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
    """A child process is gone, or was stopped: it crashed, ended, or took too long."""


def file_error(error: OSError, what: str, where: str, hint: str = "") -> LiteRtError:
    """FILE_IO, with the system's reason: `cannot write: no space left on device`."""
    reason = (error.strerror or str(error)).lower()
    return LiteRtError(Status.FILE_IO, f"{what}: {reason}", where, hint)


def describe(error: BaseException) -> str:
    """An exception of foreign code, as `ValueError: no such file`; also one whose text cannot be made."""
    try:
        text = str(error)
    except Exception:
        text = "(it has no text)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def memory_text(error: MemoryError) -> str:
    """`out of memory: no room for 8 bytes`, as the error has it; else the last line that ran."""
    return f"out of memory: {error}" if str(error) else f"out of memory, at {last_line(error)}"


def refusal_of(error: BaseException) -> LiteRtError | None:
    """The error for what the system has refused, which nobody has named: FILE_IO, or MEMORY_ALLOCATION_FAILURE."""
    if isinstance(error, MemoryError):
        return LiteRtError(Status.MEMORY_ALLOCATION_FAILURE, memory_text(error))
    if isinstance(error, OSError):
        return file_error(error, "the system has refused a call", str(error.filename or ""))
    return None


def last_line(error: BaseException, counts: Callable[[str], bool] = lambda path: True) -> str:
    """The last line that ran in a file whose path counts, as `path:line`; "" where there is none."""
    place, trace = "", error.__traceback__
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if counts(path):
            place = f"{path}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place
