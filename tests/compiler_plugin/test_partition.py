"""Tests grouping ops into partitions that are few and large and never form a cycle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler_plugin.dependencies import find_execution_order
from compiler_plugin.partition import find_partitions, keep_largest, split

Graph = Sequence[Sequence[int]]


def neighbours_of(graph: Graph, partitions: Sequence[Sequence[int]]) -> dict[int, set[int]]:
    """Returns, for each node, the nodes that it waits for; a partition is one node, named by its first op."""
    node = {op: partition[0] for partition in partitions for op in partition}
    edges: dict[int, set[int]] = {node.get(op, op): set() for op in range(len(graph))}
    for op, all_before in enumerate(graph):
        edges[node.get(op, op)].update(node.get(before, before) for before in all_before)
    return {op: before - {op} for op, before in edges.items()}


def has_cycle(graph: Graph, partitions: Sequence[Sequence[int]]) -> bool:
    waiting = neighbours_of(graph, partitions)
    while ready := [node for node, before in waiting.items() if not before]:
        for node in ready:
            del waiting[node]
        for before in waiting.values():
            before.difference_update(ready)
    return bool(waiting)


def is_connected(graph: Graph, partition: Sequence[int]) -> bool:
    reached, changed = {partition[0]}, True
    while changed:
        changed = False
        for op in partition:
            for before in graph[op]:
                if before in partition and (op in reached) != (before in reached):
                    reached.update((op, before))
                    changed = True
    return len(reached) == len(partition)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[list[int]], dict[int, int]]:
    size = draw(st.integers(1, 30))
    window = draw(st.sampled_from([2, 5, 30]))
    graph = [
        sorted(draw(st.sets(st.integers(max(0, op - window), op - 1), max_size=3))) if op else []
        for op in range(size)
    ]
    indices = st.integers(0, draw(st.integers(0, 2)))
    return graph, draw(st.dictionaries(st.integers(0, size - 1), indices))


@pytest.mark.parametrize(
    ("graph", "selected", "partitions"),
    [
        pytest.param([[], [0], [1]], [0, 1, 2], [[0, 1, 2]], id="a chain"),
        pytest.param([[], [0], [1]], [0, 2], [[0], [2]], id="the cpu between"),
        pytest.param([[], [0], [0, 1]], [0, 2], [[0], [2]], id="a way around through the cpu"),
        pytest.param([[], [0], [0]], [1, 2], [[1], [2]], id="islands"),
        pytest.param([[], [0], [0], [1, 2]], [0, 1, 2, 3], [[0, 1, 2, 3]], id="a diamond"),
        pytest.param([[], [0], [0], [1, 2]], [0, 1, 3], [[0, 1], [3]], id="half a diamond"),
        pytest.param([[], [], [0, 1]], [1, 2], [[1, 2]], id="the cpu in front"),
        pytest.param(
            [[], [0], [1], [], [2, 3]], [0, 2, 3, 4], [[0], [2, 3, 4]], id="a constant far behind"
        ),
        pytest.param(
            [[], [], [0], [2, 1], [1]], [0, 1, 3, 4], [[0], [1, 3, 4]], id="levels that can merge"
        ),
        pytest.param(
            [[], [], [0], [1], [2, 1], [3, 0]],
            [0, 1, 4, 5],
            [[0], [1, 4], [5]],
            id="two that may merge, but not both",
        ),
        pytest.param([[]], [], [], id="nothing selected"),
        pytest.param([], [], [], id="no op"),
    ],
)
def test_partitions_are_as_large_as_can_be(
    graph: Graph, selected: list[int], partitions: list[list[int]]
) -> None:
    assert find_partitions(graph, dict.fromkeys(selected, 0)) == partitions


def test_ops_of_different_indices_never_share_a_partition() -> None:
    chain: Graph = [[], [0], [1], [2]]
    assert find_partitions(chain, {0: 7, 1: 7, 2: 3, 3: 7}) == [[0, 1], [2], [3]]


@given(graphs())
def test_a_partition_never_closes_a_cycle(case: tuple[Graph, Mapping[int, int]]) -> None:
    graph, selected = case
    partitions = find_partitions(graph, selected)
    assert not has_cycle(graph, partitions)
    assert sorted(op for partition in partitions for op in partition) == sorted(selected)
    for partition in partitions:
        assert list(partition) == sorted(partition)
        assert is_connected(graph, partition)
        assert len({selected[op] for op in partition}) == 1


@given(graphs())
def test_no_two_neighbours_could_be_one_partition(case: tuple[Graph, Mapping[int, int]]) -> None:
    graph, selected = case
    partitions = find_partitions(graph, selected)
    by_name = {partition[0]: partition for partition in partitions}
    for node, all_before in neighbours_of(graph, partitions).items():
        for before in all_before:
            if node in by_name and before in by_name and selected[node] == selected[before]:
                others = [p for name, p in by_name.items() if name not in (node, before)]
                assert has_cycle(graph, [*others, by_name[node] + by_name[before]])


@given(graphs())
def test_the_halves_of_partitions_close_no_cycle(case: tuple[Graph, Mapping[int, int]]) -> None:
    graph, selected = case
    partitions = find_partitions(graph, selected)
    while any(len(partition) > 1 for partition in partitions):
        parts = [split(p, graph) if len(p) > 1 else [p] for p in partitions]
        partitions = [part for some in parts for part in some]
        assert not has_cycle(graph, partitions)
        assert all(is_connected(graph, partition) for partition in partitions)
    assert sorted(partitions) == [[op] for op in sorted(selected)]


@given(graphs())
def test_all_run_after_what_they_wait_for(case: tuple[Graph, Mapping[int, int]]) -> None:
    graph, selected = case
    partitions = find_partitions(graph, selected)
    order = find_execution_order(graph, partitions)
    names = {op: ~index for index, partition in enumerate(partitions) for op in partition}
    assert sorted(order) == sorted({names.get(op, op) for op in range(len(graph))})
    place = {node: index for index, node in enumerate(order)}
    for op, all_before in enumerate(graph):
        for before in all_before:
            here, there = names.get(op, op), names.get(before, before)
            assert here == there or place[there] < place[here]


def test_the_order_is_kept_where_nothing_asks_for_another() -> None:
    graph: Graph = [[], [0], [], [1], [2]]
    assert find_execution_order(graph, [[1, 3]]) == [0, 2, ~0, 4]


def test_an_op_moves_only_to_come_before_the_call_that_needs_it() -> None:
    # Op 1 waits for the call of ops 0 and 4, which waits for op 3.
    graph: Graph = [[], [0], [], [], [0, 3]]
    assert find_execution_order(graph, [[0, 4]]) == [3, ~0, 1, 2]


def test_the_largest_partitions_stay_where_there_is_a_limit() -> None:
    partitions = [[0], [1, 2], [3], [4, 5, 6]]
    assert keep_largest(partitions, 2) == [1, 3]
    assert keep_largest(partitions, 3) == [0, 1, 3]
    assert keep_largest(partitions, 0) == keep_largest(partitions, 9) == [0, 1, 2, 3]


@pytest.mark.parametrize("each", [1, 2, 3], ids=["all", "every second", "every third"])
def test_ten_thousand_ops_are_grouped(each: int) -> None:
    size = 10_000
    graph = [[op - 1, *([0] if op > 1 else [])] if op else [] for op in range(size)]
    partitions = find_partitions(graph, dict.fromkeys(range(0, size, each), 0))
    assert len(partitions) == (1 if each == 1 else len(range(0, size, each)))
    assert len(find_execution_order(graph, partitions)) == len(partitions) + size - len(
        range(0, size, each)
    )
