"""Tests that an output in a missing folder is an error: no command creates the folders above its output."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from litert_npu_tools import destinations
from litert_npu_tools.apply_plugin import guarded_main as apply_plugin

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from tests.tools.conftest import LitertNpu

MODEL = "--model=model.tflite"
COMMANDS = {
    "layer new": ["layer", "new", MODEL, "-o", "no/such"],
    "layer stub": ["layer", "stub", MODEL, "-o", "no/such"],
    "layer build": ["layer", "build", "Mine.cl", MODEL, "-o", "no/such.bin"],
    "layer run": ["layer", "run", "Mine.cl", MODEL, "--output=no/such.npz"],
    "compare": ["compare", "negate.tflite", "--bisect=no/such"],
    "run": ["run", "negate.tflite", "--output=no/such.npz"],
    "transform": ["transform", "negate.tflite", "no/such.tflite"],
    "inspect": ["inspect", "negate.tflite", "--extract=metadata:said", "--output=no/such"],
    "opt": ["opt", "empty.mlir", "--o=no/such.mlir"],
    "vendor new": ["vendor", "new", "Tin", "-o", "no/such"],
    "vendor export": ["vendor", "export", "--manufacturer=Null", "--output=no/such"],
}
DUMPS = {
    "levels": "--dump_ir_after=all",
    "kernels": "--dump_kernels",
    "models": "--dump_model_after=all",
}


@pytest.fixture(autouse=True)
def files(in_folder: Path) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (4,))
    b.output(b.custom("Mine", [x], [("y", "float32", (4,))]))
    write_model(b.build(), "model.tflite")
    b = ModelBuilder()
    b.output(b.op("NEG", [b.input("x", "float32", (4,))], [("y", "float32", (4,))]))
    b.metadata("said", b"words")
    write_model(b.build(), "negate.tflite")
    (in_folder / "empty.mlir").write_text("module {}")
    (in_folder / "Mine.cl").write_text(
        "__kernel void Mine(__global const float* x, __global float* y) {"
        " y[get_global_id(0)] = x[get_global_id(0)]; }"
    )


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_a_command_makes_no_folder_on_the_way_to_its_output(
    litert_npu: LitertNpu, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert litert_npu(*arguments) == 2
    assert "NOT_FOUND: the directory of the output does not exist (no)" in capsys.readouterr().err
    assert not Path("no").exists()


@pytest.mark.parametrize("flag", DUMPS.values(), ids=DUMPS)
def test_a_dump_makes_its_own_folder_alone(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    info = "--npu_custom_op_info=Mine,Mine.cl"
    command = ["apply_plugin", flag, info, "--transformations=all", "model.tflite", "out.tflite"]
    assert apply_plugin([*command, "--dump_folder=no/such"]) != 0
    assert "NOT_FOUND: the directory of the output does not exist (no)" in capsys.readouterr().err
    assert not Path("no").exists() and not Path("out.tflite").exists()
    assert apply_plugin([*command, "--dump_folder=dumps"]) == 0
    assert Path("dumps").is_dir()


@pytest.mark.parametrize("written", range(4))
def test_a_disk_that_is_full_is_left_without_a_half_made_vendor(
    litert_npu: LitertNpu,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    written: int,
) -> None:
    real, calls = destinations.write_file, 0

    def write(path: str, *arguments: Any) -> None:
        nonlocal calls
        if calls == written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        calls += 1
        real(path, *arguments)

    before = sorted(os.listdir())
    monkeypatch.setattr(destinations, "write_file", write)
    assert litert_npu("vendor", "new", "Tin", "-o", "tin") == 2
    assert "no space left on device" in capsys.readouterr().err
    assert sorted(os.listdir()) == before


def test_a_new_folder_is_whole_or_not_there(in_folder: Path) -> None:
    """A killed process leaves a temporary folder, which the next command removes."""
    written = (
        "import os, signal\n"
        "from litert_npu_tools.destinations import write_new_files\n"
        "def end(file): os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_new_files('tin', {'a': 'text', 'b/c': end})\n"
    )
    ended = subprocess.run([sys.executable, "-c", written])
    assert ended.returncode == -signal.SIGKILL and not Path("tin").exists()
    before = {name for name in os.listdir() if not name.startswith(".tin.")}
    paths = destinations.write_new_files("tin", {"a": "text", "b/c": "more"})
    assert [Path(path).read_text() for path in paths] == ["text", "more"]
    assert {*os.listdir()} - before == {"tin"}
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(os.stat("tin").st_mode) == 0o777 & ~umask


def test_an_error_in_a_new_folder_names_it(
    in_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: str, *_: object) -> None:
        raise LiteRtError(Status.FILE_IO, "cannot write", path)

    monkeypatch.setattr(destinations, "write_file", fail)
    with pytest.raises(LiteRtError) as error:
        destinations.write_new_files("tin", {"a": "text"})
    assert error.value.where == "tin/a"
