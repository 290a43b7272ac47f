"""Pauses Python's garbage collector while a model is read: a growing graph contains no garbage.

Collections while the graph grows would take a quarter of the time that a large model takes to read.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_held() -> Iterator[None]:
    """Pauses garbage collection until the block ends.

    If two threads are in such blocks, until the first block ends.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
