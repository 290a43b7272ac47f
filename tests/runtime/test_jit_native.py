"""Tests that a native vendor's libraries compile a model when it is loaded, and run it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from litert.compiled_model import CompiledModel
from litert.core.compiler_options import CustomOpInfo
from litert.environment import Environment
from litert.hardware_accelerator import HardwareAccelerator
from litert.model.builder import ModelBuilder
from litert.model.writer import to_bytes
from litert.options import Options

CPU, NPU = HardwareAccelerator.CPU, HardwareAccelerator.NPU
X = np.array([[1, 2, 3, 4]], np.float32)


def gain_of_square() -> bytes:
    """Returns a model of `y = gain * (x * x)`, where an asset contains the gain."""
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 4))
    square = builder.op("MUL", [x, x], [("square", "float32", (1, 4))])
    builder.output(builder.custom("Gain", [square], [("y", "float32", (1, 4))]))
    return to_bytes(builder.build())


def test_a_vendor_in_c_compiles_and_runs_with_its_asset(c_vendor: Path, tmp_path: Path) -> None:
    asset = tmp_path / "gain.txt"
    environment = Environment.create(
        compiler_plugin_path=str(c_vendor),
        dispatch_library_path=str(c_vendor),
        compiler_cache_dir=str(tmp_path / "cache"),
    )
    options = Options(NPU, custom_op_infos=[CustomOpInfo("Gain", str(asset))])
    for gain in (2, 2, 3):
        asset.write_text(f"{gain}\n")
        with CompiledModel.from_buffer(gain_of_square(), None, environment, options) as model:
            np.testing.assert_array_equal(model.run({"x": X})["y"], gain * X * X)
    assert len(list((tmp_path / "cache").iterdir())) == 2


@pytest.mark.usefixtures("intel")
def test_a_vendor_of_stock_s_wheel_needs_its_options_alone() -> None:
    options = Options(NPU)
    intel = options.intel_openvino_options
    intel.graph_backend = intel.GRAPH_BACKEND.CPU
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 4))
    builder.output(builder.op("ADD", [x, x], [("y", "float32", (1, 4))]))
    with CompiledModel.from_buffer(to_bytes(builder.build()), options=options) as model:
        np.testing.assert_allclose(model.run({"x": X})["y"], 2 * X)


def test_option_groups_have_the_names_of_stock_s_flags() -> None:
    options = Options()
    intel, qualcomm = options.intel_openvino_options, options.qualcomm_options
    intel.graph_backend = intel.GRAPH_BACKEND.NPU
    intel.performance_mode = intel.PERFORMANCE_MODE.CUMULATIVE_THROUGHPUT
    intel.configs_map = {"CACHE_DIR": "a", "INFERENCE_PRECISION_HINT": "f16"}
    qualcomm.use_fold_relu = False
    qualcomm.num_hvx_threads = 2
    qualcomm.dump_tensor_ids = [1, 2]
    flags = options.stock_compiler_flags()
    assert flags["intel_openvino"] == {
        "intel_openvino_graph_backends": "npu",
        "intel_openvino_performance_mode": "cumulative_throughput",
        "intel_openvino_configs_map": "CACHE_DIR=a,INFERENCE_PRECISION_HINT=f16",
    }
    assert flags["qualcomm"] == {
        "qualcomm_use_fold_relu": "false",
        "qualcomm_num_hvx_thread": "2",
        "qualcomm_dump_tensor_ids": "1,2",
    }
