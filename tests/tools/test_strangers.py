"""Commands that run compiled files which somebody else has compiled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from litert_npu_tools.load_flags import LoadChoice
from litert_npu_tools.strangers import guarded

from litert.compiled_model import CompiledModel
from litert.core.errors import LiteRtError
from litert.hardware_accelerator import HardwareAccelerator
from litert.host.file_seal import user_seal
from litert.model.manifest import read_manifest, set_manifest
from litert.model.writer import write_model
from litert.options import Options
from tests.tools.conftest import LitertNpu, compiled_model

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def no_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LITERT_NPU_SANDBOX", raising=False)


@pytest.fixture
def sealed(in_folder: Path) -> str:
    """A file of this user's."""
    model = compiled_model()
    manifest = read_manifest(model)
    assert manifest
    set_manifest(model, replace(manifest, has_digest=True))
    write_model(model, "own.tflite", seal=user_seal(lambda text: pytest.fail(text)))
    return "own.tflite"


def is_guarded(path: str, sandbox: str = "", isolated: bool = False) -> tuple[bool, bool]:
    """Whether a file is isolated, and verified."""
    options = Options(HardwareAccelerator.NPU, sandbox=sandbox, isolated=isolated)
    guard = guarded(path, LoadChoice(options=options)).options
    assert guard is options or not options.verify  # the caller's own are as they were
    return guard.isolated, guard.verify


def test_a_file_of_this_users_runs_as_it_was_to(sealed: str, capsys: Capture) -> None:
    assert is_guarded(sealed) == (False, False)
    assert is_guarded(sealed, isolated=True) == (True, False)
    assert capsys.readouterr().err == ""


def test_another_users_file_is_isolated_and_verified(
    sealed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("LITERT_NPU_DATA_DIR", str(tmp_path / "another user's"))
    assert is_guarded(sealed) == (True, True)
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    assert "own.tflite was not compiled here by you: its seal is of another user" in text
    assert "--sandbox=off" in text


def test_a_file_without_a_seal_is_a_strangers(compiled: str, capsys: Capture) -> None:
    for mode in ("", "try", "require"):
        assert is_guarded(compiled, mode) == (True, True)
        assert "not compiled here by you" in capsys.readouterr().err


def test_who_asks_for_no_sandbox_gets_none(
    compiled: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    assert is_guarded(compiled, "off") == (False, False)
    monkeypatch.setenv("LITERT_NPU_SANDBOX", "off")
    assert is_guarded(compiled) == (False, False)
    assert capsys.readouterr().err == ""


def test_a_model_that_is_not_compiled_is_the_users(original: str, capsys: Capture) -> None:
    assert is_guarded(original) == (False, False)
    assert capsys.readouterr().err == ""


def test_a_changed_file_is_refused_before_it_runs(sealed: str) -> None:
    data = bytearray(Path(sealed).read_bytes())
    data[-1] ^= 1
    Path(sealed).write_bytes(data)
    with pytest.raises(LiteRtError, match="its digest is another"):
        is_guarded(sealed)


def test_run_says_whose_file_it_is(
    copying: str,
    litert_npu: LitertNpu,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    for place, is_strange in ((None, False), ("another user's", True)):
        if place:
            monkeypatch.setenv("LITERT_NPU_DATA_DIR", str(tmp_path / place))
        for flags in ([], ["--sandbox=off"]):
            assert litert_npu("run", copying, *flags) == 0
            told = "was not compiled here by you" in capsys.readouterr().err
            assert told == (is_strange and not flags)


def test_compare_runs_a_strangers_file_apart(
    copying: str,
    litert_npu: LitertNpu,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    ones = np.ones((1, 4, 6, 3), np.float32)
    np.savez("golden.npz", in0=ones, out0=ones / 2)
    loaded: list[tuple[bool, bool]] = []
    real = CompiledModel.from_file

    def from_file(path: str, **more: Any) -> CompiledModel:
        loaded.append((more["options"].isolated, more["options"].verify))
        return real(path, **more)

    monkeypatch.setattr(CompiledModel, "from_file", from_file)
    for place, is_strange in ((None, False), ("another user's", True)):
        if place:
            monkeypatch.setenv("LITERT_NPU_DATA_DIR", str(tmp_path / place))
        for flag, is_isolated in (
            ("-q", is_strange),
            ("--sandbox=off", False),
            ("--isolate", True),
        ):
            assert litert_npu("compare", copying, "--reference=golden.npz", flag) == 0
            is_told = is_strange and flag != "--sandbox=off"
            assert ("was not compiled here by you" in capsys.readouterr().err) == is_told
            assert set(loaded) == {(is_isolated, is_told)}
            loaded.clear()


@pytest.mark.parametrize("command", ["benchmark", "profile"])
def test_what_measures_says_that_a_strangers_kernels_run_inline(
    copying: str,
    command: str,
    litert_npu: LitertNpu,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    for place, is_strange in ((None, False), ("another user's", True)):
        if place:
            monkeypatch.setenv("LITERT_NPU_DATA_DIR", str(tmp_path / place))
        for flag in ("--threads=1", "--sandbox=off", "--isolate"):
            assert litert_npu(command, copying, "--runs=2", "--warm_up=0", flag) == 0
            told = "Its NPU calls run in this process" in capsys.readouterr().err
            assert told == (is_strange and flag == "--threads=1")


@pytest.mark.parametrize("command", ["benchmark", "profile"])
def test_what_measures_needs_no_seal_of_a_model(
    original: str, command: str, litert_npu: LitertNpu, capsys: Capture
) -> None:
    assert litert_npu(command, original, "--runs=2", "--warm_up=0") == 0
    assert "was not compiled here" not in capsys.readouterr().err
