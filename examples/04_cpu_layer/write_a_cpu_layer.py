"""First steps for authors of CPU layers: builds a layer, compiles a model with it, and runs the model.

python examples/04_cpu_layer/write_a_cpu_layer.py [folder]
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert import CompiledModel, HardwareAccelerator, Options
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.errors import LiteRtError
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model

HERE = Path(__file__).parent
SHAPE = (1, 2, 2, 3)  # N, H, W, C
SLOPES = np.array([0.5, 0.25, 0], np.float32)
folder = Path(sys.argv[1] if sys.argv[1:] else tempfile.mkdtemp())
compiler = shutil.which("cc")
if compiler is None:
    sys.exit("This example needs a C compiler: install gcc or clang.")

# Build the library. The header is in the folder that `python -m vendor_reference.cpu_layer` prints.
command = [sys.executable, "-m", "vendor_reference.cpu_layer"]
include = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
flags = ["-std=c11", "-O3", "-shared", "-fPIC", f"-I{include}"]
library = folder / "prelu.so"
subprocess.run([compiler, *flags, HERE / "prelu.c", "-o", library], check=True)

# Make a model with this one op and its slopes.
builder = ModelBuilder()
x = builder.input("x", "float32", SHAPE)
y = builder.custom("PReLU", [x, builder.constant("slopes", SLOPES)], [("y", "float32", SHAPE)])
builder.output(y)
builder.signature("serving_default", {"x": x}, {"y": y})
model, compiled = folder / "prelu.tflite", folder / "prelu_npu.tflite"
write_model(builder.build(), model)

# Compile the model. The compiler calls the library in a separate process; the report names the chosen layout.
info = CustomOpInfo("PReLU", str(library))
options = CompilerOptions([info], allow_native_assets=True)
print(*apply_plugin(model, compiled, ApplyOptions(compiler=options)).notes, sep="\n")

# Run the compiled model. Machine code in assets needs permission.
accelerators = HardwareAccelerator.NPU | HardwareAccelerator.CPU
values = np.linspace(-6, 5, 12, dtype=np.float32).reshape(SHAPE)
try:
    CompiledModel.from_file(str(compiled), accelerators)
except LiteRtError as error:
    print("Without allow_native_assets:", error)
with CompiledModel.from_file(
    str(compiled), options=Options(accelerators, allow_native_assets=True)
) as npu:
    result = npu.run({"x": values})["y"]
print("PReLU:", *result.reshape(-1, 3), sep="\n  ")
assert np.array_equal(result, np.where(values > 0, values, SLOPES * values))
