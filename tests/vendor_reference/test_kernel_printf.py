"""Tests that a kernel's printf output reaches the user at the end of each run, separate from JSON reports."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from litert_npu_tools.litert_npu import main

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert import CompiledModel
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model

pytestmark = pytest.mark.each_driver

KERNEL = """\
__kernel void Say(const __global float* x, __global float* y) {
  const size_t i = get_global_id(0);
  y[i] = x[i];
  if (i == 2) printf("x[%d] of %d is %.2f\\n", (int)i, INPUT0_DIMS[0], x[i]);
}
"""


@pytest.fixture
def talking(tmp_path: Path) -> str:
    """A compiled file whose kernel prints one line per run."""
    b = ModelBuilder()
    x = b.input("x", "float32", (4,))
    b.output(b.custom("Say", [x], [("y", "float32", (4,))]))
    write_model(b.build(), str(tmp_path / "model.tflite"))
    (tmp_path / "say.cl").write_text(KERNEL)
    infos = [CustomOpInfo("Say", str(tmp_path / "say.cl"))]
    target = tmp_path / "compiled.tflite"
    options = ApplyOptions(require_npu=["Say"], compiler=CompilerOptions(infos))
    apply_plugin(tmp_path / "model.tflite", target, options)
    return str(target)


def test_each_run_prints_before_it_ends(talking: str, capfd: pytest.CaptureFixture[str]) -> None:
    model = CompiledModel.from_file(talking)
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    for value in (0.25, 8):
        inputs[0].write(np.full(4, value, np.float32))
        model.run_by_index(0, inputs, outputs)
        assert capfd.readouterr().out == f"x[2] of 4 is {value:.2f}\n"


def test_a_report_follows_what_kernels_print(
    talking: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["litert-npu", "run", talking, "--seed=1"]) == 0
    first, *report = capfd.readouterr().out.splitlines()
    assert first.startswith("x[2] of 4 is ") and report[0].startswith("Loaded ")


@pytest.mark.parametrize("command", [["run"], ["benchmark", "--runs=1", "--warm_up=1"]])
def test_a_report_in_json_is_alone_on_standard_output(
    talking: str, command: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["litert-npu", *command, talking, "--report=json"]) == 0
    out, err = capfd.readouterr()
    assert isinstance(json.loads(out), dict)
    assert "x[2] of 4 is " in err
