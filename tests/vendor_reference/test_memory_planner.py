"""Tests the memory planner and its verifier: live buffers do not overlap, and the verifier finds faulty plans."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus.live_ranges import live_ranges_of
from litert.core.errors import LiteRtError
from vendor_reference.compiler import memory_planner
from vendor_reference.compiler.memory_planner import LiveRange, plan_memory
from vendor_reference.compiler.memory_spaces import (
    Demand,
    MemorySpace,
    choose_spaces,
    ranges_in,
)
from vendor_reference.compiler.memory_verifier import verify_plan
from vendor_reference.executable.executable import ALIGNMENT

sizes = st.integers(0, 5000)


@st.composite
def live_ranges(draw: st.DrawFn) -> list[LiveRange]:
    """Draws buffers in the order of their first steps; some take the place of a buffer that ends at that step."""
    buffers: list[LiveRange] = []
    for first in sorted(draw(st.lists(st.integers(0, 12), max_size=25))):
        ending = [i for i, b in enumerate(buffers) if b.last == first]
        operand = draw(st.sampled_from([None, *ending]))
        size = buffers[operand].size_bytes if operand is not None else draw(sizes)
        buffers.append(LiveRange(size, first, first + draw(st.integers(0, 8)), operand))
    return buffers


def _overlap(buffers: Sequence[LiveRange], offsets: Sequence[int]) -> bool:
    """Whether two buffers that are live at the same time share a byte, checked pair by pair."""

    def ends_in(a: LiveRange, b: int) -> bool:
        return a.in_place_of == b and buffers[b].first < buffers[b].last == a.first

    return any(
        (a.size_bytes and b.size_bytes)
        and a.first <= b.last
        and b.first <= a.last
        and offsets[i] < offsets[j] + b.size_bytes
        and offsets[j] < offsets[i] + a.size_bytes
        and not (offsets[i] == offsets[j] and (ends_in(a, j) or ends_in(b, i)))
        for i, a in enumerate(buffers)
        for j, b in enumerate(buffers[:i])
    )


@given(live_ranges())
def test_buffers_that_live_together_are_apart_aligned_and_inside(buffers: list[LiveRange]) -> None:
    plan = plan_memory(buffers)
    for buffer, offset in zip(buffers, plan.offsets, strict=True):
        assert offset >= 0 and offset % ALIGNMENT == 0 and offset + buffer.size_bytes <= plan.size
    assert not _overlap(buffers, plan.offsets)
    assert plan.lower_bound <= plan.size
    verify_plan(buffers, plan.offsets, plan.size)


@given(live_ranges(), st.data())
def test_the_verifier_sees_each_overlap_that_is_put_in(
    buffers: list[LiveRange], data: st.DataObject
) -> None:
    offsets = [64 * data.draw(st.integers(0, 90)) for _ in buffers]
    size = max((o + b.size_bytes for o, b in zip(offsets, buffers, strict=True)), default=0)
    if _overlap(buffers, offsets):
        with pytest.raises(LiteRtError, match="overlap in memory, although task"):
            verify_plan(buffers, offsets, size)
    else:
        verify_plan(buffers, offsets, size)


def test_a_place_that_is_not_aligned_or_outside_is_refused() -> None:
    buffers = [LiveRange(100, 0, 1)]
    for offset, fault in (
        (-64, "the negative offset -64"),
        (32, "offset 32, but the offset must be a multiple of 64"),
        (64, "100 bytes at offset 64, but the memory ends at offset 128"),
    ):
        with pytest.raises(LiteRtError, match=f"buffer 0 has {fault}"):
            verify_plan(buffers, [offset], 128)


def test_a_chain_needs_two_buffers() -> None:
    chain = [LiveRange(1000, step, step + 1) for step in range(100)]
    plan = plan_memory(chain)
    assert plan.size == plan.lower_bound == 2048


def test_a_chain_in_place_needs_one_buffer() -> None:
    chain = [LiveRange(1000, step, step + 1, step - 1 if step else None) for step in range(100)]
    assert plan_memory(chain).size == 1024


def test_two_results_do_not_share_the_place_of_one_operand() -> None:
    plan = plan_memory([LiveRange(64, 0, 1), LiveRange(64, 1, 1, 0), LiveRange(64, 1, 2, 0)])
    assert plan.offsets[1] != plan.offsets[2]


def test_what_dies_makes_room() -> None:
    plan = plan_memory([LiveRange(640, 0, 1), LiveRange(64, 1, 3), LiveRange(640, 2, 3)])
    assert plan.offsets == [0, 640, 0] and plan.size == 704


def test_an_order_is_improved_until_nothing_is_wasted() -> None:
    """Checks an order that simple ones do not find: largest or longest first takes 64 * 26 bytes."""
    buffers = [
        LiveRange(64 * size, first, last)
        for size, first, last in (
            (6, 4, 8), (4, 5, 8), (4, 5, 5), (3, 1, 5), (1, 7, 9), (5, 3, 7), (6, 7, 9), (2, 4, 8),
            (3, 3, 4), (3, 3, 3),
        )
    ]  # fmt: skip
    plan = plan_memory(buffers)
    assert plan.size == plan.lower_bound == 64 * 24


def test_nothing_needs_nothing() -> None:
    assert plan_memory([]).size == 0
    assert choose_spaces([], 1024) == []


def test_real_networks_are_planned_within_a_twentieth_of_the_bound(networks: Path) -> None:
    for path in sorted(networks.glob("*.tflite")):
        buffers = live_ranges_of(path)
        plan = plan_memory(buffers)
        verify_plan(buffers, plan.offsets, plan.size)
        assert plan.size <= 1.05 * plan.lower_bound, path.name


@given(live_ranges(), st.integers(0, 9000), st.data())
def test_the_scratchpad_is_never_overfull(
    buffers: list[LiveRange], cmx_size: int, data: st.DataObject
) -> None:
    demands = [
        Demand(b, data.draw(st.integers(0, 9999)), data.draw(st.booleans())) for b in buffers
    ]
    spaces = choose_spaces(demands, cmx_size)
    for demand, space in zip(demands, spaces, strict=True):
        assert space is MemorySpace.DDR or not demand.is_ddr_only
    for space, limit in ((MemorySpace.CMX, cmx_size), (MemorySpace.DDR, None)):
        members, ranges = ranges_in(buffers, spaces, space)
        assert [buffers[index].size_bytes for index in members] == [r.size_bytes for r in ranges]
        plan = plan_memory(ranges)
        verify_plan(ranges, plan.offsets, plan.size)
        assert limit is None or plan.size <= limit


def test_the_busiest_buffer_gets_the_scratchpad() -> None:
    lazy, busy = Demand(LiveRange(1024, 0, 3), 2048), Demand(LiveRange(1024, 0, 3), 9000)
    assert choose_spaces([lazy, busy], 1024) == [MemorySpace.DDR, MemorySpace.CMX]


def test_local_memory_is_taken_off_the_scratchpad() -> None:
    demand = Demand(LiveRange(1024, 0, 3), 2048)
    assert choose_spaces([demand], 2048, [0, 1024]) == [MemorySpace.CMX]
    assert choose_spaces([demand], 2048, [0, 1025]) == [MemorySpace.DDR]


def test_local_memory_that_is_more_than_the_scratchpad_leaves_it_to_nobody() -> None:
    demand = Demand(LiveRange(64, 0, 3), 2048)
    assert choose_spaces([demand], 2048, [4096]) == [MemorySpace.DDR]


def test_a_plan_is_made_once_for_buffers_and_their_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    buffers = [LiveRange(100, 0, 1), LiveRange(100, 1, 2, 0), LiveRange(30, 1, 2)]
    plan = plan_memory(buffers)
    monkeypatch.setattr(memory_planner, "_Placing", None)
    groups, group_of = memory_planner.merge_in_place(buffers)
    assert [plan_memory(groups).offsets[group] for group in group_of] == plan.offsets
