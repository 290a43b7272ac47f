"""Tests Python plugins in their own processes, and plugins that end the command's process with success."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from compiler_plugin.apply_options import ApplyOptions
from compiler_plugin.isolation.hosting import Hosting
from compiler_plugin.pipeline import apply_plugin
from compiler_plugin.registry import load_plugin
from litert.core.errors import LiteRtError
from litert.core.status import Status

Chain = Callable[..., Path]
APPLY_PLUGIN = [sys.executable, "-m", "litert_npu_tools.apply_plugin"]

PLUGIN = """
import ctypes, os, posix, sys, threading, time
from compiler_plugin.plugin import CompilerPlugin, CompilerPluginFactory

def end_in_thread():
    thread = threading.Thread(target=os._exit, args=(0,), name="worker")
    thread.start()
    thread.join()
    time.sleep(60)

def end_in_fork():
    child = os.fork()
    if not child:
        os._exit(0)
    raise ValueError(f"the child ended with {{os.waitpid(child, 0)[1]}}")

class Ending(CompilerPlugin):
    def partition(self, soc_model, subgraph, op_list):
        op_list.push(subgraph.ops[0])

    def compile(self, soc_model, partitions):
        {ending}

class Factory(CompilerPluginFactory):
    soc_manufacturer = "Ending"
    soc_models = ("One",)
    sdk_version = "1"

    def create(self, environment_options, compiler_options):
        return Ending()

PLUGIN = Factory()
"""
NAME = "LiteRtCompilerPluginEnding.py"
ENDS = {
    "exit": (
        "os._exit(0)",
        Status.RUNTIME_FAILURE,
        "ended with status 0 in compile, before it had sent its reply",
    ),
    "sys.exit": (
        "sys.exit(0)",
        Status.RUNTIME_FAILURE,
        "ended with status 0 in compile, before it had sent its reply",
    ),
    "crash": ("ctypes.string_at(0)", Status.RUNTIME_FAILURE, "crashed in compile (SIGSEGV"),
    "hang": (
        "time.sleep(100)",
        Status.TIMEOUT_EXPIRED,
        "did not finish within 3 s, and was stopped in compile",
    ),
    "memory": ("bytearray(8 << 30)", Status.MEMORY_ALLOCATION_FAILURE, "out of memory"),
    "error": ("raise ValueError('no')", Status.COMPILATION, "ValueError: no"),
}
SUDDEN = {
    "exit": ("os._exit(0)", "ProcessEnd: os._exit(0) (vendor 'Ending', in compile, at "),
    "posix": ("posix._exit(0)", "ProcessEnd: os._exit(0) (vendor 'Ending', in compile, at "),
    "sys.exit": ("sys.exit(0)", "SystemExit: 0 (vendor 'Ending', in compile, at "),
    "exec": ("os.execv('/bin/true', ['true'])", "ProcessEnd: os.execv('/bin/true'"),
    "thread": ("end_in_thread()", "code in thread 'worker' has tried to end the process"),
    "fork": ("end_in_fork()", "ValueError: the child ended with 0"),
}


def _folder(tmp_path: Path, ending: str) -> str:
    folder = tmp_path / "libs"
    folder.mkdir()
    (folder / NAME).write_text(PLUGIN.format(ending=ending))
    return str(folder)


@pytest.mark.parametrize(("ending", "status", "what"), ENDS.values(), ids=ENDS)
def test_an_isolated_plugin_that_ends_is_named(
    chain: Chain, tmp_path: Path, ending: str, status: Status, what: str
) -> None:
    hosting = Hosting(timeout_s=3, isolated=True, memory_mib=2000)
    options = ApplyOptions("Ending", libs=[_folder(tmp_path, ending)], hosting=hosting)
    output = tmp_path / "out.tflite"
    with pytest.raises(LiteRtError) as failed:
        apply_plugin(chain("A"), output, options)
    assert failed.value.status is status
    assert what in failed.value.what
    assert "vendor 'Ending', in compile" in failed.value.where
    assert not output.exists()


def test_an_isolated_plugin_makes_the_same_file(
    chain: Chain, tmp_path: Path, fake_options: Callable[..., ApplyOptions]
) -> None:
    outputs = []
    for isolated in (False, True):
        flags = fake_options(fake_ops="A")
        options = ApplyOptions(
            flags.soc_manufacturer,
            libs=flags.libs,
            compiler=flags.compiler,
            hosting=Hosting(isolated=isolated),
        )
        apply_plugin(chain("A", "B"), tmp_path / "out.tflite", options)
        outputs.append((tmp_path / "out.tflite").read_bytes())
    assert outputs[0] == outputs[1]


def test_an_installed_plugin_can_be_isolated() -> None:
    plugin = load_plugin("Reference", (), Hosting(isolated=True))
    assert type(plugin.factory).__name__ == "IsolatedPluginFactory"
    assert list(plugin.factory.soc_models) == ["EMU8", "EMU4", "EMU16"]


@pytest.mark.parametrize(("ending", "text"), SUDDEN.values(), ids=SUDDEN)
def test_a_command_does_not_end_well_without_an_output(
    chain: Chain, tmp_path: Path, ending: str, text: str
) -> None:
    """The plugin runs in the command's own process."""
    output = tmp_path / "out" / "model.bin"
    output.parent.mkdir()
    flags = [f"--libs={_folder(tmp_path, ending)}", "--soc_manufacturer=Ending", str(chain("A"))]
    done = subprocess.run(
        [*APPLY_PLUGIN, *flags, str(output)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode not in (0, 1)
    assert text in done.stderr
    if "has tried" not in text:
        assert NAME in done.stderr
    assert not list(output.parent.iterdir())
