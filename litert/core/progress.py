"""Progress of long tasks: the code that does a task reports its progress, and a listener shows the progress.

If there is no listener, the only cost of a report is that a context variable is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

Progress = Callable[[str, int, int], None]
"""A listener, which is a function. Its arguments are the name of a step, such as `build` or `write`, the number of
units that are done, and the total number of units (0 if the total is unknown).
"""

_Item = TypeVar("_Item")


@dataclass(slots=True)
class _Listener:
    """The listener, and whether the current work is part of a step whose inner progress is not reported."""

    progress: Progress
    is_inside: bool = False


_listener: ContextVar[_Listener | None] = ContextVar("progress", default=None)


@contextmanager
def listening(progress: Progress | None) -> Iterator[None]:
    """In the `with` block, passes this thread's progress reports to `progress`; None discards the reports."""
    token = _listener.set(_Listener(progress) if progress is not None else None)
    try:
        yield
    finally:
        _listener.reset(token)


def is_heard() -> bool:
    """Returns whether a listener gets the progress reports of this thread."""
    listener = _listener.get()
    return listener is not None and not listener.is_inside


def tell(step: str, done: int, total: int) -> None:
    """Reports how many units of a step are done; the first report of a step has `done` 0."""
    listener = _listener.get()
    if listener is not None and not listener.is_inside:
        listener.progress(step, done, total)


def told(step: str, items: Sequence[_Item]) -> Iterator[_Item]:
    """Yields the items of a step, and reports after each item how many items are done."""
    return counted(step, items, len(items))


def counted(step: str, items: Iterable[_Item], total: int) -> Iterator[_Item]:
    """Same as `told`, for an iterator of items whose length is given as `total`."""
    with counting(step, total) as tell_done:
        for done, item in enumerate(items, 1):
            yield item
            tell_done(done)


@contextmanager
def counting(step: str, total: int) -> Iterator[Callable[[int], None]]:
    """Treats the `with` block as one step; listeners get no reports about steps within the block.

    Yields:
      A function that reports how many units of the step are done.
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
