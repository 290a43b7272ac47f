"""Finds faces with a model whose outputs have one row for each face in the picture.

The model is MediaPipe's face detection, followed by the custom op DetectFaces, whose kernel computes the shapes of
its outputs, and by a LOGISTIC op on the CPU.

python examples/08_detection/find_faces.py NETWORK PICTURE [folder]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from compiler_plugin.transformations import Op, edit_model
from litert import CompiledModel, HardwareAccelerator
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.model.reader import read_model
from litert.model.writer import write_model

HERE = Path(__file__).parent
SIDE = 128
NAMES = ("boxes", "logits", "scores")
ACCELERATORS = HardwareAccelerator.NPU | HardwareAccelerator.CPU
Array = np.ndarray[Any, Any]

if len(sys.argv) < 3:
    sys.exit("usage: python examples/08_detection/find_faces.py NETWORK PICTURE [folder]")
network, picture = sys.argv[1:3]
folder = Path(sys.argv[3] if sys.argv[3:] else tempfile.mkdtemp())
model, compiled = folder / "faces.tflite", folder / "faces_npu.tflite"

# The centres of the network's anchors, [896, 2]: two for each cell of a 16 x 16 grid, six for each cell of an 8 x
# 8 grid.
cells = [
    (cell % n, cell // n, n)
    for n, times in ((16, 2), (8, 6))
    for cell in np.repeat(np.arange(n * n), times)
]
anchors = np.array([((x + 0.5) / n, (y + 0.5) / n) for x, y, n in cells], np.float32)

# Append DetectFaces to the network's outputs, and LOGISTIC to convert its logits to scores.
with read_model(network) as detection:
    with edit_model(detection, [str(HERE)]) as (graph,):
        regressors, logits = (result.in_port(0) for result in graph.results)
        op = Op.get_op_class_by_name("DetectFaces")
        faces = op(graph).create_node(
            [regressors.get_source(), logits.get_source(), anchors], {"name": "faces"}
        )
        scores = graph.create_op("LOGISTIC", [faces.out_port(1)])
        regressors.connect(faces.out_port(0))
        logits.connect(scores.out_port(0))
    boxes, scored = detection.subgraphs[0].outputs
    assert boxes.producer is not None
    for tensor, name in zip((*boxes.producer.outputs, scored), NAMES, strict=True):
        tensor.name = name
    write_model(detection, model)

# Compile the model. The shape bounds give memory for 16 faces, which is the most that the kernel finds.
kernel = CustomOpInfo("DetectFaces", str(HERE / "DetectFaces.json"))
bounds = {"boxes": (16, 4), "logits": (16,)}
compiler = CompilerOptions([kernel], shape_bounds=bounds)
report = apply_plugin(model, compiled, ApplyOptions(require_npu=["DetectFaces"], compiler=compiler))
print(report.to_text())


def find_faces(regressors: Array, logits: Array) -> tuple[Array, Array]:
    """Computes DetectFaces and LOGISTIC in NumPy, and returns boxes `[N, 4]` and scores `[N]`."""
    center = regressors[0, :, :2] / SIDE + anchors
    reach = regressors[0, :, 2:4] / SIDE / 2
    low, high = (center - reach)[:, ::-1], (center + reach)[:, ::-1]
    area = np.prod(high - low, axis=1)
    left, found = logits[0, :, 0] >= 0, []
    while left.any():
        best = int(np.argmax(np.where(left, logits[0, :, 0], -np.inf)))
        found.append(best)
        common = np.prod(
            np.maximum(np.minimum(high, high[best]) - np.maximum(low, low[best]), 0), axis=1
        )
        left &= common / (area + area[best] - common) <= 0.3
        left[best] = False
    return np.hstack([low, high])[found], 1 / (1 + np.exp(-logits[0, found, 0]))


# Run the model on pictures with no face, one face and two faces, and compare with NumPy.
portrait = Image.open(picture).convert("RGB")
pair = Image.new("RGB", (2 * portrait.width, portrait.height))
pair.paste(portrait)
pair.paste(portrait, (portrait.width, 0))
pictures = {"nobody": Image.new("RGB", portrait.size), "one": portrait, "two": pair}
with (
    CompiledModel.from_file(str(compiled), ACCELERATORS) as npu,
    CompiledModel.from_file(network, HardwareAccelerator.CPU) as cpu,
):
    for name, image in pictures.items():
        x = np.asarray(image.resize((SIDE, SIDE)), np.float32)[None] / 127.5 - 1
        result, alone = npu.run({"input": x}), cpu.run({"input": x})
        expected = find_faces(alone["regressors"], alone["classificators"])
        for actual, wanted in zip((result["boxes"], result["scores"]), expected, strict=True):
            assert actual.shape == wanted.shape and np.allclose(actual, wanted, atol=1e-5)
        found = [
            f"{score:.2f} at {[round(float(size), 2) for size in box]}"
            for box, score in zip(result["boxes"], result["scores"], strict=True)
        ]
        shape = list(result["boxes"].shape)
        print(f"{name}: boxes have shape {shape}; {', '.join(found) or 'no face'}")
