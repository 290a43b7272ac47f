"""Tests Ctrl-C in a terminal: no progress, process or partial file remains, and a message says what is kept."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from litert_npu_tools.process_start import INTERRUPTED

from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from tests.terminals import CTRL_C, CommandInTerminal

SLOW_VENDOR = """
import time
from compiler_plugin.plugin import CompilerPlugin, CompilerPluginFactory
from litert.core.progress import tell

class SlowPlugin(CompilerPlugin):
    def partition(self, soc_model, subgraph, op_list):
        for op in subgraph.ops:
            op_list.push(op)

    def compile(self, soc_model, partitions):
        tell("build", 0, 12000)
        print("begun", flush=True)
        for number in range(12000):
            tell("build", number, 12000)
            time.sleep(0.01)

    def companions(self, op_name, asset_path, data):
        return ()

    def close(self):
        pass

class SlowFactory(CompilerPluginFactory):
    soc_manufacturer, soc_models, sdk_version = "Slow", ("S1",), "1.0.0"

    def create(self, environment_options, compiler_options):
        return SlowPlugin()

PLUGIN = SlowFactory()
"""
SLOW_REFERENCE = """
import time

def reference(*arguments):
    print("begun", flush=True)
    time.sleep(100)
"""
SINH = """kernel void Sinh(const global float* x, global float* y) {
  y[get_global_id(0)] = sinh(x[get_global_id(0)]);
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 64))
    builder.output(builder.custom("Sinh", [x], [("y", "float32", (1, 64))]))
    write_model(builder.build(), tmp_path / "in.tflite")
    (tmp_path / "LiteRtCompilerPlugin_Slow.py").write_text(SLOW_VENDOR)
    (tmp_path / "slow.py").write_text(SLOW_REFERENCE)
    (tmp_path / "Sinh.cl").write_text(SINH)
    (tmp_path / "tmp").mkdir()
    return tmp_path


def run(folder: Path, *command: str) -> CommandInTerminal:
    return CommandInTerminal(*command, folder=folder, more={"TMPDIR": str(folder / "tmp")})


COMPILING = ("apply_plugin", "--libs=.", "--soc_manufacturer=Slow", "in.tflite")


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("shown", ["begun", r"build: +\d+%"])
def test_a_compilation_leaves_the_old_file_or_none(
    folder: Path, is_there: bool, shown: str
) -> None:
    if is_there:
        (folder / "out.tflite").write_bytes(b"the old one")
    before = sorted(os.listdir(folder))
    with run(folder, *COMPILING, "out.tflite") as command:
        command.await_text(shown)
        command.type(CTRL_C)
        status, lines = command.end()
    assert status == INTERRUPTED
    outcome = "is unchanged" if is_there else "was not written"
    assert lines[-1].startswith("CANCELLED: interrupted. The work was at step 'build' (")
    assert lines[-1].endswith(f" of 12000 done). out.tflite {outcome}")
    assert not any("%" in line for line in lines)
    assert sorted(os.listdir(folder)) == before and not os.listdir(folder / "tmp")


def test_a_child_process_ends_with_its_command_and_leaves_no_files(folder: Path) -> None:
    flags = ("--inputs=4xf32", "--outputs=4xf32", "--reference=slow.py:reference")
    with run(folder, "litert-npu", "layer", "run", "Sinh.cl", *flags) as command:
        command.await_text("begun")
        (child,) = command.children()
        command.type(CTRL_C)
        status, lines = command.end()
    assert status == INTERRUPTED
    assert lines[-1] == "CANCELLED: interrupted. The work was at step 'compute the reference'"
    assert not Path(f"/proc/{child}").exists() and not os.listdir(folder / "tmp")


def test_tune_says_the_best_so_far_and_writes_nothing(folder: Path) -> None:
    before = sorted(os.listdir(folder))
    flags = ("--model=in.tflite", "--candidates=500")
    with run(folder, "litert-npu", "layer", "tune", "Sinh.cl", *flags) as command:
        command.await_text(r"(?s)  local .* us.*  local .* us")
        command.type(CTRL_C)
        status, lines = command.end()
    assert status == INTERRUPTED
    best = re.search(r"\. The best of (\d+) measured local sizes: ", lines[-1])
    # On a busy machine, the command measures more sizes before Ctrl-C arrives.
    assert best and int(best[1]) >= 2 and lines[-1].count(" us") == 2
    assert ". Sinh.json was not written. The work was at step 'tune' (" in lines[-1]
    assert sorted(os.listdir(folder)) == before and not os.listdir(folder / "tmp")


def test_a_check_of_a_vendor_says_how_far_it_was(folder: Path) -> None:
    with run(folder, "litert-npu", "vendor", "check", "LiteRtCompilerPlugin_Slow.py") as command:
        command.await_text(r"check the plugin: +\d+%")
        command.type(CTRL_C)
        status, lines = command.end()
    assert status == INTERRUPTED
    assert "The work was at step 'check the plugin' (" in lines[-1]
    assert not os.listdir(folder / "tmp")


@pytest.mark.parametrize("flag", ["-q", "--quiet"])
def test_a_quiet_command_shows_no_progress_and_still_its_end(folder: Path, flag: str) -> None:
    with run(folder, *COMPILING, "out.tflite", flag) as command:
        command.await_text("begun")
        command.type(CTRL_C)
        status, lines = command.end()
    assert status == INTERRUPTED
    assert lines[0].startswith("begun") and len(lines) in (2, 3)  # one line may be ^C
    assert lines[-1].startswith("CANCELLED: interrupted. ")
