"""Finds a small subset of things that still fails, with few trials."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_MOST_TRIALS = 24
"""Maximum number of trials in which things in the middle of the sequence are omitted; a trial may take long."""

IsWrong = Callable[[Sequence[int]], bool]


def bisect(things: Sequence[int], is_wrong: IsWrong) -> tuple[Sequence[int], bool]:
    """Finds a small subset of things that fails as the full set does.

    First finds, by bisection, the shortest failing beginning of the sequence, then the shortest failing end of
    this beginning. Then tries to remove parts in between; the parts become smaller and smaller.

    Args:
      things: The things, ordered so that things that fail together are close to each other.
      is_wrong: Function that returns whether a subset fails; the subset is in the original order.

    Returns:
      The failing subset, in the original order; and whether the failure disappears if any single thing is removed
      from the subset.
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
    """Removes unneeded things between the first and the last, which are both needed."""
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
