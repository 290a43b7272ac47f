"""Which op is wrong: found where a wrong kernel was planted, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler_plugin.apply_options import ApplyOptions
from litert.analysis.comparing import CompareOptions, compare_model
from litert.analysis.comparison import ModelComparison
from litert.analysis.source_graph import SourceGraph
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.hardware_accelerator import HardwareAccelerator
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from litert.options import Options

EXP = """
__kernel void EXP(const __global float* x, __global float* y) {
  size_t i = get_global_id(0);
  y[i] = exp(x[i])%s;
}
"""
LOAD = Options(HardwareAccelerator.NPU | HardwareAccelerator.CPU)


def chain(folder: Path) -> str:
    """mul -> exp -> tanh -> exp -> add, the last one of mul, too."""
    builder = ModelBuilder()
    f32 = ("float32", (1, 4, 8))
    x = builder.input("x", *f32)
    mul = builder.op("MUL", [x, x], [("mul", *f32)])
    first = builder.op("EXP", [mul], [("first", *f32)])
    tanh = builder.op("TANH", [first], [("tanh", *f32)])
    second = builder.op("EXP", [tanh], [("second", *f32)])
    builder.output(builder.op("ADD", [second, mul], [("sum", *f32)]))
    path = folder / "chain.tflite"
    write_model(builder.build(), path)
    return str(path)


def compared(
    path: str, layers: Sequence[CustomOpInfo] = (), **options: Any
) -> tuple[ModelComparison, dict[str, Any]]:
    """The comparison of a model on the reference vendor's NPU, and its tensors by name."""
    source = SourceGraph(path)
    random = np.random.default_rng(0)
    sample = {
        name: random.uniform(0, 1, source.tensor(place).shape).astype(np.float32)
        for name, place in source.inputs.items()
    }
    compiler = CompilerOptions(layers, vendor_options={"reference_ops": "all"})
    apply = ApplyOptions(compiler=compiler)
    comparison = compare_model(
        source, "", [sample], CompareOptions(apply=apply, load=LOAD, **options), no_progress
    )
    return comparison, {tensor.name: tensor for tensor in comparison.tensors}


def no_progress(step: str, done: int, total: int) -> None:
    """Tells nobody."""


@pytest.mark.parametrize("wrong", [" + 0.1f", " * (i < 28)", " / (i != 31)"])
def test_the_op_of_a_wrong_kernel_is_blamed_and_no_op_that_inherits(
    tmp_path: Path, wrong: str
) -> None:
    (tmp_path / "EXP.cl").write_text(EXP % wrong)
    comparison, tensors = compared(chain(tmp_path), [CustomOpInfo("EXP", str(tmp_path / "EXP.cl"))])
    assert comparison.first == "first"
    assert comparison.blamed is not None
    assert (comparison.blamed.op.index, comparison.blamed.op.name) == (1, "EXP")
    assert comparison.blamed.call and comparison.blamed.call == tensors["first"].call
    assert {name for name, tensor in tensors.items() if not tensor.is_within} == {"first", "second"}
    assert tensors["tanh"].greatest > 1e-3  # inherited
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
