"""Tests the search for the few items, among many, that are wrong only together."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from litert.analysis.bisection import bisect


@pytest.mark.parametrize(
    "needed", [[0], [699], [350], [350, 351], [10, 12, 17], [0, 350], [345, 346, 347, 348, 349]]
)
def test_what_is_needed_is_found_in_few_trials(needed: list[int]) -> None:
    trials: list[Sequence[int]] = []

    def is_wrong(some: Sequence[int]) -> bool:
        trials.append(some)
        return set(needed) <= set(some)

    found, is_smallest = bisect(range(700), is_wrong)
    assert list(found) == needed and is_smallest
    assert len(trials) <= 40
    assert all(list(some) == sorted(some) for some in trials)


def test_what_all_need_is_given_up_and_said() -> None:
    num_trials = 0

    def is_wrong(some: Sequence[int]) -> bool:
        nonlocal num_trials
        num_trials += 1
        return len(some) == 700

    assert bisect(range(700), is_wrong) == (range(700), False)
    assert num_trials < 50
