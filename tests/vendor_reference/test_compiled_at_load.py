"""Tests that a custom op with an asset is compiled for the reference vendor when its model is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from litert.compiled_model import CompiledModel
from litert.core.compiler_options import CustomOpInfo
from litert.environment import Environment
from litert.hardware_accelerator import HardwareAccelerator
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from litert.options import Options
from tests.exported_vendors import exported

pytestmark = pytest.mark.each_driver

ACCELERATORS = HardwareAccelerator.NPU | HardwareAccelerator.CPU
KERNEL = """
#include "factor.h"
__kernel void Times(__global const float* x, __global float* y) {
  y[get_global_id(0)] = x[get_global_id(0)] * FACTOR;
}
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    builder = ModelBuilder()
    x = builder.input("x", "float32", (4,))
    a = builder.op("ADD", [x, x], [("a", "float32", (4,))])
    builder.output(builder.custom("Times", [a], [("y", "float32", (4,))]))
    path = tmp_path / "model.tflite"
    write_model(builder.build(), path)
    return path


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    path = tmp_path / "Times.cl"
    path.write_text(KERNEL)
    (tmp_path / "factor.h").write_text("#define FACTOR 3.0f\n")
    return path


def run(model: Path, options: Options, environment: Environment | None = None) -> list[Any]:
    with CompiledModel.from_file(model, environment=environment, options=options) as loaded:
        return [float(v) for v in loaded.run({"x": np.array([1, 2, 3, 4], np.float32)})["y"]]


@pytest.mark.usefixtures("device")
def test_a_custom_op_runs_with_the_asset_of_the_options(model: Path, kernel: Path) -> None:
    infos = [CustomOpInfo("Times", str(kernel))]
    options = Options(ACCELERATORS, custom_op_infos=infos, soc_manufacturer="Reference")
    assert run(model, options) == [6, 12, 18, 24]


@pytest.mark.usefixtures("device")
def test_a_file_that_an_asset_names_is_compiled_anew_when_it_changes(
    model: Path, kernel: Path, tmp_path: Path
) -> None:
    options = Options(
        ACCELERATORS,
        custom_op_infos=[CustomOpInfo("Times", str(kernel))],
        soc_manufacturer="Reference",
        soc_model="EMU4",
    )
    environment = Environment.create(compiler_cache_dir=str(tmp_path / "cache"))
    assert run(model, options, environment) == [6, 12, 18, 24]
    (entry,) = (tmp_path / "cache").iterdir()
    written = entry.stat().st_ino
    assert run(model, options, environment) == [6, 12, 18, 24]
    assert entry.stat().st_ino == written
    (kernel.parent / "factor.h").write_text("#define FACTOR 5.0f\n")
    assert run(model, options, environment) == [10, 20, 30, 40]
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [entry.name]


@pytest.mark.usefixtures("device")
def test_what_an_exported_plugin_has_of_the_environment_is_compiled_anew_when_it_changes(
    model: Path, kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LITERT_NPU_CUSTOM_OP_INFO", f"Times,{kernel}")
    options = Options(ACCELERATORS, soc_manufacturer="Reference")
    environment = Environment.create(
        compiler_plugin_path=str(exported("compiler_plugin", "Reference")),
        compiler_cache_dir=str(tmp_path / "cache"),
    )
    assert run(model, options, environment) == [6, 12, 18, 24]
    (entry,) = (tmp_path / "cache").iterdir()
    written = entry.stat().st_ino
    assert run(model, options, environment) == [6, 12, 18, 24]
    assert entry.stat().st_ino == written
    (kernel.parent / "factor.h").write_text("#define FACTOR 5.0f\n")  # the kernel's header
    assert run(model, options, environment) == [10, 20, 30, 40]
    kernel.write_text(KERNEL.replace("FACTOR", "2 * FACTOR"))
    assert run(model, options, environment) == [20, 40, 60, 80]


@pytest.mark.usefixtures("device")
def test_a_builtin_op_goes_to_the_npu_with_the_vendor_s_option(model: Path, kernel: Path) -> None:
    options = Options(
        HardwareAccelerator.NPU,
        custom_op_infos=[CustomOpInfo("Times", str(kernel))],
        soc_manufacturer="Reference",
        compiler_options={"reference_ops": "all"},
    )
    assert run(model, options) == [6, 12, 18, 24]
