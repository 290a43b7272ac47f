"""Tests the command line of `litert-npu compare`: its arguments, its output and its exit status."""

from __future__ import annotations

import json
import pickle
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from litert_npu_tools.litert_npu import guarded_main

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.model.builder import ModelBuilder
from litert.model.manifest import read_manifest
from litert.model.reader import read_model
from litert.model.writer import write_model

Capture = pytest.CaptureFixture[str]
Compare = Callable[..., tuple[int, str, str]]
ALL = "--reference_ops=all"
SHAPE = (2, 8)


@pytest.fixture
def compare(capfd: Capture) -> Compare:
    """A function that runs the command and returns the exit status, the output and the errors."""

    def run(*arguments: object) -> tuple[int, str, str]:
        status = guarded_main(["litert-npu", "compare", "-q", *map(str, arguments)])
        captured = capfd.readouterr()
        return status, captured.out, captured.err

    return run


@pytest.fixture
def model(tmp_path: Path) -> str:
    """The path of a model with exp = e ** (x * 2), sum = exp + x."""
    return write(tmp_path / "model.tflite", 2.0)


def write(path: Path, factor: float) -> str:
    builder = ModelBuilder()
    x = builder.input("x", "float32", SHAPE)
    constant = builder.constant("factor", np.full(1, factor, np.float32))
    mul = builder.op("MUL", [x, constant], [("mul", "float32", SHAPE)])
    exp = builder.op("EXP", [mul], [("exp", "float32", SHAPE)])
    builder.output(builder.op("ADD", [exp, x], [("sum", "float32", SHAPE)]))
    write_model(builder.build(), path)
    return str(path)


def x(count: int = 1) -> Any:
    return np.random.default_rng(7).uniform(0, 1, (count, *SHAPE)).astype(np.float32)


def wrong_exp(folder: Path) -> str:
    kernel = "__kernel void EXP(const __global float* x, __global float* y) {\n"
    kernel += "  size_t i = get_global_id(0); y[i] = i < 8 ? exp(x[i]) : 0;\n}\n"
    (folder / "EXP.cl").write_text(kernel)
    return f"--npu_custom_op_info=EXP,{folder / 'EXP.cl'}"


def test_a_wrong_kernel_is_told_and_the_exit_status_is_1(
    compare: Compare, model: str, tmp_path: Path
) -> None:
    status, out, _ = compare(model, ALL, wrong_exp(tmp_path))
    assert status == 1
    assert "beyond its limit: exp\nTo blame: op 1 EXP of subgraph 0, in NPU call" in out
    assert "element [1, 1] is 0, and 6.48924 on the CPU" in out
    assert "8 of 16 elements exceed the limit, all within [1, :]" in out
    status, out, _ = compare(model, ALL)
    assert status == 0 and out.endswith("The errors of all tensors are within their limits\n")


def test_the_report_for_machines_names_op_tensor_and_call(
    compare: Compare, model: str, tmp_path: Path
) -> None:
    status, out, _ = compare(model, ALL, wrong_exp(tmp_path), "--report=json")
    report = json.loads(out)
    assert status == 1
    assert report["blamed"]["op"] == {"subgraph": 0, "index": 1, "name": "EXP"}
    assert [tensor["name"] for tensor in report["tensors"]] == ["mul", "exp", "sum"]
    exp = report["tensors"][1]
    assert (exp["where"], exp["is_within"], exp["unit"]) == ("npu", False, "of the magnitude")
    assert report["first"] == report["blamed"]["tensor"] == "exp"
    assert (report["path"], report["reference"], report["kernels"]) == (model, model, "reference")


def test_all_tensors_are_shown_in_execution_order(compare: Compare, model: str) -> None:
    _, out, _ = compare(model, ALL, "--all", "--kernels=xnnpack")
    rows = [line.split()[:2] for line in out.splitlines()]
    assert [row for row in rows if row[0].isdigit() and row[1].isupper()] == [
        ["0", "MUL"],
        ["1", "EXP"],
        ["2", "ADD"],
    ]


def test_a_compiled_file_is_compiled_again_as_it_was(
    compare: Compare, model: str, tmp_path: Path
) -> None:
    compiled = str(tmp_path / "compiled.tflite")
    options = CompilerOptions(vendor_options={"reference_ops": "MUL,EXP"})
    apply_plugin(model, compiled, ApplyOptions(compiler=options))
    status, out, _ = compare(compiled, f"--reference={model}")
    assert status == 0 and "2 of the NPU, 1 of the CPU" in out
    status, out, _ = compare(compiled, f"--reference={write(tmp_path / 'other.tflite', 3.0)}")
    assert status == 1 and "the file's byte code is stale" in out


def test_a_compiled_file_keeps_the_bounds_of_its_shapes(compare: Compare, tmp_path: Path) -> None:
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 8), shape_signature=(-1, 8))
    following, total = (
        builder.tensor(name, "float32", (1, 8), shape_signature=(-1, 8)) for name in ("next", "sum")
    )
    builder.output(builder.op("ADD", [builder.custom("Next", [x], [following]), x], [total]))
    write_model(builder.build(), tmp_path / "model.tflite")
    (tmp_path / "Next.cl").write_text(
        "__kernel void Next(const __global float* x, __global float* y) {\n"
        "  size_t i = get_global_id(0); y[i] = x[i] + 1;\n}\n"
    )
    (tmp_path / "next.py").write_text("def next(inputs, options): return inputs[0] + 1\n")
    infos = [CustomOpInfo("Next", str(tmp_path / "Next.cl"))]
    compiler = CompilerOptions(infos, shape_bounds={"x": (4, 8)})
    compiled = tmp_path / "compiled.tflite"
    apply_plugin(tmp_path / "model.tflite", compiled, ApplyOptions(compiler=compiler))
    with read_model(compiled) as model:
        manifest = read_manifest(model)
    assert manifest is not None and manifest.flags["shape_bounds"] == "x:4x8"
    np.savez(tmp_path / "in.npz", x=np.ones((3, 8), np.float32))
    status, out, error = compare(
        compiled,
        f"--reference={tmp_path / 'model.tflite'}",
        f"--npu_custom_op_info=Next,{tmp_path / 'Next.cl'}",
        f"--reference_function=Next,{tmp_path / 'next.py'}:next",
        f"--inputs={tmp_path / 'in.npz'}",
    )
    assert status == 0 and "1 of the NPU, 1 of the CPU" in out, error
    assert "Not compared" not in out


def test_a_compiled_file_alone_cannot_be_compared(
    compare: Compare, model: str, tmp_path: Path
) -> None:
    compiled = str(tmp_path / "compiled.tflite")
    options = CompilerOptions(vendor_options={"reference_ops": "all"})
    apply_plugin(model, compiled, ApplyOptions(compiler=options))
    status, _, error = compare(compiled)
    assert (
        status == 2
        and "the comparison also needs the model from which the file was compiled" in error
    )
    status, _, error = compare(model, f"--reference={compiled}")
    assert status == 2 and "must not be compiled, but this file is compiled for an NPU" in error
    b = ModelBuilder()
    b.output(b.op("ABS", [b.input("x", "float32", (3,))], [("y", "float32", (3,))]))
    write_model(b.build(), tmp_path / "other.tflite")
    status, _, error = compare(compiled, f"--reference={tmp_path / 'other.tflite'}")
    assert (
        status == 2
        and "not made from the reference: the file's inputs are 'x' of tensor<2x8xf32>" in error
    )
    np.savez(tmp_path / "golden.npz", x=x()[0], sum=np.exp(2 * x()[0]) + x()[0])
    status, out, _ = compare(compiled, f"--reference={tmp_path / 'golden.npz'}")
    assert status == 0 and "Single ops are not checked" in out
    np.savez(tmp_path / "golden.npz", x=x()[0], sum=np.zeros(SHAPE, np.float32))
    status, out, _ = compare(compiled, f"--reference={tmp_path / 'golden.npz'}")
    assert status == 1 and ", and 0 in the golden array: inf of the magnitude away" in out
    assert "No single op causes the error: no op was checked separately" in out


def test_golden_tensors_are_compared_by_name(compare: Compare, model: str, tmp_path: Path) -> None:
    golden = tmp_path / "golden.npz"
    value = x()[0]
    right = {"in0": value, "exp": np.exp(2 * value), "out0": np.exp(2 * value) + value}
    np.savez(golden, **right, other=value, mul=value[:1])
    status, out, _ = compare(model, ALL, f"--reference={golden}")
    assert status == 0
    assert "Not compared: other: no op of the model computes a tensor with this name" in out
    assert "Not compared: mul: the array has shape [1, 8], but the tensor has shape [2, 8]" in out
    first, *_, last = [line.split() for line in out.splitlines() if " npu " in line]
    assert (
        last[1] == "MUL" and last[3:7] == ["-"] * 4 and "-" not in first
    )  # there is no golden tensor for MUL
    np.savez(golden, **right | {"exp": value})
    status, out, _ = compare(model, ALL, f"--reference={golden}")
    assert status == 1
    assert (
        "beyond its limit: exp\nNo single op causes the error: each op computes the right result from its inputs"
        in out
    )


def empty(path: Path) -> None:
    np.savez(path)


def another_model_s(path: Path) -> None:
    np.savez(path, scores=x(), boxes=x())


def with_objects(path: Path) -> None:
    np.savez(path, out0=np.array([{"a": 1}], object))


def a_pickle(path: Path) -> None:
    path.write_bytes(pickle.dumps({"out0": 1}))


def a_text(path: Path) -> None:
    path.write_text("out0")


def nothing(path: Path) -> None:
    pass


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (empty, "no array in the file can be compared with a tensor of the model"),
        (
            another_model_s,
            ": for arrays 'scores', 'boxes', no op of the model computes a tensor with this name",
        ),
        (with_objects, "Object arrays cannot be loaded"),
        (a_pickle, "the file is not a .npy file"),
        (a_text, "the file is not a .npy file"),
        (nothing, "no such file"),
    ],
)
def test_a_golden_file_that_says_nothing_is_an_error(
    compare: Compare, model: str, tmp_path: Path, make: Callable[[Path], None], said: str
) -> None:
    make(tmp_path / "golden.npz")
    status, out, error = compare(model, ALL, f"--reference={tmp_path / 'golden.npz'}")
    assert status == 2 and not out and said in error


def test_golden_numbers_that_are_none_agree_with_ours_that_are_none(
    compare: Compare, model: str, tmp_path: Path
) -> None:
    value = x()[0]
    value[0, 0] = np.nan
    golden = tmp_path / "golden.npz"
    np.savez(golden, in0=value, out0=np.exp(2 * value) + value)
    status, out, _ = compare(model, ALL, f"--reference={golden}")
    assert (
        status == 0
        and "1 of 16 elements are not finite in both the tensor and the reference" in out
    )
    np.savez(golden, in0=x()[0], out0=np.exp(2 * value) + value)
    status, out, _ = compare(model, ALL, f"--reference={golden}")
    assert (
        status == 1
        and "elements are infinite or NaN in the tensor or in the reference, and differ: element 0 is"
        in out
    )


def test_recorded_samples_are_compared_one_by_one(
    compare: Compare, model: str, tmp_path: Path
) -> None:
    np.savez(tmp_path / "recorded.npz", x=x(3))
    status, out, _ = compare(model, ALL, f"--inputs={tmp_path / 'recorded.npz'}", "--report=json")
    origins = [sample["origin"] for sample in json.loads(out)["samples"]]
    assert status == 0 and origins == [f"{tmp_path / 'recorded.npz'}, {i}" for i in range(3)]
    folder = tmp_path / "samples"
    folder.mkdir()
    for name, value in (("a", x()[0]), ("b", -50 * x()[0])):
        np.savez(folder / f"{name}.npz", in0=value)
    kernel = "__kernel void EXP(const __global float* x, __global float* y) {\n"
    kernel += "  size_t i = get_global_id(0); y[i] = x[i] < 0 ? 1 : exp(x[i]);\n}\n"
    (tmp_path / "EXP.cl").write_text(kernel)
    info = f"--npu_custom_op_info=EXP,{tmp_path / 'EXP.cl'}"
    status, out, _ = compare(model, ALL, info, f"--inputs={folder}", "--report=json")
    report = json.loads(out)
    assert status == 1 and report["num_samples"] == 2
    assert [sample["num_beyond"] for sample in report["samples"]] == [0, 1]
    assert [sample["first"] for sample in report["samples"]] == ["", "exp"]
    _, out, _ = compare(model, ALL, info, f"--inputs={folder}")
    assert f"Sample 1, {folder / 'b.npz'}: 1 beyond their limits, first exp" in out
    assert "Sample 0" not in out


def test_an_error_of_one_of_many_files_names_it(
    compare: Compare, model: str, tmp_path: Path
) -> None:
    np.savez(tmp_path / "a.npz", x=x()[0])
    np.savez(tmp_path / "b.npz", x=x()[0, :, :7])
    status, _, error = compare(model, ALL, f"--inputs={tmp_path}")
    assert status == 2 and "the given shape is [2, 7]" in error and str(tmp_path / "b.npz") in error


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"y": x()}, "no array in the file has the name of an input"),
        ({"x": x()[0].astype(np.float64)}, "but its array is float64[2, 8]"),
        (
            {"x": np.zeros(3, np.float32)},
            "input 'x' has the shape [2, 8], but its array has the shape [3]",
        ),
        (
            {"x": np.zeros((0, *SHAPE), np.float32)},
            "array 'x' contains no samples: the first dimension of its shape [0, 2, 8] is 0",
        ),
    ],
)
def test_samples_that_do_not_fit_are_refused(
    compare: Compare, model: str, tmp_path: Path, arrays: Any, said: str
) -> None:
    np.savez(tmp_path / "recorded.npz", **arrays)
    status, _, error = compare(model, ALL, f"--inputs={tmp_path / 'recorded.npz'}")
    assert status == 2 and said in error


def test_a_reference_that_stock_cannot_run_is_told(compare: Compare, tmp_path: Path) -> None:
    builder = ModelBuilder()
    x = builder.input("x", "float32", SHAPE)
    builder.output(builder.custom("Mine", [x], [("y", "float32", SHAPE)]))
    write_model(builder.build(), tmp_path / "mine.tflite")
    (tmp_path / "Mine.cl").write_text(
        "__kernel void Mine(const __global float* x, __global float* y) {\n"
        "  size_t i = get_global_id(0); y[i] = 2 * x[i];\n}\n"
    )
    info = f"--npu_custom_op_info=Mine,{tmp_path / 'Mine.cl'}"
    status, _, error = compare(tmp_path / "mine.tflite", info)
    assert status == 2 and "no tensor could be compared" in error
    assert "--reference_function=Mine,file.py:function" in error
    (tmp_path / "mine.py").write_text("def double(inputs, options):\n    return 2 * inputs[0]\n")
    function = f"--reference_function=Mine,{tmp_path / 'mine.py'}:double"
    status, out, _ = compare(tmp_path / "mine.tflite", info, function)
    assert status == 0 and "Note: a given reference function computes the reference of Mine" in out


def test_an_op_of_the_npu_that_was_not_compared_is_no_yes(compare: Compare, tmp_path: Path) -> None:
    """All other ops are right; the JSON report and standard error name the op that was not compared."""
    builder = ModelBuilder()
    x = builder.input("x", "float32", SHAPE)
    mine = builder.custom("Mine", [x], [("mine", "float32", SHAPE)])
    builder.output(builder.op("EXP", [mine], [("y", "float32", SHAPE)]))
    write_model(builder.build(), tmp_path / "mine.tflite")
    (tmp_path / "Mine.cl").write_text(
        "__kernel void Mine(const __global float* x, __global float* y) {\n"
        "  size_t i = get_global_id(0); y[i] = 2 * x[i];\n}\n"
    )
    arguments = (
        tmp_path / "mine.tflite",
        ALL,
        f"--npu_custom_op_info=Mine,{tmp_path / 'Mine.cl'}",
    )
    status, out, error = compare(*arguments)
    assert status == 2 and "--reference_function=Mine,file.py:function" in error
    assert (
        "1 tensor compared; 1 of the NPU, 0 of the CPU; 0 beyond their limits; 1 NPU op not" in out
    )
    assert "Not compared: mine: stock LiteRT has no kernel for op 'Mine'" in out
    assert out.endswith("but these NPU ops were not compared: 0 Mine\n")
    status, out, _ = compare(*arguments, "--report=json")
    report = json.loads(out)
    assert status == 2 and not report["passed"] and not report["first"]
    assert report["unchecked"] == [{"subgraph": 0, "index": 0, "name": "Mine"}]
    (tmp_path / "mine.py").write_text("def double(inputs, options):\n    return 2 * inputs[0]\n")
    function = f"--reference_function=Mine,{tmp_path / 'mine.py'}:double"
    status, out, _ = compare(*arguments, function, "--report=json")
    assert status == 0 and json.loads(out)["unchecked"] == []


def test_a_transformed_model_is_compared_with_the_one_that_it_was(
    compare: Compare, model: str, tmp_path: Path
) -> None:
    other = write(tmp_path / "other.tflite", 2.5)
    status, out, _ = compare(other, f"--reference={model}")
    assert status == 1 and "To blame: op 0 MUL of subgraph 0, on the CPU" in out
    status, _, error = compare(other, f"--reference={model}", ALL)
    assert (
        status == 2
        and f"flags for compiling ({ALL}) cannot be combined" in error
        and other in error
    )
    status, out, _ = compare(model, f"--reference={model}")
    assert status == 0 and "0 of the NPU, 3 of the CPU" in out


def test_an_error_names_the_user_s_file(compare: Compare, model: str, tmp_path: Path) -> None:
    (tmp_path / "EXP.cl").write_text("__kernel void EXP(const __global float* x) { syntax }")
    status, _, error = compare(model, f"--npu_custom_op_info=EXP,{tmp_path / 'EXP.cl'}")
    assert status == 2 and "litert-npu-" not in error


def test_the_smallest_wrong_part_is_written_with_the_command_that_shows_its_fault(
    compare: Compare, model: str, tmp_path: Path
) -> None:
    kernel, folder = wrong_exp(tmp_path), tmp_path / "a part"
    status, out, _ = compare(model, ALL, kernel, "--num_samples=2", f"--bisect={folder}")
    *_, told, command = out.splitlines()
    assert (
        status == 1
        and f"The smallest part with wrong results: op 1 EXP alone, in {folder}/part.tflite" in told
    )
    arguments = shlex.split(command)[2:]
    status, out, _ = compare(*arguments)
    assert status == 1 and "To blame: op 0 EXP" in out
    (tmp_path / "EXP.cl").write_text((tmp_path / "EXP.cl").read_text().replace("i < 8", "true"))
    assert compare(*arguments)[0] == 0


def test_golden_tensors_that_differ_where_each_op_is_right_have_no_wrong_part(
    compare: Compare, model: str, tmp_path: Path
) -> None:
    np.savez(tmp_path / "golden.npz", out0=np.zeros(SHAPE, np.float32))
    bisect, golden = f"--bisect={tmp_path / 'part'}", f"--reference={tmp_path / 'golden.npz'}"
    status, out, _ = compare(model, ALL, golden, bisect)
    assert status == 1
    assert "--bisect wrote no files: each op computes the right result from its inputs" in out
    compiled = str(tmp_path / "compiled.tflite")
    options = CompilerOptions(vendor_options={"reference_ops": "all"})
    apply_plugin(model, compiled, ApplyOptions(compiler=options))
    status, _, error = compare(compiled, golden, bisect)
    assert status == 2 and "With --reference, give this model instead of the golden" in error
    assert not (tmp_path / "part").exists()


def test_a_compiled_file_s_part_has_its_vendor_s_options(
    compare: Compare, model: str, tmp_path: Path
) -> None:
    kernel, compiled = wrong_exp(tmp_path), str(tmp_path / "compiled.tflite")
    options = CompilerOptions(
        [CustomOpInfo("EXP", str(tmp_path / "EXP.cl"))], vendor_options={"reference_ops": "MUL,EXP"}
    )
    apply_plugin(model, compiled, ApplyOptions(compiler=options))
    arguments = compiled, f"--reference={model}", kernel, f"--bisect={tmp_path / 'part'}"
    status, out, _ = compare(*arguments)
    command = out.splitlines()[-1]
    assert status == 1 and "--reference_ops=MUL,EXP" in command
    assert compare(*shlex.split(command)[2:])[0] == 1
