"""Messages for Ctrl-C: code that is interrupted may add a sentence that says which results are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from litert.core.errors import LiteRtError
from litert.core.status import Status


def interrupt_of(error: BaseException) -> KeyboardInterrupt | None:
    """Returns the `KeyboardInterrupt` that Python before 3.12 turned into a RuntimeError in a class body."""
    cause = error.__cause__ if isinstance(error, RuntimeError) else None
    return cause if isinstance(cause, KeyboardInterrupt) else None


@contextmanager
def interrupts_as_they_came() -> Iterator[None]:
    """Raises the original `KeyboardInterrupt` if Python has turned it into another error in the `with` block."""
    try:
        yield
    except RuntimeError as error:
        if interrupt := interrupt_of(error):
            raise interrupt from None
        raise


@contextmanager
def on_interrupt(sentence: Callable[[], str]) -> Iterator[None]:
    """Adds a sentence to a `KeyboardInterrupt` or CANCELLED error from the `with` block; "" adds nothing."""
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
