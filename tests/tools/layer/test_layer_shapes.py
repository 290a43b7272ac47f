"""Tests `litert-npu layer` with ops whose output shapes are known only at run time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from tests.tools.conftest import LitertNpu

pytestmark = pytest.mark.usefixtures("in_this_process", "author")

Capture = pytest.CaptureFixture[str]

POSITIVE = """
__kernel void Positive(__global const float* x, __global const uint* in, __global float* y, __global uint* out) {
  uint n = 0;
  for (uint i = 0; i < in[0]; ++i) if (x[i] > 0) y[n++] = x[i];
  out[0] = n;
}
__kernel void twice(__global const uint* in, __global uint* out) { out[0] = 2 * in[0]; }
__kernel void Repeat(__global const float* x, __global float* y) {
  y[get_global_id(0)] = x[get_global_id(0) / 2];
}
"""
LAYER = {
    "version": 1,
    "sources": ["k.cl"],
    "entry": "Positive",
    "arguments": [
        {"input": 0}, {"shape": {"input": 0}}, {"output": 0}, {"shape": {"output": 0}},
    ],
    "work_sizes": {"global": [1]},
}  # fmt: skip
REFERENCE = """
def positive(inputs, options):
    (x,) = inputs
    return x[x > 0]

def repeat(inputs, options):
    return inputs[0].repeat(2)
"""
BOUND = "--shape_bounds=y:8"


def write_op(op: str, shape_signature: Sequence[int] | None = None) -> None:
    builder = ModelBuilder()
    x = builder.input("x", "float32", (8,), shape_signature=shape_signature)
    y = builder.tensor("y", "float32", (1,), shape_signature=(-1,))
    builder.output(builder.custom(op, [x], [y]))
    write_model(builder.build(), "open.tflite")


@pytest.fixture(autouse=True)
def files(author: Path) -> None:
    Path("k.cl").write_text(POSITIVE)
    Path("ref.py").write_text(REFERENCE)
    Path("Positive.json").write_text(json.dumps(LAYER))
    write_op("Positive")


def test_a_kernel_that_writes_its_shape_is_checked_and_run(
    litert_npu: LitertNpu, capsys: Capture
) -> None:
    assert litert_npu("layer", "check", "Positive.json", "--model=open.tflite", BOUND) == 0
    assert "<-  the shape of output 0" in capsys.readouterr().out
    run = ("layer", "run", "Positive.json", "--model=open.tflite", "--reference=ref.py:positive")
    assert litert_npu(*run, BOUND, "--repeat=2", "--output=y.npy") == 0
    printed = capsys.readouterr().out
    y = np.load("y.npy")
    assert 0 < y.size < 8 and y.min() > 0
    assert f"out  y: float32[{y.size}]" in printed and "greatest difference 0" in printed
    assert litert_npu(*run) == 2
    assert "--shape_bounds=y:100" in capsys.readouterr().err
    given = ("layer", "run", "Positive.json", "--inputs=8xf32", "--outputs=?xf32", "--repeat=0")
    assert litert_npu(*given, "--shape_bounds=output0:8", "--reference=ref.py:positive") == 0


def test_what_it_writes_past_its_bound_or_leaves_unwritten_is_found(
    litert_npu: LitertNpu, capsys: Capture
) -> None:
    run = ("layer", "run", "Positive.json", "--model=open.tflite", BOUND, "--repeat=0")
    Path("k.cl").write_text(POSITIVE.replace("out[0] = n", "y[8] = 1; out[0] = n"))
    assert litert_npu(*run) == 1
    assert (
        "32 bytes after the start of output 0, which is only 32 bytes long"
        in capsys.readouterr().out
    )
    Path("k.cl").write_text(POSITIVE.replace("out[0] = n", "out[0] = n + 1"))
    assert litert_npu(*run) == 1
    assert (
        "the kernel never writes 1 of " in (printed := capsys.readouterr().out)
        and "of 6 elements of output 0, the first" in printed
    )
    Path("k.cl").write_text(POSITIVE.replace("out[0] = n", "out[0] = y[7] < -1e-17f ? 2 : 1"))
    assert litert_npu(*run) == 1
    said = "the shape of output 0 depends on the old content of output 0: it is [2] or [1]"
    assert said in capsys.readouterr().out


def test_it_is_tuned(litert_npu: LitertNpu, capsys: Capture) -> None:
    tune = ("layer", "tune", "Positive.json", "--model=open.tflite", "--candidates=2", "--dry_run")
    assert litert_npu(*tune, BOUND) == 0
    assert "Local size:" in capsys.readouterr().out


@pytest.mark.parametrize("signature", [None, (-1,)], ids=["fixed input", "dynamic input"])
@pytest.mark.parametrize(
    "shapes", [{"output_shapes": [["B*2"]]}, {"shape_kernel": {"entry": "twice"}}], ids=str
)
def test_a_layer_runs_on_the_shape_that_its_rule_gives(
    litert_npu: LitertNpu,
    capsys: Capture,
    signature: Sequence[int] | None,
    shapes: dict[str, object],
) -> None:
    """In the model, the output initially has one element."""
    layer = {"version": 1, "sources": ["k.cl"], "entry": "Repeat", **shapes}
    Path("Repeat.json").write_text(json.dumps(layer))
    write_op("Repeat", signature)
    run = ("layer", "run", "Repeat.json", "--model=open.tflite", "--reference=ref.py:repeat")
    bounds = ["--shape_bounds=y:32"] if "shape_kernel" in shapes else []
    assert litert_npu(*run, *bounds, "--repeat=2") == 0
    assert "out  y: float32[16]" in capsys.readouterr().out
