"""Tests that each kind of asset for one op gives the selfie segmentation network the same picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from PIL import Image

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert import CompiledModel, HardwareAccelerator, Options
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from tools.litert_npu import main

KERNELS = Path(__file__).resolve().parents[2] / "examples" / "kernels"
OP = "Convolution2DTransposeBias"


@pytest.fixture(scope="module")
def picture(portrait: Path) -> np.ndarray[Any, Any]:
    with Image.open(portrait) as image:
        return np.asarray(image.convert("RGB").resize((256, 256)), np.float32)[None] / 255


@pytest.fixture(scope="module")
def expected(networks: Path, picture: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The output of stock LiteRT, whose XNNPACK knows the op."""
    stock = Interpreter(str(networks / "selfie_segmentation.tflite"))
    stock.allocate_tensors()
    stock.set_tensor(stock.get_input_details()[0]["index"], picture)
    stock.invoke()
    return np.array(stock.get_tensor(stock.get_output_details()[0]["index"]))


@pytest.mark.parametrize("kind", [".cl", ".json", ".xml", ".bin"])
def test_the_picture_is_stock_s(
    networks: Path,
    picture: np.ndarray[Any, Any],
    expected: np.ndarray[Any, Any],
    tmp_path: Path,
    kind: str,
) -> None:
    network, asset = networks / "selfie_segmentation.tflite", KERNELS / f"{OP}{kind}"
    if kind == ".bin":
        asset = tmp_path / "layer.bin"
        built = ["litert-npu", "layer", "build", str(KERNELS / f"{OP}.json"), "--nosource"]
        assert main([*built, f"--model={network}", "-o", str(asset)]) == 0
    options = CompilerOptions([CustomOpInfo(OP, str(asset))])
    compiled = tmp_path / "compiled.tflite"
    apply_plugin(network, compiled, ApplyOptions(require_npu=[OP], compiler=options))
    accelerators = HardwareAccelerator.NPU | HardwareAccelerator.CPU
    load_options = Options(accelerators, allow_native_assets=kind == ".bin")
    with CompiledModel.from_file(str(compiled), options=load_options) as model:
        found = model.run({"input_1": picture})["activation_10"]
    assert 0.1 < expected.mean() < 0.9  # the picture shows a person before a background
    np.testing.assert_allclose(found, expected, atol=1e-4)
