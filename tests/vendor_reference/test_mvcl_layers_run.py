"""Tests layers of OpenVINO's VPU (`MVCL`) from file to result: compiled, and run on the emulated NPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from compiler_plugin.report import Report
from litert import CompiledModel
from litert.core.compiler_options import CompilerOptions
from litert.core.errors import LiteRtError
from litert.model.builder import ModelBuilder
from litert.model.flexbuffer import FlexValue
from litert.model.writer import write_model
from tests.vendor_reference.executables import Array

pytestmark = pytest.mark.each_driver

SHAPE = (2, 4, 6, 8)  # N, H, W, C
REORG = """\
<CustomLayer name="Reorg" type="MVCL" version="1">
  <Kernel entry="reorg">
    <Source filename="kernel.cl"/>
  </Kernel>
  <Parameters>
    <Tensor arg-name="src"    type="input"  port-index="0" format="{format}"/>
    <Tensor arg-name="out"    type="output" port-index="0" format="{format}"/>
    <Scalar arg-name="stride" type="int"                   source="stride"/>
    <Scalar arg-name="w"      type="int"    port-index="0" source="I.X"/>
    <Scalar arg-name="h"      type="int"    port-index="0" source="I.Y"/>
    <Scalar arg-name="c"      type="int"    port-index="0" source="O.F"/>
  </Parameters>
  <WorkSizes dim="output,0" global="((X+3)/4)*4,Y,F*B" local="4,1,1"/>
</CustomLayer>
"""
REORG_CL = """\
// Each square of the image becomes channels of one place.
__kernel void reorg(__global const {type}* src, __global {type}* out, int w, int h, int c, int stride) {{
  const int x = get_global_id(0), y = get_global_id(1), f = get_global_id(2) % c, b = get_global_id(2) / c;
  const int w2 = w / stride, h2 = h / stride, c1 = c / (stride * stride);
  if (x >= w2) return;
  const int from = f % c1, y1 = y * stride + f / c1 / stride, x1 = x * stride + f / c1 % stride;
  {body}
}}
"""
PLACES = {
    "BYXF": ("((b * h2 + y) * w2 + x) * c + f", "((b * h + y1) * w + x1) * c1 + from"),
    "BFYX": ("((b * c + f) * h2 + y) * w2 + x", "((b * c1 + from) * h + y1) * w + x1"),
}
NORM = """\
<CustomLayer name="Norm" type="MVCL" version="1" max-shaves="2">
  <Kernel entry="norm">
    <Source filename="kernel.cl"/>
    <Parameters>
      <Tensor arg-name="src" type="input" port-index="0" format="BFYX"/>
      <Tensor arg-name="dst" type="output" port-index="0" format="BFYX"/>
      <Data arg-name="line" type="local_data" dim="input,0" size="X*4"/>
      <Tensor arg-name="sums" type="output_buffer" port-index="0" dim="input,0" size="B*F*Y*X*4"/>
      <Data arg-name="gains" type="data" source="gains"/>
      <Scalar arg-name="channels" type="int" port-index="0" source="I.F"/>
      <Scalar arg-name="bias" type="float" port-index="1" source="biases"/>
      <Scalar arg-name="two" type="float" source="2"/>
    </Parameters>
    <WorkSizes dim="input,0" global="X,Y,B" local="X,1,1"/>
  </Kernel>
</CustomLayer>
"""
NORM_CL = """\
__kernel void norm(__global const float* src, __global float* dst, __global const float* gains,
                   __global float* sums, __local float* line, int channels, float bias, float two) {
  const int x = get_global_id(0), w = get_global_size(0), y = get_global_id(1), h = get_global_size(1);
  const int first = get_global_id(2) * channels * h * w + y * w + x;
  float sum = bias;
  for (int c = 0; c < channels; ++c) sum += src[first + c * h * w];
  line[x] = sum;
  sums[first] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int c = 0; c < channels; ++c)
    dst[first + c * h * w] = gains[c] * line[w - 1 - x] + two * sums[first];
}
"""


def compile_op(
    folder: Path,
    description: str,
    kernel: str,
    made: tuple[int, ...],
    options: dict[str, FlexValue],
    constants: Sequence[tuple[str, Array]] = (),
    signature: tuple[int, ...] = (),
) -> Report:
    """Compiles a model with one op, whose layer is for any model."""
    name = "Norm" if "Norm" in description else "Reorg"
    b = ModelBuilder()
    x = b.input("x", "float32", SHAPE, shape_signature=signature or None)
    inputs = [x, *(b.constant(constant, data) for constant, data in constants)]
    b.output(b.custom(name, inputs, [("y", "float32", made)], options=options))
    write_model(b.build(), folder / "m.tflite")
    (folder / "layers.xml").write_text(description)
    (folder / "kernel.cl").write_text(kernel)
    compiler = CompilerOptions(
        custom_layers=[str(folder / "layers.xml")],
        shape_bounds={"x": SHAPE} if signature else {},
    )
    told = ApplyOptions(require_npu=["all"], compiler=compiler)
    return apply_plugin(folder / "m.tflite", folder / "compiled.tflite", told)


def run(folder: Path) -> tuple[Array, Array]:
    x = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    with CompiledModel.from_file(str(folder / "compiled.tflite")) as model:
        return x, model.run({"x": x})["y"]


def reorganized(x: Array, stride: int) -> Array:
    n, h, w, c = x.shape
    parts = x.reshape(n, h // stride, stride, w // stride, stride, c)
    made: Array = parts.transpose(0, 1, 3, 2, 4, 5).reshape(n, h // stride, w // stride, -1)
    return made


@pytest.mark.parametrize("order", PLACES)
def test_parameters_are_bound_by_their_names(tmp_path: Path, order: str) -> None:
    to, source = PLACES[order]
    kernel = REORG_CL.format(type="float", body=f"out[{to}] = src[{source}];")
    compile_op(tmp_path, REORG.format(format=order), kernel, (2, 2, 3, 32), {"stride": 2})
    x, y = run(tmp_path)
    np.testing.assert_array_equal(y, reorganized(x, 2))


def test_a_kernel_that_declares_halves_gets_them(tmp_path: Path) -> None:
    to, source = PLACES["BYXF"]
    body = f"vstore_half(vload_half({source}, src), {to}, out);"
    kernel = REORG_CL.format(type="half", body=body)
    compile_op(tmp_path, REORG.format(format="BYXF"), kernel, (2, 2, 3, 32), {"stride": 2})
    x, y = run(tmp_path)
    np.testing.assert_array_equal(y, reorganized(x.astype(np.float16), 2).astype(np.float32))


def test_local_memory_scratch_data_and_elements_of_options(tmp_path: Path) -> None:
    gains = np.arange(8, dtype=np.float32)
    options: dict[str, FlexValue] = {"biases": [7.0, 0.5]}
    compile_op(tmp_path, NORM, NORM_CL, SHAPE, options, [("layer/gains", gains)])
    x, y = run(tmp_path)
    sums = 0.5 + x.sum(axis=3, keepdims=True)
    np.testing.assert_allclose(y, gains * sums[:, :, ::-1] + 2 * sums, rtol=2e-5, atol=2e-5)


WRONG: dict[str, tuple[dict[str, FlexValue], str]] = {
    "no such option": (
        {"other": 1},
        "cannot set argument 6 of the kernel: the layer uses option 'biases', but the op has only 'other'",
    ),
    "too few elements": (
        {"biases": [1.0]},
        "argument 6 of the kernel: the layer uses element 1 of the op's option 'biases', but the only element",
    ),
    "a single number": (
        {"biases": 1.0},
        "argument 6 of the kernel: the layer uses element 1 of the op's option 'biases', but the only element",
    ),
    "a text": (
        {"biases": ["a", "b"]},
        "cannot set argument 6 of the kernel: the value is the text 'b', which type float32 cannot hold",
    ),
}


@pytest.mark.parametrize(("options", "says"), WRONG.values(), ids=list(WRONG))
def test_an_op_that_does_not_fit_is_an_error(
    tmp_path: Path, options: dict[str, FlexValue], says: str
) -> None:
    gains = [("gains", np.arange(8, dtype=np.float32))]
    with pytest.raises(LiteRtError) as error:
        compile_op(tmp_path, NORM, NORM_CL, SHAPE, options, gains)
    assert says in str(error.value) and "layers.xml" in str(error.value)


def test_sizes_by_value_need_fixed_shapes(tmp_path: Path) -> None:
    gains = [("gains", np.arange(8, dtype=np.float32))]
    options: dict[str, FlexValue] = {"biases": [7.0, 0.5]}
    with pytest.raises(LiteRtError) as error:
        compile_op(tmp_path, NORM, NORM_CL, SHAPE, options, gains, (2, 4, 6, -1))
    assert (
        "INPUT0_DIMS[1] as a number, but the shape of input 0 ('x') is known only at run time"
        in str(error.value)
    )
