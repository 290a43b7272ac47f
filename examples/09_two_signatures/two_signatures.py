"""Compiles a model with two signatures that share weights: one for many rows, one for a single row.

python examples/09_two_signatures/two_signatures.py [folder]

Language models often have such signatures. The weights of both signatures are one buffer, so that the compiled
file and the device's memory contain the weights only once.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert import CompiledModel, HardwareAccelerator
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.model.builder import ModelBuilder, SubgraphBuilder
from litert.model.graph import Buffer
from litert.model.tensor_data import DataLike
from litert.model.writer import write_model

KERNEL = Path(__file__).parent / "Project.cl"
SIZE = 512
folder = Path(sys.argv[1] if sys.argv[1:] else tempfile.mkdtemp())
weights = np.random.default_rng(0).normal(0, 0.05, (SIZE, SIZE)).astype(np.float32)


def add_signature(builder: SubgraphBuilder, key: str, rows: int, data: DataLike | Buffer) -> Buffer:
    """Adds a signature for inputs with `rows` rows; `data` is the weights, or the buffer that contains them."""
    x = builder.input("x", "float32", (rows, SIZE))
    w = builder.constant("w", data, "float32", (SIZE, SIZE))
    y = builder.custom("Project", [x, w], [("y", "float32", (rows, SIZE))])
    builder.output(y)
    builder.signature(key)
    return w.buffer


# Write a model with two subgraphs that read the same 1 MiB of weights.
model = ModelBuilder()
shared = add_signature(model, "prefill", 64, weights)
add_signature(model.subgraph("decode"), "decode", 1, shared)
source, compiled = folder / "two.tflite", folder / "two_npu.tflite"
write_model(model.build(), source)

# Compile the model: one byte code module contains a call for each signature.
info = CustomOpInfo("Project", str(KERNEL))
report = apply_plugin(source, compiled, ApplyOptions(compiler=CompilerOptions([info])))
calls = ", ".join(call.name for call in report.calls)
print(f"{calls} in {len(report.modules)} module")
for path in (source, compiled):
    print(f"{path.name}: {path.stat().st_size / 2**20:.2f} MiB")

# Run both signatures, and compare with NumPy.
accelerators = HardwareAccelerator.NPU | HardwareAccelerator.CPU
with CompiledModel.from_file(str(compiled), accelerators) as runner:
    for key, rows in (("prefill", 64), ("decode", 1)):
        x = np.random.default_rng(rows).normal(0, 1, (rows, SIZE)).astype(np.float32)
        y = runner.run({"x": x}, signature=key)["y"]
        is_right = np.allclose(y, x @ weights.T, atol=1e-4)
        print(f"{key}: {y.shape}, {'right' if is_right else 'wrong'}")
