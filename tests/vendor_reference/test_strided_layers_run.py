"""Tests custom layers with pitches and offsets, from model to result: they write into parts of larger tensors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert import CompiledModel
from litert.core.compiler_options import CompilerOptions, CustomOpInfo, DumpOptions
from litert.model.builder import ModelBuilder
from litert.model.graph import Model, Tensor
from litert.model.writer import write_model
from tests.vendor_reference.executables import Array
from vendor_reference.compiler.opt import transform_text
from vendor_reference.compiler.pass_pipeline import pipeline

pytestmark = pytest.mark.each_driver

XML = """\
<CustomLayer name="{name}" type="SimpleGPU" version="1">
  <Kernel entry="scale"><Source filename="{kernel}.cl"/><Define name="gain" param="gain" type="float"/></Kernel>
  <Buffers>
    <Tensor arg-index="0" type="input" port-index="0" format="{form}"/>
    <Tensor arg-index="1" type="output" port-index="0" format="{form}"/>
  </Buffers>
  <WorkSizes global="X,Y,B*F"/>
</CustomLayer>
"""

STRIDED = """\
__kernel void scale(const __global INPUT0_TYPE* in, __global OUTPUT0_TYPE* out) {
  const int x = get_global_id(0), y = get_global_id(1);
  const int b = get_global_id(2) / OUTPUT0_DIMS[1], f = get_global_id(2) % OUTPUT0_DIMS[1];
  const int from = b * INPUT0_PITCHES[0] + f * INPUT0_PITCHES[1] + y * INPUT0_PITCHES[2] + x * INPUT0_PITCHES[3];
  const int to = b * OUTPUT0_PITCHES[0] + f * OUTPUT0_PITCHES[1] + y * OUTPUT0_PITCHES[2] + x * OUTPUT0_PITCHES[3];
  out[to + OUTPUT0_OFFSET] = gain * in[from + INPUT0_OFFSET];
}
"""

ROWS = """\
__kernel void scale(const __global INPUT0_TYPE* in, __global OUTPUT0_TYPE* out) {
  const int i = get_global_id(0) + OUTPUT0_DIMS[3] * (get_global_id(1) + OUTPUT0_DIMS[2] * get_global_id(2));
  out[i] = gain * in[i];
}
"""

BFYX, BYXF, DENSE = "GainBFYX", "GainBYXF", "Dense"
SHAPE = (2, 4, 6, 2)  # B = 2, Y = 4, X = 6, F = 2


def gain(b: ModelBuilder, layer: str, x: Tensor, name: str, factor: float) -> Tensor:
    made = b.custom(layer, [x], [(name, "float32", x.shape)], options={"gain": factor})
    assert isinstance(made, Tensor)
    return made


def compile_model(folder: Path, model: Model) -> dict[str, str]:
    """Compiles the model to `compiled.tflite`, all on the NPU; returns the dumped texts by file name."""
    write_model(model, folder / "m.tflite")
    (folder / "strided.cl").write_text(STRIDED)
    (folder / "rows.cl").write_text(ROWS)
    infos = []
    for name, kernel, form in (
        (BFYX, "strided", "BFYX"),
        (BYXF, "strided", "BYXF"),
        (DENSE, "rows", "BFYX"),
    ):
        path = folder / f"{name}.xml"
        path.write_text(XML.format(name=name, kernel=kernel, form=form))
        infos.append(CustomOpInfo(name, str(path)))
    compiler = CompilerOptions(
        infos,
        dump=DumpOptions(str(folder / "dump"), "all", kernels=True),
        vendor_options={"reference_ops": "CONCATENATION,PAD"},
    )
    options = ApplyOptions(require_npu=["all"], compiler=compiler)
    apply_plugin(folder / "m.tflite", folder / "compiled.tflite", options)
    return {path.name: path.read_text() for path in (folder / "dump").iterdir()}


def run(folder: Path, inputs: Sequence[Array], shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    model = CompiledModel.from_file(str(folder / "compiled.tflite"))
    input_buffers, output_buffers = model.create_input_buffers(0), model.create_output_buffers(0)
    for buffer, array in zip(input_buffers, inputs, strict=True):
        buffer.write(array)
    model.run_by_index(0, input_buffers, output_buffers)
    return [
        np.array(buffer.read(int(np.prod(shape)), np.float32)).reshape(shape)
        for buffer, shape in zip(output_buffers, shapes, strict=True)
    ]


def random(shape: tuple[int, ...] = SHAPE) -> Array:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def tasks(dump: dict[str, str]) -> list[str]:
    """Returns the names of the tasks' functions in order, without numbers."""
    (last,) = (text for name, text in dump.items() if name.endswith("_plan-memory.mlir"))
    return re.findall(r"VPUIP\.(?:OCL|Command) @([A-Za-z]+)", last)


def kernel_of(dump: dict[str, str], layer: str) -> str:
    (text,) = (t for t in dump.values() if f"// Layer {layer} using Custom Layer" in t)
    return text


def define(text: str, name: str) -> list[int]:
    (found,) = re.findall(rf"#define {name} (.*)", text)
    return [int(number) for number in re.findall(r"-?\d+", found)]


def joined(layers: tuple[str, str], shape: tuple[int, ...], axis: int) -> Model:
    whole = tuple(2 * n if i == axis else n for i, n in enumerate(shape))
    b = ModelBuilder()
    x = b.input("x", "float32", shape)
    parts = [gain(b, layers[0], x, "first", 2.0), gain(b, layers[1], x, "second", -3.0)]
    b.output(b.op("CONCATENATION", parts, [("y", "float32", whole)], axis=axis))
    return b.build()


@pytest.mark.parametrize(
    ("layer", "shape", "axis", "lower", "pitches", "offset"),
    [  # first two cases: the second half of a tensor split on F, and on X
        (BFYX, (2, 4, 6, 2), 3, [0, 2, 0, 0], [96, 24, 6, 1], 48),
        (BFYX, (2, 4, 3, 3), 2, [0, 0, 0, 3], [72, 24, 6, 1], 3),
        (BYXF, (2, 4, 6, 2), 3, [0, 2, 0, 0], [96, 1, 24, 4], 2),
        (BYXF, (2, 4, 6, 2), 1, [0, 0, 4, 0], [96, 1, 12, 2], 48),
        (BYXF, (2, 4, 6, 2), 0, [2, 0, 0, 0], [48, 1, 12, 2], 96),
    ],
)
def test_what_is_joined_is_written_in_its_place(
    tmp_path: Path,
    layer: str,
    shape: tuple[int, ...],
    axis: int,
    lower: list[int],
    pitches: list[int],
    offset: int,
) -> None:
    dump = compile_model(tmp_path, joined((layer, layer), shape, axis))
    assert [name for name in tasks(dump) if name != "Reorder"] == [layer, layer]
    first, second = kernel_of(dump, "first"), kernel_of(dump, "second")
    letter = {3: 1, 2: 3, 1: 2, 0: 0}[axis]
    behind = [shape[axis] if i == letter else 0 for i in range(4)]
    assert define(first, "OUTPUT0_LOWER_PADDING") == [0, 0, 0, 0]
    assert define(first, "OUTPUT0_UPPER_PADDING") == (behind if axis else [0, 0, 0, 0])
    assert define(first, "OUTPUT0_OFFSET") == [0]
    assert define(second, "OUTPUT0_LOWER_PADDING") == lower
    assert define(second, "OUTPUT0_UPPER_PADDING") == [0, 0, 0, 0]
    assert define(first, "OUTPUT0_PITCHES") == define(second, "OUTPUT0_PITCHES") == pitches
    assert define(second, "OUTPUT0_OFFSET") == [offset]
    assert f"#define OUTPUT0_FORMAT_{layer.removeprefix('Gain')} " in second
    x = random(shape)
    whole = np.concatenate([2 * x, -3 * x], axis)
    np.testing.assert_array_equal(run(tmp_path, [x], [whole.shape])[0], whole)


def test_a_layer_that_counts_elements_has_a_buffer_of_its_own_and_is_copied(tmp_path: Path) -> None:
    dump = compile_model(tmp_path, joined((BFYX, DENSE), SHAPE, 3))
    assert sorted(set(tasks(dump))) == ["Concat", DENSE, BFYX, "Reorder"]
    dense = kernel_of(dump, "second")
    assert define(dense, "OUTPUT0_PITCHES") == [48, 24, 6, 1]
    assert define(dense, "OUTPUT0_OFFSET") == [0]
    assert define(kernel_of(dump, "first"), "OUTPUT0_PITCHES") == [96, 24, 6, 1]
    (placed,) = (text for name, text in dump.items() if name.endswith("_place-parts.mlir"))
    assert "in_place = array<i64: 0>" in placed
    x = random()
    whole = np.concatenate([2 * x, -3 * x], 3)
    np.testing.assert_array_equal(run(tmp_path, [x], [whole.shape])[0], whole)


def test_what_is_padded_is_written_in_its_place(tmp_path: Path) -> None:
    sides = [[0, 0], [1, 2], [3, 0], [0, 1]]
    b = ModelBuilder()
    x = b.input("x", "float32", SHAPE)
    padding = b.constant("sides", np.array(sides, np.int32))
    inner = gain(b, BYXF, x, "inner", 2.0)
    b.output(b.op("PAD", [inner, padding], [("y", "float32", (2, 7, 9, 3))]))
    dump = compile_model(tmp_path, b.build())
    text = kernel_of(dump, "inner")
    assert define(text, "OUTPUT0_DIMS") == [2, 2, 4, 6]
    assert define(text, "OUTPUT0_LOWER_PADDING") == [0, 0, 1, 3]
    assert define(text, "OUTPUT0_UPPER_PADDING") == [0, 1, 2, 0]
    assert define(text, "OUTPUT0_PITCHES") == [189, 1, 27, 3]
    assert define(text, "OUTPUT0_OFFSET") == [36]
    data = random()
    expected = np.pad(2 * data, sides)
    np.testing.assert_array_equal(run(tmp_path, [data], [expected.shape])[0], expected)


def chained() -> Model:
    """Returns a model that calls one layer with one gain: dense, in three places, and on a place's tensor."""
    b = ModelBuilder()
    x = b.input("x", "float32", SHAPE)
    parts = [gain(b, BYXF, x, "first", 2.0)]
    parts.append(gain(b, BYXF, parts[0], "second", 2.0))
    parts.append(gain(b, BYXF, parts[1], "third", 2.0))
    b.output(b.op("CONCATENATION", parts, [("y", "float32", (2, 4, 6, 6))], axis=3))
    b.output(gain(b, BYXF, parts[1], "read", 2.0), gain(b, BYXF, x, "dense", 2.0))
    return b.build()


def test_calls_with_other_views_have_functions_of_their_own(tmp_path: Path) -> None:
    dump = compile_model(tmp_path, chained())
    assert tasks(dump) == [BYXF] * 5
    (placed,) = (text for name, text in dump.items() if name.endswith("_place-parts.mlir"))
    called = re.findall(rf"func\.call @({BYXF}\w*)", placed)
    assert len(called) == len(set(called)) == placed.count("func.func private") == 5
    read = kernel_of(dump, "read")
    assert define(read, "INPUT0_LOWER_PADDING") == [0, 2, 0, 0]
    assert define(read, "INPUT0_UPPER_PADDING") == [0, 2, 0, 0]
    assert define(read, "INPUT0_OFFSET") == [2]
    assert define(read, "OUTPUT0_PITCHES") == [48, 1, 12, 2]
    x = random()
    y, again, dense = run(tmp_path, [x], [(2, 4, 6, 6), SHAPE, SHAPE])
    np.testing.assert_array_equal(y, np.concatenate([2 * x, 4 * x, 8 * x], 3))
    np.testing.assert_array_equal(again, 8 * x)
    np.testing.assert_array_equal(dense, 2 * x)


def test_what_is_dumped_on_the_way_is_taken_up_again(tmp_path: Path) -> None:
    dump = compile_model(tmp_path, chained())
    levels = [dump[name] for name in sorted(dump) if name.endswith(".mlir")]
    for name, before, after in zip(pipeline(), levels[:-1], levels[1:], strict=True):
        assert transform_text(before.encode(), "dump.mlir", name) == after, name


def test_equal_calls_share_a_function(tmp_path: Path) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", SHAPE)
    for name in ("y", "z"):
        parts = [gain(b, BYXF, x, f"{name}{i}", 2.0) for i in range(2)]
        b.output(b.op("CONCATENATION", parts, [(name, "float32", (2, 4, 6, 4))], axis=3))
    dump = compile_model(tmp_path, b.build())
    assert len([name for name in dump if name.endswith(".cl")]) == 2
    x_data = random()
    expected = np.concatenate([2 * x_data] * 2, 3)
    for made in run(tmp_path, [x_data], [expected.shape] * 2):
        np.testing.assert_array_equal(made, expected)
