"""First steps for app engineers: compiles a model with a custom op that no NPU supports, and runs the model.

python examples/01_run_a_model.py [folder]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from litert import CompiledModel, HardwareAccelerator
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model

KERNEL = Path(__file__).parent / "kernels" / "Sinh.cl"
folder = Path(sys.argv[1] if sys.argv[1:] else tempfile.mkdtemp())

# Write a model with a custom op; your own models come from a converter.
builder = ModelBuilder()
x = builder.input("x", "float32", (1, 8))
y = builder.custom("Sinh", [x], [("y", "float32", (1, 8))])
builder.output(y)
builder.signature("serving_default", {"x": x}, {"y": y})
write_model(builder.build(), folder / "sinh.tflite")

# Compile the model: the compiled file contains the op's kernel.
apply_plugin = Path(sys.executable).parent / "apply_plugin"
subprocess.run(
    [
        apply_plugin,
        "--soc_manufacturer=Reference",
        f"--npu_custom_op_info=Sinh,{KERNEL}",
        folder / "sinh.tflite",
        folder / "sinh_npu.tflite",
    ],
    check=True,
)

# Run the compiled model.
accelerators = HardwareAccelerator.NPU | HardwareAccelerator.CPU
with CompiledModel.from_file(str(folder / "sinh_npu.tflite"), accelerators) as model:
    outputs = model.run({"x": np.linspace(-1, 1, 8, dtype=np.float32).reshape(1, 8)})
    print("sinh of 8 numbers from -1 to 1:", outputs["y"])
