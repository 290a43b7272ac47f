"""Tests that ops are grouped without cycles between groups."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from litert_npu_tools.page.grouping import GroupedOp, group_ops


def reads_of(groups: list[int], ops: list[GroupedOp]) -> set[tuple[object, object]]:
    """Returns pairs of groups, where the second reads from the first; an op without a group counts as a group."""
    unit = [group if group >= 0 else f"op {index}" for index, group in enumerate(groups)]
    return {
        (unit[read], unit[index])
        for index, op in enumerate(ops)
        for read in op.reads
        if unit[read] != unit[index]
    }


def has_cycle(edges: set[tuple[object, object]]) -> bool:
    while edges:
        sources = {source for source, _ in edges}
        kept = {(a, b) for a, b in edges if b in sources}
        if kept == edges:
            return True
        edges = kept
    return False


@st.composite
def cpu_graphs(draw: st.DrawFn) -> list[GroupedOp]:
    count = draw(st.integers(1, 90))
    return [
        GroupedOp("Op", draw(st.lists(st.integers(0, index - 1), max_size=3)) if index else [])
        for index in range(count)
    ]


@given(cpu_graphs())
def test_blocks_close_no_cycle_and_ops_follow_what_they_read(ops: list[GroupedOp]) -> None:
    groups, _, order = group_ops(ops)
    assert sorted(order) == list(range(len(ops)))
    place = {position: index for index, position in enumerate(order)}
    assert all(place[read] < place[i] for i, op in enumerate(ops) for read in op.reads)
    assert not has_cycle(reads_of(groups, ops))


def test_the_ops_of_a_call_are_a_group_also_where_others_run_between_them() -> None:
    ops = [
        GroupedOp("A", [], "Call"),
        GroupedOp("B", []),
        GroupedOp("A", [0], "Call"),
        GroupedOp("C", [1, 2]),
    ]
    groups, made, _ = group_ops(ops)
    assert groups == [0, -1, 0, -1]
    assert [(group.name, group.about, group.call) for group in made] == [("Call", "2 A", "Call")]


def test_a_long_chain_is_blocks_and_an_op_on_constants_goes_where_it_is_read() -> None:
    ops = [GroupedOp("DEQUANTIZE", [], is_constant=True), GroupedOp("CONV_2D", [])]
    ops += [GroupedOp("CONV_2D", [index - 1]) for index in range(2, 100)]
    ops[60] = GroupedOp("CONV_2D", [59, 0])
    groups, made, _ = group_ops(ops)
    assert 4 <= len(made) <= 13 and -1 not in groups
    assert groups[0] == groups[60] != groups[1]


def test_a_cut_is_where_the_fewest_values_cross() -> None:
    """In a residual network, groups end where residual blocks end."""
    ops = [GroupedOp("ADD", [])]
    for _ in range(8):
        start = len(ops) - 1
        ops += [GroupedOp("CONV_2D", [start + i]) for i in range(7)]
        ops.append(GroupedOp("ADD", [start, start + 7]))
    groups, _, _ = group_ops(ops)
    ends = [i for i in range(len(ops) - 1) if groups[i] != groups[i + 1]]
    assert ends and all(ops[end].name == "ADD" for end in ends)


@pytest.mark.parametrize("reads", [[[1], [0]], [[0]]])
def test_a_graph_with_a_cycle_is_grouped_all_the_same(reads: list[list[int]]) -> None:
    _, _, order = group_ops([GroupedOp("Op", read) for read in reads])
    assert sorted(order) == list(range(len(reads)))
