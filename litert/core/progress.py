"""How far long work is: told where the work is done, heard by whoever shows it.

While nobody listens, telling costs a look at a context variable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

Progress = Callable[[str, int, int], None]
"""Told a step (`build`, `write`), how much of it is done, and how much there is; 0 where that is not known."""

_Item = TypeVar("_Item")


@dataclass(slots=True)
class _Listener:
    """Who is told, and whether work is a part of a step that is counted as a whole."""

    progress: Progress
    is_inside: bool = False


_listener: ContextVar[_Listener | None] = ContextVar("progress", default=None)


@contextmanager
def listening(progress: Progress | None) -> Iterator[None]:
    """Tells `progress`, or nobody, what this thread's code tells in the block."""
    token = _listener.set(_Listener(progress) if progress is not None else None)
    try:
        yield
    finally:
        _listener.reset(token)


def is_heard() -> bool:
    """Whether anybody hears what this thread's code tells."""
    listener = _listener.get()
    return listener is not None and not listener.is_inside


def tell(step: str, done: int, total: int) -> None:
    """Says how far a step is; with 0 done as it begins."""
    listener = _listener.get()
    if listener is not None and not listener.is_inside:
        listener.progress(step, done, total)


def told(step: str, items: Sequence[_Item]) -> Iterator[_Item]:
    """Items of a step, which tells how many of them are done."""
    return counted(step, items, len(items))


def counted(step: str, items: Iterable[_Item], total: int) -> Iterator[_Item]:
    """As `told`, for items that come one by one."""
    with counting(step, total) as tell_done:
        for done, item in enumerate(items, 1):
            yield item
            tell_done(done)


@contextmanager
def counting(step: str, total: int) -> Iterator[Callable[[int], None]]:
    """A step that is counted as a whole: nobody hears the parts of it that tell something in the block.

    Yields:
      A function to tell how much is done.
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
