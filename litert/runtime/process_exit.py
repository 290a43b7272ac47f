"""When the process ends, waits until daemon threads have returned from calls into models.

When Python exits, it ends a daemon thread as soon as the thread acquires the GIL. If the thread is in a C++
callback at this moment, the process is aborted. Therefore the process waits for active calls before it exits, and
allows no new calls.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from weakref import WeakSet

_MOST_S = 10.0
"""Time limit for active calls at the end of the process, in seconds.

A call that takes longer, such as an endless kernel, usually never returns.
"""

_locks: WeakSet[threading.RLock] = WeakSet()
_registering = threading.Lock()


def model_lock() -> threading.RLock:
    """Returns a lock that each call into a model must hold.

    At the end of the process, the lock is acquired and never released.
    """
    lock = threading.RLock()
    with _registering:
        _locks.add(lock)
    return lock


def _forget() -> None:
    """Runs in a forked process, which lacks the threads that held locks."""
    global _registering
    _locks.clear()
    _registering = threading.Lock()


os.register_at_fork(after_in_child=_forget)


@atexit.register
def _take_all() -> None:
    end = time.monotonic() + _MOST_S
    _registering.acquire(timeout=_MOST_S)  # models can no longer be loaded
    for lock in list(_locks):
        lock.acquire(timeout=max(0.0, end - time.monotonic()))
