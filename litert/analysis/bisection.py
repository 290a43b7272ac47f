"""Fewer and fewer things that are wrong together, in few trials."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_MOST_TRIALS = 24
"""With which things are left out in between, where each trial may take long."""

IsWrong = Callable[[Sequence[int]], bool]


def bisect(things: Sequence[int], is_wrong: IsWrong) -> tuple[Sequence[int], bool]:
    """Finds few of some things that are wrong together, as all of them are.

    First a shortest beginning that is wrong, then a shortest end of it, by halves; then what is left out in
    between, in ever smaller parts.

    Args:
      things: in an order in which those that are wrong together lie close to each other.
      is_wrong: whether some of them are wrong; in their order.

    Returns:
      Them, in their order; and whether all are needed, as far as leaving out single ones tells.
    """
    count = _shortest(len(things), lambda size: is_wrong(things[:size]))
    things = things[:count]
    count = _shortest(len(things), lambda size: is_wrong(things[len(things) - size :]))
    return _leave_out(things[len(things) - count :], is_wrong)


def _shortest(count: int, is_wrong: Callable[[int], bool]) -> int:
    """The least size that is wrong, where `count` is."""
    right = 0
    while count - right > 1:
        middle = (right + count) // 2
        if is_wrong(middle):
            count = middle
        else:
            right = middle
    return count


def _leave_out(things: Sequence[int], is_wrong: IsWrong) -> tuple[Sequence[int], bool]:
    """Leaves out what is not needed between the first and the last, both of which are."""
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
