"""A search for few things that fail together, with few trials."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_MOST_TRIALS = 24
"""Limit on the trials that leave out things in the middle, since a trial may take long."""

IsWrong = Callable[[Sequence[int]], bool]


def bisect(things: Sequence[int], is_wrong: IsWrong) -> tuple[Sequence[int], bool]:
    """Finds a small subset of things that fails as all of them do.

    Bisects for the shortest failing beginning and then for its shortest failing end; then leaves out ever smaller
    parts in between.

    Args:
      things: The things, ordered so that things that fail together lie close to each other.
      is_wrong: Function that tells whether a subset, in order, fails.

    Returns:
      The subset, in order; and whether leaving out any single thing of it makes the failure vanish.
    """
    count = _shortest(len(things), lambda size: is_wrong(things[:size]))
    things = things[:count]
    count = _shortest(len(things), lambda size: is_wrong(things[len(things) - size :]))
    return _leave_out(things[len(things) - count :], is_wrong)


def _shortest(count: int, is_wrong: Callable[[int], bool]) -> int:
    """Finds the least failing size by bisection; `count` fails."""
    right = 0
    while count - right > 1:
        middle = (right + count) // 2
        if is_wrong(middle):
            count = middle
        else:
            right = middle
    return count


def _leave_out(things: Sequence[int], is_wrong: IsWrong) -> tuple[Sequence[int], bool]:
    """Leaves out unneeded things between the first and the last, which are needed."""
    trials, size = 0, len(things) - 2
    start = 1
    while size > 0:
        if start >= len(things) - 1:
            start, size = 1, size // 2
            continue
        if trials == _MOST_TRIALS:
            return things, False
        trials += 1
        end = min(start + size, len(things) - 1)
        fewer = [*things[:start], *things[end:]]
        if is_wrong(fewer):
            things = fewer
        else:
            start = end
    return things, True
