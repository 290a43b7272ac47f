"""Tests layers with their own layouts from model to result, and that dumped IR can be compiled further."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from compiler_plugin.report import Report
from litert import CompiledModel
from litert.core.compiler_options import CompilerOptions, CustomOpInfo, DumpOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from tests.vendor_reference.ir_texts import run
from vendor_reference.compiler.library_layers import library_layers
from vendor_reference.compiler.pass_pipeline import IMPORT, pipeline

pytestmark = pytest.mark.each_driver

SHAPE = (1, 3, 4, 5)

SCALE = """\
<CustomLayer name="Scale" type="SimpleGPU" version="1">
  <Kernel entry="scale"><Source filename="scale.cl"/></Kernel>
  <Buffers>
    <Tensor arg-index="0" type="input" port-index="0" format="BFYX"/>
    <Tensor arg-index="1" type="input" port-index="1" format="FYXB"/>
    <Tensor arg-index="2" type="output" port-index="0" format="BFYX"/>
  </Buffers>
</CustomLayer>
"""
SCALE_CL = """\
__kernel void scale(const __global float* x, const __global float* w, __global float* y) {
  const int i = get_global_id(0), f = i / 12, p = i % 12;  // BFYX: 5 features of 12
  y[i] = x[i] * w[f * 12 + p] + f;
}
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model of two layers that ask for planar pictures, and for constant weights in an order of their own."""
    (tmp_path / "scale.xml").write_text(SCALE)
    (tmp_path / "scale.cl").write_text(SCALE_CL)
    b = ModelBuilder()
    x = b.input("x", "float32", SHAPE)
    w = b.constant("w", weights(), "float32")
    h = b.custom("Scale", [x, w], [("h", "float32", SHAPE)])
    b.output(b.custom("Scale", [h, w], [("y", "float32", SHAPE)]))
    write_model(b.build(), tmp_path / "in.tflite")
    return tmp_path / "in.tflite"


def weights() -> npt.NDArray[np.float32]:
    return (np.arange(60) * 0.125).astype(np.float32).reshape(SHAPE)


def compile_it(model: Path, ir_after: str = "all") -> Report:
    folder = model.parent
    infos = [CustomOpInfo("Scale", str(folder / "scale.xml"))]
    options = CompilerOptions(infos, dump=DumpOptions(str(folder / "dump"), ir_after))
    return apply_plugin(model, folder / "out.tflite", ApplyOptions(compiler=options))


def test_layers_run_in_their_layouts_and_what_cancels_is_not_there(model: Path) -> None:
    compile_it(model)
    with CompiledModel.from_file(str(model.parent / "out.tflite")) as compiled:
        inputs, outputs = compiled.create_input_buffers(0), compiled.create_output_buffers(0)
        x = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
        inputs[0].write(x)
        compiled.run_by_index(0, inputs, outputs)
        y = np.array(outputs[0].read(60, np.float32)).reshape(SHAPE)
    h = x * weights() + np.arange(5, dtype=np.float32)
    np.testing.assert_allclose(y, h * weights() + np.arange(5), rtol=1e-6)
    (last,) = (model.parent / "dump").glob(f"*_{pipeline()[-1]}.mlir")
    text = last.read_text()  # two layers, with a reorder before and after them
    assert (text.count("VPUIP.OCL"), text.count("VPUIP.Command")) == (2, 2)


def test_every_dump_is_taken_up_again(model: Path) -> None:
    """Checks that the remaining passes turn each dump into the compiler's final text."""
    report = compile_it(model)
    paths = sorted((model.parent / "dump").glob("*.mlir"))
    assert [p.name for p in paths] == [
        f"{i:02}_{n}.mlir" for i, n in enumerate((IMPORT, *pipeline()))
    ]
    names = ", ".join(path.name for path in paths)
    assert f"IR is written to {model.parent / 'dump'}: {names}." in report.notes
    for index, path in enumerate(paths):
        assert run(path.read_text(), ",".join(pipeline()[index:])) == paths[-1].read_text()


def test_one_pass_is_dumped_alone(model: Path) -> None:
    compile_it(model, "adjust-layouts")
    (path,) = (model.parent / "dump").glob("*.mlir")
    assert path.read_text().count("IE.Reorder") == 5  # the weights are reordered only once


def test_a_pass_that_there_is_not_is_refused_and_nothing_is_written(model: Path) -> None:
    with pytest.raises(LiteRtError, match="there is no compiler pass 'lower'") as error:
        compile_it(model, "lower")
    assert error.value.status is Status.NOT_FOUND and "lower-ie-to-iert" in error.value.hint
    assert not (model.parent / "out.tflite").exists() and not (model.parent / "dump").exists()


def test_tensors_that_are_called_by_numbers_have_no_names_in_the_ir(tmp_path: Path) -> None:
    """Checks names from converters, such as `strided_slice/0`; xDSL reads `_0` as a suffix without a name."""
    b = ModelBuilder()
    x = b.input("0", "float32", (2, 3))
    y = b.op("ADD", [x, b.constant("mul/1_2", np.ones(3, np.float32))], [("12", "float32", (2, 3))])
    b.output(y)
    write_model(b.build(), tmp_path / "in.tflite")
    options = CompilerOptions(vendor_options={"reference_ops": "all"})
    apply_plugin(tmp_path / "in.tflite", tmp_path / "out.tflite", ApplyOptions(compiler=options))
    with CompiledModel.from_file(str(tmp_path / "out.tflite")) as compiled:
        result = compiled.run({"0": np.zeros((2, 3), np.float32)})
    np.testing.assert_array_equal(result["12"], np.ones((2, 3)))


def test_numbers_are_no_names_in_a_text() -> None:
    text = """
    func.func @main(%_0 : tensor<4xf32>) -> tensor<4xf32> {
      %_1_2 = IE.Abs(%_0) : tensor<4xf32> -> tensor<4xf32>
      return %_1_2 : tensor<4xf32>
    }"""
    made = run(text, ",".join(pipeline()), [library_layers()["ABS"]])
    assert "VPUIP.Command @Abs (%0) -> (%1)" in made
