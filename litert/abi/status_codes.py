"""Converts between status codes of C and exceptions of Python.

If the user presses Ctrl-C during a callback, the Python caller raises the interrupt after the C call, because C
code cannot handle the interrupt.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from litert.core.errors import LiteRtError, describe
from litert.core.status import Status

_logger = logging.getLogger(__name__)


_interrupts: list[KeyboardInterrupt] = []


def check(status: int, what: str, where: str = "") -> None:
    """Raises an error if the status of a C function is not 0; an unknown status becomes UNKNOWN with the number.

    If the user pressed Ctrl-C during a callback of the function, the main thread raises KeyboardInterrupt instead.
    """
    if _interrupts and threading.current_thread() is threading.main_thread():
        raise _interrupts.pop()
    if status:
        raise LiteRtError(int(status), what, where)


def status_of(error: BaseException, log: logging.Logger, function: str) -> int:
    """Logs an exception, or stores an interrupt for the caller, and returns the status number for C code."""
    if isinstance(error, KeyboardInterrupt):
        _interrupts[:] = [error]
        log.error("%s: interrupted", function)
        return Status.RUNTIME_FAILURE
    if isinstance(error, LiteRtError):
        # The error is logged as text: an error object has frames, and with them the caller's
        # objects, which a log may keep.
        log.error("%s: %s", function, str(error))
        return int(error.status)
    if isinstance(error, MemoryError):
        log.error("%s: out of memory", function)
        return Status.MEMORY_ALLOCATION_FAILURE
    if isinstance(error, RuntimeError) and "null pointer" in str(error):  # cffi's words
        log.error("%s: the vendor passed a NULL pointer as an argument", function)
        return Status.INVALID_ARGUMENT
    log.error("%s: %s", function, describe(error), exc_info=error)
    return Status.RUNTIME_FAILURE


def answering(
    function: Callable[..., Any], name: str, log: logging.Logger = _logger
) -> Callable[..., int]:
    """Wraps a Python function as the body of a C callback that returns a status.

    The Python function returns None or a status; its exceptions are logged and become statuses.
    """

    def answer(*arguments: Any) -> int:
        try:
            result = function(*arguments)
        except BaseException as error:  # no exception may enter C code
            return status_of(error, log, name)
        return 0 if result is None else int(result)

    return answer
