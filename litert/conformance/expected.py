"""What has to come out of a case: what LiteRT's CPU kernels give, and a custom op's reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from litert.analysis.reference_function import Functions, call_function
from litert.conformance.case import input_arrays
from litert.core.errors import LiteRtError

NO_KERNEL = "LiteRT has no kernel of its custom op: --reference names a function to compare with"


def add_expected(case: dict[str, Any], references: Functions) -> None:
    """Sets `expected` and `magnitudes` of a case: files for its outputs; None where nothing tells them.

    Raises:
      LiteRtError: what a reference raises, or an output of its that is of another shape.
    """
    arrays = input_arrays(case)
    outputs = _run_on_cpu(case["model"], arrays)
    if outputs is None:
        outputs = _run_with_references(case["model"], arrays, references)
    case["expected"] = _write(f"{case['model']}.output", outputs)
    magnitudes = None
    if outputs is not None and case["signs"] is not None:
        pairs = zip(case["signs"], arrays, strict=True)
        magnitudes = _run_on_cpu(case["terms"], [sign * abs(array) for sign, array in pairs])
    case["magnitudes"] = _write(f"{case['model']}.magnitude", magnitudes)


def _write(path: str, arrays: Sequence[Any] | None) -> list[str] | None:
    if arrays is None:
        return None
    paths = [f"{path}_{index}" for index in range(len(arrays))]
    for name, array in zip(paths, arrays, strict=True):
        with open(name, "wb") as file:
            file.write(array.tobytes())
    return paths


def _run_on_cpu(path: str, arrays: Sequence[Any]) -> list[Any] | None:
    """Outputs of a model; None where LiteRT refuses it."""
    from ai_edge_litert.interpreter import Interpreter

    try:
        interpreter = Interpreter(path)
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError):  # a custom op that nobody has registered
        return None
    for detail, array in zip(interpreter.get_input_details(), arrays, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def _run_with_references(
    path: str, arrays: Sequence[Any], references: Functions
) -> list[Any] | None:
    """Outputs of a model, op by op; None where a custom op has no reference, or LiteRT refuses another op."""
    from compiler_plugin.transformations.stock_inference import run
    from litert.model.reader import read_model
    from litert.model.tensor_data import decode_constant

    with read_model(path) as model:
        (subgraph,) = model.subgraphs
        if any(op.is_custom and op.name not in references for op in subgraph.ops):
            return None
        values = {
            tensor: decode_constant(tensor.element_type, tensor.shape, tensor.data)
            for tensor in subgraph.tensors
            if tensor.is_constant
        }
        values |= dict(zip(subgraph.inputs, arrays, strict=True))
        for op in subgraph.ops:
            if op.is_custom:
                inputs = [None if tensor is None else values[tensor] for tensor in op.inputs]
                results = call_function(references[op.name], op, inputs)
            else:
                try:
                    results = run([op], values.get, op.outputs)
                except LiteRtError:
                    return None
            values |= dict(zip(op.outputs, results, strict=True))
        return [values[tensor].copy() for tensor in subgraph.outputs]
