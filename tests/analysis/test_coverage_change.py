"""Tests what differs from an earlier coverage report, and which differences count as worse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from litert.analysis.coverage import Coverage, ModelCoverage
from litert.analysis.coverage_change import (
    EarlierModel,
    EarlierOp,
    EarlierReport,
    ModelChange,
    find_change,
)
from litert.analysis.op_coverage import OpCoverage

WHY = "no rule for int8"


def op(index: int, call: str = "", name: str = "ADD", composite: str = "") -> OpCoverage:
    output = f"t{index}"
    return OpCoverage(0, index, name, composite, output, "int8", call, "" if call else WHY, 0, 1, 2)


def model(ops: Sequence[OpCoverage], path: str = "m.tflite", problem: str = "") -> ModelCoverage:
    calls = {op.call for op in ops if op.call}
    return ModelCoverage(path, problem, len(ops), num_calls=len(calls), ops=ops)


def coverage(*models: ModelCoverage) -> Coverage:
    return Coverage("Acme", "A1", "2.0", models, ())


def earlier(*models: ModelCoverage) -> EarlierReport:
    before = [
        EarlierModel(
            m.path,
            m.problem,
            m.num_calls,
            [EarlierOp(o.subgraph, o.index, o.name, o.composite, o.output, o.call) for o in m.ops],
        )
        for m in models
    ]
    return EarlierReport("Acme", "A1", "1.0", "0.1.0", before)


def change(before: Sequence[OpCoverage], now: Sequence[OpCoverage]) -> ModelChange:
    (found,) = find_change("old.json", earlier(model(before)), coverage(model(now))).models
    return found


def ops(calls: str) -> list[OpCoverage]:
    """Returns an op for each letter, which names the op's call; `.` stands for the CPU."""
    return [op(index, "" if call == "." else call) for index, call in enumerate(calls)]


@pytest.mark.parametrize(
    ("before", "now", "is_worse", "left", "came", "splits"),
    [
        ("AAA", "XXX", False, [], [], []),
        ("AA.", "AAA", False, [], [2], []),
        ("AAA", "AA.", True, [2], [], []),
        ("AAAA", "AABB", True, [], [], ["A"]),
        ("A.A.", "ABAC", False, [], [1, 3], []),  # more calls, but for more ops
        ("AABB", "ABBA", False, [], [], ["A", "B"]),  # split differently, but into as many calls
        ("A.AB", "A.CB", True, [], [], ["A"]),
        ("AA..", "..AA", True, [0, 1], [2, 3], []),  # as many ops, but different ones
    ],
)
def test_what_is_worse(
    before: str, now: str, is_worse: bool, left: list[int], came: list[int], splits: list[str]
) -> None:
    found = change(ops(before), ops(now))
    assert found.is_worse is is_worse
    assert [move.index for move in found.left] == left
    assert {move.reason for move in found.left} <= {WHY}
    assert [move.index for move in found.came] == came
    assert [split.call for split in found.splits] == splits


def test_a_composite_leaves_in_part() -> None:
    whole = [op(0, "A", "STABLEHLO_COMPOSITE", "acme.norm")]
    parts = [op(0, "A", "MUL", "acme.norm"), op(0, "", "RSQRT", "acme.norm")]
    found = change(whole, parts)
    assert found.is_worse and [(m.name, m.reason) for m in found.left] == [("acme.norm", WHY)]
    assert not change(parts, whole).is_worse and change(parts, whole).came


def test_ops_that_transformations_make_go_by_their_outputs() -> None:
    made = replace(op(-1, "A"), output="made")
    found = change([op(0, "A"), made], [op(0, "A"), replace(made, call="", reason=WHY)])
    assert [move.output for move in found.left] == ["made"]
    fused = change([*ops("AAA")], [op(0, "A"), replace(op(-1, "A"), output="t2")])
    assert not fused.problem and not fused.is_worse


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (lambda: [op(0, "A"), op(1, "A", "MUL")], "op 1 of subgraph 0 was ADD, and is now MUL"),
        (lambda: ops("AAA"), "op 2 of subgraph 0 is new"),
        (lambda: ops("A"), "op 1 of subgraph 0 is gone"),
    ],
)
def test_another_model_is_not_compared(now: Callable[[], list[OpCoverage]], words: str) -> None:
    found = change(ops("AA"), now())
    assert found.problem == f"the models differ: {words}" and not found.is_worse


def test_a_problem_is_worse_where_there_was_none() -> None:
    fine, broken = model(ops("A")), model((), problem="the plugin has crashed")
    for before, now, is_worse in (
        (fine, broken, True),
        (broken, broken, False),
        (broken, fine, False),
    ):
        found = find_change("old.json", earlier(before), coverage(now))
        assert found.is_worse is is_worse and not found.models[0].is_same


def test_models_go_by_path_and_then_by_name() -> None:
    before = [model(ops("A"), path) for path in ("a/x", "b/x", "a/y", "gone", "a/z", "b/z")]
    now = [model(ops("A"), path) for path in ("a/x", "c/x", "c/y", "new", "c/z")]
    found = find_change("old.json", earlier(*before), coverage(*now))
    assert [m.path for m in found.models] == ["a/x", "c/x", "c/y"]
    assert found.new == ["new", "c/z"] and found.missing == ["gone", "a/z", "b/z"]
    assert not found.is_worse and all(m.is_same for m in found.models)
