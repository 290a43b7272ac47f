"""Tests that an interrupted command ends, whatever its main thread does."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

IN_PYTHON = """
import time
try:
    print("ready", flush=True)
    for _ in range(6000):
        time.sleep(0.01)  # one long sleep misses a signal that comes just before it, in Python 3.14
finally:
    print("cleaned up", flush=True)
"""
IN_NATIVE_CODE = """
import ctypes
libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(256)
libc.pthread_mutex_lock(mutex)
try:
    print("ready", flush=True)
    libc.pthread_mutex_lock(mutex)  # for ever, and no signal ends it
except KeyboardInterrupt:  # too early
    libc.pthread_mutex_lock(mutex)
"""


def interrupted(code: str, number: signal.Signals, grace_s: float) -> tuple[int, str, str]:
    start = (
        f"from litert_npu_tools.process_start import end_on_signals; end_on_signals({grace_s})\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", start + code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        process.send_signal(number)
        said, errors = process.communicate(timeout=30)
        return process.returncode, said, errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_python_is_interrupted_and_cleans_up(number: signal.Signals) -> None:
    _, said, errors = interrupted(IN_PYTHON, number, 30)
    assert said == "cleaned up\n" and "KeyboardInterrupt" in errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_native_code_that_does_not_return_is_not_waited_for(number: signal.Signals) -> None:
    status, _, errors = interrupted(IN_NATIVE_CODE, number, 0.1)
    assert status == 130
    assert errors == "CANCELLED: interrupted during a native call that does not return\n"


@pytest.mark.parametrize("tool", ["apply_plugin", "litert_npu"])
def test_a_tool_guards_itself_before_it_imports_what_takes_a_while(tool: str) -> None:
    code = f"""
import sys
from litert_npu_tools.{tool} import run
print(*sorted(m for m in sys.modules if m.startswith(("absl", "compiler_plugin", "litert"))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = {f"litert_npu_tools.{name}" for name in (tool, "process_start")}
    assert set(done.stdout.split()) == {"litert_npu_tools", *modules}


@pytest.mark.parametrize("module", ["litert_npu_tools.command", "absl.flags", "litert.core.status"])
@pytest.mark.parametrize(
    ("tool", "arguments"), [("apply_plugin", "--help"), ("litert_npu", "info")]
)
def test_an_interrupt_while_a_tool_starts_is_one_message(
    tool: str, arguments: str, module: str
) -> None:
    code = f"""
import os, signal, sys
from litert_npu_tools.{tool} import run

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.argv = ["{tool}", "{arguments}"]
run()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "CANCELLED: interrupted\n"
