"""Tests CPU layers from a shared object to results: compiled, and run between kernels of the emulated NPU."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from litert_npu_tools.command import run_guarded
from litert_npu_tools.litert_npu import main

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from compiler_plugin.report import Report
from litert import CompiledModel
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.hardware_accelerator import HardwareAccelerator
from litert.model.builder import ModelBuilder
from litert.model.graph import Model, Tensor
from litert.model.writer import write_model
from litert.options import Options
from tests.vendor_reference.cpu_layers import build, library, prelu
from vendor_reference.cpu_layer import asking
from vendor_reference.cpu_layer.__main__ import include_folder

pytestmark = pytest.mark.each_driver

EXAMPLES = Path(__file__).parents[2] / "examples"
ADD_ONE = """
__kernel void AddOne(const __global float* x, __global float* y) {
    const int i = get_global_id(0); y[i] = x[i] + 1; }
"""
OK = "return kLiteRtNpuOk;"
SHAPE = (2, 3, 4, 20)
Array = npt.NDArray[Any]


def blocked(size: int) -> str:
    """Returns the C body of a configuration with blocks of `size` channels as the only layout."""
    return f"""config->inputs[0].layout = config->outputs[0].layout =
        LiteRtNpuBlockedChannels(op->inputs[0].type.rank, {size}); {OK}"""


def chain(
    *names: str, shape: Sequence[int] = SHAPE, element_type: str = "float32", **options: Any
) -> Model:
    """Returns a model of custom ops, each of which reads the result of the one before."""
    b = ModelBuilder()
    tensor: Tensor = b.input("x", element_type, tuple(shape))
    for index, name in enumerate(names):
        made = [(f"t{index}", element_type, tuple(shape))]
        tensor = b.custom(name, [tensor], made, **options)
    b.output(tensor)
    return b.build()


def compile_model(
    folder: Path, model: Model, assets: Mapping[str, Path], allow: bool = True
) -> tuple[Path, Report]:
    """Compiles a model; returns the compiled file and the report."""
    source, target = folder / "model.tflite", folder / "compiled.tflite"
    write_model(model, source)
    infos = [CustomOpInfo(op, str(path)) for op, path in assets.items()]
    compiler = CompilerOptions(infos, allow_native_assets=allow)
    return target, apply_plugin(source, target, ApplyOptions(compiler=compiler))


def run(compiled: Path, *inputs: Array, allow: bool = True) -> Array:
    """Runs a model; returns the first output as a flat array with as many floats as the first input."""
    accelerators = HardwareAccelerator.NPU | HardwareAccelerator.CPU
    options = Options(accelerators, allow_native_assets=allow)
    with CompiledModel.from_file(str(compiled), options=options) as model:
        given, made = model.create_input_buffers(0), model.create_output_buffers(0)
        for buffer, array in zip(given, inputs, strict=True):
            buffer.write(np.ascontiguousarray(array))
        model.run_by_index(0, given, made)
        return np.array(made[0].read(inputs[0].size, np.dtype(np.float32)))


def tasks(report: Report) -> list[str]:
    return [op.name for op in report.npu_ops]


@pytest.fixture
def x() -> Array:
    return np.random.default_rng(3).standard_normal(SHAPE, np.float32)


@pytest.fixture
def add_one(tmp_path: Path) -> Path:
    path = tmp_path / "AddOne.cl"
    path.write_text(ADD_ONE)
    return path


def test_the_example_computes_what_numpy_does(tmp_path: Path, x: Array) -> None:
    slopes = np.linspace(-1, 1, 20, dtype=np.float32)
    b = ModelBuilder()
    tensor = b.input("x", "float32", SHAPE)
    b.output(b.custom("PReLU", [tensor, b.constant("slopes", slopes)], [("y", "float32", SHAPE)]))
    compiled, report = compile_model(tmp_path, b.build(), {"PReLU": prelu(tmp_path)})
    assert report.notes == [
        "PReLU runs as machine code on the host: 'plain' of library 'example layers' (version 1.0)"
    ]
    assert [asset.is_native for asset in report.assets] == [True]
    expected = np.where(x > 0, x, slopes * x)
    assert np.array_equal(run(compiled, x), expected.ravel())


@pytest.mark.parametrize("size", [8, 16])
def test_a_layer_in_blocks_stands_between_kernels(
    tmp_path: Path, x: Array, add_one: Path, size: int
) -> None:
    path = library(tmp_path, configuration=blocked(size))
    model = chain("AddOne", "Double", "AddOne")
    compiled, report = compile_model(tmp_path, model, {"AddOne": add_one, "Double": path})
    assert any("2 of the op's tensors are reordered" in note for note in report.notes)
    assert np.array_equal(run(compiled, x), (2 * (x + 1) + 1).ravel())


def test_layers_in_blocks_hand_blocks_to_each_other(tmp_path: Path, x: Array) -> None:
    path = library(tmp_path, configuration=blocked(8))
    compiled, _ = compile_model(tmp_path, chain("Double", "Double", "Double"), {"Double": path})
    assert np.array_equal(run(compiled, x), 8 * x.ravel())


def test_a_layer_with_channels_first_gets_a_reorder(tmp_path: Path, x: Array) -> None:
    path = library(
        tmp_path,
        configuration=f"""config->inputs[0].layout = config->outputs[0].layout =
            LiteRtNpuChannelsFirst(op->inputs[0].type.rank); {OK}""",
        execute="""const float* x = inputs[0].data; float* y = outputs[0].data;
            if (inputs[0].memory_dims[1] != 20 || inputs[0].strides[1] != 12) return kLiteRtNpuError;
            for (int64_t i = 0; i < 480; ++i) y[i] = x[i] + (float)(i / 12 % 20);
            return kLiteRtNpuOk;""",
    )
    compiled, _ = compile_model(tmp_path, chain("Double"), {"Double": path})
    assert np.array_equal(run(compiled, x), (x + np.arange(20, dtype=np.float32)).ravel())


def test_a_layer_with_another_precision_gets_conversions(tmp_path: Path, x: Array) -> None:
    path = library(
        tmp_path,
        configuration=f"""config->inputs[0].element_type = kLiteRtNpuFloat64;
            config->outputs[0].element_type = kLiteRtNpuFloat64; {OK}""",
        execute="""for (int64_t i = 0; i < 480; ++i)
              ((double*)outputs[0].data)[i] = 3 * ((const double*)inputs[0].data)[i];
            return kLiteRtNpuOk;""",
    )
    compiled, _ = compile_model(tmp_path, chain("Double"), {"Double": path})
    assert np.array_equal(run(compiled, x), (3 * x.astype(np.float64)).astype(np.float32).ravel())


def test_options_and_a_choice_after_not_implemented(tmp_path: Path, x: Array) -> None:
    path = library(
        tmp_path,
        implementations='"fast", "safe"',
        init="""static float alpha;
            if (implementation == 0) return LiteRtNpuFail(message, kLiteRtNpuNotImplemented, "needs AVX-1024");
            alpha = (float)LiteRtNpuFloatOption(op, "alpha", 0); *kernel = &alpha; return kLiteRtNpuOk;""",
        execute="""for (int64_t i = 0; i < 480; ++i)
              ((float*)outputs[0].data)[i] = *(float*)kernel * ((const float*)inputs[0].data)[i];
            return kLiteRtNpuOk;""",
    )
    model = chain("Double", options={"alpha": 0.25})
    compiled, report = compile_model(tmp_path, model, {"Double": path})
    assert "'safe' of library 'test layers' (version 0.5)" in report.notes[0]
    assert np.array_equal(run(compiled, x), 0.25 * x.ravel())


def test_an_output_lies_in_place_of_what_nobody_needs_any_more(
    tmp_path: Path, x: Array, add_one: Path
) -> None:
    path = library(
        tmp_path,
        configuration=f"config->outputs[0].in_place = 0; {OK}",
        execute="""float* y = outputs[0].data;
            if (inputs[0].data != y) return LiteRtNpuFail(message, kLiteRtNpuError, "not in place");
            for (int64_t i = 0; i < 480; ++i) y[i] *= 2;
            return kLiteRtNpuOk;""",
    )
    model = chain("AddOne", "Double", "Double", "AddOne")
    compiled, _ = compile_model(tmp_path, model, {"AddOne": add_one, "Double": path})
    assert np.array_equal(run(compiled, x), (4 * (x + 1) + 1).ravel())


def test_an_input_may_be_left_out(tmp_path: Path, x: Array) -> None:
    b = ModelBuilder()
    tensor = b.input("x", "float32", SHAPE)
    b.output(b.custom("Double", [tensor, None], [("y", "float32", SHAPE)]))
    checks = "if (inputs[1].data || op->inputs[1].is_present) return kLiteRtNpuError;"
    path = library(tmp_path, init=checks + OK)
    compiled, _ = compile_model(tmp_path, b.build(), {"Double": path})
    assert np.array_equal(run(compiled, x), 2 * x.ravel())


def test_a_builtin_op_can_be_overridden(tmp_path: Path, x: Array) -> None:
    b = ModelBuilder()
    b.output(b.op("ABS", [b.input("x", "float32", SHAPE)], [("y", "float32", SHAPE)]))
    compiled, report = compile_model(tmp_path, b.build(), {"ABS": library(tmp_path)})
    assert tasks(report) == ["ABS"]
    assert np.array_equal(run(compiled, x), 2 * x.ravel())


def test_an_op_that_the_library_cannot_do_stays_on_the_cpu(tmp_path: Path) -> None:
    model = chain("PReLU", shape=(4,))
    _, report = compile_model(tmp_path, model, {"PReLU": prelu(tmp_path)})
    (op,) = report.cpu_ops
    assert (
        "PReLU needs one output and two inputs: a tensor of rank 2 or more, and the slopes"
        in op.reason
    )


def fails(folder: Path, path: Path, allow: bool = True) -> LiteRtError:
    with pytest.raises(LiteRtError) as error:
        compile_model(folder, chain("Double"), {"Double": path}, allow)
    assert not (folder / "compiled.tflite").exists()
    return error.value


def test_machine_code_is_not_asked_unless_it_is_allowed(tmp_path: Path) -> None:
    marker = tmp_path / "loaded"
    touch = f'fclose(fopen("{marker}", "w"));'
    path = library(
        tmp_path, top=f"static __attribute__((constructor)) void Load(void) {{ {touch} }}"
    )
    error = fails(tmp_path, path, allow=False)
    assert error.status is Status.INVALID_TOOL_CONFIG and path.name in error.where
    assert "--allow_native_assets" in error.hint and not marker.exists()
    compile_model(tmp_path, chain("Double"), {"Double": path})
    assert marker.exists()


def test_a_compiled_file_runs_only_where_it_is_allowed(tmp_path: Path, x: Array) -> None:
    compiled, _ = compile_model(tmp_path, chain("Double"), {"Double": library(tmp_path)})
    with pytest.raises(LiteRtError, match="is machine code, which is not allowed to run here"):
        run(compiled, x, allow=False)
    assert np.array_equal(run(compiled, x), 2 * x.ravel())


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"configuration": f"*(volatile int*)8 = 1; {OK}"}, r"crashed (SIGSEGV"),
        (
            {"shapes": f"shapes[0].dims[1] = 9; {OK}"},
            "computes the shape [2, 9, 4, 20] for output 0",
        ),
        ({"version": "2"}, "the library's interface has version 2"),
        ({"entry": "another"}, "exports no function"),
        (
            {"types": '"One", "Two"'},
            "the library has no layer for op 'Double': its layer types are One, Two",
        ),
        (
            {"init": 'return LiteRtNpuFail(message, kLiteRtNpuOutOfMemory, "9 GiB");'},
            "library 'test layers' (version 0.5) reports an error in its function init: 9 GiB",
        ),
    ],
)
def test_a_library_that_is_wrong_costs_a_message(
    tmp_path: Path, parts: Mapping[str, str], says: str
) -> None:
    path = library(tmp_path, **parts)
    error = fails(tmp_path, path)
    assert says in error.what and path.name in error.where


def test_a_library_that_hangs_costs_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "ASK_TIMEOUT_S", 1.0)
    error = fails(
        tmp_path, library(tmp_path, shapes=f"for (volatile int i = 0; i < 1; ) {{}} {OK}")
    )
    assert error.status is Status.TIMEOUT_EXPIRED and "did not finish within 1 s" in error.what


@pytest.mark.parametrize("allow", [False, True], ids=["without the flag", "with it"])
def test_the_flag_lets_litert_npu_run_it(
    tmp_path: Path, allow: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled, _ = compile_model(tmp_path, chain("Double"), {"Double": library(tmp_path)})
    flags = ["--allow_native_assets"] if allow else []
    status = run_guarded(main, ["litert-npu", "run", str(compiled), *flags])
    captured = capsys.readouterr()
    assert (status == 0) == allow
    assert ("which is not allowed to run here" in captured.err) != allow


CPP = """
#include <litert_npu/cpu_layer.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct Kernel {
  std::vector<float> scales;
  void Run(const LiteRtNpuTensor& x, const LiteRtNpuTensor& y) const {
    if (static_cast<const float*>(x.data)[0] < 0) throw std::runtime_error("a negative " + std::string("number"));
    for (int i = 0; i < 4; ++i) static_cast<float*>(y.data)[i] = scales[i] * static_cast<const float*>(x.data)[i];
  }
};

size_t One(void) { return 1; }
const char* Type(size_t) { return "Double"; }
size_t Count(const LiteRtNpuOp*, LiteRtNpuMessage*) { return 1; }
const char* Name(const LiteRtNpuOp*, size_t) { return "in C++"; }
size_t CountConfigurations(const LiteRtNpuOp*, size_t) { return 1; }
LiteRtNpuStatus Configuration(const LiteRtNpuOp*, size_t, size_t, LiteRtNpuConfig*, LiteRtNpuMessage*) {
  return kLiteRtNpuOk;
}
LiteRtNpuStatus Init(const LiteRtNpuOp*, size_t, LiteRtNpuConfig*, const LiteRtNpuTensor*, const LiteRtNpuTensor*,
                     void** kernel, LiteRtNpuMessage*) {
  *kernel = new Kernel{{1, 2, 3, 4}};
  return kLiteRtNpuOk;
}
LiteRtNpuStatus Execute(void* kernel, const LiteRtNpuTensor* inputs, const LiteRtNpuTensor* outputs,
                        LiteRtNpuMessage* message) try {
  static_cast<Kernel*>(kernel)->Run(inputs[0], outputs[0]);
  return kLiteRtNpuOk;
} catch (const std::exception& error) {
  return LiteRtNpuFail(message, kLiteRtNpuError, error.what());
}
void Destroy(void* kernel) { delete static_cast<Kernel*>(kernel); }

const LiteRtNpuCpuLayerLibrary kLibrary = {
    LITERT_NPU_CPU_LAYER_VERSION, sizeof(kLibrary), "C++ layers", "1", nullptr, One, Type, nullptr, Count, Name,
    CountConfigurations, Configuration, Init, Execute, Destroy, nullptr};

}  // namespace

const LiteRtNpuCpuLayerLibrary* litert_npu_get_cpu_layer_library(uint32_t) { return &kLibrary; }
"""


def test_a_library_in_cpp_throws_nothing_at_the_host(tmp_path: Path) -> None:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    source, path = tmp_path / "layers.cc", tmp_path / "layers.so"
    source.write_text(CPP)
    flags = ["-std=c++17", "-Wall", "-Wextra", "-pedantic", "-Werror", f"-I{include_folder()}"]
    subprocess.run([compiler, *flags, "-shared", "-fPIC", source, "-o", path], check=True)
    compiled, _ = compile_model(tmp_path, chain("Double", shape=(4,)), {"Double": path})
    assert run(compiled, np.ones(4, np.float32)).tolist() == [1, 2, 3, 4]
    with pytest.raises(
        LiteRtError,
        match=r"'C\+\+ layers' \(version 1\) reports an error in its function execute: a negative number",
    ):
        run(compiled, -np.ones(4, np.float32))


def test_a_failing_run_names_library_and_op(tmp_path: Path, x: Array) -> None:
    path = library(
        tmp_path, execute='return LiteRtNpuFail(message, kLiteRtNpuError, "no license");'
    )
    compiled, _ = compile_model(tmp_path, chain("Double"), {"Double": path})
    with pytest.raises(
        LiteRtError,
        match=r"'test layers' \(version 0.5\) reports an error in its function execute: no license.*output 't0'",
    ):
        run(compiled, x)


def test_selfie_segmentation_gives_its_golden_picture(
    models: Path, tmp_path: Path, build_layer: Callable[[str], Path]
) -> None:
    name = "Convolution2DTransposeBias"
    golden = np.load(models / "selfie_segmentation.golden.npz")
    infos = [CustomOpInfo(name, str(build_layer(name)))]
    options = ApplyOptions(
        require_npu=[name], compiler=CompilerOptions(infos, allow_native_assets=True)
    )
    compiled = tmp_path / "compiled.tflite"
    apply_plugin(models / "selfie_segmentation.tflite", compiled, options)
    picture = golden["out0"]
    accelerators = HardwareAccelerator.NPU | HardwareAccelerator.CPU
    with CompiledModel.from_file(
        os.fspath(compiled), options=Options(accelerators, allow_native_assets=True)
    ) as model:
        given, made = model.create_input_buffers(0), model.create_output_buffers(0)
        given[0].write(np.ascontiguousarray(golden["in0"]))
        model.run_by_index(0, given, made)
        result = np.array(made[0].read(picture.size, np.dtype(np.float32)))
    assert np.abs(result.reshape(picture.shape) - picture).max() <= 1e-4


@pytest.fixture
def build_layer(tmp_path: Path) -> Callable[[str], Path]:
    """A function that builds a layer of the examples."""

    def make(name: str) -> Path:
        source = EXAMPLES / "04_cpu_layer" / f"{name}.c"
        return build(source, tmp_path / f"{name}.so", "-O2", "-pedantic", "-Wno-unknown-pragmas")

    return make
