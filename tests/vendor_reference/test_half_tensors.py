"""Tests half tensors: kernels see half where the device has fp16 arithmetic, else float, unless the user decides.

One compiled file serves all devices. Tensors of other types do not change.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from compiler_plugin.report import Report
from dispatch.mem_buffer import MemBuffer
from dispatch.tensor_buffer import TensorBuffer
from litert import CompiledModel
from litert.core.compiler_options import CompilerOptions, CustomOpInfo, DumpOptions
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.assets import read_assets
from litert.model.builder import ModelBuilder
from litert.model.reader import read_model
from litert.model.writer import write_model
from tests.vendor_reference.executables import byte_code
from vendor_reference.compiler.half_tensors import HalfPolicy, HalfTensors, kernel_type
from vendor_reference.compiler.opt import transform_text
from vendor_reference.compiler.reference_options import check_options, half_tensors
from vendor_reference.device.module import Module
from vendor_reference.executable.byte_code import read_executable
from vendor_reference.executable.executable import ArgumentKind, Executable

Array = np.ndarray[Any, Any]

APPENDIX = Path(__file__).parent / "appendix_a"
IN_TYPE = """\
__kernel void Scale(const __global INPUT0_TYPE* x, __global OUTPUT0_TYPE* y) {
  const size_t i = get_global_id(0);
  y[i] = x[i] * 3 / (OUTPUT0_TYPE)2;
}
"""
SIZE_OF = """\
__kernel void Scale(const __global INPUT0_TYPE* x, __global OUTPUT0_TYPE* y) {
  const size_t i = get_global_id(0);
  if (sizeof(OUTPUT0_TYPE) == 2) vstore_half(2.0f, i, (__global half*) y);
  else ((__global float*) y)[i] = 4.0f;
}
"""
BITS_OF_HALVES = """\
__kernel void Scale(const __global half* x, __global half* y) {
  const size_t i = get_global_id(0);
  vstore_half(vload_half(i, x) * 1.5f, i, y);
}
"""
ARITHMETIC = """\
__kernel void Scale(const __global half* x, __global half* y) {
  const size_t i = get_global_id(0);
  const half value = x[i];
  y[i] = value * (half) 1.5;
}
"""
HALF_ALONE = """\
__kernel void Scale(const __global INPUT0_TYPE* x, __global OUTPUT0_TYPE* y) {
  const size_t i = get_global_id(0);
  const __global half* halves = x;
  y[i] = halves[i];
}
"""
BY_DEVICE = "the kernel gets half tensors as half on devices with fp16 arithmetic, and as float on other devices"
X = np.array([-2, 0, 0.5, 1000, 65504, np.inf], np.float16)


@pytest.fixture
def compiling(device: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The device, on which the compiler also checks kernels."""
    monkeypatch.setenv("LITERT_NPU_OPENCL", device.info.platform)
    return device


def write_scale(folder: Path, source: str, dtype: Any = np.float16, length: int = X.size) -> None:
    b = ModelBuilder()
    tensor = b.input("x", dtype, (length,))
    b.output(b.custom("Scale", [tensor], [("y", dtype, (length,))]))
    write_model(b.build(), folder / "m.tflite")
    (folder / "scale.cl").write_text(source)


def compile_scale(folder: Path, asset: str = "scale.cl", **options: Any) -> Report:
    given = options.pop("vendor_options", {})
    compiler = CompilerOptions(
        [CustomOpInfo("Scale", str(folder / asset))], vendor_options=given, **options
    )
    return apply_plugin(
        folder / "m.tflite",
        folder / "c.tflite",
        ApplyOptions(require_npu=["all"], compiler=compiler),
    )


def run_on(device: Any, path: Path, x: Array) -> Array:
    """Runs a compiled file with one call on a device; the file may have been compiled on another device."""
    with read_model(path) as model:
        assets = {asset.name: MemBuffer.from_blob(asset.blob) for asset in read_assets(model)}
        made = read_executable(model.byte_code[0].blob.view)
        module = Module(device, byte_code(made).view, assets)
        function = module.find_function("Partition_0")
        loaded = module.load(function)
        buffers = [TensorBuffer.allocate(t) for t in (*function.inputs, *function.outputs)]
        buffers[0].array()[...] = x
        memory = [device.share(buffer.address, buffer.size) for buffer in buffers]
        loaded.attach(ArgumentKind.INPUT, 0, memory[0])
        loaded.attach(ArgumentKind.OUTPUT, 0, memory[1])
        loaded.run()
        made_there: Array = buffers[1].array().copy()
        return made_there


def read_compiled(folder: Path) -> Executable:
    return read_executable((folder / "c.tflite").read_bytes()[byte_code_offset(folder) :])


def byte_code_offset(folder: Path) -> int:
    with read_model(folder / "c.tflite") as model:
        size = model.byte_code[0].blob.size
    data = (folder / "c.tflite").read_bytes()
    offset = data.index(b"LRT-REF\n")
    assert len(data) - offset >= size
    return offset


def notes_of_halves(report: Report) -> list[str]:
    return [note for note in report.notes if "half tensors" in note]


def test_a_half_tensor_is_half_where_the_device_has_fp16_arithmetic(
    tmp_path: Path, compiling: Any
) -> None:
    write_scale(tmp_path, SIZE_OF)
    report = compile_scale(tmp_path)
    size = 2 if compiling.info.has_fp16 else 4
    assert run_on(compiling, tmp_path / "c.tflite", X).tolist() == [size] * X.size
    (note,) = notes_of_halves(report)
    assert note.startswith(f"scale.cl, op 'Scale': {BY_DEVICE}")


def test_a_kernel_computes_in_the_type_of_its_tensors(tmp_path: Path, compiling: Any) -> None:
    write_scale(tmp_path, IN_TYPE)
    compile_scale(tmp_path)
    with np.errstate(over="ignore"):
        expected = X * np.float16(1.5)
    np.testing.assert_array_equal(run_on(compiling, tmp_path / "c.tflite", X), expected)


def test_the_application_runs_it(tmp_path: Path, compiling: Any) -> None:
    write_scale(tmp_path, IN_TYPE)
    compile_scale(tmp_path)
    model = CompiledModel.from_file(str(tmp_path / "c.tflite"))
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    inputs[0].write(X[:4].repeat(2)[: X.size])
    model.run_by_index(0, inputs, outputs)
    expected = X[:4].repeat(2)[: X.size] * np.float16(1.5)
    np.testing.assert_array_equal(np.array(outputs[0].read(X.size, np.float16)), expected)


def test_the_device_that_compiles_leaves_no_trace_in_the_file(
    tmp_path: Path, compiling: Any
) -> None:
    """Checks that the file is the same with and without kernel checks; `check_kernels=False` opens no device."""
    write_scale(tmp_path, IN_TYPE)
    compile_scale(tmp_path)
    checked = (tmp_path / "c.tflite").read_bytes()[byte_code_offset(tmp_path) :]
    compile_scale(tmp_path, check_kernels=False)
    assert (tmp_path / "c.tflite").read_bytes()[byte_code_offset(tmp_path) :] == checked


def test_nothing_converts_where_the_device_has_fp16_arithmetic(tmp_path: Path) -> None:
    write_scale(tmp_path, IN_TYPE)
    compile_scale(tmp_path, check_kernels=False)
    made = read_compiled(tmp_path)
    (elsewhere,), (with_fp16,) = (
        list(made.functions_on(has_fp16).values()) for has_fp16 in (False, True)
    )
    assert len(elsewhere.tasks) == 3 and len(with_fp16.tasks) == 1
    assert (elsewhere.inputs, elsewhere.outputs) == (with_fp16.inputs, with_fp16.outputs)
    assert len({*made.programs_on(False), *made.programs_on(True)}) == 2
    assert len(made.programs_on(True)) == 1


@pytest.mark.parametrize(("value", "size"), [("half", 2), ("float", 4)])
def test_the_user_can_decide_for_all_devices(
    tmp_path: Path, compiling: Any, value: str, size: int
) -> None:
    write_scale(tmp_path, SIZE_OF)
    report = compile_scale(tmp_path, vendor_options={"reference_fp16": value})
    assert run_on(compiling, tmp_path / "c.tflite", X).tolist() == [size] * X.size
    assert not notes_of_halves(report)
    assert len(read_compiled(tmp_path).functions) == 1


@pytest.mark.parametrize("check_kernels", [True, False])
def test_a_kernel_that_declares_halves_gets_them_on_every_device(
    tmp_path: Path, compiling: Any, check_kernels: bool
) -> None:
    write_scale(tmp_path, BITS_OF_HALVES)
    report = compile_scale(tmp_path, check_kernels=check_kernels)
    with np.errstate(over="ignore"):
        expected = X * np.float16(1.5)
    np.testing.assert_array_equal(run_on(compiling, tmp_path / "c.tflite", X), expected)
    (note,) = notes_of_halves(report)
    assert note.endswith(
        "the kernel gets half tensors as half on every device, because the kernel declares half*."
    )
    assert [len(f.tasks) for f in read_compiled(tmp_path).functions] == [1]


@pytest.mark.parametrize(
    ("head", "parameters"),
    [
        ("", "__global T* x, __global T* y"),
        (
            "#ifdef cl_khr_fp16\n#define T half\n#else\n#define T float\n#endif\n",
            "__global T* x, __global T* y",
        ),
        ("", "__global half* x"),
    ],
)
def test_a_kernel_that_is_not_built_and_whose_text_does_not_tell_is_refused(
    tmp_path: Path, head: str, parameters: str
) -> None:
    write_scale(tmp_path, f"{head}__kernel void Scale({parameters}) {{}}\n")
    with pytest.raises(
        LiteRtError, match="does not show whether the kernel declares half"
    ) as error:
        compile_scale(tmp_path, check_kernels=False)
    assert error.value.status is Status.INVALID_ARGUMENT and "--reference_fp16" in error.value.hint
    compile_scale(tmp_path, check_kernels=False, vendor_options={"reference_fp16": "half"})


def test_a_kernel_that_computes_with_halves_needs_a_device_that_does(
    tmp_path: Path, compiling: Any
) -> None:
    write_scale(tmp_path, ARITHMETIC)
    if compiling.info.has_fp16:
        compile_scale(tmp_path)
        y = run_on(compiling, tmp_path / "c.tflite", X[:4].repeat(2)[: X.size])
        np.testing.assert_array_equal(y, X[:4].repeat(2)[: X.size] * np.float16(1.5))
    else:
        with pytest.raises(LiteRtError) as error:
            compile_scale(tmp_path)
        assert error.value.status is Status.COMPILATION and "vload_half" in error.value.hint


def test_a_kernel_that_does_not_build_with_float_is_told_whom_that_build_is_for(
    tmp_path: Path, compiling: Any
) -> None:
    write_scale(tmp_path, HALF_ALONE)
    with pytest.raises(LiteRtError) as error:
        compile_scale(tmp_path)
    assert error.value.status is Status.COMPILATION
    is_for_others = "This build is for devices without fp16 arithmetic" in error.value.hint
    assert is_for_others == compiling.info.has_fp16
    assert "--reference_fp16=half" in error.value.hint


def test_the_kernel_of_custom_layers_documents_computes_in_halves(
    tmp_path: Path, compiling: Any
) -> None:
    write_scale(tmp_path, "")
    for name in ("custom_layer_kernel.cl", "relu.xml"):
        (tmp_path / name).write_text((APPENDIX / name).read_text())
    compile_scale(tmp_path, "relu.xml")
    y = run_on(compiling, tmp_path / "c.tflite", X)
    np.testing.assert_array_equal(y, np.maximum(X, np.float16(0)))


def test_kernels_are_dumped_as_each_device_gets_them(tmp_path: Path) -> None:
    write_scale(tmp_path, IN_TYPE)
    compile_scale(
        tmp_path, check_kernels=False, dump=DumpOptions(str(tmp_path / "dump"), "all", True)
    )
    elsewhere, with_fp16 = (
        (tmp_path / "dump" / f"program{number}.cl").read_text() for number in (0, 1)
    )
    assert "#define INPUT0_TYPE float\n" in elsewhere and "cl_khr_fp16" not in elsewhere
    assert "#define OUTPUT0_TYPE half\n" in with_fp16
    enabling = "#ifdef cl_khr_fp16\n#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n#endif\n"
    assert enabling in with_fp16
    assert "// Layer y using Custom Layer Scale with fp16 arithmetic\n" in with_fp16
    assert "// Layer y using Custom Layer Scale\n" in elsewhere


def test_both_functions_stand_in_the_ir_and_can_be_taken_up_again(tmp_path: Path) -> None:
    write_scale(tmp_path, IN_TYPE)
    folder = tmp_path / "dump"
    compile_scale(tmp_path, check_kernels=False, dump=DumpOptions(str(folder), "all"))
    imported = (folder / "00_import.mlir").read_bytes()
    assert b"@Partition_0_fp16" in imported and b"VPUIP.fp16_of = @Partition_0" in imported
    lowered = sorted(folder.glob("*.mlir"))
    names = [path.stem[3:] for path in lowered[1:]]
    made = transform_text(imported, "00_import.mlir", ",".join(names))
    assert made == lowered[-1].read_text()
    assert "VPUIP.fp16_of = @Partition_0" in made


def test_memory_is_reported_of_the_larger_tensors(tmp_path: Path) -> None:
    """Checks the report for two layers: an intermediate element takes 8 bytes with float, 4 with half."""
    b = ModelBuilder()
    x = b.input("x", "float16", (1000,))
    h = b.custom("Scale", [x], [("h", "float16", (1000,))])
    b.output(b.custom("Scale", [h], [("y", "float16", (1000,))]))
    write_model(b.build(), tmp_path / "m.tflite")
    (tmp_path / "scale.cl").write_text(IN_TYPE)
    report = compile_scale(tmp_path, check_kernels=False)
    (note,) = [note for note in report.notes if note.startswith("memory:")]
    elsewhere, with_fp16 = (
        read_compiled(tmp_path).functions_on(has_fp16)["Partition_0"] for has_fp16 in (False, True)
    )
    assert f" {elsewhere.cmx_size:,} of " in note and "calls" not in note
    assert with_fp16.cmx_size < elsewhere.cmx_size


def test_half_tensors_of_dynamic_shape_are_what_the_device_decides(
    tmp_path: Path, compiling: Any
) -> None:
    b = ModelBuilder()
    tensor = b.input("x", "float16", (1, 4), shape_signature=(-1, 4))
    scaled = b.tensor("y", "float16", (1, 4), shape_signature=(-1, 4))
    b.output(b.custom("Scale", [tensor], [scaled]))
    write_model(b.build(), tmp_path / "m.tflite")
    (tmp_path / "scale.cl").write_text(SIZE_OF)
    (tmp_path / "scale.json").write_text(
        """{"version": 1, "sources": ["scale.cl"], "work_sizes": {"global": ["B*F"]},
            "output_shapes": [["B", "F"]]}"""
    )
    compile_scale(tmp_path, "scale.json", shape_bounds={"x": (8, 4)})
    size = 2 if compiling.info.has_fp16 else 4
    with CompiledModel.from_file(str(tmp_path / "c.tflite")) as model:
        for rows in (3, 8, 1):
            y = model.run({"x": np.ones((rows, 4), np.float16)})["y"]
            assert y.shape == (rows, 4) and y.dtype == np.float16 and (y == size).all()


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
def test_integers_are_what_they_are(tmp_path: Path, compiling: Any, dtype: type) -> None:
    x: Array = np.array([0, 2, 40, 80], dtype)
    write_scale(tmp_path, IN_TYPE, dtype, x.size)
    compile_scale(tmp_path)
    assert run_on(compiling, tmp_path / "c.tflite", x).tolist() == [0, 3, 60, 120]


def test_a_type_that_a_layer_asks_for_counts() -> None:
    half, single = ElementType.FLOAT16, ElementType.FLOAT32
    assert kernel_type(half, None, False) is single
    assert kernel_type(half, half, False) is half
    assert kernel_type(half, None, True) is half
    assert kernel_type(half, single, True) is single
    assert kernel_type(ElementType.INT8, None, False) is ElementType.INT8


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (HalfPolicy(), [False, True]),
        (HalfPolicy(half_ops=["Scale"]), [True, True]),
        (HalfPolicy(half_ops=["Other"]), [False, True]),
        (HalfPolicy(HalfTensors.FLOAT), [False, False]),
        (HalfPolicy(HalfTensors.HALF), [True, True]),
    ],
)
def test_a_policy_says_it_for_devices_without_fp16_arithmetic_and_with(
    policy: HalfPolicy, expected: list[bool]
) -> None:
    assert [policy.is_half("Scale", has_fp16) for has_fp16 in (False, True)] == expected


def test_a_function_for_fp16_arithmetic_is_found_on_devices_that_have_it(
    tmp_path: Path, device: Any
) -> None:
    write_scale(tmp_path, IN_TYPE)
    compile_scale(tmp_path, check_kernels=False)
    made = read_compiled(tmp_path)
    module = Module(device, byte_code(made).view, {})
    assert module.find_function("Partition_0").needs_fp16 == device.info.has_fp16
    for_all = replace(made, functions=made.functions[:1])
    module = Module(device, byte_code(for_all).view, {})
    assert not module.find_function("Partition_0").needs_fp16


def test_options_of_the_vendor_are_read() -> None:
    assert half_tensors({}) is HalfTensors.DEVICE
    assert half_tensors({"reference_fp16": "half"}) is HalfTensors.HALF
    assert half_tensors({"reference_fp16": "device"}) is HalfTensors.DEVICE


@pytest.mark.parametrize(
    ("options", "what", "hint"),
    [
        (
            {"reference_fp16": "double"},
            "--reference_fp16 is 'double', but must be device, float or half",
            "float16 tensors",
        ),
        ({"reference_fp6": "half"}, "no option 'reference_fp6'", "Did you mean 'reference_fp16'?"),
        ({"speed": "1"}, "no option 'speed'", "reference_fp16"),
    ],
)
def test_an_option_that_cannot_be_is_an_error(
    options: dict[str, str], what: str, hint: str
) -> None:
    with pytest.raises(LiteRtError) as error:
        check_options(options)
    assert error.value.status is Status.INVALID_TOOL_CONFIG
    assert what in error.value.what and hint in error.value.hint
