"""Tests that the example configurations compute the same results as NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert import CompiledModel, HardwareAccelerator
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.model.builder import ModelBuilder
from litert.model.flexbuffer import FlexValue
from litert.model.writer import write_model

LAYERS = Path(__file__).resolve().parents[2] / "examples" / "configurations"
Array = np.ndarray[Any, Any]


def run(
    folder: Path,
    op: str,
    inputs: Sequence[Array],
    shape: Sequence[int],
    options: Mapping[str, FlexValue] | None = None,
    constants: Mapping[str, Array] | None = None,
) -> Array:
    """Returns the result of one op that is compiled with its configuration and run on the NPU."""
    b = ModelBuilder()
    names = [f"x{i}" for i in range(len(inputs))]
    tensors = [b.input(n, x.dtype, x.shape) for n, x in zip(names, inputs, strict=True)]
    weights = [b.constant(name, data) for name, data in (constants or {}).items()]
    outputs = [("y", inputs[0].dtype, shape)]
    y = b.custom(op, [*tensors, *weights], outputs, options=options or {})
    b.output(y)
    b.signature("main", dict(zip(names, tensors, strict=True)), {"y": y})
    model, compiled = folder / "model.tflite", folder / "compiled.tflite"
    write_model(b.build(), model)
    compiler = CompilerOptions([CustomOpInfo(op, str(LAYERS / f"{op}.xml"))])
    apply_plugin(model, compiled, ApplyOptions(require_npu=["all"], compiler=compiler))
    accelerators = HardwareAccelerator.NPU | HardwareAccelerator.CPU
    with CompiledModel.from_file(str(compiled), accelerators) as loaded:
        result = np.array(loaded.run(dict(zip(names, inputs, strict=True)))["y"])
    return result.reshape(shape)


def random(*shape: int) -> Array:
    return np.random.default_rng(7).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("slope", [0.25, None])
@pytest.mark.parametrize("shape", [(2, 3, 5, 4), (6, 5), (7,)])
def test_leaky_relu(tmp_path: Path, slope: float | None, shape: tuple[int, ...]) -> None:
    x = random(*shape)
    options = {} if slope is None else {"negative_slope": slope}
    expected = np.where(x < 0, x * (0.01 if slope is None else slope), x)
    np.testing.assert_allclose(run(tmp_path, "LeakyRelu", [x], shape, options), expected, 1e-6)


@pytest.mark.parametrize("limits", [(-0.5, 0.75), None])
def test_channel_affine(tmp_path: Path, limits: tuple[float, float] | None) -> None:
    x, scale, bias = random(2, 3, 7, 5), random(5), random(5) / 2
    options = {} if limits is None else {"limits": list(limits)}
    constants = {"net/scale": scale, "net/bias": bias}
    expected = np.clip(x * scale + bias, *(limits or (-np.inf, np.inf)))
    found = run(tmp_path, "ChannelAffine", [x], x.shape, options, constants)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("scale", [2, 3])
def test_upsample_nearest(tmp_path: Path, scale: int) -> None:
    x = random(2, 3, 4, 5)
    expected = x.repeat(scale, axis=1).repeat(scale, axis=2)
    found = run(tmp_path, "UpsampleNearest", [x], expected.shape, {"scale": scale})
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8])
def test_masked_copy(tmp_path: Path, dtype: type) -> None:
    x: Array = (random(1, 4, 3, 6) * 9).astype(dtype)
    mask = (np.arange(72).reshape(x.shape) % 3 > 0).astype(np.uint8)
    found = run(tmp_path, "MaskedCopy", [x, mask], x.shape, {"fill": 7})
    np.testing.assert_array_equal(found, np.where(mask, x, np.asarray(7, dtype)))
