"""Provides kernels and an input picture for a network of MediaPipe, and runs the network in stock LiteRT."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from corpus.downloads import portrait
from corpus.mediapipe_ops import Array, run_custom_op
from corpus.stock_outputs import interpreter_of, open_model, read_values
from litert.model.reader import read_model

_KERNELS = Path(__file__).resolve().parents[1] / "examples" / "kernels"
_ASSETS = (
    "Convolution2DTransposeBias.json",
    "Landmarks2TransformMatrix.cl",
    "TransformTensorBilinear.cl",
    "TransformLandmarks.cl",
)


def assets_of(path: Path) -> Mapping[str, Path]:
    """Returns the paths of the kernels for a network's custom ops, by the names of the ops."""
    with read_model(path) as model:
        custom = {op.name for op in model.ops() if op.is_custom}
    assets = [_KERNELS / name for name in _ASSETS]
    return {asset.stem: asset for asset in assets if asset.stem in custom}


def picture_for(path: Path) -> Mapping[str, Array]:
    """Returns the input of a network, by name: a picture of a person, with values from 0 to 1."""
    from PIL import Image

    with read_model(path) as model:
        (tensor,) = model.subgraphs[0].inputs
        _, height, width, _ = tensor.shape
    with Image.open(portrait()) as image:
        picture = np.asarray(image.convert("RGB").resize((width, height)), np.float32)
    return {tensor.name: picture[None] / np.float32(255)}


def run_network(path: Path, inputs: Mapping[str, Array], with_xnnpack: bool) -> dict[str, Array]:
    """Runs a network in stock LiteRT, and its custom ops in NumPy; returns the outputs by name.

    Args:
      path: Path of the network, whose custom ops are MediaPipe's.
      inputs: Inputs of the network, by name.
      with_xnnpack: Whether XNNPACK runs the ops that it supports; otherwise stock's plain kernels run all ops.
    """
    opened = open_model(path.read_bytes())
    interpreter = interpreter_of(opened, with_xnnpack)
    indices = {detail["name"]: detail["index"] for detail in interpreter.get_input_details()}
    known: dict[str, Array] = {}  # outputs of custom ops

    def put(name: str, array: Array) -> None:
        interpreter.set_tensor(indices[name], array)

    for name, array in inputs.items():
        put(name, array)
    with read_model(path) as model:
        outputs = [tensor.name for tensor in model.subgraphs[0].outputs]
        for op in model.subgraphs[0].ops:
            if not op.is_custom:
                continue
            interpreter.invoke()
            values, result = read_values(opened, interpreter), op.outputs[0].name
            known[result] = run_custom_op(
                op,
                [
                    known[tensor.name] if tensor.name in known else values[f"{result}, input {i}"]
                    for i, tensor in enumerate(op.inputs)
                    if tensor is not None
                ],
            )
            put(result, known[result])
    interpreter.invoke()
    values = read_values(opened, interpreter)
    return {name: known[name] if name in known else values[name] for name in outputs}
