"""Tests that the NPU shows tensors inside its calls by the model's names, if the byte code contains these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler_plugin.apply_options import ApplyOptions
from compiler_plugin.pipeline import apply_plugin
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.environment_options import EnvironmentOptions
from litert.core.tensor_type import RankedTensorType
from litert.hardware_accelerator import HardwareAccelerator
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from litert.options import Options
from litert.runtime.array_run import ArrayRunner
from litert.runtime.loading import load_model

Array = np.ndarray[Any, Any]
F32, SHAPE = "float32", (1, 2, 3, 4)
X = np.random.default_rng(0).standard_normal(SHAPE, np.float32)

FLIP = """
__kernel void Flip(const __global INPUT0_TYPE* in, __global OUTPUT0_TYPE* out) {
  out[get_global_id(0)] = -in[get_global_id(0)];
}
"""
CHANNELS_FIRST = """<CustomLayer name="Flip" type="SimpleGPU" version="1">
  <Kernel entry="Flip"><Source filename="Flip.cl"/></Kernel>
  <Buffers>
    <Tensor arg-index="0" type="input" port-index="0" format="BFYX"/>
    <Tensor arg-index="1" type="output" port-index="0" format="BFYX"/>
  </Buffers>
  <CompilerOptions options="-cl-mad-enable"/>
  <WorkSizes global="B*F*Y*X"/>
</CustomLayer>
"""


def compile_model(folder: Path, asset: str, taps: bool = True) -> Path:
    """Compiles elementwise ops around a custom op; one of them writes into its part of a concatenation."""
    b = ModelBuilder()
    x = b.input("x", F32, SHAPE)
    up = b.op("ABS", [x], [("up", F32, SHAPE)])
    flipped = b.custom("Flip", [up], [("flipped", F32, SHAPE)])
    low = b.op("EXP", [flipped], [("low", F32, SHAPE)])
    rows = b.op("RESHAPE", [low], [("rows", F32, (2, 12))], new_shape=[2, 12])
    high = b.op("COS", [rows], [("high", F32, (2, 12))])
    more = b.op("SIN", [high], [("more", F32, (2, 12))])
    joined = b.op("CONCATENATION", [more, high], [("joined", F32, (2, 24))], axis=1)
    b.output(b.op("NEG", [joined], [("y", F32, (2, 24))]))
    write_model(b.build(), folder / "model.tflite")
    (folder / "Flip.cl").write_text(FLIP)
    (folder / "Flip.xml").write_text(CHANNELS_FIRST)
    compiler = CompilerOptions(
        [CustomOpInfo("Flip", str(folder / asset))],
        vendor_options={"reference_ops": "all"},
        taps=taps,
    )
    apply_plugin(
        folder / "model.tflite",
        folder / "npu.tflite",
        ApplyOptions(compiler=compiler, require_npu=["all"]),
    )
    return folder / "npu.tflite"


def run_tapped(path: Path) -> tuple[dict[str, Array], Array, Array]:
    """Returns the shown tensors by name, the output of that run, and the output of a plain run."""
    shown: dict[str, Array] = {}

    def receive(call: str, name: str, tensor_type: RankedTensorType, data: memoryview) -> None:
        dtype = tensor_type.element_type.numpy_dtype
        shown[name] = np.frombuffer(bytes(data), dtype).reshape(tensor_type.shape)

    options = Options(hardware_accelerators=HardwareAccelerator.NPU)
    model = load_model(str(path), EnvironmentOptions(), options)
    try:
        runner = ArrayRunner(model, model.signatures[0])
        with model.tapped(receive):
            (tapped,) = runner.run({"x": X}).values()
        (plain,) = runner.run({"x": X}).values()
    finally:
        model.close()
    return shown, tapped, plain


@pytest.mark.parametrize("asset", ["Flip.cl", "Flip.xml"])
def test_tensors_between_tasks_are_shown_in_the_models_own_order(
    tmp_path: Path, asset: str
) -> None:
    """Covers tensors with channels first, and tensors in a part of a larger tensor."""
    shown, tapped, plain = run_tapped(compile_model(tmp_path, asset))
    up = np.abs(X)
    high = np.cos(np.exp(-up).reshape(2, 12))
    expected = {
        "up": up, "flipped": -up, "low": np.exp(-up), "high": high, "more": np.sin(high),
    }  # fmt: skip
    assert expected.keys() <= shown.keys() <= {*expected, "rows", "joined", "y"}
    for name, values in expected.items():
        np.testing.assert_allclose(shown[name], values, rtol=1e-5, atol=1e-6, err_msg=name)
    np.testing.assert_array_equal(tapped, plain)
    np.testing.assert_allclose(plain, -np.concatenate([np.sin(high), high], 1), rtol=1e-5)


def test_taps_are_in_the_byte_code_only_where_they_are_asked_for(tmp_path: Path) -> None:
    shown, tapped, plain = run_tapped(compile_model(tmp_path, "Flip.cl", taps=False))
    assert not shown
    np.testing.assert_array_equal(tapped, plain)
    assert b'"taps"' not in (tmp_path / "npu.tflite").read_bytes()


@pytest.mark.parametrize("name", ["half \udcff", "n\0ul", "\ufffd"])
def test_a_tensor_s_name_that_is_no_text_keeps_no_model_from_running(
    tmp_path: Path, name: str
) -> None:
    """Checks that the call runs; a tensor is shown only if the executable can hold its name."""
    b = ModelBuilder()
    x = b.input("x", F32, SHAPE)
    b.output(b.op("NEG", [b.op("ABS", [x], [(name, F32, SHAPE)])], [("y", F32, SHAPE)]))
    write_model(b.build(), tmp_path / "model.tflite")
    compiler = CompilerOptions(vendor_options={"reference_ops": "all"}, taps=True)
    apply_plugin(
        tmp_path / "model.tflite",
        tmp_path / "npu.tflite",
        ApplyOptions(compiler=compiler, require_npu=["all"]),
    )
    shown, tapped, plain = run_tapped(tmp_path / "npu.tflite")
    assert shown.keys() - {"y"} == {name} - {"half \udcff", "n\0ul"}
    np.testing.assert_array_equal(tapped, -np.abs(X))
    np.testing.assert_array_equal(plain, -np.abs(X))
