"""Tests custom ops from the asset to the result: compiles them, and runs them on the emulated NPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert import CompiledModel
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.quantization import Quantization
from litert.model.builder import ModelBuilder
from litert.model.flexbuffer import FlexValue
from litert.model.graph import Tensor
from litert.model.writer import write_model

pytestmark = pytest.mark.each_driver

KERNELS = Path(__file__).parent / "kernels"
EXAMPLES = Path(__file__).parents[2] / "examples"
Array = npt.NDArray[Any]


def run(
    source: Path,
    assets: Mapping[str, str],
    inputs: Sequence[Array],
    outputs: Sequence[tuple[int, str]],
) -> list[Array]:
    """Compiles a model with these assets and runs it; `outputs` has each output's number of elements and type.

    All custom ops must be on the NPU.
    """
    target = source.parent / "compiled.tflite"
    infos = [CustomOpInfo(op, str(KERNELS / name)) for op, name in assets.items()]
    options = ApplyOptions(require_npu=list(assets), compiler=CompilerOptions(infos))
    apply_plugin(source, target, options)
    model = CompiledModel.from_file(str(target))
    input_buffers, output_buffers = model.create_input_buffers(0), model.create_output_buffers(0)
    for buffer, array in zip(input_buffers, inputs, strict=True):
        buffer.write(np.ascontiguousarray(array))
    model.run_by_index(0, input_buffers, output_buffers)
    return [
        np.array(buffer.read(size, np.dtype(dtype)))
        for buffer, (size, dtype) in zip(output_buffers, outputs, strict=True)
    ]


@pytest.mark.parametrize(
    ("model", "assets"),
    [
        ("selfie_segmentation", {"Convolution2DTransposeBias": "transpose_conv.cl"}),
        ("selfie_segmentation", {"Convolution2DTransposeBias": "transpose_conv.json"}),
        ("max_unpooling_2d", {"LiteRtMaxUnpooling2D": "max_unpooling.cl"}),
        ("max_unpooling_2d", {"LiteRtMaxUnpooling2D": "max_unpooling.json"}),
    ],
)
def test_real_models_give_their_golden_outputs(
    models: Path, tmp_path: Path, model: str, assets: Mapping[str, str]
) -> None:
    golden = np.load(models / f"{model}.golden.npz")
    source = tmp_path / "model.tflite"
    source.write_bytes((models / f"{model}.tflite").read_bytes())
    inputs = [golden[name] for name in sorted(golden) if name.startswith("in")]
    expected = golden["out0"]
    (result,) = run(source, assets, inputs, [(expected.size, "float32")])
    # The golden custom op computes in float64; the rest of the network adds rounding of its own.
    assert np.abs(result.reshape(expected.shape) - expected).max() <= 1e-4


def test_the_real_sinh_is_numpys(models: Path, tmp_path: Path) -> None:
    source = tmp_path / "sinh.tflite"
    source.write_bytes((models / "custom_sinh.tflite").read_bytes())
    (result,) = run(source, {"Sinh": "sinh.cl"}, [np.array([0.7], np.float32)], [(1, "float32")])
    assert result[0] == pytest.approx(np.sinh(0.7), rel=1e-6)


CONVOLUTIONS = [  # input, filter, outputs, stride (y, x), padding (1: SAME, 2: VALID)
    ((2, 3, 5, 3), (3, 2), 4, (2, 3), 1),
    ((1, 4, 4, 9), (2, 2), 1, (2, 2), 1),
    ((1, 3, 2, 2), (4, 5), 3, (3, 1), 2),
]


def test_transposed_convolutions_are_those_of_the_definition(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    b = ModelBuilder()
    inputs, results = [], []
    for index, (shape, filter_size, channels, stride, padding) in enumerate(CONVOLUTIONS):
        x = random.normal(size=shape).astype(np.float32)
        w = random.normal(size=(channels, *filter_size, shape[3])).astype(np.float16)
        bias = random.normal(size=channels).astype(np.float32)
        y = transposed_convolution(x, w, bias, stride, padding)
        tensor = b.input(f"x{index}", "float32", shape)
        stored = b.constant(f"w{index}", w)
        weights = b.op("DEQUANTIZE", [stored], [(f"wf{index}", "float32", w.shape)])
        options = np.array([padding, stride[1], stride[0]], np.int32).tobytes()
        operands = [tensor, weights, b.constant(f"b{index}", bias)]
        outputs = [(f"y{index}", "float32", y.shape)]
        b.output(b.custom("Convolution2DTransposeBias", operands, outputs, options=options))
        inputs.append(x)
        results.append(y)
    found = run(
        written(b, tmp_path),
        {"Convolution2DTransposeBias": "transpose_conv.json"},
        inputs,
        [(y.size, "float32") for y in results],
    )
    for result, y in zip(found, results, strict=True):
        np.testing.assert_allclose(result, y.ravel(), rtol=1e-5, atol=1e-5)


def transposed_convolution(
    x: Array, w: Array, bias: Array, stride: tuple[int, int], padding: int
) -> Array:
    """Computes the definition in float64: each input element adds its share of the filter."""
    n, h, width, _ = x.shape
    out_c, filter_h, filter_w, _ = w.shape
    sizes, before = [], []
    for size, filter_size, s in ((h, filter_h, stride[0]), (width, filter_w, stride[1])):
        pad = max(0, filter_size - (size - 1) % s - 1) if padding == 1 else 0
        sizes.append(s * (size - 1) + filter_size - pad)
        before.append(pad // 2)
    full = np.zeros((n, sizes[0] + 2 * filter_h, sizes[1] + 2 * filter_w, out_c))
    for y in range(h):
        for z in range(width):
            share = np.einsum("ni,opqi->npqo", x[:, y, z].astype(float), w.astype(float))
            top, left = y * stride[0], z * stride[1]
            full[:, top : top + filter_h, left : left + filter_w] += share
    return full[:, before[0] :, before[1] :][:, : sizes[0], : sizes[1]] + bias


def test_all_that_a_description_can_bind_reaches_the_kernel(tmp_path: Path) -> None:
    b = ModelBuilder()
    x = b.input("x", "int8", (8,), quantization=Quantization([0.5], [3]))
    scales = [0.5, 1.0, 2.0, 0.25, 1.0, 1.0, 1.0, 4.0]
    w_stored = np.arange(-4, 4, dtype=np.int8)
    stored = b.constant("w", w_stored, quantization=Quantization(scales, [1] * 8))
    w = b.op("DEQUANTIZE", [stored], [("wf", "float32", (8,))])
    y, total = b.custom(
        "Affine",
        [x, w],
        [("y", "float32", (8,)), ("sum", "float32", (1,))],
        options={"gain": 0.125},
    )
    b.output(y, total)
    values = np.array([-128, -5, 0, 3, 4, 50, 100, 127], np.int8)
    expected = (values.astype(float) - 3) * 0.5 * 0.125
    expected += np.resize([1, 2.5, -3], 8) + (w_stored.astype(float) - 1) * scales
    found = run(
        written(b, tmp_path), {"Affine": "affine.json"}, [values], [(8, "float32"), (1, "float32")]
    )
    np.testing.assert_allclose(found[0], expected, rtol=1e-6)
    np.testing.assert_allclose(found[1], [expected.sum()], rtol=1e-5)


def test_options_reach_a_plain_kernel_and_values_pass_between_tasks(tmp_path: Path) -> None:
    b = ModelBuilder()
    value: Tensor = b.input("x", "float32", (2, 3))
    options: dict[str, FlexValue] = {"scale": 0.5, "exponent": 2, "axes": [7, 2], "on": True}
    for index in range(4):
        value = b.custom("Power", [value], [(f"y{index}", "float32", (2, 3))], options=options)
    b.output(value)
    x = np.linspace(-1.5, 1.5, 6, dtype=np.float32)
    expected = x.astype(float)
    for _ in range(4):
        expected = 0.5 * expected**2 + 2 + 1
    (result,) = run(written(b, tmp_path), {"Power": "power.cl"}, [x], [(6, "float32")])
    np.testing.assert_allclose(result, expected, rtol=1e-5)


def written(b: ModelBuilder, folder: Path) -> Path:
    path = folder / "model.tflite"
    write_model(b.build(), str(path))
    return path


def test_weights_of_two_signatures_are_in_the_file_and_on_the_device_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = np.random.default_rng(1).normal(0, 1, (64, 512)).astype(np.float32)
    builder = ModelBuilder()
    shared: Any = weights
    for key, rows, graph in (("many", 9, builder), ("one", 1, builder.subgraph("one"))):
        x = graph.input("x", "float32", (rows, 512))
        w = graph.constant("w", shared, "float32", weights.shape)
        graph.output(graph.custom("Project", [x, w], [("y", "float32", (rows, 64))]))
        graph.signature(key)
        shared = w.buffer
    source, target = tmp_path / "two.tflite", tmp_path / "two_npu.tflite"
    write_model(builder.build(), source)
    info = CustomOpInfo("Project", str(EXAMPLES / "09_two_signatures" / "Project.cl"))
    apply_plugin(source, target, ApplyOptions(compiler=CompilerOptions([info])))
    assert target.read_bytes().count(weights.tobytes()) == 1
    from vendor_reference.device.opencl_device import OpenClDevice

    load, loaded = OpenClDevice.load_constant, []

    def load_constant(device: OpenClDevice, constant: Any) -> Any:
        loaded.append(constant.tensor_type.shape)
        return load(device, constant)

    monkeypatch.setattr(OpenClDevice, "load_constant", load_constant)
    with CompiledModel.from_file(str(target)) as model:
        for key, rows in (("many", 9), ("one", 1)):
            inputs = np.random.default_rng(rows).normal(0, 1, (rows, 512)).astype(np.float32)
            (found,) = model.run({"x": inputs}, key).values()
            np.testing.assert_allclose(found, inputs @ weights.T, rtol=1e-4, atol=1e-3)
    assert loaded == [weights.shape]
