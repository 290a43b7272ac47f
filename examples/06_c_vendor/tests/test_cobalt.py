"""Tests Cobalt's compiler and driver on a model; the package must be installed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cobalt_npu.example_model import SHAPE, write_example_model

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert import CompiledModel, HardwareAccelerator, Options
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.errors import LiteRtError
from litert.model.reader import read_model


def compile_model(folder: Path, asset: str) -> Path:
    """Compiles the example model for Cobalt, with an asset that contains the given text."""
    write_example_model(folder / "model.tflite")
    (folder / "gain.txt").write_text(asset)
    infos = [CustomOpInfo("Gain", str(folder / "gain.txt"))]
    options = ApplyOptions(soc_manufacturer="Cobalt", compiler=CompilerOptions(infos))
    apply_plugin(folder / "model.tflite", folder / "model_npu.tflite", options)
    return folder / "model_npu.tflite"


def test_the_npu_takes_both_ops(tmp_path: Path) -> None:
    with read_model(compile_model(tmp_path, "3.0")) as model:
        assert {op.name for op in model.subgraphs[0].ops} == {"DISPATCH_OP"}


@pytest.mark.parametrize("isolated", [False, True], ids=["inline", "isolated"])
def test_the_npu_computes_what_numpy_does(tmp_path: Path, isolated: bool) -> None:
    x, z = np.random.default_rng(1).standard_normal((2, *SHAPE), np.float32)
    options = Options(HardwareAccelerator.NPU | HardwareAccelerator.CPU, isolated=isolated)
    path = str(compile_model(tmp_path, "-0.5"))
    with CompiledModel.from_file(path, options=options) as model:
        y = model.run({"x": x, "z": z})["y"]
    np.testing.assert_allclose(y, -0.5 * x * z, rtol=1e-6)


def test_an_asset_that_is_no_number_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LiteRtError):
        CompiledModel.from_file(
            str(compile_model(tmp_path, "loud")), HardwareAccelerator.NPU | HardwareAccelerator.CPU
        )
