"""Status codes at the border between C and Python: numbers become errors, and errors numbers.

Ctrl-C in a callback is kept: C cannot take it, and who has called C raises it when C is back.
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
    """Raises where a C function's status is not 0: UNKNOWN with the number for a status that there is not.

    Ctrl-C that came in a callback of the function is raised first, in the main thread.
    """
    if _interrupts and threading.current_thread() is threading.main_thread():
        raise _interrupts.pop()
    if status:
        raise LiteRtError(int(status), what, where)


def status_of(error: BaseException, log: logging.Logger, function: str) -> int:
    """The number that C code gets for an exception, which is logged, or kept for who has called C."""
    if isinstance(error, KeyboardInterrupt):
        _interrupts[:] = [error]
        log.error("%s: interrupted", function)
        return Status.RUNTIME_FAILURE
    if isinstance(error, LiteRtError):
        # As text: an error has frames, and with them what the caller holds, which a log may keep.
        log.error("%s: %s", function, str(error))
        return int(error.status)
    if isinstance(error, MemoryError):
        log.error("%s: out of memory", function)
        return Status.MEMORY_ALLOCATION_FAILURE
    if isinstance(error, RuntimeError) and "null pointer" in str(error):  # cffi's words
        log.error("%s: a NULL pointer, where an argument belongs", function)
        return Status.INVALID_ARGUMENT
    log.error("%s: %s", function, describe(error), exc_info=error)
    return Status.RUNTIME_FAILURE


def answering(
    function: Callable[..., Any], name: str, log: logging.Logger = _logger
) -> Callable[..., int]:
    """A function as the body of a C callback that returns a status.

    The function returns None, or a status; what it raises is logged and becomes a status.
    """

    def answer(*arguments: Any) -> int:
        try:
            result = function(*arguments)
        except BaseException as error:  # nothing may pass the border
            return status_of(error, log, name)
        return 0 if result is None else int(result)

    return answer
