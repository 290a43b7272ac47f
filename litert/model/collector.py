"""Pauses Python's garbage collector while a model is read, because a new graph contains no garbage.

For a large model, garbage collections would take a quarter of the reading time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_held() -> Iterator[None]:
    """Pauses garbage collection until the `with` block ends.

    If two threads run such blocks at the same time, garbage collection resumes at the end of the block that began
    first.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
