"""Tests models of dynamic shape from asset to result: ways to find shapes, forms of kernels, any format."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from compiler_plugin.report import Report
from dispatch.tensor_buffer import TensorBuffer
from litert import CompiledModel
from litert import TensorBuffer as CallerBuffer
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.model.builder import ModelBuilder
from litert.model.graph import Tensor
from litert.model.writer import write_model
from tests.vendor_reference.test_device_shapes import counted

pytestmark = pytest.mark.each_driver

Array = npt.NDArray[Any]
F32 = "float32"

SQUARE = """
__kernel void Square(__global const float* x, __global float* y) {
    y[get_global_id(0)] = x[get_global_id(0)] * x[get_global_id(0)];
}
"""
UPSCALE_BY_TEXT = """
__kernel void Upscale(__global const float* x, __global float* y) {
    const int f = get_global_id(0), ox = get_global_id(1), oy = get_global_id(2) % OUTPUT0_DIMS[2];
    const int b = get_global_id(2) / OUTPUT0_DIMS[2];
    y[b * OUTPUT0_PITCHES[0] + f * OUTPUT0_PITCHES[1] + oy * OUTPUT0_PITCHES[2] + ox * OUTPUT0_PITCHES[3]] =
        x[b * INPUT0_PITCHES[0] + f * INPUT0_PITCHES[1] + oy / 2 * INPUT0_PITCHES[2] + ox / 2 * INPUT0_PITCHES[3]];
}
"""
UPSCALE_BY_BUFFER = """
__kernel void Upscale(__global const float* x, __global const uint* in, __global float* y) {
    const uint f = get_global_id(0), ox = get_global_id(1), oy = get_global_id(2) % (2 * in[1]);
    const uint b = get_global_id(2) / (2 * in[1]);
    y[((b * 2 * in[1] + oy) * 2 * in[2] + ox) * in[3] + f] =
        x[((b * in[1] + oy / 2) * in[2] + ox / 2) * in[3] + f];
}
__kernel void upscaled(__global const uint* in, __global uint* out) {
    out[0] = in[0]; out[1] = 2 * in[1]; out[2] = 2 * in[2]; out[3] = in[3];
}
"""
POSITIVE = """
__kernel void Positive(__global const float* x, __global const uint* in, __global float* y, __global uint* out) {
    uint n = 0;
    for (uint i = 0; i < in[0]; ++i) if (x[i] > 0) y[n++] = x[i];
    out[0] = n;
}
"""
UPSCALE = {
    "version": 1,
    "sources": ["k.cl"],
    "work_sizes": {"global": ["F", "X", "B*Y"], "of": {"output": 0}},
}
TWICE: Mapping[str, Any] = {"output_shapes": [["B", "Y*2", "X*2", "F"]]}
BY_BUFFER: Mapping[str, Any] = {
    "arguments": [{"input": 0}, {"shape": {"input": 0}}, {"output": 0}],
    "entry": "Upscale",
}


class Compiler:
    """Compiles models in a separate folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.report: Report | None = None
        (folder / "k.cl").write_text("")

    def __call__(
        self,
        builder: ModelBuilder,
        bounds: Mapping[str, Sequence[int]],
        require: bool = True,
        **assets: str,
    ) -> CompiledModel:
        """Compiles and loads a model; `assets` maps ops to file names."""
        write_model(builder.build(), self.folder / "in.tflite")
        infos = [CustomOpInfo(op, str(self.folder / name)) for op, name in assets.items()]
        self.report = apply_plugin(
            self.folder / "in.tflite",
            self.folder / "out.tflite",
            ApplyOptions(
                require_npu=list(assets) if require else (),
                compiler=CompilerOptions(infos, shape_bounds=bounds),
            ),
        )
        return CompiledModel.from_file(str(self.folder / "out.tflite"))

    def write(self, name: str, text: str | Mapping[str, Any]) -> str:
        content = text if isinstance(text, str) else json.dumps(text)
        (self.folder / name).write_text(content)
        return name


@pytest.fixture
def compiler(tmp_path: Path) -> Compiler:
    return Compiler(tmp_path)


def opened(builder: ModelBuilder, name: str, *pattern: int) -> Tensor:
    shape = [max(d, 1) for d in pattern]
    return builder.tensor(name, F32, shape, shape_signature=pattern)


def one_op(op: str, pattern: Sequence[int], result: Sequence[int]) -> ModelBuilder:
    builder = ModelBuilder()
    shape = [max(d, 1) for d in pattern]
    x = builder.input("x", F32, shape, shape_signature=pattern)
    builder.output(builder.custom(op, [x], [opened(builder, "y", *result)]))
    return builder


def random(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def twice(x: Array) -> Array:
    return x.repeat(2, 1).repeat(2, 2)


SHAPES = [(2, 5, 4, 2), (1, 2, 3, 2), (2, 5, 4, 2), (1, 2, 3, 2)]


def test_an_elementwise_cl_keeps_the_shape_of_its_input(compiler: Compiler) -> None:
    name = compiler.write("Square.cl", SQUARE)
    model = compiler(one_op("Square", (-1, 3), (-1, 3)), {"x": (100, 3)}, Square=name)
    for number in (1, 8, 100, 8):
        x = random(number, 3)
        assert np.array_equal(model.run({"x": x})["y"], x * x)
    assert compiler.report is not None
    notes = " ".join(compiler.report.notes)
    assert "has memory for shapes up to 'x' 100x3, 'y' 100x3" in notes
    assert "output 0 is assumed to have the shape of an input" in notes


@pytest.mark.parametrize(
    ("source", "description"),
    [
        (UPSCALE_BY_TEXT, {**UPSCALE, **TWICE}),
        (UPSCALE_BY_BUFFER, {**UPSCALE, **TWICE, **BY_BUFFER}),
        (
            UPSCALE_BY_BUFFER,
            {**UPSCALE, **BY_BUFFER, "shape_kernel": {"entry": "upscaled"}},
        ),
    ],
    ids=["text, formulas", "buffers, formulas", "buffers, a kernel"],
)
def test_a_shape_is_computed_apart(
    compiler: Compiler, source: str, description: Mapping[str, Any]
) -> None:
    compiler.write("k.cl", source)
    name = compiler.write("layer.json", description)
    bounds: dict[str, Sequence[int]] = {"x": (2, 5, 4, 2)}
    if "shape_kernel" in description:
        bounds["y"] = (2, 10, 8, 2)
    model = compiler(one_op("Upscale", (-1, -1, -1, 2), (-1, -1, -1, 2)), bounds, Upscale=name)
    for shape in SHAPES:
        x = random(*shape)
        assert np.array_equal(model.run({"x": x})["y"], twice(x))


@pytest.mark.parametrize("way", ["formulas", "a kernel"])
def test_a_resize_tells_the_shape_that_formulas_find(compiler: Compiler, way: str) -> None:
    compiler.write("k.cl", UPSCALE_BY_BUFFER)
    found = TWICE if way == "formulas" else {"shape_kernel": {"entry": "upscaled"}}
    name = compiler.write("layer.json", {**UPSCALE, **BY_BUFFER, **found})
    bounds = {"x": (2, 5, 4, 2), "y": (2, 10, 8, 2)}
    model = compiler(one_op("Upscale", (-1, -1, -1, 2), (-1, -1, -1, 2)), bounds, Upscale=name)
    key = model.get_signature_by_index(0)["key"]
    for shape in SHAPES:
        model.resize_input_tensor(0, shape)
        x, expected = random(*shape), [shape[0], 2 * shape[1], 2 * shape[2], 2]
        is_known = way == "formulas"
        details = model.get_output_tensor_details(key)["y"]
        assert details["shape"] == (expected if is_known else [-1, -1, -1, 2])
        size = model.get_output_buffer_requirements(0)["buffer_size"]
        assert size == 4 * np.prod(expected if is_known else bounds["y"])
        inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
        inputs[0].write(x)
        model.run_by_index(0, inputs, outputs)
        assert np.array_equal(outputs[0].array(), twice(x))


def test_a_file_may_begin_with_a_shape_that_no_run_can_have(compiler: Compiler) -> None:
    compiler.write("k.cl", UPSCALE_BY_BUFFER)
    less = {"output_shapes": [["B", "Y-3", "X*2", "F"]]}
    name = compiler.write("layer.json", {**UPSCALE, **BY_BUFFER, **less})
    builder = one_op("Upscale", (-1, -1, -1, 2), (-1, -1, -1, 2))
    model = compiler(builder, {"x": (2, 5, 4, 2)}, Upscale=name)  # its shape has 1 row
    key = model.get_signature_by_index(0)["key"]
    assert model.get_output_tensor_details(key)["y"]["shape"] == [2, 2, 8, 2]  # for the bound
    with pytest.raises(LiteRtError, match="is -2, which is below 0; "):
        model.run({"x": random(1, 1, 1, 2)})
    model.resize_input_tensor(0, [1, 4, 4, 2])
    assert model.get_output_tensor_details(key)["y"]["shape"] == [1, 1, 8, 2]
    model.resize_input_tensor(0, [2, 5, 4, 2])
    assert model.get_output_tensor_details(key)["y"]["shape"] == [2, 2, 8, 2]


def test_a_kernel_finds_its_shape_itself_between_ops_of_the_cpu(compiler: Compiler) -> None:
    builder = ModelBuilder()
    x = builder.input("x", F32, (1,), shape_signature=(-1,))
    shifted = builder.op("NEG", [x], [opened(builder, "shifted", -1)])
    found = builder.custom("Positive", [shifted], [opened(builder, "found", -1)])
    builder.output(builder.op("NEG", [found], [opened(builder, "y", -1)]))
    compiler.write("k.cl", POSITIVE)
    name = compiler.write(
        "layer.json",
        {
            "version": 1,
            "sources": ["k.cl"],
            "arguments": [
                {"input": 0}, {"shape": {"input": 0}}, {"output": 0}, {"shape": {"output": 0}},
            ],
            "work_sizes": {"global": [1]},
            "output_shapes": [["B"]],
        },
    )  # fmt: skip
    model = compiler(builder, {"x": (50,)}, Positive=name)
    for number in (50, 3, 17, 50, 1):
        data = random(number)
        assert np.array_equal(model.run({"x": data})["y"], data[data < 0])
    assert model.run({"x": np.ones(4, np.float32)})["y"].shape == (0,)


ABOVE = """
__kernel void Above(__global const float* x, __global const uint* in, __global float* y, __global uint* out) {
    uint n = 0;
    for (uint i = 0; i < in[0]; ++i) if (x[i] > 0) y[n++] = x[i];
    out[0] = n;
}
__kernel void half_of(__global const uint* in, __global uint* out) { out[0] = in[0] / 2; }
__kernel void First(__global const float* x, __global float* y) { y[get_global_id(0)] = x[get_global_id(0)]; }
"""
FIXED_INPUTS: Mapping[str, tuple[Mapping[str, Any], int | None]] = {
    "its kernel writes the shape": (
        {
            "entry": "Above",
            "arguments": [
                {"input": 0}, {"shape": {"input": 0}}, {"output": 0}, {"shape": {"output": 0}},
            ],
            "work_sizes": {"global": [1]},
        },
        None,
    ),
    "another kernel finds it": ({"entry": "First", "shape_kernel": {"entry": "half_of"}}, 6),
    "formulas": ({"entry": "First", "output_shapes": [["B/2"]]}, 6),
}  # fmt: skip


@pytest.mark.parametrize(("layer", "kept"), FIXED_INPUTS.values(), ids=FIXED_INPUTS)
def test_inputs_of_fixed_shape_give_outputs_whose_shape_a_run_tells(
    compiler: Compiler, layer: Mapping[str, Any], kept: int | None
) -> None:
    """Checks layers between CPU ops, and before a layer that uses the dynamic shape."""
    builder = ModelBuilder()
    x = builder.input("x", F32, (12,))
    given = builder.op("NEG", [x], [("given", F32, (12,))])
    found = builder.custom("Found", [given], [opened(builder, "found", -1)])
    squared = builder.custom("Square", [found], [opened(builder, "squared", -1)])
    builder.output(builder.op("NEG", [squared], [opened(builder, "y", -1)]), found)
    compiler.write("k.cl", ABOVE)
    name = compiler.write("layer.json", {"version": 1, "sources": ["k.cl"], **layer})
    square = compiler.write("Square.cl", SQUARE)
    bounds = {} if "output_shapes" in layer else {"found": (9,)}
    model = compiler(builder, bounds, Found=name, Square=square)
    for seed in range(4):
        x_value = np.random.default_rng(seed).normal(size=12).astype(np.float32)
        wanted = -x_value[:kept] if kept else -x_value[x_value < 0]
        outputs = model.run({"x": x_value})
        assert np.array_equal(outputs["found"], wanted)
        assert np.array_equal(outputs["y"], -wanted * wanted)
    if not kept:
        with pytest.raises(
            LiteRtError,
            match="the shape 12 that the kernel has written for tensor 'found' exceeds the",
        ):
            model.run({"x": np.full(12, -1, np.float32)})


def test_a_kernel_that_writes_a_shape_is_refused_where_the_model_fixes_it(
    compiler: Compiler,
) -> None:
    builder = ModelBuilder()
    x = builder.input("x", F32, (12,))
    builder.output(builder.custom("Found", [x], [("found", F32, (12,))]))
    compiler.write("k.cl", ABOVE)
    layer, _ = FIXED_INPUTS["its kernel writes the shape"]
    name = compiler.write("layer.json", {"version": 1, "sources": ["k.cl"], **layer})
    with pytest.raises(
        LiteRtError,
        match=r"writes the shape of output 0, but the output has the fixed shape tensor<",
    ):
        compiler(builder, {}, Found=name)


def test_layers_in_a_row_hand_their_shapes_on(compiler: Compiler) -> None:
    builder = ModelBuilder()
    x = builder.input("x", F32, (1, 1, 1, 2), shape_signature=(-1, -1, -1, 2))
    squared = builder.custom("Square", [x], [opened(builder, "squared", -1, -1, -1, 2)])
    large = builder.custom("Upscale", [squared], [opened(builder, "large", -1, -1, -1, 2)])
    builder.output(
        builder.custom("Square", [large], [opened(builder, "y", -1, -1, -1, 2)]), squared
    )
    square = compiler.write("Square.cl", SQUARE)
    compiler.write("k.cl", UPSCALE_BY_TEXT)
    upscale = compiler.write("layer.json", {**UPSCALE, **TWICE})
    model = compiler(builder, {"x": (2, 5, 4, 2)}, Square=square, Upscale=upscale)
    assert compiler.report is not None and len(compiler.report.calls) == 1
    for shape in SHAPES:
        data = random(*shape)
        outputs = model.run({"x": data})
        assert np.array_equal(outputs["y"], twice(data * data) ** 2)
        assert np.array_equal(outputs["squared"], data * data)


def test_an_xml_layer_is_reordered_for_every_shape(compiler: Compiler) -> None:
    compiler.write(
        "k.cl",
        """
        __kernel void flip(__global const INPUT0_TYPE* x, __global OUTPUT0_TYPE* y) {
            const int c = get_global_id(0), r = get_global_id(1), bf = get_global_id(2);
            y[(bf * OUTPUT0_DIMS[2] + r) * OUTPUT0_DIMS[3] + c] =
                x[(bf * INPUT0_DIMS[2] + r) * INPUT0_DIMS[3] + INPUT0_DIMS[3] - 1 - c];
        }
        """,
    )
    name = compiler.write(
        "flip.xml",
        """<CustomLayer name="Flip" type="SimpleGPU" version="1">
             <Kernel entry="flip"><Source filename="k.cl"/></Kernel>
             <Buffers>
               <Tensor arg-index="0" type="input" port-index="0" format="BFYX"/>
               <Tensor arg-index="1" type="output" port-index="0" format="BFYX"/>
             </Buffers>
             <WorkSizes global="X,Y,B*F"/>
           </CustomLayer>""",
    )
    model = compiler(
        one_op("Flip", (-1, -1, -1, 2), (-1, -1, -1, 2)), {"x": (2, 5, 4, 2)}, Flip=name
    )
    for shape in SHAPES:
        x = random(*shape)
        assert np.array_equal(model.run({"x": x})["y"], x[:, :, ::-1])


def test_a_shape_above_the_bound_is_an_error_that_names_it(compiler: Compiler) -> None:
    name = compiler.write("Square.cl", SQUARE)
    model = compiler(one_op("Square", (-1, 3), (-1, 3)), {"x": (10, 3)}, Square=name)
    x = random(10, 3)
    assert np.array_equal(model.run({"x": x})["y"], x * x)
    with pytest.raises(LiteRtError) as error:
        model.run({"x": random(11, 3)})
    assert (
        "input 0 'x' of shape 11x3 exceeds the largest shape 10x3 for which the model was compiled"
        in str(error.value)
    )

    assert "--shape_bounds=x:11x3" in str(error.value)
    assert np.array_equal(model.run({"x": x})["y"], x * x)


def test_the_bound_that_is_proposed_holds_what_the_old_one_did(compiler: Compiler) -> None:
    name = compiler.write("Square.cl", SQUARE)
    model = compiler(one_op("Square", (-1, -1), (-1, -1)), {"x": (10, 8)}, Square=name)
    with pytest.raises(LiteRtError) as error:
        model.run({"x": random(2, 9)})
    assert error.value.hint.endswith("--shape_bounds=x:10x9.")


def test_an_output_comes_back_by_signature_with_its_own_shape(compiler: Compiler) -> None:
    name = compiler.write("Square.cl", SQUARE)
    model = compiler(one_op("Square", (-1, 3), (-1, 3)), {"x": (10, 3)}, Square=name)
    key = next(iter(model.get_signature_list()))
    room = np.zeros((10, 3), np.float32)
    for number in (4, 9, 4):
        model.resize_input_tensor_by_name(key, "x", (number, 3))
        given = model.create_input_buffer_by_name(key, "x")
        x = random(number, 3)
        given.write(x)
        model.run_by_name(key, {"x": given}, {"y": CallerBuffer.create_from_host_memory(room)})
        assert np.array_equal(room.reshape(-1)[: x.size], (x * x).reshape(-1))
        shape = model.get_output_tensor_details(key)["y"]["shape"]
        assert tuple(shape) == (number, 3)


def test_a_new_shape_allocates_and_builds_nothing_on_the_npu(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    from litert.runtime import host_memory, npu_port

    compiler.write("k.cl", UPSCALE_BY_BUFFER)
    name = compiler.write("layer.json", {**UPSCALE, **TWICE, **BY_BUFFER})
    bounds = {"x": (2, 5, 4, 2)}
    model = compiler(one_op("Upscale", (-1, -1, -1, 2), (-1, -1, -1, 2)), bounds, Upscale=name)
    model.run({"x": random(1, 2, 3, 2)})
    staged: list[RankedTensorType] = []

    def allocate(tensor_type: RankedTensorType, size: int) -> TensorBuffer:
        staged.append(tensor_type)
        return host_memory.allocate(tensor_type, size)

    monkeypatch.setattr(npu_port, "allocate", allocate)
    with counted(monkeypatch) as counts:
        for shape in [(2, 5, 4, 2), (1, 1, 1, 2), (2, 3, 4, 2)]:
            x = random(*shape)
            assert np.array_equal(model.run({"x": x})["y"], twice(x))
    assert {str(tensor_type) for tensor_type in staged} <= {"tensor<4xi32>"}  # dynamic shapes
    assert set(counts) <= {"Buffer"}  # copies of a caller's memory, for devices that need them


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    shapes=st.lists(
        st.tuples(st.integers(1, 2), st.integers(1, 5), st.integers(1, 4)), min_size=2, max_size=6
    )
)
def test_any_sequence_of_shapes_gives_what_numpy_does(
    upscale: CompiledModel, shapes: list[tuple[int, int, int]]
) -> None:
    for shape in shapes:
        x = random(*shape, 2)
        assert np.array_equal(upscale.run({"x": x})["y"], twice(x))


@pytest.fixture
def upscale(compiler: Compiler) -> CompiledModel:
    compiler.write("k.cl", UPSCALE_BY_BUFFER)
    name = compiler.write("layer.json", {**UPSCALE, **TWICE, **BY_BUFFER})
    builder = one_op("Upscale", (-1, -1, -1, 2), (-1, -1, -1, 2))
    return compiler(builder, {"x": (2, 5, 4, 2)}, Upscale=name)


@pytest.mark.parametrize(
    ("pattern", "result", "bounds", "reason"),
    [
        (
            (-1, -1),
            (-1, -1),
            {"x": (1 << 20, 1 << 20)},
            "EMU8 has only 2147483648 bytes of memory (DDR)",
        ),
        ((-1, 3), (-1, 3), {}, "input 0 ('x', tensor<?x3xf32>) has no bound; give a bound with"),
        ((-1, 3), (-1, 4), {"x": (9, 3), "y": (9, 4)}, "does not say how the shape is found"),
        ((-1, 3), (-1, 4), {"x": (9, 3)}, "the layer of Square does not say how"),
    ],
)
def test_what_cannot_be_bounded_stays_on_the_cpu_with_the_remedy(
    compiler: Compiler,
    pattern: Sequence[int],
    result: Sequence[int],
    bounds: Mapping[str, Sequence[int]],
    reason: str,
) -> None:
    name = compiler.write("Square.cl", SQUARE)
    with pytest.raises(LiteRtError) as error:
        compiler(one_op("Square", pattern, result), bounds, Square=name)
    assert error.value.status is Status.UNSUPPORTED and reason in str(error.value)
