"""Functions that a child process calls. This module imports nothing that only the parent process needs."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from typing import IO, Any

from litert.core.errors import LiteRtError, describe, refusal_of
from litert.core.mapped_files import guard_mapped_files, lost_bytes
from litert.core.status import Status

_ORPHAN_GRACE_S = 5

_is_child = False


def is_child() -> bool:
    """Whether `ChildProcess` has started this process."""
    return _is_child


def set_limits(memory_bytes: int) -> None:
    """Disables core dumps, and limits the memory of this child; 0 means no limit.

    Inside a sandbox, limits can no longer be changed.
    """
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if memory_bytes:
        most = resource.getrlimit(resource.RLIMIT_DATA)[1]
        least = memory_bytes if most == resource.RLIM_INFINITY else min(memory_bytes, most)
        resource.setrlimit(resource.RLIMIT_DATA, (least, most))
        sys.excepthook = _print_without_traceback


def _print_without_traceback(_: object, error: BaseException, __: object) -> None:
    """Prints the exception that ends this child. Any line may run out of memory, so its place does not help."""
    print(describe(error), file=sys.stderr)


def become_child() -> IO[str]:
    """Reserves the child's standard output for replies, and returns this output as a stream.

    Output of native code then goes to standard error.
    """
    global _is_child
    _is_child = True
    guard_mapped_files()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return channel


def set_alarm(timeout_s: float) -> None:
    """Ends this child process a little after a time limit, in case the parent was killed; 0 for no limit."""
    signal.setitimer(signal.ITIMER_REAL, timeout_s + _ORPHAN_GRACE_S if timeout_s else 0)


def load_function(target: str) -> Callable[[Any], Any]:
    """Returns a function by its name, `package.module:function`."""
    module, _, name = target.partition(":")
    function: Callable[[Any], Any] = getattr(import_module(module), name)
    return function


def error_message(error: Exception, target: str) -> dict[str, object]:
    """Returns an error as a message, from which `raise_error` can raise the same error."""
    named = error if isinstance(error, LiteRtError) else refusal_of(error)
    named = lost_bytes() or named
    if named:
        return {"error": [int(named.status), named.what, named.where, named.hint]}
    import traceback

    traceback.print_exception(error)
    what = f"{type(error).__name__}: {error}"
    return {"error": [int(Status.UNKNOWN), what, f"in {target}", ""]}


def raise_error(message: dict[str, object]) -> None:
    """Raises the error in the child's message, if there is one, with its status, place and hint."""
    error = message.get("error")
    if isinstance(error, list):
        status, what, where, hint = error
        raise LiteRtError(Status(status), what, where, hint)
