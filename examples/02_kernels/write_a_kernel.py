"""First steps for kernel authors: a kernel without a description, a kernel with a description, and an error.

python examples/02_kernels/write_a_kernel.py [folder]
"""

from __future__ import annotations

import struct
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert import CompiledModel, HardwareAccelerator
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.errors import LiteRtError
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model

HERE = Path(__file__).parent
SHAPE = (2, 4)
folder = Path(sys.argv[1] if sys.argv[1:] else tempfile.mkdtemp())


def compile_op(op: str, options: bytes | dict[str, Any], asset: Path) -> Path:
    """Writes a model with a single custom op, compiles the model, and returns the path of the compiled file."""
    builder = ModelBuilder()
    x = builder.input("x", "float32", SHAPE)
    y = builder.custom(op, [x], [("y", "float32", SHAPE)], options=options)
    builder.output(y)
    builder.signature("serving_default", {"x": x}, {"y": y})
    model, compiled = folder / f"{op}.tflite", folder / f"{op}_npu.tflite"
    write_model(builder.build(), model)
    info = CustomOpInfo(op, str(asset))
    apply_plugin(model, compiled, ApplyOptions(compiler=CompilerOptions([info])))
    return compiled


def run(path: Path) -> Any:
    """Runs the model on one input, and returns the output."""
    x = np.array([[-3, -1, 0, 4], [1, 2, 3, 4]], np.float32)
    accelerators = HardwareAccelerator.NPU | HardwareAccelerator.CPU
    with CompiledModel.from_file(str(path), accelerators) as model:
        return model.run({"x": x})["y"]


# A kernel without a description. The define PARAM_alpha has the value of the op's FlexBuffer option `alpha`.
print("Softsign:", *run(compile_op("Softsign", {"alpha": 2.0}, HERE / "Softsign.cl")), sep="\n  ")

# A kernel with a description, which defines EPSILON. The op's options are a C struct {int32 axis; float32
# epsilon;}.
row_norm = compile_op("RowNorm", struct.pack("<if", 1, 1e-6), HERE / "RowNorm.json")
print("RowNorm:", *run(row_norm), sep="\n  ")

# The compiler reports an error in a kernel with file and line.
broken = folder / "Softsign.cl"
broken.write_text((HERE / "Softsign.cl").read_text().replace("PARAM_alpha", "PARAM_alhpa"))
try:
    compile_op("Softsign", {"alpha": 2.0}, broken)
except LiteRtError as error:
    print("An error in the kernel:", error)
