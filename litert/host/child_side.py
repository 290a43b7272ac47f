"""What a child process does about itself; nothing is imported that only its parent needs."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from importlib import import_module
from typing import IO, Any

from litert.core.errors import LiteRtError, refusal_of
from litert.core.mapped_files import guard_mapped_files, lost_bytes
from litert.core.status import Status

_ORPHAN_GRACE_S = 5

_is_child = False


def is_child() -> bool:
    """Whether this process is a child that `ChildProcess` has started."""
    return _is_child


def set_limits(memory_bytes: int) -> None:
    """In the child, before it enters a sandbox, where limits stay: no core dumps, and a limit of its memory.

    0 is none.
    """
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if memory_bytes:
        most = resource.getrlimit(resource.RLIMIT_DATA)[1]
        least = memory_bytes if most == resource.RLIM_INFINITY else min(memory_bytes, most)
        resource.setrlimit(resource.RLIMIT_DATA, (least, most))


def become_child() -> IO[str]:
    """In the child: takes its standard output for answers alone, and returns it.

    What native code prints goes to the standard error.
    """
    global _is_child
    _is_child = True
    guard_mapped_files()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return channel


def set_alarm(timeout_s: float) -> None:
    """In the child: an end of its own a little after a time limit, where the parent was killed; 0 for none."""
    signal.setitimer(signal.ITIMER_REAL, timeout_s + _ORPHAN_GRACE_S if timeout_s else 0)


def load_function(target: str) -> Callable[[Any], Any]:
    """A function by its name, `package.module:function`."""
    module, _, name = target.partition(":")
    function: Callable[[Any], Any] = getattr(import_module(module), name)
    return function


def error_message(error: Exception, target: str) -> dict[str, object]:
    """In the child: the message that `raise_error` makes an error of again."""
    named = error if isinstance(error, LiteRtError) else refusal_of(error)
    named = lost_bytes() or named
    if named:
        return {"error": [int(named.status), named.what, named.where, named.hint]}
    import traceback

    traceback.print_exception(error)
    what = f"{type(error).__name__}: {error}"
    return {"error": [int(Status.UNKNOWN), what, f"in {target}", ""]}


def raise_error(message: dict[str, object]) -> None:
    """Raises what the child raised, if it did, with its status, place and hint."""
    error = message.get("error")
    if isinstance(error, list):
        status, what, where, hint = error
        raise LiteRtError(Status(status), what, where, hint)
