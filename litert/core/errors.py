"""The one error of this project: a status, what is wrong, where, and what to do."""

from litert.core.status import Status


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
        where = f" ({self.where})" if self.where else ""
        hint = f" {self.hint}" if self.hint else ""
        return f"{self.status.name}: {self.what}{where}.{hint}"


class ChildEndedError(LiteRtError):
    """A child process is gone, or was stopped: it crashed, ended, or took too long."""


def describe(error: BaseException) -> str:
    """An exception of foreign code, as `ValueError: no such file`; also one whose text cannot be made."""
    try:
        text = str(error)
    except Exception:
        text = "(it has no text)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
