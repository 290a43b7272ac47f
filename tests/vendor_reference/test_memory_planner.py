"""The memory planner: buffers that live together are apart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vendor_reference.compiler.memory_planner import ALIGNMENT, LiveRange, plan_memory

live_ranges = st.builds(
    lambda size, first, length: LiveRange(size, first, first + length),
    st.integers(0, 5000),
    st.integers(0, 20),
    st.integers(0, 10),
)


@given(st.lists(live_ranges, max_size=30))
def test_buffers_that_live_together_are_apart_aligned_and_inside(buffers: list[LiveRange]) -> None:
    plan = plan_memory(buffers)
    places = list(zip(buffers, plan.offsets, strict=True))
    for index, (a, at) in enumerate(places):
        assert at >= 0 and at % ALIGNMENT == 0 and at + a.size_bytes <= plan.size
        for b, other in places[:index]:
            together = a.first <= b.last and b.first <= a.last
            apart = at + a.size_bytes <= other or other + b.size_bytes <= at
            assert apart or not together
    assert plan.lower_bound <= plan.size


def test_a_chain_needs_two_buffers() -> None:
    chain = [LiveRange(1000, step, step + 1) for step in range(100)]
    plan = plan_memory(chain)
    assert plan.size == plan.lower_bound == 2048


def test_what_dies_makes_room() -> None:
    plan = plan_memory([LiveRange(640, 0, 1), LiveRange(64, 1, 3), LiveRange(640, 2, 3)])
    assert plan.offsets == [0, 640, 0] and plan.size == 704


def test_nothing_needs_nothing() -> None:
    assert plan_memory([]).size == 0
