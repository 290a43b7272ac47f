"""Tests CPU layers on tensors of dynamic shape, with one kernel for any batch, or one for each shape."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
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
from litert.core.status import Status
from litert.hardware_accelerator import HardwareAccelerator
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from litert.options import Options
from tests.vendor_reference.cpu_layers import library
from tests.vendor_reference.test_dynamic_shapes import POSITIVE, SQUARE, one_op, opened, random
from vendor_reference.device.cpu_launcher import MOST_KERNELS

pytestmark = pytest.mark.each_driver

Array = npt.NDArray[Any]
Bounds = Mapping[str, Sequence[int]]
OK = "return kLiteRtNpuOk;"
ANY_BATCH = f"config->dynamic_batch = 1; {OK}"
SAY = """
static UNUSED void Say(const char* what, const LiteRtNpuTensorType* type) {
  char text[200]; int at = snprintf(text, sizeof(text), "%s", what);
  for (int i = 0; i < type->rank; ++i) at += snprintf(text + at, sizeof(text) - at, " %d", (int)type->dims[i]);
  if (log_callback != NULL) log_callback(log_data, kLiteRtNpuLogInfo, text); }
"""
INIT = 'Say("init", &inputs[0].type); return kLiteRtNpuOk;'
TWICE_AS_LONG = """
    shapes[0].dims[0] = op->inputs[0].type.dims[0]; shapes[0].dims[1] = 2 * op->inputs[0].type.dims[1];"""
REPEAT = """
    const float* x = inputs[0].data; float* y = outputs[0].data;
    const int64_t rows = inputs[0].type.dims[0], columns = inputs[0].type.dims[1];
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < outputs[0].type.dims[1]; ++c)
        y[r * outputs[0].strides[0] + c] = x[r * inputs[0].strides[0] + c % columns];
    return kLiteRtNpuOk;"""


class Compiler:
    """Compiles models in a separate folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.report: Report | None = None

    def library(self, **parts: str) -> str:
        """Builds a library that logs its inits and contains the given parts; returns its file name."""
        made = {"top": SAY, "log": "SetLog", "init": INIT, **parts}
        return library(self.folder, **made).name

    def __call__(self, builder: ModelBuilder, bounds: Bounds, **assets: str) -> CompiledModel:
        write_model(builder.build(), self.folder / "in.tflite")
        infos = [CustomOpInfo(op, str(self.folder / name)) for op, name in assets.items()]
        self.report = apply_plugin(
            self.folder / "in.tflite",
            self.folder / "out.tflite",
            ApplyOptions(
                require_npu=list(assets),
                compiler=CompilerOptions(infos, shape_bounds=bounds, allow_native_assets=True),
            ),
        )
        accelerators = HardwareAccelerator.NPU | HardwareAccelerator.CPU
        options = Options(accelerators, allow_native_assets=True)
        return CompiledModel.from_file(str(self.folder / "out.tflite"), options=options)


@pytest.fixture
def compiler(tmp_path: Path) -> Compiler:
    return Compiler(tmp_path)


@pytest.fixture
def inits(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Returns the messages that libraries have logged in this process since the last call."""
    caplog.set_level(logging.INFO, logger="vendor_reference.cpu_layer.library")

    def take() -> list[str]:
        said = [r.getMessage() for r in caplog.records if r.name.endswith("cpu_layer.library")]
        caplog.clear()
        return said

    return take


def doubles(model: CompiledModel, *shape: int) -> None:
    x = random(*shape)
    assert np.array_equal(model.run({"x": x})["y"], 2 * x)


def test_any_batch_runs_on_one_kernel(compiler: Compiler, inits: Callable[[], list[str]]) -> None:
    name = compiler.library(configuration=ANY_BATCH)
    model = compiler(one_op("Double", (-1, 3), (-1, 3)), {"x": (10, 3)}, Double=name)
    assert compiler.report is not None
    assert "has memory for shapes up to 'x' 10x3, 'y' 10x3" in " ".join(compiler.report.notes)
    for batch in (1, 8, 10, 3, 8):
        doubles(model, batch, 3)
    assert inits() == ["init 10 3"]
    with pytest.raises(LiteRtError, match="11x3 exceeds the largest shape 10x3"):
        model.run({"x": random(11, 3)})
    doubles(model, 4, 3)
    assert inits() == []


@pytest.mark.parametrize("pattern", [(-1, 3), (-1, -1)], ids=["no dynamic batch", "two dimensions"])
def test_each_new_shape_gets_a_kernel_once(
    compiler: Compiler, inits: Callable[[], list[str]], pattern: tuple[int, int]
) -> None:
    configuration = ANY_BATCH if pattern[1] < 0 else OK
    name = compiler.library(configuration=configuration)
    model = compiler(one_op("Double", pattern, pattern), {"x": (50, 3)}, Double=name)
    for batch in (5, 2, 5, 50, 2):
        doubles(model, batch, 3)
    assert inits() == ["init 5 3", "init 2 3", "init 50 3"]
    for batch in range(10, 10 + MOST_KERNELS):
        doubles(model, batch, 3)
    assert len(inits()) == MOST_KERNELS
    doubles(model, 5, 3)
    assert inits() == ["init 5 3"]  # evicted: other shapes were used since


def test_a_library_says_the_shape_of_its_result(
    compiler: Compiler, inits: Callable[[], list[str]]
) -> None:
    name = compiler.library(shapes=TWICE_AS_LONG + OK, execute=REPEAT)
    model = compiler(one_op("Double", (-1, -1), (-1, -1)), {"x": (4, 6)}, Double=name)
    assert compiler.report is not None
    assert "up to 'x' 4x6, 'y' 4x12" in " ".join(compiler.report.notes)
    for shape in [(4, 6), (1, 5), (3, 1), (1, 5)]:
        x = random(*shape)
        assert np.array_equal(model.run({"x": x})["y"], np.tile(x, (1, 2)))
    assert inits() == ["init 4 6", "init 1 5", "init 3 1"]


def test_a_library_says_the_shape_of_its_result_for_an_input_of_fixed_shape(
    compiler: Compiler,
) -> None:
    name = compiler.library(shapes=TWICE_AS_LONG + OK, execute=REPEAT)
    model = compiler(one_op("Double", (4, 6), (-1, -1)), {}, Double=name)
    for seed in (1, 2):
        x = random(4, 6) + seed
        assert np.array_equal(model.run({"x": x})["y"], np.tile(x, (1, 2)))


def test_any_batch_with_a_result_of_another_shape(
    compiler: Compiler, inits: Callable[[], list[str]]
) -> None:
    name = compiler.library(shapes=TWICE_AS_LONG + OK, execute=REPEAT, configuration=ANY_BATCH)
    model = compiler(one_op("Double", (-1, 3), (-1, 6)), {"x": (9, 3)}, Double=name)
    for batch in (2, 9, 1):
        x = random(batch, 3)
        assert np.array_equal(model.run({"x": x})["y"], np.tile(x, (1, 2)))
    assert inits() == ["init 9 3"]


def test_without_a_function_for_shapes_the_model_s_are_taken(
    compiler: Compiler, inits: Callable[[], list[str]]
) -> None:
    name = compiler.library(get_output_shapes="NULL", configuration=ANY_BATCH)
    model = compiler(one_op("Double", (-1, 3), (-1, 3)), {"x": (10, 3)}, Double=name)
    assert compiler.report is not None
    assert "assumed to have the shape of an input" in " ".join(compiler.report.notes)
    for batch in (1, 10, 3):
        doubles(model, batch, 3)
    assert inits() == ["init 10 3"]


@pytest.mark.parametrize("bounds", [{}, {"y": (10, 4)}], ids=["no bound", "a bound"])
def test_without_one_a_result_of_another_shape_is_refused(
    compiler: Compiler, bounds: Bounds
) -> None:
    name = compiler.library(get_output_shapes="NULL")
    with pytest.raises(LiteRtError, match="get_output_shapes"):
        compiler(one_op("Double", (-1, 3), (-1, 4)), {"x": (10, 3), **bounds}, Double=name)


def test_constants_inputs_left_out_and_several_outputs(
    compiler: Compiler, inits: Callable[[], list[str]]
) -> None:
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 3), shape_signature=(-1, 3))
    weights = np.array([1, 10, 100], np.float32)
    outputs = [
        builder.tensor("sum", "float32", (1,)),
        opened(builder, "scaled", -1, 3),
        opened(builder, "long", -1, 2),
    ]
    made = builder.custom("Mine", [None, x, builder.constant("w", weights)], outputs)
    builder.output(*made)
    name = compiler.library(
        types='"Mine"',
        shapes=f"""shapes[1].dims[0] = op->inputs[1].type.dims[0];
            shapes[2].dims[0] = 3 * op->inputs[1].type.dims[0]; {OK}""",
        init="""float* kept = malloc(sizeof(float) * 3);
            if (inputs[2].data != NULL) memcpy(kept, inputs[2].data, sizeof(float) * 3);
            *kernel = kept; Say("init", &outputs[2].type); return kLiteRtNpuOk;""",
        destroy='free(kernel); if (log_callback != NULL) log_callback(log_data, 1, "end");',
        execute="""const float *x = inputs[1].data, *w = kernel; float* sum = outputs[0].data;
            const int64_t n = 3 * inputs[1].type.dims[0];
            *sum = 0;
            for (int64_t i = 0; i < n; ++i) {
              *sum += x[i]; ((float*)outputs[1].data)[i] = x[i] * w[i % 3]; }
            for (int64_t i = 0; i < 2 * n; ++i) ((float*)outputs[2].data)[i] = x[i / 2];
            return kLiteRtNpuOk;""",
    )
    model = compiler(builder, {"x": (9, 3)}, Mine=name)
    for batch in (2, 9, 2):
        x_data = random(batch, 3)
        found = model.run({"x": x_data})
        assert found["sum"][0] == pytest.approx(x_data.sum(), rel=1e-4, abs=1e-4)
        assert np.array_equal(found["scaled"], x_data * weights)
        assert np.array_equal(found["long"], x_data.repeat(2).reshape(-1, 2))
    assert inits() == ["init 6 2", "init 27 2"]


def test_layers_kernels_and_ops_of_the_cpu_hand_their_shapes_on(compiler: Compiler) -> None:
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 1), shape_signature=(-1, -1))
    squared = builder.custom("Square", [x], [opened(builder, "squared", -1, -1)])
    long = builder.custom("Double", [squared], [opened(builder, "long", -1, -1)])
    again = builder.custom("Double", [long], [opened(builder, "again", -1, -1)])
    root = builder.custom("Square", [again], [opened(builder, "root", -1, -1)])
    builder.output(builder.op("NEG", [root], [opened(builder, "y", -1, -1)]))
    (compiler.folder / "Square.cl").write_text(SQUARE)
    name = compiler.library(shapes=TWICE_AS_LONG + OK, execute=REPEAT)
    model = compiler(builder, {"x": (4, 6)}, Double=name, Square="Square.cl")
    assert compiler.report is not None and len(compiler.report.calls) == 1
    for shape in [(4, 6), (1, 5), (2, 2), (1, 5)]:
        data = random(*shape)
        expected = -(np.tile(data * data, (1, 4)) ** 2)
        assert np.array_equal(model.run({"x": data})["y"], expected)


def test_a_layer_takes_the_shape_that_a_kernel_has_written(compiler: Compiler) -> None:
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1,), shape_signature=(-1,))
    found = builder.custom("Positive", [x], [opened(builder, "found", -1)])
    builder.output(builder.custom("Double", [found], [opened(builder, "y", -1)]))
    (compiler.folder / "k.cl").write_text(POSITIVE)
    (compiler.folder / "layer.json").write_text(
        """{"version": 1, "sources": ["k.cl"], "work_sizes": {"global": [1]}, "output_shapes": [["B"]],
            "arguments": [{"input": 0}, {"shape": {"input": 0}}, {"output": 0}, {"shape": {"output": 0}}]}"""
    )
    name = compiler.library(configuration=ANY_BATCH)
    model = compiler(builder, {"x": (50,)}, Positive="layer.json", Double=name)
    for number in (50, 3, 17):
        data = random(number)
        assert np.array_equal(model.run({"x": data})["y"], 2 * data[data > 0])


def test_channels_first_are_reordered_for_every_shape(
    compiler: Compiler, inits: Callable[[], list[str]]
) -> None:
    first = (
        f"config->inputs[0].layout = config->outputs[0].layout = LiteRtNpuChannelsFirst(4); {OK}"
    )
    name = compiler.library(configuration=first)
    pattern = (-1, -1, -1, 2)
    model = compiler(one_op("Double", pattern, pattern), {"x": (2, 5, 4, 2)}, Double=name)
    for shape in [(2, 5, 4, 2), (1, 2, 3, 2), (2, 1, 1, 2)]:
        doubles(model, *shape)
    assert len(inits()) == 3


def test_blocks_of_a_dynamic_shape_are_refused_by_name(compiler: Compiler) -> None:
    blocks = f"config->inputs[0].layout = config->outputs[0].layout = LiteRtNpuBlockedChannels(4, 8); {OK}"
    name = compiler.library(configuration=blocks)
    pattern = (-1, 4, 4, 16)
    with pytest.raises(
        LiteRtError,
        match="implementation 'plain' needs the blocked layout nChw8c for input 0, but this tensor's shape is "
        "known only at run time",
    ):
        compiler(one_op("Double", pattern, pattern), {"x": (2, 4, 4, 16)}, Double=name)


def test_another_implementation_takes_the_shape_that_one_refuses(
    compiler: Compiler, inits: Callable[[], list[str]]
) -> None:
    init = """
        if (implementation == 0 && inputs[0].type.dims[0] % 2) return kLiteRtNpuNotImplemented;
        Say(implementation == 0 ? "even" : "any", &inputs[0].type); return kLiteRtNpuOk;"""
    name = compiler.library(implementations='"even", "any"', init=init)
    model = compiler(one_op("Double", (-1, 3), (-1, 3)), {"x": (10, 3)}, Double=name)
    for batch in (4, 5, 4):
        doubles(model, batch, 3)
    assert inits() == ["even 4 3", "any 5 3"]


def test_a_failing_init_leaves_the_next_run_good(compiler: Compiler) -> None:
    init = """const int is_7 = inputs[0].type.dims[0] == 7;
              return is_7 ? LiteRtNpuFail(message, kLiteRtNpuError, "no sevens") : kLiteRtNpuOk;"""
    name = compiler.library(init=init)
    model = compiler(one_op("Double", (-1, 3), (-1, 3)), {"x": (10, 3)}, Double=name)
    doubles(model, 4, 3)
    for _ in range(2):
        with pytest.raises(LiteRtError, match="init: no sevens") as error:
            model.run({"x": random(7, 3)})
        assert "inputs of 7x3" in str(error.value) and name in str(error.value)
        doubles(model, 4, 3)
    doubles(model, 10, 3)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("shapes[0].rank = 1;", "returns rank 1 for output 0, but the output has rank 2"),
        (
            "shapes[0].dims[0] = 11;",
            "the shape 11x3 that LIBRARY computes for tensor 'first' exceeds the largest shape 10x3 for which the "
            "model was compiled",
        ),
        (
            "shapes[0].dims[1] = 2;",
            "the shape 7x2 that LIBRARY computes for tensor 'first' does not fit the shape ?x3 in the compiled "
            "model",
        ),
        ("shapes[0].dims[0] = -1;", "returns the sizes [-1, 3] for output 0"),
        ('return LiteRtNpuFail(message, kLiteRtNpuInvalidArgument, "no sevens");', "no sevens"),
    ],
    ids=["rank", "bound", "fixed", "unknown", "refused"],
)
def test_a_shape_that_cannot_be_is_an_error_before_anything_runs(
    compiler: Compiler, inits: Callable[[], list[str]], body: str, says: str
) -> None:
    shapes = f"""shapes[0].dims[0] = op->inputs[0].type.dims[0];
                 if (op->inputs[0].type.dims[0] == 7) {{ {body} }} {OK}"""
    execute = (
        'Say("execute", &inputs[0].type); ((float*)outputs[0].data)[0] = 1; return kLiteRtNpuOk;'
    )
    name = compiler.library(shapes=shapes, configuration=ANY_BATCH, execute=execute)
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 3), shape_signature=(-1, 3))
    first = builder.custom("Double", [x], [opened(builder, "first", -1, 3)])
    builder.output(builder.custom("Double", [first], [opened(builder, "y", -1, 3)]))
    model = compiler(builder, {"x": (10, 3)}, Double=name)
    model.run({"x": random(4, 3)})
    assert "execute 4 3" in inits()
    with pytest.raises(LiteRtError) as error:
        model.run({"x": random(7, 3)})
    assert says.replace("LIBRARY", name) in str(error.value) and name in str(error.value)
    assert inits() == []
    model.run({"x": random(5, 3)})
    assert inits() == ["execute 5 3"] * 2


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"shapes": 'return LiteRtNpuFail(message, kLiteRtNpuInvalidArgument, "no tens");'}, "no tens"),
        ({"shapes": f"shapes[0].rank = 3; {OK}"}, "returns rank 3 for output 0, but the output has rank 2"),
        ({"shapes": "abort();"}, "crashed"),
        (
            {"shapes": f"shapes[0].dims[0] = 10; shapes[0].dims[1] = 4; {OK}"},
            "computes the shape [10, 4] for output 0, but the output has shape [-1, 3] in the model",
        ),
    ],
    ids=["refused", "rank", "crash", "another shape"],
)  # fmt: skip
def test_what_a_library_says_is_checked_when_a_model_is_compiled(
    compiler: Compiler, parts: Mapping[str, str], says: str
) -> None:
    name = compiler.library(**parts)
    with pytest.raises(LiteRtError) as error:
        compiler(one_op("Double", (-1, 3), (-1, 3)), {"x": (10, 3)}, Double=name)
    assert says in str(error.value) and name in str(error.value)


def test_a_library_is_not_asked_for_shapes_unless_it_may_run(tmp_path: Path) -> None:
    path = library(tmp_path, shapes="abort();")
    write_model(one_op("Double", (-1, 3), (-1, 3)).build(), tmp_path / "in.tflite")
    options = CompilerOptions([CustomOpInfo("Double", str(path))], shape_bounds={"x": (10, 3)})
    with pytest.raises(LiteRtError) as error:
        apply_plugin(
            tmp_path / "in.tflite", tmp_path / "out.tflite", ApplyOptions(compiler=options)
        )
    assert error.value.status is Status.INVALID_TOOL_CONFIG
