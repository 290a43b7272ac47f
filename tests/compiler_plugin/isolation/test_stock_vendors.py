"""Tests the unmodified vendor plugins from stock LiteRT's wheel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from compiler_plugin.commands import list_plugins
from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert.core.compiler_options import CompilerOptions
from litert.core.errors import LiteRtError
from litert.core.quantization import BlockwiseQuantization, Quantization
from litert.model.builder import ModelBuilder
from litert.model.dispatch_op import is_dispatch_op
from litert.model.reader import read_model
from litert.model.stamp import Stamp, read_stamp
from litert.model.writer import write_model

FLAG = "intel_openvino_graph_backends"


@pytest.mark.usefixtures("intel")
def test_all_vendors_of_the_wheel_are_listed_and_why_some_do_not_load(stock_vendors: Path) -> None:
    infos = list_plugins([str(stock_vendors)])
    found = {info.soc_manufacturer: info.soc_models for info in infos if not info.problem}
    assert found["IntelOpenVINO"][0] == "PTL"
    # Stock loads these plugins, too.
    assert "Tensor_G5" in found["Google"] and "mt6991" in found["MediaTek"]
    problems = {Path(info.origin).stem: info.problem for info in infos if info.problem}
    assert "libQnnHtp.so: cannot open shared object" in problems["libLiteRtCompilerPlugin_Qualcomm"]
    assert "undefined symbol" in problems["libLiteRtCompilerPlugin_Samsung"]


def test_a_real_network_is_compiled_as_in_the_commands_own_process(
    intel: Path, networks: Path, tmp_path: Path
) -> None:
    source = networks / "face_landmark.tflite"
    compiler = CompilerOptions(vendor_options={FLAG: "cpu"})
    options = ApplyOptions("IntelOpenVINO", "PTL", [str(intel)], compiler=compiler)
    report = apply_plugin(source, tmp_path / "there", options)
    assert len(report.npu_ops) > 100 and report.plugin.startswith(str(intel))
    command = [sys.executable, "-m", "litert_npu_tools.apply_plugin", "--plugin_in_process"]
    command += ["--soc_manufacturer=IntelOpenVINO", "--soc_model=PTL", f"--{FLAG}=cpu"]
    command += [f"--libs={intel}", str(source), str(tmp_path / "here")]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    assert (tmp_path / "here").read_bytes() == (tmp_path / "there").read_bytes()
    with read_model(tmp_path / "there") as model:
        assert read_stamp(model) == Stamp("IntelOpenVINO", "PTL")
        assert sum(map(is_dispatch_op, model.ops())) == len(report.calls) >= 1


def test_what_crashes_a_real_vendor_is_an_error_here(intel: Path, tmp_path: Path) -> None:
    """Intel's plugin crashes on blockwise scales; stock's own command ends with a signal on this model."""
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 64))
    scales = builder.constant("scales", bytes(16), "float16", (4, 2))
    quantization = Quantization(blockwise=BlockwiseQuantization(scales, None, 32))
    weights = builder.constant("w", bytes(256), "int8", (4, 64), quantization=quantization)
    y = builder.tensor("y", "float32", (1, 4))
    builder.output(builder.op("FULLY_CONNECTED", [x, weights, None], [y]))
    write_model(builder.build(), tmp_path / "in.tflite")
    compiler = CompilerOptions(vendor_options={FLAG: "cpu"})
    options = ApplyOptions("IntelOpenVINO", "PTL", [str(intel)], compiler=compiler)
    with pytest.raises(LiteRtError) as error:
        apply_plugin(tmp_path / "in.tflite", tmp_path / "out.tflite", options)
    assert "crashed in LiteRtCompilerPluginCompile (SIGSEGV" in error.value.what
    assert "Unsupported Quantization type 3" in error.value.what  # the plugin's last output
    assert [path.name for path in tmp_path.iterdir()] == ["in.tflite"]
