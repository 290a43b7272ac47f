"""Tests a kernel that crashes in a command's process: the stack names it, and a last line suggests what helps."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.host.named_frames import name_frames
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model

NULL = """
__kernel void Null(__global const float* x, __global float* y) {
  volatile __global float* const nowhere = (volatile __global float*)(ulong)(x[0] * 0);
  if (get_global_id(0) == 0) nowhere[0] = y[0];  // a second crash would cut the stack
}
"""


@pytest.mark.each_driver
def test_a_crash_names_call_op_and_kernel(tmp_path: Path) -> None:
    b = ModelBuilder()
    b.output(b.custom("Null", [b.input("x", "float32", (4,))], [("y", "float32", (4,))]))
    write_model(b.build(), tmp_path / "model.tflite")
    (tmp_path / "null.cl").write_text(NULL)
    infos = [CustomOpInfo("Null", str(tmp_path / "null.cl"))]
    compiled = tmp_path / "compiled.tflite"
    apply_plugin(tmp_path / "model.tflite", compiled, ApplyOptions(compiler=CompilerOptions(infos)))
    program = "from litert_npu_tools.litert_npu import run; run()"
    command = [sys.executable, "-c", program, "run", str(compiled)]
    done = subprocess.run(command, env=os.environ, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "in invoke of NPU call 'Partition_0'" in done.stderr
    assert "in run Null of op 'Null'" in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("RUNTIME_FAILURE: native code crashed") and "--isolate" in last


class _Working:
    def work(self, number: int = 1, *, plus: int = 2) -> str:
        return f"{number + plus} {sys._getframe().f_code.co_name}"


def test_a_named_method_does_what_it_did() -> None:
    named = name_frames(_Working().work, "on this")
    assert named() == "3 work on this"
    assert named(4, plus=3) == "7 work on this"
    assert len(name_frames(_Working().work, "x" * 1000)()) < 500


def test_what_is_no_method_in_python_stays() -> None:
    assert name_frames("x".upper, "on this")() == "X"
