"""How far long work is: told where the work is done, heard by whoever shows it.

While nobody listens, telling costs a look at a context variable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Progress = Callable[[str, int, int], None]
"""Told a step (`build`, `write`), how much of it is done, and how much there is; 0 where that is not known."""

_Item = TypeVar("_Item")
_listener: ContextVar[Progress | None] = ContextVar("progress", default=None)


def is_heard() -> bool:
    """Whether anybody listens to this thread's code."""
    return _listener.get() is not None


def tell(step: str, done: int, total: int) -> None:
    """Says how far a step is; with 0 done as it begins."""
    listener = _listener.get()
    if listener is not None:
        listener(step, done, total)


def told(step: str, items: Sequence[_Item]) -> Iterator[_Item]:
    """Items of a step, which is told how many of them are done."""
    return counted(step, items, len(items))


def counted(step: str, items: Iterable[_Item], total: int) -> Iterator[_Item]:
    """As `told`, for items that come one by one."""
    done = 0
    tell(step, done, total)
    for item in items:
        yield item
        done += 1
        tell(step, done, total)


@contextmanager
def listening(progress: Progress | None) -> Iterator[None]:
    """Tells `progress`, or nobody, what this thread's code tells in the block."""
    token = _listener.set(progress)
    try:
        yield
    finally:
        _listener.reset(token)
