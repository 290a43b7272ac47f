"""Tests custom layer configurations from file to result: compiled, and run on the emulated NPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from compiler_plugin.report import Report
from litert import CompiledModel
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.errors import LiteRtError
from litert.model.assets import read_assets
from litert.model.builder import ModelBuilder
from litert.model.reader import read_model
from litert.model.writer import write_model

pytestmark = pytest.mark.each_driver

Array = npt.NDArray[Any]
SHAPE = (2, 3, 5, 4)

RELU_XML = """\
<!-- ReLU, its slope an option of the op -->
<CustomLayer name="{name}" type="SimpleGPU" version="1">
  <Kernel entry="example_relu_kernel">
    <Source filename="custom_layer_kernel.cl"/>
    <Define name="neg_slope" type="float" param="{param}" default="0.0"/>
  </Kernel>
  <Buffers>
    <Tensor arg-index="0" type="input" port-index="0" format="BFYX"/>
    <Tensor arg-index="1" type="output" port-index="0" format="BFYX"/>
  </Buffers>
  <CompilerOptions options="-cl-mad-enable"/>
  <WorkSizes global="X,Y,B*F"/>
</CustomLayer>
"""

RELU_CL = """\
__kernel void example_relu_kernel(const __global INPUT0_TYPE* input0, __global OUTPUT0_TYPE* output)
{
    const uint idx  = get_global_id(0);
    const uint idy  = get_global_id(1);
    const uint idbf = get_global_id(2);
    const uint feature = idbf % OUTPUT0_DIMS[1];
    const uint batch   = idbf / OUTPUT0_DIMS[1];
    const uint in_id  = batch*INPUT0_PITCHES[0] + feature*INPUT0_PITCHES[1] + idy*INPUT0_PITCHES[2]
                      + idx*INPUT0_PITCHES[3] + INPUT0_OFFSET;
    const uint out_id = batch*OUTPUT0_PITCHES[0] + feature*OUTPUT0_PITCHES[1] + idy*OUTPUT0_PITCHES[2]
                      + idx*OUTPUT0_PITCHES[3] + OUTPUT0_OFFSET;
    INPUT0_TYPE value = input0[in_id];
    output[out_id] = value < 0 ? value * neg_slope : value;
}
"""


def write_layer(folder: Path, name: str = "ReLU", param: str = "negative_slope") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "custom_layer_kernel.cl").write_text(RELU_CL)
    path = folder / "relu.xml"
    path.write_text(RELU_XML.format(name=name, param=param))
    return path


def write_custom_op(path: Path, **options: float) -> Path:
    b = ModelBuilder()
    x = b.input("x", "float32", SHAPE)
    b.output(b.custom("MyRelu", [x], [("y", "float32", SHAPE)], options=options))
    write_model(b.build(), path)
    return path


def compile_and_run(
    source: Path,
    inputs: Sequence[Array],
    assets: Mapping[str, Path] | None = None,
    **options: Any,
) -> tuple[Array, Report]:
    """Returns the first output and the report; the compiled file runs without its assets nearby."""
    infos = [CustomOpInfo(op, str(path)) for op, path in (assets or {}).items()]
    target = source.parent / "compiled.tflite"
    compiler = CompilerOptions(infos, **options)
    report = apply_plugin(source, target, ApplyOptions(compiler=compiler))
    model = CompiledModel.from_file(str(target))
    input_buffers, output_buffers = model.create_input_buffers(0), model.create_output_buffers(0)
    for buffer, array in zip(input_buffers, inputs, strict=True):
        buffer.write(array)
    model.run_by_index(0, input_buffers, output_buffers)
    return np.array(output_buffers[0].read(int(np.prod(SHAPE)), np.float32)).reshape(SHAPE), report


def random(seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=SHAPE).astype(np.float32)


@pytest.mark.parametrize(("options", "slope"), [({}, 0.0), ({"negative_slope": 0.25}, 0.25)])
def test_the_seeds_layer_runs_with_its_parameter_or_its_default(
    tmp_path: Path, options: dict[str, float], slope: float
) -> None:
    source = write_custom_op(tmp_path / "in.tflite", **options)
    layer = write_layer(tmp_path / "layer")
    x = random()
    y, report = compile_and_run(source, [x], {"MyRelu": layer})
    np.testing.assert_array_equal(y, np.where(x < 0, x * np.float32(slope), x))
    assert [op.name for op in report.npu_ops] == ["MyRelu"]
    with read_model(tmp_path / "compiled.tflite") as model:
        assets = {asset.name: bytes(asset.blob) for asset in read_assets(model)}
    assert assets == {
        "MyRelu": layer.read_bytes(),
        "MyRelu/custom_layer_kernel.cl": RELU_CL.encode(),
    }


def test_a_builtin_op_is_overridden_and_the_report_says_what_it_costs(tmp_path: Path) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", SHAPE)
    leaky = b.op(
        "LEAKY_RELU",
        [b.op("NEG", [x], [("n", "float32", SHAPE)])],
        [("l", "float32", SHAPE)],
        alpha=0.5,
    )
    b.output(b.op("ABS", [leaky], [("y", "float32", SHAPE)]))
    write_model(b.build(), tmp_path / "in.tflite")
    layer = write_layer(tmp_path / "layer", param="alpha")
    data = random()
    y, report = compile_and_run(tmp_path / "in.tflite", [data], {"LEAKY_RELU": layer})
    np.testing.assert_array_equal(y, np.where(data > 0, data * 0.5, -data))
    assert [op.name for op in report.npu_ops] == ["LEAKY_RELU"]
    (note,) = [note for note in report.notes if "overridden" in note]
    assert note.startswith("LEAKY_RELU: 1 builtin op is overridden by layer 'ReLU' of relu.xml.")
    assert "fusing with NEG, ABS. 2 tensors pass between CPU and NPU" in note


def test_layers_for_any_model_are_found_embedded_and_run(tmp_path: Path) -> None:
    source = write_custom_op(tmp_path / "in.tflite", negative_slope=2.0)
    layer = write_layer(tmp_path / "layers", name="MyRelu")
    x = random()
    y, report = compile_and_run(source, [x], custom_layers=[str(tmp_path / "layers")])
    np.testing.assert_array_equal(y, np.where(x < 0, 2 * x, x))
    assert [(a.name, a.path) for a in report.assets] == [
        ("MyRelu", str(layer)),
        ("MyRelu/custom_layer_kernel.cl", ""),
    ]


def test_a_configuration_that_the_environment_names_is_for_every_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = write_layer(tmp_path / "layers", name="MyRelu")
    monkeypatch.setenv("LITERT_NPU_CUSTOM_LAYERS", str(layer))
    x = random()
    for slope in (2.0, 3.0):
        source = write_custom_op(tmp_path / "in.tflite", negative_slope=slope)
        y, _ = compile_and_run(source, [x])
        np.testing.assert_array_equal(y, np.where(x < 0, np.float32(slope) * x, x))


def test_a_flag_goes_before_a_layer_for_any_model(tmp_path: Path) -> None:
    source = write_custom_op(tmp_path / "in.tflite", negative_slope=2.0)
    write_layer(tmp_path / "layers", name="MyRelu", param="nothing")
    mine = write_layer(tmp_path / "mine")
    x = random()
    y, _ = compile_and_run(source, [x], {"MyRelu": mine}, custom_layers=[str(tmp_path / "layers")])
    np.testing.assert_array_equal(y, np.where(x < 0, 2 * x, x))


def test_sources_in_an_asset_root_run_from_the_compiled_file_alone(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    layer = write_layer(root / "layers")
    (root / "common").mkdir()
    kernel = root / "layers" / "custom_layer_kernel.cl"
    (root / "common" / "relu.cl").write_text(RELU_CL)
    kernel.write_text('#include "../common/relu.cl"\n')
    source = write_custom_op(tmp_path / "in.tflite", negative_slope=2.0)
    with pytest.raises(
        LiteRtError, match=r"is not in folder .*, in which all files of the layer must be"
    ):
        compile_and_run(source, [random()], {"MyRelu": layer})
    x = random()
    y, report = compile_and_run(source, [x], {"MyRelu": layer}, asset_root=str(root))
    np.testing.assert_array_equal(y, np.where(x < 0, 2 * x, x))
    assert [asset.name for asset in report.assets] == [
        "MyRelu", "MyRelu/layers/custom_layer_kernel.cl", "MyRelu/common/relu.cl",
    ]  # fmt: skip
    assert str(tmp_path).encode() not in (tmp_path / "compiled.tflite").read_bytes()


def test_what_a_configuration_leaves_unsaid_is_in_the_report(tmp_path: Path) -> None:
    source = write_custom_op(tmp_path / "in.tflite")
    layer = write_layer(tmp_path / "layer")
    text = layer.read_text().replace(
        '<CompilerOptions options="', '<Extra/><CompilerOptions options="-w '
    )
    layer.write_text(text.replace('param="negative_slope" default="0.0"', 'param="negative_slope"'))
    with pytest.raises(LiteRtError) as error:  # the kernel contains `value *` without an operand
        compile_and_run(source, [random()], {"MyRelu": layer})
    assert "custom_layer_kernel.cl" in error.value.where
    assert "relu.xml, op 'MyRelu': define 'neg_slope' is empty" in error.value.hint
    layer.write_text(text)
    _, report = compile_and_run(source, [random()], {"MyRelu": layer})
    assert (
        "relu.xml, line 11, <Extra>: this element is unknown in <CustomLayer>, and is ignored."
        in report.notes
    )


def write_one_op(
    path: Path, inputs: Sequence[Array], constants: Mapping[str, Array], shape: tuple[int, ...]
) -> Path:
    """Writes a model of the op `L`, whose constants follow its inputs."""
    b = ModelBuilder()
    tensors = [b.input(f"x{i}", "float32", array.shape) for i, array in enumerate(inputs)]
    tensors += [b.constant(name, array) for name, array in constants.items()]
    b.output(b.custom("L", tensors, [("y", "float32", shape)]))
    write_model(b.build(), path)
    return path


DATA_XML = """\
<CustomLayer name="L" type="SimpleGPU" version="1">
  <Kernel entry="k"><Source filename="k.cl"/></Kernel>
  <Buffers>
    <Data name="biases" arg-index="3"/>
    <Tensor arg-index="0" type="input" port-index="0"/>
    <Tensor arg-index="2" type="internal" port-index="0" size="INPUT0_DIMS[0] * INPUT0_DIMS[1] * INPUT0_DIMS[2] * INPUT0_DIMS[3]"/>
    <Tensor arg-index="1" type="output" port-index="0"/>
  </Buffers>
  <WorkSizes global="F" dim="input"/>
</CustomLayer>
"""  # noqa: E501
DATA_CL = """\
__kernel void k(const __global float* x, __global float* y, __global float* scratch, const __global float* bias) {
  const int f = get_global_id(0), size = INPUT0_DIMS[2] * INPUT0_DIMS[3];
  for (int b = 0; b < INPUT0_DIMS[0]; ++b)
    for (int i = 0; i < size; ++i) {
      const int at = b * INPUT0_PITCHES[0] + f * INPUT0_PITCHES[1] + i;
      scratch[at] = x[at] + bias[f];
      y[at] = 2.0f * scratch[at];
    }
}
"""


def test_data_by_name_and_internal_memory_reach_the_kernel(tmp_path: Path) -> None:
    x, bias = random(), np.arange(SHAPE[3], dtype=np.float32)
    source = write_one_op(tmp_path / "in.tflite", [x], {"net/layer/biases:0": bias}, SHAPE)
    (tmp_path / "l.xml").write_text(DATA_XML)
    (tmp_path / "k.cl").write_text(DATA_CL)
    y, report = compile_and_run(source, [x], {"L": tmp_path / "l.xml"})
    np.testing.assert_array_equal(y, 2 * (x + bias))
    assert [op.name for op in report.npu_ops] == ["L"]
    assert not any("l.xml" in note for note in report.notes)


HALF_JSON = """\
{
  "version": 1,
  "layers": [
    {"name": "Other", "sources": ["k.cl"]},
    {
      "name": "L",
      "sources": ["k.cl"],
      "entry": "halves",
      "arguments": [
        {"input": 0, "format": "BFYX", "type": "float16"},
        {"data": "scale"},
        {"output": 0, "format": "YXFB"}
      ],
      "work_sizes": {"global": ["INPUT0_SHAPE[1] * INPUT0_SHAPE[2]", "F", "B"]}
    }
  ]
}
"""
HALF_CL = """\
__kernel void halves(const __global half* x, const __global float* scale, __global float* y) {
  const int i = get_global_id(0), f = get_global_id(1), b = get_global_id(2);
  const int at = b * INPUT0_PITCHES[0] + f * INPUT0_PITCHES[1] + i;
#ifdef INPUT0_FORMAT_BFYX
  y[b * OUTPUT0_PITCHES[0] + f * OUTPUT0_PITCHES[1] + i * OUTPUT0_PITCHES[3]] = vload_half(at, x) * scale[0];
#endif
}
"""


def test_a_description_in_json_has_formats_precisions_and_data(tmp_path: Path) -> None:
    x, scale = random(), np.array([4.0], np.float32)
    source = write_one_op(tmp_path / "in.tflite", [x], {"scale": scale}, SHAPE)
    (tmp_path / "l.json").write_text(HALF_JSON)
    (tmp_path / "k.cl").write_text(HALF_CL)
    y, _ = compile_and_run(source, [x], {"L": tmp_path / "l.json"})
    np.testing.assert_array_equal(y, x.astype(np.float16).astype(np.float32) * 4)
