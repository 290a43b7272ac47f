"""Tests which local sizes are candidates, and when one counts as better."""

from __future__ import annotations

from math import prod

from hypothesis import given
from hypothesis import strategies as st

from vendor_reference.authoring.local_sizes import find_candidates, is_clearly_better

sizes = st.lists(st.integers(1, 600), min_size=2, max_size=2)


@given(st.lists(sizes, min_size=1, max_size=3), st.integers(1, 512), st.integers(1, 30))
def test_candidates_divide_all_and_fit_the_device(
    global_sizes: list[list[int]], most_items: int, most: int
) -> None:
    first, *others = find_candidates(global_sizes, most_items, most)
    assert first == () and len(others) < most and len(set(others)) == len(others)
    for local in others:
        assert prod(local) <= most_items
        assert all(g % n == 0 for size in global_sizes for g, n in zip(size, local, strict=True))


def test_the_likely_ones_come_first() -> None:
    assert find_candidates([[1024]], 4096, 4) == [(), (64,), (128,), (32,)]
    assert find_candidates([[96], [64]], 4096, 9)[1:] == [(32,), (16,), (8,), (4,), (2,), (1,)]


def test_better_is_by_much_and_nearly_always() -> None:
    old = [10.0] * 8
    assert is_clearly_better([9.0] * 8, old)
    assert not is_clearly_better([9.8] * 8, old)
    assert not is_clearly_better([9.0] * 5 + [11.0] * 3, old)
    assert not is_clearly_better(old, old)


def test_what_a_clock_hardly_tells_is_not_better() -> None:
    assert not is_clearly_better([0.2e-6] * 8, [0.3e-6] * 8)
    assert is_clearly_better([3e-6] * 8, [5e-6] * 8)
