"""Tests the measurements of the benchmark harness."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import benchmarks.__main__ as command
from benchmarks.harness import Comparison, Row, alternate, at_most, megabytes, run_child, seconds
from benchmarks.loaded import limit_driver_threads
from vendor_reference.drivers.driver import known_drivers


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


def test_a_clean_clone_has_a_folder_for_the_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    build = tmp_path / "build" / "benchmarks"

    def measure() -> list[Row]:
        (build / "model.tflite").touch()
        return [at_most("claim", 1.0, 2.0, seconds, "")]

    monkeypatch.setattr(command, "BUILD", build)
    monkeypatch.setattr(command, "_benchmarks", lambda: {"one": measure})
    command.main(["one"])
    assert "claim  1.00 s" in capsys.readouterr().out


def test_threads_are_limited_whichever_driver_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {d.threads_variable for d in known_drivers().values() if d.threads_variable}
    assert len(variables) > 1
    for variable in variables:
        monkeypatch.setenv(variable, "7")
    limit_driver_threads(1)
    assert {os.environ[variable] for variable in variables} == {"1"}
