"""Tests progress without a terminal: lines on standard error, and only the report on standard output."""

from __future__ import annotations

import json

import pytest

from tests.tools.conftest import LitertNpu

Capture = pytest.CaptureFixture[str]


@pytest.mark.usefixtures("impatient")
def test_lines_go_to_standard_error_beside_a_report_for_machines(
    litert_npu: LitertNpu, capsys: Capture, copying: str
) -> None:
    assert litert_npu("benchmark", copying, "--runs=3", "--warm_up=1", "--report=json") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["model"]["runs"] == 3
    assert "\nfirst run: 00:00 passed\n" in err
    assert "\nmeasure: 4/4, 00:00 passed, 00:00 left\n" in err and "\r" not in err


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("flag", ["-q", "--quiet"])
def test_a_quiet_command_has_its_report_alone(
    litert_npu: LitertNpu, capsys: Capture, copying: str, flag: str
) -> None:
    assert litert_npu("benchmark", copying, "--runs=3", flag) == 0
    out, err = capsys.readouterr()
    assert "3 runs" in out and "measure" not in err
    assert litert_npu("benchmark", copying, "--runs=3") == 0  # not quiet any more
    assert "measure" in capsys.readouterr().err


def test_short_work_shows_no_progress(litert_npu: LitertNpu, capsys: Capture, copying: str) -> None:
    assert litert_npu("benchmark", copying, "--runs=3") == 0
    assert "measure" not in capsys.readouterr().err
