"""The harness measures what it says."""

from __future__ import annotations

import sys

import pytest

from benchmarks.harness import Comparison, alternate, at_most, megabytes, run_child, seconds


def test_sides_take_turns_and_turns_at_being_first() -> None:
    calls: list[str] = []
    alternate(lambda: calls.append("ours"), lambda: calls.append("peer"), runs=3, warm_up=1)
    pairs = [calls[i : i + 2] for i in range(0, len(calls), 2)]
    assert pairs == [["peer", "ours"], ["ours", "peer"], ["peer", "ours"], ["ours", "peer"]]


def test_the_ratio_is_of_pairs_not_of_medians() -> None:
    drifting = Comparison([1.0, 2.0, 4.0], [2.0, 4.0, 8.0])
    assert drifting.ratio == 0.5
    row = drifting.row("claim", 0.5)
    assert row.ratio == "0.50 (0.50-0.50)" and row.holds
    assert not drifting.row("claim", 0.4).holds


@pytest.mark.parametrize(
    ("code", "status"),
    [("pass", 0), ("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", -9)],
    ids=["success", "failure", "signal"],
)
def test_a_child_s_end_is_told(code: str, status: int) -> None:
    assert run_child([sys.executable, "-c", code]).status == status


def test_a_child_that_hangs_is_ended() -> None:
    child = run_child([sys.executable, "-c", "import time; time.sleep(60)"], timeout_s=0.5)
    assert child.status is None and child.wall_s < 30


def test_a_child_s_memory_is_its_own() -> None:
    ours = bytearray(300_000_000)
    child = run_child([sys.executable, "-c", "x = bytearray(100_000_000); print('done')"])
    assert child.output == "done\n"
    assert 100_000_000 < child.peak_bytes < len(ours)


def test_numbers_have_units() -> None:
    assert [seconds(s) for s in (1.234, 0.00345, 2.5e-05)] == ["1.23 s", "3.45 ms", "25 us"]
    assert megabytes(80e6) == "80 MB"
    assert not at_most("claim", 2.0, 1.0, seconds, "").holds
