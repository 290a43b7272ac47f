"""Dispatch tables in Python run in stock LiteRT as it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from tests.exported_vendors import exported
from tests.stock_litert import run_in_stock

SHAPE = (2, 3)
X = np.arange(6, dtype=np.float32).reshape(SHAPE)


@pytest.fixture
def copying(tmp_path: Path) -> Path:
    """A model for the null vendor: an NPU call between ops on the CPU; y = -2 x."""
    builder = ModelBuilder()
    x = builder.input("x", "float32", SHAPE)
    doubled = builder.op("ADD", [x, x], [("doubled", "float32", SHAPE)])
    copied = builder.custom("Copy", [doubled], [("copied", "float32", SHAPE)])
    y = builder.op("NEG", [copied], [("y", "float32", SHAPE)])
    builder.output(y)
    builder.signature("serving_default", {"x": x}, {"y": y})
    write_model(builder.build(), tmp_path / "in.tflite")
    (tmp_path / "copy.asset").write_bytes(b"of no use to Null")
    infos = [CustomOpInfo("Copy", str(tmp_path / "copy.asset"))]
    options = ApplyOptions("Null", compiler=CompilerOptions(infos))
    apply_plugin(tmp_path / "in.tflite", tmp_path / "out.tflite", options)
    return tmp_path / "out.tflite"


def test_a_table_in_python_runs_in_stock(copying: Path) -> None:
    run = run_in_stock(copying, exported("dispatch", "Null"), {"x": X}, runs=3)
    assert run.exit_status == 0, run.log
    np.testing.assert_array_equal(run.outputs["y"], -2 * X)
    assert "ERROR" not in run.log
