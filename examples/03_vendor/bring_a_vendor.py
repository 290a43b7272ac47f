"""First steps for NPU vendors: uses the vendor Acme by the path of its two files, without an installation.

python examples/03_vendor/bring_a_vendor.py [folder]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert import CompiledModel, Environment, EnvironmentOptions, HardwareAccelerator
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model

HERE = Path(__file__).parent
folder = Path(sys.argv[1] if sys.argv[1:] else tempfile.mkdtemp())

builder = ModelBuilder()
x = builder.input("x", "float32", (4,))
y = builder.custom("Gain", [x], [("y", "float32", (4,))])
builder.output(y)
builder.signature("serving_default", {"x": x}, {"y": y})
write_model(builder.build(), folder / "gain.tflite")

# The same as: apply_plugin --libs=examples/03_vendor --soc_manufacturer=Acme ...
report = apply_plugin(
    folder / "gain.tflite",
    folder / "gain_npu.tflite",
    ApplyOptions(
        soc_manufacturer="Acme",
        libs=[str(HERE)],
        compiler=CompilerOptions([CustomOpInfo("Gain", str(HERE / "gain.json"))]),
    ),
)
print(report.to_text())

environment = Environment.create(options=EnvironmentOptions(dispatch_library_path=str(HERE)))
with CompiledModel.from_file(
    str(folder / "gain_npu.tflite"),
    HardwareAccelerator.NPU | HardwareAccelerator.CPU,
    environment=environment,
) as model:
    print("Acme's NPU:", model.run({"x": np.arange(4, dtype=np.float32)})["y"])
