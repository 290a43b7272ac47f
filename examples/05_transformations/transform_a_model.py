"""Transforms a model: replaces an op that no NPU supports, fuses five ops, and infers the shape of a custom op.

python examples/05_transformations/transform_a_model.py [folder]
"""

from __future__ import annotations

import struct
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from compiler_plugin.transformations import TransformOptions
from litert import CompiledModel, HardwareAccelerator
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model

HERE = Path(__file__).parent
ALPHA, EPSILON = 0.5, 1e-6
SHAPE = (1, 6, 4)  # N, frames, channels
folder = Path(sys.argv[1] if sys.argv[1:] else tempfile.mkdtemp())
folder.mkdir(parents=True, exist_ok=True)

# The model has a custom op Snake, whose options are a C struct; a normalization of five ops; and a custom op
# StackFrames, for which the converter did not infer an output shape.
builder = ModelBuilder()
x = builder.input("x", "float32", SHAPE)
options = struct.pack("<fi", np.log(ALPHA), 1)
snake = builder.custom("Snake", [x], [("snake", "float32", SHAPE)], options=options)
square = builder.op("MUL", [snake, snake], [("square", "float32", SHAPE)])
axis = builder.constant("axis", np.array([2], np.int32))
mean = builder.op("MEAN", [square, axis], [("mean", "float32", (1, 6, 1))], keep_dims=True)
epsilon = builder.constant("epsilon", np.float32(EPSILON))
safe = builder.op("ADD", [mean, epsilon], [("safe", "float32", (1, 6, 1))])
root = builder.op("RSQRT", [safe], [("root", "float32", (1, 6, 1))])
normal = builder.op("MUL", [snake, root], [("normal", "float32", SHAPE)])
y = builder.custom("StackFrames", [normal], [("y", "float32", ())], options={"count": 2})
builder.output(y)
builder.signature("serving_default", {"x": x}, {"y": y})
model, compiled = folder / "frames.tflite", folder / "frames_npu.tflite"
write_model(builder.build(), model)

# Compile the model with the extensions in this folder. RmsNorm and StackFrames have kernels; the vendor supports
# MUL, SIN and ADD.
kernels = [
    CustomOpInfo("RmsNorm", str(HERE / "RmsNorm.json")),
    CustomOpInfo("StackFrames", str(HERE / "StackFrames.cl")),
]
options_of_vendor = {"reference_ops": "MUL,SIN,ADD"}
report = apply_plugin(
    model,
    compiled,
    ApplyOptions(
        require_npu=["all"],
        compiler=CompilerOptions(kernels, vendor_options=options_of_vendor),
        transform=TransformOptions(extensions=[str(HERE)]),
    ),
)
print(report.to_text())

# Run the model, and compare with NumPy.
value = np.random.default_rng(1).normal(size=SHAPE).astype(np.float32)
wave: Any = value + np.sin(ALPHA * value) ** 2 / ALPHA
expected = wave / np.sqrt(np.mean(wave**2, -1, keepdims=True) + EPSILON)
accelerators = HardwareAccelerator.NPU | HardwareAccelerator.CPU
with CompiledModel.from_file(str(compiled), accelerators) as npu:
    result = npu.run({"x": value})["y"]
difference = np.abs(result - expected.reshape(result.shape)).max()
print(f"y has shape {list(result.shape)}; the largest difference from NumPy is {difference:.0e}")
assert result.shape == (1, 3, 8) and difference < 1e-5
