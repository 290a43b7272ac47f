"""Python's garbage collector, held back while a model is made: a graph grows in which nothing is garbage yet.

Looking through it again and again takes a quarter of the time that it takes to read a large model.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_held() -> Iterator[None]:
    """No collection until the end of the block; where two threads are in one, until the end of the first."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
