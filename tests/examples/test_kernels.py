"""Tests that the examples' kernels compute the same results as NumPy in float64."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from corpus.mediapipe_ops import SAME, VALID, run_custom_op, transpose_conv
from litert import CompiledModel, HardwareAccelerator
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.model.builder import ModelBuilder
from litert.model.reader import read_model
from litert.model.writer import write_model

KERNELS = Path(__file__).resolve().parents[2] / "examples" / "kernels"
Array = np.ndarray[Any, Any]
RunOp = Callable[..., Array]


@pytest.fixture
def run_op(tmp_path: Path) -> RunOp:
    """A function that compiles a model of one op and runs it."""

    def run(
        op: str, asset: str, inputs: list[Array], shape: tuple[int, ...], options: bytes = b""
    ) -> Array:
        builder = ModelBuilder()
        names = [f"x{i}" for i in range(len(inputs))]
        tensors = [
            builder.input(name, array.dtype, array.shape)
            for name, array in zip(names, inputs, strict=True)
        ]
        y = builder.custom(op, tensors, [("y", "float32", shape)], options=options)
        builder.output(y)
        builder.signature("main", dict(zip(names, tensors, strict=True)), {"y": y})
        model, compiled = tmp_path / "model.tflite", tmp_path / "compiled.tflite"
        write_model(builder.build(), model)
        info = CustomOpInfo(op, str(KERNELS / asset))
        apply_plugin(
            model,
            compiled,
            ApplyOptions(require_npu=["all"], compiler=CompilerOptions([info])),
        )
        accelerators = HardwareAccelerator.NPU | HardwareAccelerator.CPU
        with CompiledModel.from_file(str(compiled), accelerators) as loaded:
            return np.array(loaded.run(dict(zip(names, inputs, strict=True)))["y"])

    return run


@pytest.mark.parametrize(
    ("x_shape", "weights_shape", "stride", "padding"),
    [
        ((1, 4, 4, 16), (1, 2, 2, 16), (2, 2), SAME),
        ((2, 5, 6, 3), (2, 3, 3, 3), (2, 2), SAME),
        ((1, 3, 4, 9), (3, 4, 5, 9), (3, 2), SAME),
        ((1, 4, 3, 8), (1, 2, 2, 8), (3, 3), VALID),
        ((1, 5, 5, 20), (2, 3, 2, 20), (1, 2), VALID),
    ],
    ids=["as in selfie", "odd and batched", "overlapping taps", "gaps", "channels left over"],
)
def test_transposed_convolution(
    run_op: RunOp,
    x_shape: tuple[int, ...],
    weights_shape: tuple[int, ...],
    stride: tuple[int, int],
    padding: int,
) -> None:
    random = np.random.default_rng(0)
    shapes = (x_shape, weights_shape, weights_shape[:1])
    x, weights, bias = (random.standard_normal(shape, np.float32) for shape in shapes)
    expected = transpose_conv(x, weights, bias, *stride, padding)
    options = struct.pack("<iii", padding, stride[1], stride[0])
    op = "Convolution2DTransposeBias"
    result = run_op(op, f"{op}.json", [x, weights, bias], expected.shape, options)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-5)  # float32 sums of up to 180


def test_the_kernels_of_face_landmarks_with_attention(networks: Path, run_op: RunOp) -> None:
    random = np.random.default_rng(0)
    with read_model(networks / "face_landmark_with_attention.tflite") as model:
        ops = [op for op in model.subgraphs[0].ops if op.is_custom]
        for name in ("Landmarks2TransformMatrix", "TransformTensorBilinear", "TransformLandmarks"):
            op = next(op for op in ops if op.name == name)
            shapes = [tensor.shape for tensor in op.inputs if tensor is not None]
            inputs = [random.uniform(0, 1, shape).astype(np.float32) for shape in shapes]
            if name == "TransformTensorBilinear":  # some places are outside of the picture
                inputs[1][0, :2] = [[2.5, -0.7, 0, 4.2], [0.4, 3.1, 0, -1.3]]
            options = bytes(op.custom_options.view) if op.custom_options else b""
            found = run_op(name, f"{name}.cl", inputs, op.outputs[0].shape, options)
            # Places in a picture of 48 x 48 are floats with a precision of 4e-6 of a pixel.
            np.testing.assert_allclose(found, run_custom_op(op, inputs), rtol=0, atol=1e-5)


def test_max_unpooling(run_op: RunOp) -> None:
    random = np.random.default_rng(0)
    values = random.standard_normal((3, 2, 4, 5), np.float32)
    places = [random.permutation(4 * 8 * 5)[: 2 * 4 * 5] for _ in range(3)]
    expected = np.zeros((3, 4 * 8 * 5))
    for batch, place in enumerate(places):
        expected[batch, place] = values[batch].ravel()
    indices = np.array(places, np.int32).reshape(values.shape)
    op = "LiteRtMaxUnpooling2D"
    result = run_op(op, f"{op}.json", [values, indices], (3, 4, 8, 5), struct.pack("<6i", *[2] * 6))
    np.testing.assert_array_equal(result.reshape(3, -1), expected)


def test_sinh(run_op: RunOp) -> None:
    x = np.linspace(-5, 5, 24, dtype=np.float32).reshape(2, 3, 4)
    result = run_op("Sinh", "Sinh.cl", [x], x.shape)
    np.testing.assert_allclose(result, np.sinh(x.astype(np.float64)), rtol=1e-6)  # OpenCL: 4 ulp


@pytest.mark.parametrize(("op", "slope"), [("RELU", 0.0), ("LEAKY_RELU", 0.25)])
def test_a_configuration_overrides_a_builtin_op(tmp_path: Path, op: str, slope: float) -> None:
    builder = ModelBuilder()
    x = builder.input("x", "float32", (2, 3, 5, 4))
    options: dict[str, Any] = {"alpha": slope} if slope else {}
    y = builder.op(op, [x], [("y", "float32", (2, 3, 5, 4))], **options)
    builder.output(y)
    builder.signature("main", {"x": x}, {"y": y})
    write_model(builder.build(), tmp_path / "model.tflite")
    info = CustomOpInfo(op, str(KERNELS.parent / "02_kernels" / "Relu.xml"))
    apply_options = ApplyOptions(require_npu=["all"], compiler=CompilerOptions([info]))
    apply_plugin(tmp_path / "model.tflite", tmp_path / "compiled.tflite", apply_options)
    data = np.random.default_rng(0).normal(size=(2, 3, 5, 4)).astype(np.float32)
    with CompiledModel.from_file(str(tmp_path / "compiled.tflite")) as loaded:
        found = loaded.run({"x": data})["y"]
    np.testing.assert_array_equal(found, np.where(data < 0, data * np.float32(slope), data))
