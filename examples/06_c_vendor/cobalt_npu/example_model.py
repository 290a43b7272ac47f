"""Writes a small model for this NPU: y = Gain(x * z), with float32 tensors of shape [2, 3].

python -m cobalt_npu.example_model model.tflite
"""

from __future__ import annotations

import sys
from pathlib import Path

from litert.model.builder import ModelBuilder
from litert.model.writer import write_model

SHAPE = (2, 3)


def write_example_model(path: Path) -> None:
    """YOUR OPS: writes a small model with the ops that the NPU supports."""
    builder = ModelBuilder()
    x, z = builder.input("x", "float32", SHAPE), builder.input("z", "float32", SHAPE)
    product = builder.op("MUL", [x, z], [("product", "float32", SHAPE)])
    y = builder.custom("Gain", [product], [("y", "float32", SHAPE)])
    builder.output(y)
    builder.signature("serving_default", {"x": x, "z": z}, {"y": y})
    write_model(builder.build(), path)


if __name__ == "__main__":
    write_example_model(Path(sys.argv[1]))
