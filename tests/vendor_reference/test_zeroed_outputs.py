"""Tests outputs that a kernel adds to: the device fills them with zeros before each run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert.compiled_model import CompiledModel
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model

KERNEL = """__kernel void Sums(__global const int* x, __global int* y) {
  for (int i = 0; i < 4; ++i) atomic_add(&y[i], x[4 * get_global_id(0) + i]);
}
"""
DESCRIPTION = {
    "version": 1,
    "sources": ["Sums.cl"],
    "arguments": [{"input": 0}, {"output": 0, "zero": True}],
    "work_sizes": {"global": ["INPUT0_SHAPE[0]-1"]},
}


@pytest.mark.parametrize("is_dynamic", [False, True], ids=["fixed", "dynamic"])
def test_each_run_begins_with_zeros(tmp_path: Path, is_dynamic: bool) -> None:
    """The kernel adds up all rows but the last; with a single row no work item runs, so the output stays zero."""
    (tmp_path / "Sums.cl").write_text(KERNEL)
    (tmp_path / "Sums.json").write_text(json.dumps(DESCRIPTION))
    b = ModelBuilder()
    x = b.input("x", "int32", (3, 4), shape_signature=(-1, 4) if is_dynamic else None)
    b.output(b.custom("Sums", [x], [("y", "int32", (4,))]))
    write_model(b.build(), tmp_path / "sums.tflite")
    infos = [CustomOpInfo("Sums", str(tmp_path / "Sums.json"))]
    compiler = CompilerOptions(infos, shape_bounds={"x": (9, 4)} if is_dynamic else {})
    target = str(tmp_path / "npu.tflite")
    report = apply_plugin(str(tmp_path / "sums.tflite"), target, ApplyOptions(compiler=compiler))
    assert not report.cpu_ops
    with CompiledModel.from_file(target) as model:
        for rows in (3, 9, 1, 3) if is_dynamic else (3, 3):
            value = np.arange(rows * 4, dtype=np.int32).reshape(rows, 4)
            assert np.array_equal(model.run({"x": value})["y"], value[:-1].sum(0))
