"""Tests `litert-npu opt`, which runs passes of the reference compiler on IR text."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.tools.conftest import LitertNpu

TEXT = """\
func.func private @Halves(tensor<4xf32>) -> tensor<4xf32> attributes {IE.input_precisions = [f16]}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @Halves(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
"""


@pytest.fixture
def path(in_folder: Path) -> Path:
    (in_folder / "in.mlir").write_text(TEXT)
    return in_folder / "in.mlir"


def test_passes_run_on_a_text(
    path: Path, litert_npu: LitertNpu, capsys: pytest.CaptureFixture[str]
) -> None:
    assert litert_npu("opt", "in.mlir", "--passes=convert-precisions,adjust-layouts") == 0
    assert "IE.Convert(%x)" in capsys.readouterr().out


def test_what_passes_leave_is_taken_up_again(
    path: Path, litert_npu: LitertNpu, capsys: pytest.CaptureFixture[str]
) -> None:
    assert litert_npu("opt", path, "--passes=convert-precisions", "-o", "out.mlir") == 0
    written = Path("out.mlir").read_text()
    assert litert_npu("opt", "out.mlir") == 0
    assert capsys.readouterr().out == written


def test_a_text_comes_from_the_standard_input(
    litert_npu: LitertNpu, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(TEXT.encode())))
    assert litert_npu("opt", "-", "--soc_model=EMU4") == 0
    assert 'attributes {VPUIP.soc = "EMU4"}' in capsys.readouterr().out


def test_passes_are_listed(litert_npu: LitertNpu, capsys: pytest.CaptureFixture[str]) -> None:
    assert litert_npu("opt", "--list_passes") == 0
    assert capsys.readouterr().out.splitlines()[0].startswith("convert-precisions")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["in.mlir", "--passes=nothing"], "there is no compiler pass 'nothing'"),
        (["in.mlir", "--soc_model=EMU5"], "no SoC model 'EMU5'"),
        (["in.mlir", "-o", "in.mlir"], "the output file is also an input file"),
        (["missing.mlir"], "missing.mlir"),
        (["."], "INVALID_ARGUMENT"),
        ([], "the command line has no file"),
        (["in.mlir", "again.mlir"], "accepts at most 1 argument, but the command line has 2"),
    ],
)
def test_what_is_wrong_is_said(
    path: Path,
    litert_npu: LitertNpu,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    assert litert_npu("opt", *arguments) == 2
    assert message in capsys.readouterr().err
    assert path.read_text() == TEXT


def test_a_wrong_text_is_refused_with_its_line_and_writes_nothing(
    path: Path, litert_npu: LitertNpu, capsys: pytest.CaptureFixture[str]
) -> None:
    path.write_text(TEXT.replace("func.call @Halves", "func.call @Doubles"))
    assert litert_npu("opt", "in.mlir", "-o", "out.mlir") == 2
    assert "@Doubles" in (message := capsys.readouterr().err) and "in.mlir:3:3" in message
    assert not Path("out.mlir").exists()


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--timeout=0.1", "TIMEOUT_EXPIRED: the reference compiler did not finish"),
        ("--memory=128", "needs more than 128 MiB (in.mlir). Raise the limit with --memory."),
    ],
)
def test_a_text_takes_no_more_than_it_may(
    path: Path, litert_npu: LitertNpu, capsys: pytest.CaptureFixture[str], flag: str, message: str
) -> None:
    path.write_text("builtin.module attributes {a = [" + "{b = [0 : i8]}, " * 100_000 + "unit]} {}")
    assert litert_npu("opt", "in.mlir", flag, "-o", "out.mlir") == 2
    assert message in capsys.readouterr().err
    assert not Path("out.mlir").exists()
