"""Tests that a command works whichever standard streams are closed when it starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from litert.model.builder import ModelBuilder
from litert.model.graph import Model
from litert.model.reader import read_model
from litert.model.writer import write_model

CLOSED = ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"]


def model() -> Model:
    builder = ModelBuilder()
    x = builder.input("x", "float32", (4,))
    ones = builder.constant("ones", np.ones(4, np.float32))
    builder.output(builder.op("ADD", [x, ones], [("y", "float32", (4,))]))
    return builder.build()


def run(
    tool: str, *arguments: object, before: str = "", closed: str = ""
) -> subprocess.CompletedProcess[str]:
    """Runs a tool from a shell, after the commands `before` and with some streams closed."""
    code = f"from litert_npu_tools.{tool} import run; run()"
    command = f'{before}; exec "$@" {closed}'.lstrip("; ")
    line = ["sh", "-c", command, "sh", sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("closed", CLOSED)
def test_a_model_is_compiled(closed: str, tmp_path: Path) -> None:
    source, output = tmp_path / "model.tflite", tmp_path / "out.tflite"
    write_model(model(), source)
    # This library, which cannot be loaded, makes the tool start a child process, too.
    (tmp_path / "libLiteRtCompilerPlugin_Broken.so").write_bytes(b"no library")
    done = run(
        "apply_plugin", source, output, "--reference_ops=all", f"--libs={tmp_path}",
        closed=closed,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    with read_model(output) as compiled:
        assert [op.name for op in compiled.ops()] == ["DISPATCH_OP"]
    assert ("NPU: 1 of 1 op" in done.stdout) is (">&-" not in closed.replace("2>&-", ""))


@pytest.mark.parametrize("closed", CLOSED)
def test_an_error_is_an_exit_status(closed: str) -> None:
    done = run("litert_npu", "run", "missing.tflite", closed=closed)
    assert done.returncode == 2
    assert ("NOT_FOUND" in done.stderr) is ("2>&-" not in closed)


def test_too_few_descriptors_for_all_plugins_are_an_error_that_says_what_helps(
    tmp_path: Path,
) -> None:
    for number in range(12):
        (tmp_path / f"libLiteRtCompilerPlugin_{number}.so").write_bytes(b"no library")
    libs = f"--libs={tmp_path}"
    done = run("apply_plugin", "--cmd=info", libs, before="ulimit -n 24")
    assert done.returncode
    assert "DYNAMIC_LOADING" in done.stderr and "Too many open files" in done.stderr
    assert "ulimit -n" in done.stderr


@pytest.mark.parametrize("tool", ["apply_plugin", "litert_npu"])
def test_an_output_to_a_closed_stream_is_an_error(tool: str, tmp_path: Path) -> None:
    source = tmp_path / "model.tflite"
    write_model(model(), source)
    command = [source, "-"] if tool == "apply_plugin" else ["transform", source, "-"]
    done = run(tool, *command, closed=">&-")
    assert done.returncode not in (0, 1)
    assert "FILE_IO: cannot write: standard output is closed. Give" in done.stderr


def test_ir_text_to_a_closed_stream_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "text.mlir").write_text("builtin.module {}")
    done = run("litert_npu", "opt", tmp_path / "text.mlir", closed=">&-")
    assert done.returncode == 2
    assert "FILE_IO: cannot write: standard output is closed. Give" in done.stderr


def test_a_report_to_a_disk_that_is_full_is_an_error(tmp_path: Path) -> None:
    source, report = tmp_path / "model.tflite", tmp_path / "report.json"
    write_model(model(), source)
    arguments = [source, tmp_path / "out.tflite", "--report=json", "--cmd=noop"]
    done = run("apply_plugin", *arguments, "--err=/dev/full")
    assert "FILE_IO: cannot write: no space left on device (/dev/full)" in done.stderr
    assert done.returncode not in (0, 1)
    report.write_text("before")
    done = run("apply_plugin", "--cmd=info", f"--o={report}", before="ulimit -f 0")
    assert f"cannot write: file too large ({report})" in done.stderr and done.returncode
    assert report.read_text() == "before" and not list(tmp_path.glob(".*"))
