"""What Ctrl-C says: each block that it ends may add a sentence about what is kept of the work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def on_interrupt(sentence: Callable[[], str]) -> Iterator[None]:
    """Adds a sentence to a `KeyboardInterrupt` of the block; "" adds nothing."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if added := sentence():
            interrupt.args = (*interrupt.args, added)
        raise
