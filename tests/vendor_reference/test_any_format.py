"""Tests `format="ANY"` in custom layer configurations: the define names the order that the tensor really has."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert import CompiledModel, Options
from litert.core.compiler_options import CompilerOptions, CustomOpInfo, DumpOptions
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from tests.vendor_reference.cpu_layers import library
from tests.vendor_reference.executables import Array

pytestmark = pytest.mark.each_driver

SHAPE = (2, 3, 4, 5)  # B = 2, Y = 3, X = 4, F = 5
FORMATS = ("BFYX", "BYXF", "YXFB", "FYXB")

XML = """\
<CustomLayer name="{name}" type="SimpleGPU" version="1">
  <Kernel entry="run"><Source filename="{name}.cl"/></Kernel>
  <Buffers>
    <Tensor arg-index="0" type="input" port-index="0" format="{before}"/>
    <Tensor arg-index="1" type="output" port-index="0" format="{behind}"/>
  </Buffers>
</CustomLayer>
"""
COPY = """\
__kernel void run(const __global INPUT0_TYPE* x, __global OUTPUT0_TYPE* y) {
  y[get_global_id(0)] = x[get_global_id(0)];
}
"""
PLACES = """\
#define SIZES const int B = INPUT0_DIMS[0], F = INPUT0_DIMS[1], Y = INPUT0_DIMS[2], X = INPUT0_DIMS[3]
#define INDICES const int x = i % X, y = i / X % Y, f = i / X / Y % F, b = i / X / Y / F
#define BY(pitches) (b * (pitches)[0] + f * (pitches)[1] + y * (pitches)[2] + x * (pitches)[3])
"""
BY_PITCHES = f"""{PLACES}
__kernel void run(const __global INPUT0_TYPE* in, __global OUTPUT0_TYPE* out) {{
  const int i = get_global_id(0);
  SIZES; INDICES;
  out[OUTPUT0_OFFSET + BY(OUTPUT0_PITCHES)] = 2 * in[INPUT0_OFFSET + BY(INPUT0_PITCHES)];
}}
"""
BY_FORMAT = f"""{PLACES}
#if defined(INPUT0_FORMAT_BFYX)
#define FROM ((b * F + f) * Y + y) * X + x
#elif defined(INPUT0_FORMAT_BYXF)
#define FROM ((b * Y + y) * X + x) * F + f
#elif defined(INPUT0_FORMAT_YXFB)
#define FROM ((y * X + x) * F + f) * B + b
#elif defined(INPUT0_FORMAT_FYXB)
#define FROM ((f * Y + y) * X + x) * B + b
#endif
__kernel void run(const __global INPUT0_TYPE* in, __global OUTPUT0_TYPE* out) {{
  const int i = get_global_id(0);
  SIZES; INDICES;
  const bool is_there = FROM == BY(INPUT0_PITCHES) + INPUT0_OFFSET;
  out[OUTPUT0_OFFSET + BY(OUTPUT0_PITCHES)] = (is_there ? 2 : -1) * in[FROM];
}}
"""
COLUMNS_FIRST = """
    config->inputs[0].layout = config->outputs[0].layout = LiteRtNpuRowOrder(4);
    config->outputs[0].layout.order[1] = 2;
    config->outputs[0].layout.order[2] = 1;
    return kLiteRtNpuOk;"""
SWAP = """
    const float* x = inputs[0].data; float* y = outputs[0].data;
    const int64_t* d = inputs[0].memory_dims;
    for (int64_t n = 0; n < d[0]; ++n) for (int64_t h = 0; h < d[1]; ++h) for (int64_t w = 0; w < d[2]; ++w)
      for (int64_t c = 0; c < d[3]; ++c)
        y[((n * d[2] + w) * d[1] + h) * d[3] + c] = x[((n * d[1] + h) * d[2] + w) * d[3] + c];
    return kLiteRtNpuOk;"""


def run(folder: Path, first: Path, kernel: str, behind: str = "BFYX") -> tuple[Array, Array, str]:
    """Runs two layers: the first copies its input, and the second runs `kernel`.

    Returns the input, the output, and the program text of the second layer.
    """
    b = ModelBuilder()
    x = b.input("x", "float32", SHAPE)
    copied = b.custom("First", [x], [("c", "float32", SHAPE)])
    b.output(b.custom("Second", [copied], [("y", "float32", SHAPE)]))
    write_model(b.build(), folder / "m.tflite")
    second = write_layer(folder, "Second", kernel, "ANY", behind)
    infos = [CustomOpInfo("First", str(first)), CustomOpInfo("Second", str(second))]
    dump = DumpOptions(str(folder / "dump"), kernels=True)
    compiler = CompilerOptions(infos, allow_native_assets=True, dump=dump)
    options = ApplyOptions(require_npu=["all"], compiler=compiler)
    apply_plugin(folder / "m.tflite", folder / "compiled.tflite", options)
    texts = [path.read_text() for path in (folder / "dump").glob("program*")]
    (text,) = [text for text in texts if "using Custom Layer Second" in text]
    assert "FORMAT_ANY" not in text
    data = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    load = Options(allow_native_assets=True)
    model = CompiledModel.from_file(str(folder / "compiled.tflite"), options=load)
    return data, model.run({"x": data})["y"], text


def write_layer(folder: Path, name: str, kernel: str, before: str, behind: str) -> Path:
    (folder / f"{name}.cl").write_text(kernel)
    path = folder / f"{name}.xml"
    path.write_text(XML.format(name=name, before=before, behind=behind))
    return path


def formats(text: str) -> list[str]:
    return re.findall(r"^#define (\w+_FORMAT_\w+) $", text, re.M)


@pytest.mark.parametrize("before", FORMATS)
def test_the_define_of_any_format_names_the_order_that_comes(tmp_path: Path, before: str) -> None:
    first = write_layer(tmp_path, "First", COPY, before, before)
    x, y, text = run(tmp_path, first, BY_PITCHES)
    np.testing.assert_array_equal(y, 2 * x)
    assert formats(text) == [f"INPUT0_FORMAT_{before}", "OUTPUT0_FORMAT_BFYX"]


@pytest.mark.parametrize("before", FORMATS)
def test_a_kernel_with_code_for_each_format_is_right_in_each(tmp_path: Path, before: str) -> None:
    first = write_layer(tmp_path, "First", COPY, before, before)
    x, y, text = run(tmp_path, first, BY_FORMAT)
    np.testing.assert_array_equal(y, 2 * x)
    assert formats(text) == ["INPUT0_FORMAT_BYXF", "OUTPUT0_FORMAT_BFYX"]


@pytest.mark.parametrize(
    ("kernel", "order"), [(BY_PITCHES, "BXYF"), (BY_FORMAT, "BYXF"), (COPY, "BYXF")]
)
def test_an_order_that_is_no_format_reaches_a_kernel_by_pitches_alone(
    tmp_path: Path, kernel: str, order: str
) -> None:
    first = library(tmp_path, types='"First"', configuration=COLUMNS_FIRST, execute=SWAP)
    x, y, text = run(tmp_path, first, kernel, behind="BYXF")
    np.testing.assert_array_equal(y, x if kernel == COPY else 2 * x)
    assert formats(text) == [f"INPUT0_FORMAT_{order}", "OUTPUT0_FORMAT_BYXF"]


def test_an_output_of_any_format_has_its_dimensions_in_their_order(tmp_path: Path) -> None:
    x, y, text = run(
        tmp_path, write_layer(tmp_path, "First", COPY, "BFYX", "BFYX"), BY_PITCHES, "ANY"
    )
    np.testing.assert_array_equal(y, 2 * x)
    assert "#define OUTPUT0_DIMS (int []){ 2,5,3,4, } \n" in text
