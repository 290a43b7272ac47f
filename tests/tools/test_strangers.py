"""Tests commands that run compiled files from other users."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from litert_npu_tools.load_flags import LoadChoice
from litert_npu_tools.strangers import guarded, open_guarded, tell_inline

from litert.compiled_model import CompiledModel
from litert.core.errors import LiteRtError
from litert.hardware_accelerator import HardwareAccelerator
from litert.host.file_seal import Maker, user_seal
from litert.isolated_model import IsolatedModel
from litert.model.manifest import read_manifest, set_manifest
from litert.model.reader import read_model
from litert.model.stamp import Stamp, set_stamp
from litert.model.writer import write_model
from litert.options import Options
from tests.runtime.npu_models import VENDORS, NpuModelBuilder
from tests.tools.conftest import LitertNpu, compiled_model

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def no_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LITERT_NPU_SANDBOX", raising=False)


@pytest.fixture
def sealed(in_folder: Path) -> str:
    """The path of a file that this user has compiled."""
    model = compiled_model()
    manifest = read_manifest(model)
    assert manifest
    set_manifest(model, replace(manifest, has_digest=True))
    write_model(model, "own.tflite", seal=user_seal(lambda text: pytest.fail(text)))
    return "own.tflite"


def is_isolated(path: str, sandbox: str = "", isolated: bool = False) -> bool:
    """Returns whether the command runs the file in a process of its own."""
    both = HardwareAccelerator.NPU | HardwareAccelerator.CPU
    choice = LoadChoice(options=Options(both, sandbox=sandbox, isolated=isolated))
    with open_guarded(path, choice, 60) as (model, signature):
        found = model.run({"image": np.ones((1, 4, 6, 3), np.float32)}, signature)
        assert (found["half"] == 0.5).all()
        return isinstance(model, IsolatedModel)


@pytest.fixture
def strange(copying: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The path of a compiled file of another user."""
    monkeypatch.setenv("LITERT_NPU_DATA_DIR", str(tmp_path / "another user's"))
    return copying


def test_a_file_of_this_users_runs_as_it_was_to(copying: str, capsys: Capture) -> None:
    assert not is_isolated(copying)
    assert not is_isolated(copying, isolated=True)
    assert "not compiled by you" not in capsys.readouterr().err


@pytest.mark.parametrize("isolated", [False, True])
def test_another_users_file_is_isolated(strange: str, capsys: Capture, isolated: bool) -> None:
    assert is_isolated(strange, isolated=isolated)
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    assert (
        "copying.tflite was not compiled by you on this machine: the seal comes from another user"
        in text
    )
    assert "--sandbox=off" in text


@pytest.mark.parametrize("missing", ["", "no Landlock"])
def test_a_sandbox_is_promised_where_there_is_one(
    strange: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture, missing: str
) -> None:
    monkeypatch.setattr("litert.host.sandbox.why_missing", lambda: missing)
    options = Options(HardwareAccelerator.NPU | HardwareAccelerator.CPU)
    tell_inline(strange, options)
    guarded(strange, LoadChoice(options=options))
    told = capsys.readouterr().err
    assert told.count("in a separate process") == 2
    assert told.count("in a separate process, in a sandbox") == (0 if missing else 2)


def test_a_file_without_a_seal_is_a_strangers(
    copying: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    with read_model(copying) as model:
        write_model(model, "unsealed.tflite")
    for mode in ("", "try"):
        assert is_isolated("unsealed.tflite", mode)
        assert "not compiled by you on this machine" in capsys.readouterr().err


def test_a_compiled_file_without_npu_calls_is_a_strangers_too(
    original: str, litert_npu: LitertNpu, capsys: Capture
) -> None:
    """Even without an NPU call, a stranger's graph may be malicious."""
    with read_model(original) as model:
        set_stamp(model, Stamp("Nobody", "NONE"))
        write_model(model, "stamped.tflite")
    assert litert_npu("run", "stamped.tflite") == 0
    assert "was not compiled by you on this machine" in capsys.readouterr().err


def test_who_asks_for_no_sandbox_gets_none(
    strange: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    assert not is_isolated(strange, "off")
    monkeypatch.setenv("LITERT_NPU_SANDBOX", "off")
    assert not is_isolated(strange)
    assert "not compiled by you" not in capsys.readouterr().err


def test_a_model_that_is_not_compiled_is_the_users(original: str, capsys: Capture) -> None:
    assert not is_isolated(original)
    assert "not compiled by you" not in capsys.readouterr().err


def test_a_changed_file_is_refused_before_it_runs(sealed: str) -> None:
    data = bytearray(Path(sealed).read_bytes())
    data[-1] ^= 1
    Path(sealed).write_bytes(data)
    with pytest.raises(LiteRtError, match="its digest does not match"):
        is_isolated(sealed)


@pytest.mark.parametrize("is_own", [True, False])
def test_what_takes_the_files_name_behind_the_check_is_not_loaded(
    copying: str, monkeypatch: pytest.MonkeyPatch, is_own: bool
) -> None:
    Path("other.tflite").write_bytes(b"no model at all")

    def check_and_swap(*arguments: object) -> Maker:
        os.replace("other.tflite", copying)
        return Maker(is_own, "" if is_own else "nobody knows")

    monkeypatch.setattr("litert.host.file_seal.find_maker", check_and_swap)
    assert is_isolated(copying) is not is_own


def test_a_run_is_reported_as_one_in_this_process(
    strange: str, litert_npu: LitertNpu, capsys: Capture
) -> None:
    np.save("in.npy", np.linspace(0, 1, 72, dtype=np.float32).reshape(1, 4, 6, 3))
    reports, arrays = [], []
    for flag in ("--sandbox=try", "--sandbox=off"):
        flags = ("--input=in.npy", "--output=out.npz", "--report=json", flag)
        assert litert_npu("run", strange, *flags) == 0
        report = json.loads(capsys.readouterr().out)
        reports.append({k: v for k, v in report.items() if not k.endswith("_s")})
        arrays.append(np.load("out.npz")["half"].tobytes())
    assert reports[0] == reports[1] and arrays[0] == arrays[1]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="where that division crashes")
def test_a_graph_that_crashes_stock_does_not_end_the_command(
    in_folder: Path, litert_npu: LitertNpu, capfd: Capture
) -> None:
    builder = NpuModelBuilder()
    x = builder.input("x", "float32", (1, 4))
    builder.output(builder.npu("double", [x], [("y", "float32", (1, 4))]))
    least = builder.input("least", "int32", (1,))
    one = builder.input("one", "int32", (1,))
    builder.output(builder.op("FLOOR_MOD", [least, one], [("m", "int32", (1,))]))
    Path("hostile.tflite").write_bytes(builder.bytes())
    least_and_one = {"least": np.array([-(2**31)], np.int32), "one": np.array([-1], np.int32)}
    np.savez("in.npz", **dict[str, Any]({"x": np.ones((1, 4), np.float32), **least_and_one}))
    flags = ("--input=in.npz", "--output=out.npz", f"--dispatch_library_path={VENDORS}")
    assert litert_npu("run", "hostile.tflite", *flags) == 2
    text = capfd.readouterr().err
    assert (
        "the model's process crashed in stock LiteRT's interpreter, op 1, FLOOR_MOD (SIGFPE" in text
    )
    assert not Path("out.npz").exists()


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
            told = "was not compiled by you on this machine" in capsys.readouterr().err
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
            assert ("was not compiled by you on this machine" in capsys.readouterr().err) == is_told
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
    assert "was not compiled by you" not in capsys.readouterr().err
