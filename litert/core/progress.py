"""Progress of long work: the code that works reports progress, and a listener shows it.

Without a listener, a report costs one look at a context variable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

Progress = Callable[[str, int, int], None]
"""A function that gets a step (`build`, `write`), the units done, and the total number of units, or
0 if the total is unknown.
"""

_Item = TypeVar("_Item")


@dataclass(slots=True)
class _Listener:
    """The listener, and whether the current work is a part of a step that counts as a whole."""

    progress: Progress
    is_inside: bool = False


_listener: ContextVar[_Listener | None] = ContextVar("progress", default=None)


@contextmanager
def listening(progress: Progress | None) -> Iterator[None]:
    """Passes the progress that this thread reports in the block to `progress`, or discards it for None."""
    token = _listener.set(_Listener(progress) if progress is not None else None)
    try:
        yield
    finally:
        _listener.reset(token)


def is_heard() -> bool:
    """Returns whether a listener gets the progress that this thread reports."""
    listener = _listener.get()
    return listener is not None and not listener.is_inside


def tell(step: str, done: int, total: int) -> None:
    """Reports how much of a step is done; a step begins with 0 done."""
    listener = _listener.get()
    if listener is not None and not listener.is_inside:
        listener.progress(step, done, total)


def told(step: str, items: Sequence[_Item]) -> Iterator[_Item]:
    """Yields the items of a step and reports how many items are done."""
    return counted(step, items, len(items))


def counted(step: str, items: Iterable[_Item], total: int) -> Iterator[_Item]:
    """Same as `told`, but for items from an iterator."""
    with counting(step, total) as tell_done:
        for done, item in enumerate(items, 1):
            yield item
            tell_done(done)


@contextmanager
def counting(step: str, total: int) -> Iterator[Callable[[int], None]]:
    """The block counts as one step: listeners do not hear the progress of nested steps.

    Yields:
      Yields a function that reports how much is done.
    """
    listener = _listener.get()
    if listener is None or listener.is_inside:
        yield lambda done: None
        return
    progress = listener.progress
    progress(step, 0, total)
    listener.is_inside = True
    try:
        yield lambda done: progress(step, done, total)
    finally:
        listener.is_inside = False
