"""Tests comparing real networks, which are right, and the libraries of Intel's vendor and of the C example."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from litert_npu_tools.litert_npu import main

from litert.model.builder import ModelBuilder
from litert.model.writer import write_model

Capture = pytest.CaptureFixture[str]
SHAPE = (2, 3)


def compare(capfd: Capture, *arguments: object) -> tuple[int, dict[str, Any]]:
    status = main(["litert-npu", "compare", "-q", "--report=json", *map(str, arguments)])
    report: dict[str, Any] = json.loads(capfd.readouterr().out)
    return status, report


@pytest.mark.parametrize("kernels", ["reference", "xnnpack"])
@pytest.mark.parametrize(
    "network", ["hand_recrop", "selfie_segmentation_landscape", "face_landmark_with_attention"]
)
def test_nothing_is_found_in_a_network_that_is_right(
    networks: Path, capfd: Capture, network: str, kernels: str
) -> None:
    """The third network has custom ops that nothing runs; all other ops are compared."""
    path = networks / f"{network}.tflite"
    status, report = compare(capfd, path, "--reference_ops=all", f"--kernels={kernels}")
    assert status == 0 and not report["first"] and report["blamed"] is None
    assert len(report["tensors"]) > 60
    assert all(tensor["local_greatest"] < 1e-4 for tensor in report["tensors"])
    assert bool(report["not_compared"]) is (network == "face_landmark_with_attention")


def test_intel_s_plugin_hands_out_all_of_a_network(
    networks: Path, intel: Path, capfd: Capture
) -> None:
    flags = ("--soc_manufacturer=IntelOpenVINO", "--intel_openvino_graph_backends=cpu")
    path = networks / "face_detection_short_range.tflite"
    status, report = compare(capfd, path, *flags)
    assert status == 0 and len(report["tensors"]) == 90
    assert {tensor["where"] for tensor in report["tensors"]} == {"npu"}


def test_an_op_of_the_c_example_is_blamed_where_it_is_wrong(
    c_vendor: Path, tmp_path: Path, capfd: Capture
) -> None:
    """The vendor's Gain multiplies by the number in the asset; the wrong reference multiplies by another one."""
    builder = ModelBuilder()
    x, z = builder.input("x", "float32", SHAPE), builder.input("z", "float32", SHAPE)
    t = builder.op("MUL", [x, z], [("t", "float32", SHAPE)])
    gain = builder.custom("Gain", [t], [("gain", "float32", SHAPE)])
    builder.output(builder.op("SUB", [gain, x], [("y", "float32", SHAPE)]))
    write_model(builder.build(), tmp_path / "model.tflite")
    (tmp_path / "gain.txt").write_text("2.5")
    (tmp_path / "gain.py").write_text(
        "def right(inputs, options):\n    return 2.5 * inputs[0]\n"
        "def wrong(inputs, options):\n    return 2.0 * inputs[0]\n"
    )
    flags = (
        tmp_path / "model.tflite",
        "--soc_manufacturer=Cobalt",
        f"--libs={c_vendor}",
        f"--dispatch_library_path={c_vendor}",
        f"--npu_custom_op_info=Gain,{tmp_path / 'gain.txt'}",
    )
    status, report = compare(
        capfd, *flags, f"--reference_function=Gain,{tmp_path / 'gain.py'}:right"
    )
    assert status == 0 and [tensor["name"] for tensor in report["tensors"]] == ["t", "gain", "y"]
    wrong = f"--reference_function=Gain,{tmp_path / 'gain.py'}:wrong"
    status, report = compare(capfd, *flags, wrong, f"--bisect={tmp_path / 'part'}")
    assert status == 1 and report["blamed"]["op"] == {"subgraph": 0, "index": 1, "name": "Gain"}
    assert report["tensors"][1]["local_greatest"] == pytest.approx(0.25)
    assert np.isclose(report["tensors"][2]["local_greatest"], 0, atol=1e-6)
    assert [op["name"] for op in report["part"]["ops"]] == ["Gain"]
    status, report = compare(capfd, *shlex.split(report["part"]["command"])[2:])
    assert status == 1 and report["blamed"]["op"] == {"subgraph": 0, "index": 0, "name": "Gain"}
