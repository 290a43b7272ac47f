"""Tests `litert-npu layer` with quantized tensors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from litert.core.quantization import Quantization
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from tests.tools.conftest import LitertNpu

pytestmark = pytest.mark.usefixtures("in_this_process")

Capture = pytest.CaptureFixture[str]
KERNEL = """__constant float scales[] = INPUT1_SCALE_INIT;
__kernel void Scaled(__global const char* x, __global const char* w, __global char* y) {
  const size_t i = get_global_id(0);
  const size_t channel = i / 3 % INPUT1_SCALE_SIZE;
  const float weight = (w[channel] - INPUT1_ZERO_POINT[channel]) * scales[channel];
  const float same = (w[channel] - INPUT1_ZERO_POINT[channel]) * INPUT1_SCALE[channel];
  const float real = (x[i] - INPUT0_ZERO_POINT) * INPUT0_SCALE * (weight + same) / 2;
  y[i] = convert_char_sat(round(real / OUTPUT0_SCALE) + OUTPUT0_ZERO_POINT);
}
"""
REFERENCE = """import numpy as np

def scaled(inputs, options, quantization):
    x, w = (q.dequantize(integers) for q, integers in zip(quantization.inputs, inputs))
    assert x.dtype == np.float32 and quantization.inputs[1].scale.shape == (2, 1)
    return quantization.outputs[0].quantize(x * w)

def plain(inputs, options):
    return np.zeros((2, 3), np.int8)
"""


@pytest.fixture(params=["cl", "json"])
def asset(author: Path, request: pytest.FixtureRequest) -> str:
    (author / "Scaled.cl").write_text(KERNEL)
    (author / "Scaled.json").write_text('{"version": 1, "sources": ["Scaled.cl"]}')
    (author / "ref.py").write_text(REFERENCE)
    b = ModelBuilder()
    x = b.input("x", "int8", (2, 3), quantization=Quantization([0.5], [-3]))
    w = b.constant(
        "w", np.array([[1], [3]], np.int8), quantization=Quantization([0.5, 0.25], [0, 2], 0)
    )
    y = b.tensor("y", "int8", (2, 3), quantization=Quantization([0.75], [2]))
    b.output(b.custom("Scaled", [x, w], [y]))
    write_model(b.build(), "scaled.tflite")
    return f"Scaled.{request.param}"


def test_scales_of_channels_reach_kernel_and_reference(asset: str, litert_npu: LitertNpu) -> None:
    run = ("layer", "run", asset, "--model=scaled.tflite", "--repeat=0")
    assert litert_npu(*run, "--reference=ref.py:scaled") == 0
    assert litert_npu(*run, "--reference=ref.py:plain") == 1


@pytest.mark.usefixtures("asset")
def test_scales_are_in_code_that_is_compiled_ahead(litert_npu: LitertNpu) -> None:
    build = (
        "layer",
        "build",
        "Scaled.json",
        "--model=scaled.tflite",
        "--nosource",
        "-o",
        "Scaled.bin",
    )
    assert litert_npu(*build) == 0
    run = ("layer", "run", "Scaled.bin", "--model=scaled.tflite", "--repeat=0")
    assert litert_npu(*run, "--allow_native_assets", "--reference=ref.py:scaled") == 0


def test_check_shows_scales_and_zero_points(
    asset: str, litert_npu: LitertNpu, capsys: Capture
) -> None:
    assert litert_npu("layer", "check", asset, "--model=scaled.tflite") == 0
    printed = capsys.readouterr().out
    assert "input 0: tensor<2x3xi8>, scale 0.5, zero point -3; " in printed
    scales = "2 scales along dimension 0, 0.25 to 0.5, zero points 0 to 2"
    assert f"input 1: tensor<2x1xi8>, constant, {scales}; " in printed
    assert "output 0: tensor<2x3xi8>, scale 0.75, zero point 2; " in printed


def test_scales_are_given_without_a_model(author: Path, litert_npu: LitertNpu) -> None:
    (author / "Twice.cl").write_text(
        "__kernel void Twice(__global const char* x, __global uchar* y) {\n"
        "  const size_t i = get_global_id(0);\n"
        "  const float real = 2 * (x[i] - INPUT0_ZERO_POINT) * INPUT0_SCALE;\n"
        "  y[i] = convert_uchar_sat(round(real / OUTPUT0_SCALE) + OUTPUT0_ZERO_POINT);\n}\n"
    )
    (author / "ref.py").write_text(
        "def twice(inputs, options, quantization):\n"
        "    (x,), (y,) = quantization.inputs, quantization.outputs\n"
        "    assert x.scale == 0.5 and x.zero_point == 3 and y.scale == 0.25 and not y.zero_point\n"
        "    return y.quantize(2 * x.dequantize(inputs[0]))\n"
    )
    shapes = ("--inputs=64xi8:0.5:3", "--outputs=64xui8:0.25")
    run = ("layer", "run", "Twice.cl", *shapes, "--repeat=0", "--reference=ref.py:twice")
    assert litert_npu(*run) == 0


@pytest.mark.parametrize("name", ["INPUT0_SCALE", "INPUT0_SCALE_INIT", "INPUT0_ZERO_POINT_SIZE"])
def test_a_scale_of_a_tensor_that_has_none_is_told(
    name: str, author: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    (author / "k.cl").write_text(
        f"__constant float number[] = {{{name}}};\n"
        "__kernel void k(__global const char* x, __global char* y) { y[0] = x[0] * number[0] / OUTPUT0_SCALE; }\n"
    )
    assert litert_npu("layer", "check", "k.cl", "--inputs=64xi8", "--outputs=64xi8:0.25") == 1
    printed = capsys.readouterr().out
    assert f"INPUT0 is not quantized in this op, so {name} is not defined." in printed


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("y[0] = x[0] * INPUT1_SCALE;", "INPUT1_SCALE"),
        ("y[0] = REAL(x[0]) / OUTPUT0_SCALE;", "INPUT1_SCALE"),
        ("y[0] = (x[0] - INPUT1_ZERO_POINT) * INPUT1_SCALE[0];", "INPUT1_ZERO_POINT"),
        ("y[0] = nothing * INPUT1_SCALE[0] * INPUT0_SCALE;", ""),
    ],
)
@pytest.mark.usefixtures("asset")
def test_scales_of_channels_that_are_taken_for_a_number_are_told(
    litert_npu: LitertNpu, capsys: Capture, line: str, name: str
) -> None:
    Path("wrong.cl").write_text(
        "#define REAL(v) ((v) * INPUT1_SCALE)\n__kernel void Scaled(__global const char* x, "
        f"__global const char* w, __global char* y) {{\n  {line}\n}}\n"
    )
    assert litert_npu("layer", "check", "wrong.cl", "--op=Scaled", "--model=scaled.tflite") == 1
    hint = f"{name} is an array of {name}_SIZE elements, one for each channel of the tensor. Use one element"
    printed = capsys.readouterr().out
    assert hint in printed if name else "one for each channel of the tensor" not in printed


def test_a_skeleton_s_reference_takes_quantization(asset: str, litert_npu: LitertNpu) -> None:
    assert litert_npu("layer", "new", "--model=scaled.tflite", "-o", "new") == 0
    assert (
        "def reference(inputs, options, quantization):"
        in Path("new/Scaled_reference.py").read_text()
    )
    run = ("layer", "run", "new/Scaled.cl", "--model=scaled.tflite", "--repeat=0")
    assert litert_npu(*run, "--reference=new/Scaled_reference.py:reference") == 0
