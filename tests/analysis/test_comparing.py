"""Tests that comparing a model finds the op with a wrong kernel, and blames no other op."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler_plugin.apply_options import ApplyOptions
from compiler_plugin.pipeline import apply_plugin
from litert.analysis import npu_files
from litert.analysis.compare_options import CUTS, CompareOptions, Sample
from litert.analysis.comparing import compare_model, compare_transformed
from litert.analysis.comparison import Blamed, ModelComparison, SourceOp
from litert.analysis.reference_run import ReferenceOptions
from litert.analysis.source_graph import SourceGraph, write_exposed
from litert.analysis.trial import NpuTrial
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.errors import LiteRtError
from litert.core.quantization import Quantization
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.graph import Op
from litert.model.writer import write_model

EXP = """
__kernel void EXP(const __global float* x, __global float* y) {
  size_t i = get_global_id(0);
  y[i] = exp(x[i])%s;
}
"""
ALL = {"reference_ops": "all"}


def chain(folder: Path) -> str:
    """Writes a model of mul -> exp -> tanh -> exp -> add; the last op also reads mul."""
    builder = ModelBuilder()
    f32 = ("float32", (1, 4, 8))
    x = builder.input("x", *f32)
    mul = builder.op("MUL", [x, x], [("mul", *f32)])
    first = builder.op("EXP", [mul], [("first", *f32)])
    tanh = builder.op("TANH", [first], [("tanh", *f32)])
    second = builder.op("EXP", [tanh], [("second", *f32)])
    builder.output(builder.op("ADD", [second, mul], [("sum", *f32)]))
    return written(builder, folder / "chain.tflite")


def written(builder: ModelBuilder, path: Path) -> str:
    write_model(builder.build(), path)
    return str(path)


def layer(folder: Path, op: str, kernel: str) -> CustomOpInfo:
    (folder / f"{op}.cl").write_text(kernel)
    return CustomOpInfo(op, str(folder / f"{op}.cl"))


def compared(
    path: str, layers: Sequence[CustomOpInfo] = (), compiled: str = "", **options: Any
) -> tuple[ModelComparison, dict[str, Any]]:
    """Returns the comparison of a model on the reference vendor's NPU, and its tensors by name."""
    source = SourceGraph(path)
    random = np.random.default_rng(0)
    inputs = {}
    for name, place in source.inputs.items():
        tensor = source.tensor(place)
        most = 1 if tensor.element_type.bits == 32 else 100
        inputs[name] = random.uniform(0, most, tensor.shape).astype(tensor.element_type.numpy_dtype)
    apply = ApplyOptions(compiler=CompilerOptions(layers, vendor_options=ALL))
    comparison = compare_model(
        source,
        compiled,
        [Sample("random", inputs)],
        CompareOptions(apply=apply, **options),
    )
    return comparison, {tensor.name: tensor for tensor in comparison.tensors}


def blamed(comparison: ModelComparison) -> Blamed:
    assert comparison.blamed is not None
    return comparison.blamed


@pytest.mark.parametrize("wrong", [" + 0.1f", " * (i < 28)", " / (i != 31)"])
def test_the_op_of_a_wrong_kernel_is_blamed_and_no_op_that_inherits(
    tmp_path: Path, wrong: str
) -> None:
    layers = [layer(tmp_path, "EXP", EXP % wrong)]
    comparison, tensors = compared(chain(tmp_path), layers)
    assert comparison.first == "first"
    assert (blamed(comparison).op.index, blamed(comparison).op.name) == (1, "EXP")
    assert blamed(comparison).call and blamed(comparison).call == tensors["first"].call
    assert {name for name, tensor in tensors.items() if not tensor.is_within} == {"first", "second"}
    assert tensors["tanh"].greatest > 1e-3  # inherited from `first`
    assert tensors["tanh"].local_greatest < 1e-6


@pytest.mark.parametrize("kernels", ["reference", "xnnpack"])
def test_nothing_is_blamed_where_all_kernels_are_right(tmp_path: Path, kernels: str) -> None:
    from litert.analysis.reference_run import ReferenceOptions

    comparison, tensors = compared(
        chain(tmp_path), reference=ReferenceOptions(kernels), tolerance=1e-6
    )
    assert comparison.blamed is None and not comparison.first and not comparison.not_compared
    assert list(tensors) == ["mul", "first", "tanh", "second", "sum"]
    assert all(t.where == "npu" and t.cosine > 0.99999 for t in tensors.values())


def scaled(folder: Path, name: str, factor: float) -> str:
    """Writes a model of exp(x * factor) + x."""
    builder = ModelBuilder()
    f32 = ("float32", (1, 4, 8))
    x = builder.input("x", *f32)
    constant = builder.constant("factor", np.full((8,), factor, np.float32))
    mul = builder.op("MUL", [x, constant], [("mul", *f32)])
    exp = builder.op("EXP", [mul], [("exp", *f32)])
    builder.output(builder.op("ADD", [exp, x], [("sum", *f32)]))
    return written(builder, folder / name)


def test_stale_byte_code_is_told_from_a_wrong_op(tmp_path: Path) -> None:
    old, new = scaled(tmp_path, "old.tflite", 1.0), scaled(tmp_path, "new.tflite", 1.5)
    compiled = str(tmp_path / "compiled.tflite")
    apply_plugin(old, compiled, ApplyOptions(compiler=CompilerOptions(vendor_options=ALL)))
    comparison, tensors = compared(new, compiled=compiled)
    assert comparison.first == blamed(comparison).tensor == "sum"
    assert "compiled again" in blamed(comparison).why and "stale" in blamed(comparison).why
    assert blamed(comparison).call
    assert tensors["mul"].is_within and tensors["exp"].is_within
    right, _ = compared(old, compiled=compiled)
    assert right.blamed is None


def test_a_race_is_told_from_a_wrong_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = count()
    run = NpuTrial.run

    def racing(self: NpuTrial, inputs: Mapping[str, Any]) -> dict[int, Any]:
        found = run(self, inputs)
        if len(found) > 1:  # a run that also returns inner tensors
            found[min(found)] = found[min(found)] + np.float32(0.5 if next(runs) % 2 else 0)
        return found

    monkeypatch.setattr(NpuTrial, "run", racing)
    comparison, _ = compared(chain(tmp_path), inside=CUTS)
    assert blamed(comparison).op.index == 0
    assert "differ from run to run" in blamed(comparison).why


def test_where_a_vendor_refuses_all_outputs_at_once_it_is_asked_for_fewer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []

    def limited(source: SourceGraph, places: Sequence[int], target: str) -> None:
        sizes.append(len(places))
        if len(places) > 3:
            raise LiteRtError(Status.UNSUPPORTED, "too many outputs")
        write_exposed(source, places, target)

    monkeypatch.setattr(npu_files, "write_exposed", limited)
    layers = [layer(tmp_path, "EXP", EXP % " + 0.1f")]
    comparison, tensors = compared(chain(tmp_path), layers, inside=CUTS)
    assert max(sizes) == 5 and sizes.count(3) > 0
    assert blamed(comparison).op.index == 1 and not comparison.not_compared
    assert len(tensors) == 5


def test_an_op_s_own_error_is_numpy_s(tmp_path: Path) -> None:
    layers = [layer(tmp_path, "EXP", EXP % " + 0.1f")]
    path = scaled(tmp_path, "model.tflite", 1.0)
    comparison, tensors = compared(path, layers)
    x = np.random.default_rng(0).uniform(0, 1, (1, 4, 8)).astype(np.float32)
    wrong, right = np.exp(x) + np.float32(0.1), np.exp(x)
    exp = tensors["exp"]
    assert exp.local_greatest == pytest.approx(0.1 / right.max(), rel=1e-4)
    assert exp.greatest == pytest.approx(0.1, rel=1e-4) == exp.mean
    assert exp.snr_db == pytest.approx(10 * np.log10((right**2).mean() / 0.01), rel=1e-4)
    cosine = (wrong * right).sum() / np.sqrt((wrong**2).sum() * (right**2).sum())
    assert exp.cosine == pytest.approx(cosine, abs=1e-6)
    assert tensors["sum"].local_greatest < 1e-6 < tensors["sum"].greatest
    assert not comparison.notes


def test_a_zero_point_that_is_off_by_one_is_no_rounding(tmp_path: Path) -> None:
    """Each element is off by one step, which may be rounding, but here all of them are off in one direction."""
    builder = ModelBuilder()
    i8 = ("int8", (1, 64))
    x, y = (builder.input(n, *i8, quantization=Quantization((0.5,), (3,))) for n in "xy")
    quantization = Quantization((0.5,), (3,))
    most = builder.op("MAXIMUM", [x, y], [("most", *i8)])
    most.quantization = quantization
    builder.output(most)
    path = written(builder, tmp_path / "model.tflite")
    kernel = """
    __kernel void MAXIMUM(const __global char* a, const __global char* b, __global char* y) {
      size_t i = get_global_id(0);
      y[i] = add_sat(max(a[i], b[i]), (char)%d);
    }
    """
    layers = [layer(tmp_path, "MAXIMUM", kernel % 1)]
    comparison, tensors = compared(path, layers)
    assert tensors["most"].local_greatest == 1 == tensors["most"].limit
    assert "zero point" in blamed(comparison).why
    assert tensors["most"].greatest == 0.5  # the difference of the real numbers
    layers = [layer(tmp_path, "MAXIMUM", kernel % 0)]
    assert compared(path, layers)[0].blamed is None


def test_what_follows_an_op_without_a_reference_is_compared(tmp_path: Path) -> None:
    builder = ModelBuilder()
    f32 = ("float32", (1, 32))
    x = builder.input("x", *f32)
    mine = builder.custom("Mine", [builder.op("MUL", [x, x], [("mul", *f32)])], [("mine", *f32)])
    builder.output(builder.op("EXP", [mine], [("exp", *f32)]))
    path = written(builder, tmp_path / "model.tflite")
    layers = [layer(tmp_path, "Mine", EXP.replace("EXP", "Mine") % " + 1")]
    comparison, tensors = compared(path, layers)
    assert comparison.blamed is None and set(tensors) == {"mul", "exp"}
    (missed,) = comparison.not_compared
    assert missed.name == "mine" and "Mine" in missed.reason

    def wrong(op: Op, inputs: Sequence[Any]) -> list[Any]:
        return [np.exp(inputs[0])]

    reference = ReferenceOptions(functions={"Mine": wrong})
    comparison, tensors = compared(path, layers, reference=reference)
    assert blamed(comparison).op == SourceOp(0, 1, "Mine") and not comparison.not_compared
    assert tensors["exp"].local_greatest < 1e-6 < tensors["exp"].greatest


def test_no_op_is_blamed_for_the_result_of_one_that_nothing_computes_or_shows(
    tmp_path: Path,
) -> None:
    builder = ModelBuilder()
    f32 = ("float32", (1, 32))
    x = builder.input("x", *f32)
    double = builder.op("ADD", [x, x], [("double", *f32)])
    # Stock refuses a RESHAPE without a shape. On the NPU, it moves no data, so no tap shows it.
    flat = builder.op("RESHAPE", [double], [("flat", "float32", (1, 4, 8))])
    builder.output(builder.op("EXP", [flat], [("exp", "float32", (1, 4, 8))]))
    comparison, tensors = compared(written(builder, tmp_path / "model.tflite"))
    assert comparison.blamed is None and not comparison.first
    assert [op.name for op in comparison.unchecked] == ["RESHAPE", "EXP"]
    assert tensors.keys() == {"double"}
    reasons = {left_out.name: left_out.reason for left_out in comparison.not_compared}
    assert (
        "this tensor is computed from the result of RESHAPE, which is not visible" in reasons["exp"]
    )


def test_ops_that_nothing_runs_are_left_out_and_the_rest_is_compared(tmp_path: Path) -> None:
    builder = ModelBuilder()
    f32 = ("float32", (1, 32))
    x = builder.input("x", *f32)
    first = builder.op("EXP", [x], [("first", *f32)])
    unknown = builder.custom("Unknown", [first], [("unknown", *f32)])
    builder.output(builder.op("EXP", [unknown], [("second", *f32)]))
    path = written(builder, tmp_path / "model.tflite")
    layers = [layer(tmp_path, "EXP", EXP % " * (i != 31)")]
    comparison, tensors = compared(path, layers)
    assert {name: tensor.op for name, tensor in tensors.items()} == {"first": 0, "second": 2}
    assert comparison.not_compared[0].name == "unknown"
    assert [tensor.is_within for tensor in tensors.values()] == [False, False]


def test_a_wrong_transformation_is_found_where_tensors_begin_to_differ(tmp_path: Path) -> None:
    original, wrong = (scaled(tmp_path, f"{f}.tflite", f) for f in (1.0, 1.5))
    random = {"x": np.random.default_rng(0).uniform(0, 1, (1, 4, 8)).astype(np.float32)}
    sample, source = Sample("random", random), SourceGraph(original)
    same = compare_transformed(source, original, [sample], CompareOptions())
    assert not same.first and same.blamed is None and len(same.tensors) == 3
    found = compare_transformed(source, wrong, [sample], CompareOptions())
    assert blamed(found).op == SourceOp(0, 0, "MUL") and blamed(found).call == ""
    assert [tensor.is_within for tensor in found.tensors] == [False, True, True]


def test_both_sides_without_numbers_agree_and_that_is_said(tmp_path: Path) -> None:
    builder = ModelBuilder()
    f32 = ("float32", (1, 32))
    x = builder.input("x", *f32)
    builder.output(builder.op("SQRT", [builder.op("NEG", [x], [("neg", *f32)])], [("root", *f32)]))
    path = written(builder, tmp_path / "model.tflite")
    comparison, tensors = compared(path)
    assert comparison.blamed is None
    assert (
        "32 of 32 elements are not finite in both the tensor and the reference"
        in tensors["root"].problem
    )


def test_a_sum_that_cancels_is_measured_by_its_terms(tmp_path: Path) -> None:
    """An error of a millionth of the terms is no fault, even if it is as large as their difference."""
    builder = ModelBuilder()
    f32 = ("float32", (1, 32))
    x = builder.input("x", *f32)
    one = builder.constant("one", np.ones(1, np.float32))
    same = builder.op("MUL", [x, one], [("same", *f32)])
    builder.output(builder.op("SUB", [x, same], [("difference", *f32)]))
    path = written(builder, tmp_path / "model.tflite")
    kernel = (
        EXP.replace("EXP", "SUB")
        .replace("exp(x[i])", "0")
        .replace("* x, __global", "* x, const __global float* z, __global")
    )
    layers = [layer(tmp_path, "SUB", kernel % " + 1e-6f")]
    assert compared(path, layers)[0].blamed is None
    layers = [layer(tmp_path, "SUB", kernel % " + 0.1f")]
    assert compared(path, layers)[0].blamed is not None
