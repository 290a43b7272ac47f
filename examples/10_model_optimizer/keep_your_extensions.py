"""Runs extensions in the style of the Model Optimizer's guide, in which only the import lines are changed.

python examples/10_model_optimizer/keep_your_extensions.py [folder]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from compiler_plugin.transformations import TransformOptions
from litert import CompiledModel, HardwareAccelerator
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.model.builder import ModelBuilder
from litert.model.graph import Tensor
from litert.model.writer import write_model

HERE = Path(__file__).parent
BETA = 1.5
SHAPE = (2, 8)
folder = Path(sys.argv[1] if sys.argv[1:] else tempfile.mkdtemp())
folder.mkdir(parents=True, exist_ok=True)

# Write a model with a custom op Mish, a Swish of four ops, a clip of two ops, and a softmax of three ops.
builder = ModelBuilder()


def add(op: str, name: str, *inputs: Tensor | float) -> Tensor:
    """Adds a builtin op; inputs that are numbers become constants."""
    read = [
        builder.constant(f"{name}/{index}", value, "float32") if isinstance(value, float) else value
        for index, value in enumerate(inputs)
    ]
    made: Tensor = builder.op(op, read, [(name, "float32", SHAPE)])
    return made


x = builder.input("x", "float32", SHAPE)
mish = builder.custom("Mish", [x], [("mish", "float32", SHAPE)])
power = add("EXP", "exp", add("MUL", "scaled", mish, -BETA))
swish = add("DIV", "swish", mish, add("ADD", "below", power, 1.0))
clip = add("MINIMUM", "high", add("MAXIMUM", "low", swish, 0.0), 6.0)
head = add("EXP", "head/exp", clip)
axis = builder.constant("head/axis", np.array([1], np.int32))
total = builder.op("SUM", [head, axis], [("head/sum", "float32", (2, 1))], keep_dims=True)
builder.output(add("DIV", "head/y", head, total))
builder.signature("serving_default")
model, compiled = folder / "activations.tflite", folder / "activations_npu.tflite"
write_model(builder.build(), model)

# Compile the model with the extensions in this folder, and the file that names the scope of the softmax.
report = apply_plugin(
    model,
    compiled,
    ApplyOptions(
        require_npu=["all"],
        compiler=CompilerOptions(
            [CustomOpInfo("Swish", str(HERE / "Swish.cl"))], vendor_options={"reference_ops": "all"}
        ),
        transform=TransformOptions([str(HERE)], config=[str(HERE / "softmax_head.json")]),
    ),
)
print(report.to_text())

# Run the model, and compare with NumPy.
value = np.random.default_rng(1).normal(scale=4, size=SHAPE).astype(np.float32)
wave = value * np.tanh(np.log1p(np.exp(value)))
power_of = np.exp(np.clip(wave / (1 + np.exp(-BETA * wave)), 0, 6))
expected = power_of / power_of.sum(1, keepdims=True)
accelerators = HardwareAccelerator.NPU | HardwareAccelerator.CPU
with CompiledModel.from_file(str(compiled), accelerators) as npu:
    (result,) = npu.run({"x": value}).values()
difference = np.abs(result - expected).max()
print(f"the largest difference from NumPy is {difference:.0e}")
assert difference < 1e-5
