"""The real vendors' plugins of stock LiteRT's wheel, as they are."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from compiler_plugin.commands import list_plugins
from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert.core.compiler_options import CompilerOptions
from litert.host.stock_vendors import stock_vendor_folder
from litert.model.dispatch_op import is_dispatch_op
from litert.model.reader import read_model
from litert.model.stamp import Stamp, read_stamp

FLAG = "intel_openvino_graph_backends"


@pytest.fixture(scope="module")
def intel() -> str:
    folder = stock_vendor_folder("IntelOpenVINO", "compiler")
    if not folder or find_spec("openvino") is None:
        pytest.skip("Intel's plugin needs ai-edge-litert's libraries, and openvino")
    return folder


def test_all_vendors_of_the_wheel_are_listed_and_why_some_do_not_load(intel: str) -> None:
    infos = list_plugins([str(Path(intel).parents[1])])
    found = {info.soc_manufacturer: info.soc_models for info in infos if not info.problem}
    assert found["IntelOpenVINO"][0] == "PTL"
    assert "Tensor_G5" in found["Google"] and "mt6991" in found["MediaTek"]  # stock loads them, too
    problems = {Path(info.origin).stem: info.problem for info in infos if info.problem}
    assert "libQnnHtp.so: cannot open shared object" in problems["libLiteRtCompilerPlugin_Qualcomm"]
    assert "undefined symbol" in problems["libLiteRtCompilerPlugin_Samsung"]


def test_a_real_network_is_compiled_as_in_the_commands_own_process(
    intel: str, networks: Path, tmp_path: Path
) -> None:
    source = networks / "face_landmark.tflite"
    compiler = CompilerOptions(vendor_options={FLAG: "cpu"})
    options = ApplyOptions("IntelOpenVINO", "PTL", [intel], compiler=compiler)
    report = apply_plugin(source, tmp_path / "there", options)
    assert len(report.npu_ops) > 100 and report.plugin.startswith(intel)
    command = [sys.executable, "-m", "litert_npu_tools.apply_plugin", "--plugin_in_process"]
    command += ["--soc_manufacturer=IntelOpenVINO", "--soc_model=PTL", f"--{FLAG}=cpu"]
    command += [f"--libs={intel}", str(source), str(tmp_path / "here")]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    assert (tmp_path / "here").read_bytes() == (tmp_path / "there").read_bytes()
    with read_model(tmp_path / "there") as model:
        assert read_stamp(model) == Stamp("IntelOpenVINO", "PTL")
        assert sum(map(is_dispatch_op, model.ops())) == len(report.calls) >= 1
