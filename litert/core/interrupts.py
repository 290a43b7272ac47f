"""What Ctrl-C says: each block that it ends may add a sentence about what is kept of the work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from litert.core.errors import LiteRtError
from litert.core.status import Status


@contextmanager
def on_interrupt(sentence: Callable[[], str]) -> Iterator[None]:
    """Adds a sentence to a `KeyboardInterrupt` of the block, or to a CANCELLED error; "" adds nothing."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if added := sentence():
            interrupt.args = (*interrupt.args, added)
        raise
    except LiteRtError as error:
        if error.status is not Status.CANCELLED or not (added := sentence()):
            raise
        hint = f"{error.hint} {added}.".lstrip()
        raise LiteRtError(error.status, error.what, error.where, hint) from error
