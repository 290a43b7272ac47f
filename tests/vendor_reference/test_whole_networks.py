"""Tests that each MediaPipe network, entirely on the NPU, gives the results of stock LiteRT's plain kernels."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from compiler_plugin.report import Report
from compiler_plugin.transformations import edit_model
from corpus.downloads import NETWORKS
from corpus.mediapipe_ops import Array
from corpus.whole_network import assets_of, picture_for, run_network
from litert import CompiledModel
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.errors import LiteRtError
from litert.model.reader import read_model
from litert.model.writer import write_model
from tests.vendor_reference.test_dynamic_library import Stock
from vendor_reference.device.firmware_choice import find_tuning, keep_tuning
from vendor_reference.drivers.device_choice import find_devices
from vendor_reference.firmware.program import FirmwareTuning

TOLERANCE = 1e-4
"""Allowed error relative to an output's greatest magnitude, or three times XNNPACK's error if that is greater.

A change of the picture's last bit changes an output of `pose_landmark_full` by 5e-4.
"""


@pytest.mark.each_driver
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_one_call_and_stocks(
    networks: Path,
    tmp_path: Path,
    name: str,
) -> None:
    path, compiled = networks / f"{name}.tflite", tmp_path / "compiled.tflite"
    report = apply(path, compiled, "all")
    assert {op.call for op in report.ops} == {"Partition_0"}
    assert b'["Pack"' not in compiled.read_bytes()  # weights are packed at load
    check(path, compiled)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_expected_to_gain_as_a_whole(
    networks: Path, tmp_path: Path, name: str
) -> None:
    report = apply(networks / f"{name}.tflite", tmp_path / "compiled.tflite", "auto")
    assert {op.call for op in report.ops} == {"Partition_0"}
    (call,) = report.expected_times
    assert call.time.npu_ns < call.time.cpu_ns


@pytest.mark.parametrize(
    ("name", "ops"), [("pose_landmark_full", "auto"), ("selfie_segmentation", "all")]
)
def test_a_file_is_the_same_of_each_process(
    networks: Path, tmp_path: Path, name: str, ops: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compares files compiled with different hash seeds, drivers, numbers of threads and stored tunings."""
    files = [tmp_path / "first.tflite", tmp_path / "second.tflite"]
    path = networks / f"{name}.tflite"
    infos = [f"--npu_custom_op_info={op},{asset}" for op, asset in assets_of(path).items()]
    command = [sys.executable, "-m", "litert_npu_tools.apply_plugin", f"--reference_ops={ops}"]
    devices, tuned = find_devices(), str(tmp_path / "tuned")
    with monkeypatch.context() as patched:
        patched.setenv("LITERT_NPU_CACHE_DIR", tuned)
        for device in devices:
            keep_tuning(device.info, FirmwareTuning(width=8, rows=4, unit_operations=512))
            assert find_tuning(device.info) is not None
    last = devices[-1].info
    driver = f"{last.platform_version}:{last.name}"
    others = [{}, {"LITERT_NPU_OPENCL": driver, "LITERT_NPU_CACHE_DIR": tuned}]
    for seed, (file, other) in enumerate(zip(files, others, strict=True)):
        environment = {"PYTHONHASHSEED": str(seed), "OMP_NUM_THREADS": str(seed + 1), **other}
        subprocess.run(
            [*command, *infos, path, file],
            env={**os.environ, **environment},
            check=True,
            capture_output=True,
        )
    assert files[0].read_bytes() == files[1].read_bytes()


def apply(path: Path, compiled: Path, ops: str) -> Report:
    """Compiles a network; its custom ops use the kernels of the examples."""
    infos = [CustomOpInfo(op, str(asset)) for op, asset in assets_of(path).items()]
    options = CompilerOptions(infos, vendor_options={"reference_ops": ops})
    return apply_plugin(path, compiled, ApplyOptions(compiler=options))


def check(path: Path, compiled: Path) -> None:
    """Compares the outputs with those of stock LiteRT's plain kernels."""
    with CompiledModel.from_file(str(compiled)) as model:
        found = model.run(picture_for(path))
    for output, truth in stocks(path, with_xnnpack=False).items():
        others = np.abs(stocks(path, with_xnnpack=True)[output] - truth).max()
        allowed = max(TOLERANCE * np.abs(truth).max(), 3 * others)
        assert np.abs(found[output] - truth).max() <= allowed, output


@pytest.mark.each_driver
def test_a_network_goes_by_the_batch_and_the_image_of_a_run(networks: Path, tmp_path: Path) -> None:
    opened, compiled = tmp_path / "opened.tflite", tmp_path / "compiled.tflite"
    with read_model(networks / "hand_landmark_lite.tflite") as model:
        with edit_model(model) as (graph,):
            image = graph.find_node("input_1")
            assert image is not None
            image.out_port(0).data.set_shape((-1, -1, -1, 3))
        write_model(model, opened)
    options = CompilerOptions(
        shape_bounds={"input_1": (2, 224, 224, 3)}, vendor_options={"reference_ops": "all"}
    )
    report = apply_plugin(opened, compiled, ApplyOptions(compiler=options))
    assert {op.call for op in report.ops} == {"Partition_0"}
    assert b'["Pack"' not in compiled.read_bytes()
    stock, rng = Stock(opened), np.random.default_rng(0)
    with CompiledModel.from_file(str(compiled)) as network:
        for shape in ((1, 96, 128, 3), (2, 224, 224, 3), (1, 224, 224, 3), (2, 32, 160, 3)):
            picture = {"input_1": rng.uniform(0, 1, shape).astype(np.float32)}
            for truth, found in zip(stock.run(picture), network.run(picture).values(), strict=True):
                assert found.shape == truth.shape
                assert np.abs(found - truth).max() <= TOLERANCE * np.abs(truth).max()
        with pytest.raises(
            LiteRtError, match="must be equal, or one of them must be 1"
        ):  # as in stock LiteRT
            network.run({"input_1": np.zeros((1, 96, 130, 3), np.float32)})


@cache
def stocks(path: Path, with_xnnpack: bool) -> dict[str, Array]:
    return run_network(path, picture_for(path), with_xnnpack)
