"""At the end of the process, what daemon threads do in models comes to an end first.

Python ends such a thread where it next asks for Python's lock, which aborts the process in a callback of C++. So
the end waits for calls under way, and lets no other begin.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from weakref import WeakSet

_MOST_S = 10.0
"""For calls under way; one that takes longer, such as a kernel that never ends, mostly does not come back."""

_locks: WeakSet[threading.RLock] = WeakSet()
_registering = threading.Lock()


def model_lock() -> threading.RLock:
    """A lock to be held by each call into a model. It stays taken once the process ends."""
    lock = threading.RLock()
    with _registering:
        _locks.add(lock)
    return lock


def _forget() -> None:
    """In a process that was forked off: the threads that held locks are not there."""
    global _registering
    _locks.clear()
    _registering = threading.Lock()


os.register_at_fork(after_in_child=_forget)


@atexit.register
def _take_all() -> None:
    end = time.monotonic() + _MOST_S
    _registering.acquire(timeout=_MOST_S)  # no model is loaded from now on
    for lock in list(_locks):
        lock.acquire(timeout=max(0.0, end - time.monotonic()))
