"""What a network of MediaPipe's gives in stock LiteRT, with its custom ops in NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from corpus.mediapipe_ops import Array, run_custom_op
from corpus.stock_outputs import interpreter_of, open_model, read_values
from litert.model.reader import read_model


def run_network(path: Path, inputs: Mapping[str, Array], with_xnnpack: bool) -> dict[str, Array]:
    """The outputs of a network by name.

    Args:
      path: of the network, whose custom ops are MediaPipe's.
      inputs: by name.
      with_xnnpack: whether XNNPACK takes what it can; else each op runs in stock's plain kernel.
    """
    opened = open_model(path.read_bytes())
    interpreter = interpreter_of(opened, with_xnnpack)
    indices = {detail["name"]: detail["index"] for detail in interpreter.get_input_details()}
    known: dict[str, Array] = {}  # what custom ops have given

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
